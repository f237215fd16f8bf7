"""The Gaussian matrix V of random features: defined by a seed, delivered in chunks, kept only if it fits a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from exhume.errors import InputError
from exhume.randomness import seed_for

# Rows that share one generator. Part of the definition of V: another value is another matrix.
BLOCK_ROWS = 1024
# A chunk is what one matrix product reads at a time: large enough for BLAS, small next to any budget.
CHUNK_BYTES = 64 * 2**20
# Distinct odd multiplier, so that the blocks of one matrix never share a seed (torch's CPU generator reads 32 bits).
_BLOCK_STRIDE = 0x9E3779B1
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(size: int | float | str) -> int:
    """A number of bytes from `2_000_000`, `"500MB"`, `"1.5 GiB"`."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", size)
        if match is None or match[2].upper() not in _UNITS or match[1].count(".") > 1 or match[1] == ".":
            raise InputError(f"memory budget {size!r} is not a size; write for instance '500MB', '4GB' or '1.5GiB'")
        size = float(match[1]) * _UNITS[match[2].upper()]
    if not size >= 0:
        raise InputError(f"memory budget {size!r} must not be negative")
    return int(size)


class GaussianMatrix:
    """V (p, d) with i.i.d. entries N(0, 1/d), the same for every chunk size, budget, dtype and device.

    Row block b is drawn on the CPU in float32 by its own generator, seeded from (seed, b); a wider matrix begins with
    the rows of a narrower one. Float64 users see the same float32 numbers, cast.
    """

    def __init__(
        self,
        num_rows: int,
        num_columns: int,
        seed: int,
        *,
        memory_budget: int | float | str = "4GB",
        device: torch.device | str = "cpu",
    ) -> None:
        if num_rows < 1 or num_columns < 1:
            raise InputError(f"a Gaussian matrix needs positive sizes, got {num_rows} x {num_columns}")
        self.shape = (num_rows, num_columns)
        self.seed = int(seed)
        self.device = torch.device(device)
        self.memory_budget = parse_bytes(memory_budget)
        self._kept: torch.Tensor | None = None

    @property
    def fits_budget(self) -> bool:
        """Whether V is generated once and kept, rather than anew on every pass."""
        return 4 * self.shape[0] * self.shape[1] <= self.memory_budget

    def chunks(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields (rows, V[rows]) from the first row to the last; the tensors are to be read only."""
        if self.fits_budget and self._kept is None:
            self._kept = self._generate(0, self.shape[0])
        for rows in self._slices():
            part = self._kept[rows] if self._kept is not None else self._generate(rows.start, rows.stop)
            yield rows, part.to(dtype)

    def rows(self, indices: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """V[indices], for sorted or unsorted row numbers, without keeping the rest."""
        out = torch.empty((indices.numel(), self.shape[1]), dtype=dtype, device=self.device)
        for rows, part in self.chunks(dtype):
            inside = ((indices >= rows.start) & (indices < rows.stop)).nonzero().squeeze(1)
            out[inside] = part[indices[inside] - rows.start]
        return out

    def _slices(self) -> Iterator[slice]:
        block_bytes = 4 * BLOCK_ROWS * self.shape[1]
        limit = min(CHUNK_BYTES, max(self.memory_budget, block_bytes))
        step = max(limit // block_bytes, 1) * BLOCK_ROWS
        for start in range(0, self.shape[0], step):
            yield slice(start, min(start + step, self.shape[0]))

    def _generate(self, start: int, stop: int) -> torch.Tensor:
        out = torch.empty((stop - start, self.shape[1]), dtype=torch.float32)  # on the CPU, whatever the device

        def fill(block: int) -> None:
            generator = torch.Generator().manual_seed(
                (seed_for(self.seed, "random features") + block * _BLOCK_STRIDE) % 2**32
            )
            first, last = block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS
            drawn = torch.randn((BLOCK_ROWS, self.shape[1]), generator=generator)
            low, high = max(first, start), min(last, stop)
            torch.mul(drawn[low - first : high - first], self.shape[1] ** -0.5, out=out[low - start : high - start])

        blocks = range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
        if len(blocks) == 1:
            fill(blocks[0])
        else:
            with ThreadPoolExecutor(torch.get_num_threads()) as pool:
                list(pool.map(fill, blocks))
        return out.to(self.device)
