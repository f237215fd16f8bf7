"""The matrix V of one-layer features, read in chunks of rows: generated from a seed, dense, or partly kept."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch

from exhume.errors import InputError
from exhume.support.randomness import seed_for
from exhume.support.text import parse_bytes

# Rows that share one generator. Part of the definition of V: another value is another matrix.
BLOCK_ROWS = 1024
# A chunk is what one matrix product reads at a time: large enough for BLAS, small next to any budget.
CHUNK_BYTES = 128 * 2**20
# A chunk that has to be converted: small enough that the product finds it in the cache.
_CONVERTED_BYTES = 8 * 2**20
# Distinct odd multiplier, so that the blocks of one matrix never share a seed (torch's CPU generator reads 32 bits).
_BLOCK_STRIDE = 0x9E3779B1


class RowMatrix(Protocol):
    """A matrix (p, d) that is read in chunks of rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """(p, d)."""

    @property
    def device(self) -> torch.device:
        """Where it is."""

    @property
    def is_kept(self) -> bool:
        """Whether it is in memory, so that no read generates it."""

    @property
    def kept_bytes(self) -> int:
        """Bytes that are held, or will be from the first read on."""

    def chunks(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields (rows, part) from the first row to the last; a part is to be read before the next is asked for."""

    def subset(self, rows: slice | torch.Tensor) -> RowMatrix:
        """Some of the rows."""


class ChunkBuffer:
    """Memory that is used again for every chunk: new pages would take the kernel as long as filling them."""

    def __init__(self) -> None:
        self._entries = torch.empty(0)

    def take(
        self, shape: tuple[int, int], dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        """An uninitialised tensor, in the memory of the last one."""
        size = shape[0] * shape[1]
        if self._entries.numel() < size or self._entries.dtype != dtype:
            self._entries = torch.empty(size, dtype=dtype, device=device)
        return self._entries[:size].view(shape)

    def hold(self, part: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The part itself if it is of this type, else a copy here."""
        if part.dtype == dtype:
            return part
        return self.take((part.shape[0], part.shape[1]), dtype, part.device).copy_(part)


class GaussianMatrix:
    """V (p, d) with i.i.d. entries N(0, 1/d), the same for every chunk size, budget, dtype and device.

    Row block b is drawn on the CPU in float32 by its own generator, seeded from (seed, b); a wider matrix begins with
    the rows of a narrower one. Float64 users see the same float32 numbers, cast.

    Args:
        num_rows, num_columns: p and d.
        seed: of V.
        memory_budget: V is kept if it fits.
        device: where its rows are handed out.
        blocks: (first, step): the matrix consists of blocks first, first + step, ...; by default of all blocks.
        first_row: of a window of such a matrix: the number of its first row there.
    """

    def __init__(
        self,
        num_rows: int,
        num_columns: int,
        seed: int,
        *,
        memory_budget: int | float | str = "4GB",
        device: torch.device | str = "cpu",
        blocks: tuple[int, int] = (0, 1),
        first_row: int = 0,
    ) -> None:
        if num_rows < 1 or num_columns < 1:
            raise InputError(f"a Gaussian matrix needs positive sizes, got {num_rows} x {num_columns}")
        self.shape = (num_rows, num_columns)
        self.seed = int(seed)
        self.device = usable(device)
        self.memory_budget = parse_bytes(memory_budget)
        self._blocks, self._first_row = blocks, first_row
        self._kept: torch.Tensor | None = None

    @property
    def is_defined_by_seed(self) -> bool:
        """Whether shape and seed define all of it: it is no window of another matrix and no process's part."""
        return self._first_row == 0 and self._blocks == (0, 1)

    @property
    def is_kept(self) -> bool:
        """Whether V fits the budget and is generated once; otherwise it is generated in every pass."""
        return 4 * self.shape[0] * self.shape[1] <= self.memory_budget

    @property
    def kept_bytes(self) -> int:
        """Bytes of V that are held: all or none."""
        return 4 * self.shape[0] * self.shape[1] if self.is_kept else 0

    def chunks(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields (rows, V[rows]) from the first row to the last, to be read before the next is asked for."""
        kept = self._keep() if self.is_kept else None
        first, drawn, converted = self._first_row, ChunkBuffer(), ChunkBuffer()
        for rows in _windows(first, first + self.shape[0], self.shape[1], self.memory_budget):
            here = slice(rows.start - first, rows.stop - first)
            part = kept[here] if kept is not None else self._generate(rows.start, rows.stop, drawn)
            yield here, converted.hold(part, dtype)

    def subset(self, rows: slice | torch.Tensor, memory_budget: int | None = None) -> RowMatrix:
        """Some rows of V: a window is a view, or a matrix of its own that is kept if it fits; indices are gathered.

        Args:
            rows: which.
            memory_budget: of such a matrix; by default that of this one.
        """
        if self.is_kept:
            return DenseMatrix(self._keep()[rows])
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            if stop <= start:  # a process may hold none of the rows asked for
                return DenseMatrix(torch.empty((0, self.shape[1]), device=self.device))
            return GaussianMatrix(
                stop - start,
                self.shape[1],
                self.seed,
                memory_budget=self.memory_budget if memory_budget is None else memory_budget,
                device=self.device,
                blocks=self._blocks,
                first_row=self._first_row + start,
            )
        gathered = torch.empty((rows.numel(), self.shape[1]), device=self.device)
        for window, part in self.chunks():
            inside = ((rows >= window.start) & (rows < window.stop)).nonzero().squeeze(1)
            gathered[inside] = part[rows[inside] - window.start]
        return DenseMatrix(gathered)

    def whole_blocks(self, count: int) -> int:
        """The most of the first `count` rows that end with a block, or all of them if there are no more."""
        if count >= self.shape[0]:
            return self.shape[0]
        return max(0, (self._first_row + count) // BLOCK_ROWS * BLOCK_ROWS - self._first_row)

    def _keep(self) -> torch.Tensor:
        if self._kept is None:
            self._kept = self._generate(self._first_row, self._first_row + self.shape[0])
        return self._kept

    def _generate(self, start: int, stop: int, buffer: ChunkBuffer | None = None) -> torch.Tensor:
        out = (buffer or ChunkBuffer()).take((stop - start, self.shape[1]))  # on the CPU, whatever the device

        def fill(block: int) -> None:
            number = self._blocks[0] + block * self._blocks[1]
            generator = torch.Generator().manual_seed(
                (seed_for(self.seed, "random features") + number * _BLOCK_STRIDE) % 2**32
            )
            first, last = block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS
            low, high = max(first, start), min(last, stop)
            whole = (low, high) == (first, last)
            # In place if all of the block is wanted: the same numbers in half the time.
            drawn = out[low - start : high - start] if whole else torch.empty((BLOCK_ROWS, self.shape[1]))
            drawn.normal_(0, self.shape[1] ** -0.5, generator=generator)
            if not whole:
                out[low - start : high - start] = drawn[low - first : high - first]

        blocks = range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
        if len(blocks) == 1:
            fill(blocks[0])
        else:
            with ThreadPoolExecutor(torch.get_num_threads()) as pool:
                list(pool.map(fill, blocks))
        return out.to(self.device)


def usable(device: torch.device | str) -> torch.device:
    """The device, if this machine has it."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {str(device)!r} cannot be used here: {reason}") from error


class DenseMatrix:
    """A matrix in memory: a window or a selection of V, or a trained first layer."""

    is_kept = True

    def __init__(self, entries: torch.Tensor) -> None:
        self._entries = entries
        self.shape = (entries.shape[0], entries.shape[1])
        self.device = entries.device
        self.kept_bytes = entries.numel() * entries.element_size()

    def chunks(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields (rows, entries[rows]), to be read before the next is asked for."""
        converted = ChunkBuffer()
        most = CHUNK_BYTES if self._entries.dtype == dtype else _CONVERTED_BYTES
        for rows in _windows(0, self.shape[0], self.shape[1], most):
            yield rows, converted.hold(self._entries[rows], dtype)

    def subset(self, rows: slice | torch.Tensor) -> RowMatrix:
        """Some rows: a window is a view, a list of indices is gathered."""
        return DenseMatrix(self._entries[rows])


def _windows(start: int, stop: int, columns: int, budget: int) -> Iterator[slice]:
    """Cuts rows into chunks; all but the first begin at a block, so that no block is drawn twice."""
    block_bytes = 4 * BLOCK_ROWS * columns
    step = max(min(CHUNK_BYTES, max(budget, block_bytes)) // block_bytes, 1) * BLOCK_ROWS
    while start < stop:
        end = min((start // BLOCK_ROWS) * BLOCK_ROWS + step, stop)
        yield slice(start, end)
        start = end


class PartlyKept:
    """The first rows of V kept within its budget, the others drawn on every read.

    Args:
        matrix: V.
        dtype: what rows are kept in. In float16 there are twice as many, rounded; rows that are drawn are not.
    """

    is_kept = False

    def __init__(self, matrix: GaussianMatrix, dtype: torch.dtype = torch.float32) -> None:
        self.shape, self.device = matrix.shape, matrix.device
        self._matrix, self._dtype = matrix, dtype
        self._count = matrix.whole_blocks(matrix.memory_budget // (dtype.itemsize * self.shape[1]))
        left = 4 * (self.shape[0] - self._count) * self.shape[1]
        self._rest = matrix.subset(slice(self._count, None), memory_budget=self._chunk(left))
        self._kept: DenseMatrix | None = None

    @property
    def kept_bytes(self) -> int:
        """Bytes of V that are held."""
        return self._count * self.shape[1] * self._dtype.itemsize

    def chunks(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields (rows, V[rows]) from the first row to the last; each is to be read before the next is asked for."""
        if self._count:
            yield from self._head().chunks(dtype)
        for rows, part in self._rest.chunks(dtype):
            yield slice(rows.start + self._count, rows.stop + self._count), part

    def subset(self, rows: slice | torch.Tensor) -> RowMatrix:
        """Some rows: a window of those kept is a view, others are the matrix's own."""
        if isinstance(rows, slice) and rows.indices(self.shape[0])[1] <= self._count:
            return self._head().subset(rows)
        if isinstance(rows, slice):
            return self._matrix.subset(rows, memory_budget=self._chunk(self.kept_bytes))
        return self._matrix.subset(rows)

    def in_precision(self, dtype: torch.dtype) -> PartlyKept:
        """The same V, rows kept in another precision."""
        return PartlyKept(self._matrix, dtype)

    def _chunk(self, size: int) -> int:
        """A budget for a matrix of so many bytes that lets it draw large chunks, and not keep them."""
        return max(0, min(CHUNK_BYTES, self._matrix.memory_budget, size - 1))

    def _head(self) -> DenseMatrix:
        """The rows that are kept, drawn when they are asked for first."""
        if self._kept is None:
            entries = torch.empty((self._count, self.shape[1]), dtype=self._dtype, device=self.device)
            head = self._matrix.subset(slice(0, self._count), memory_budget=self._chunk(4 * entries.numel()))
            for rows, part in head.chunks():
                entries[rows] = part
            self._kept = DenseMatrix(entries)
        return self._kept


def kept_as_it_fits(matrix: RowMatrix, dtype: torch.dtype = torch.float32) -> RowMatrix:
    """A matrix of which what fits its budget is kept, in this precision; one that is kept anyway stays as it is."""
    if isinstance(matrix, PartlyKept):
        return matrix.in_precision(dtype)
    return PartlyKept(matrix, dtype) if isinstance(matrix, GaussianMatrix) and not matrix.is_kept else matrix
