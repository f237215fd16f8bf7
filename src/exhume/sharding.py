"""Sharding: which coordinates of the span equation this process holds, and sums over those of all processes.

The equation is a sum over p coordinates. Several processes share them out: each holds its rows of V and its columns of
Theta, and what is summed over coordinates (Gram matrix, V^T c, losses) is added up over the processes. Samples and
everything of their size are the same in all of them, and so must be every decision.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from exhume.errors import ExhumeError, InputError, brief

# Seconds that a process waits for the others before it takes one for lost.
TIMEOUT = 600.0
# A process holds so many stripes of coordinates at least, so that any window of coordinates is split about evenly.
_STRIPES = 16
_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR")  # in the environment of a process that it starts


# What to do then.
RESUME = "Run the same command with --resume, on any number of processes, to go on from the last checkpoint."


class LostRank(ExhumeError):
    """A process of several was lost, and the others cannot go on."""


@dataclass(frozen=True)
class Processes:
    """The processes that share an attack out, and what they tell each other; one alone tells nothing.

    Attributes:
        rank: the number of this one.
        ranks: how many there are.
        device: where tensors must be to be sent.
    """

    rank: int = 0
    ranks: int = 1
    device: torch.device | str = "cpu"

    @property
    def leads(self) -> bool:
        """Whether this is the process that decides, writes and prints."""
        return self.rank == 0

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of all processes' parts, the same in each."""
        return self._sent(part, self._all_reduce)

    def lead(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first process's tensor, which has the same shape in all."""
        return self._sent(tensor, self._broadcast)

    def lead_bytes(self, told: bytes | None) -> bytes | None:
        """What the first process tells, or its None; what the others pass is not looked at."""
        size = int(self.lead(torch.tensor(-1 if told is None else len(told))))
        if size < 0:
            return None
        content = bytearray(told) if self.leads and told is not None else bytearray(size)
        return bytes(self.lead(torch.frombuffer(content, dtype=torch.uint8)).numpy()) if size else b""

    def each(self, number: int) -> list[int]:
        """Every process's number, in their order."""
        numbers = torch.zeros(self.ranks, dtype=torch.int64)
        numbers[self.rank] = number
        return [int(each) for each in self.sum(numbers)]

    def require_same(self, what: str, told: str) -> None:
        """Refuses, in all processes, to go on if one was told something else than the first."""
        own = hashlib.sha256(told.encode()).digest()
        others = [rank for rank, differs in enumerate(self.each(self.lead_bytes(own) != own)) if differs]
        if others:
            raise InputError(
                f"rank {', '.join(map(str, others))} of {self.ranks} was given another {what} than rank 0; "
                "all must be given the same files and options"
            )

    def wait(self) -> None:
        """Returns when all processes have come here."""
        self.each(0)

    def close(self) -> None:
        """Ends the connections."""
        if self.ranks > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def _all_reduce(self, tensor: torch.Tensor) -> None:
        dist.all_reduce(tensor)

    def _broadcast(self, tensor: torch.Tensor) -> None:
        dist.broadcast(tensor, 0)

    def _sent(self, tensor: torch.Tensor, send: Callable[[torch.Tensor], None]) -> torch.Tensor:
        if self.ranks == 1 or not tensor.numel():
            return tensor
        sent = tensor.to(self.device, copy=True, memory_format=torch.contiguous_format)
        try:
            send(sent)
        except RuntimeError as error:  # torch's own errors of lost connections and timeouts are of this kind
            raise LostRank(self._sentence(error)) from error
        return sent.to(tensor.device)

    def _sentence(self, error: RuntimeError) -> str:
        lost = f"rank {1 - self.rank} of 2" if self.ranks == 2 else f"one of {self.ranks} ranks"
        # Torch opens with the place in its sources and closes with advice; what happened stands between.
        reason = re.sub(r"^(\[[^\]]*\]\s*)+", "", brief(error, 200)).split(". ")[0].rstrip(".")
        return f"{lost} was lost: {reason}. {RESUME}"


ALONE = Processes()


def initialise(device: torch.device | str = "cpu", timeout: float = TIMEOUT) -> Processes:
    """The processes that torchrun started this one among; one alone if it did not.

    Args:
        device: where the attack computes: "cpu" (they talk over gloo) or "cuda" (nccl, a GPU for each process).
        timeout: seconds that a process waits for the others before it takes one for lost.
    """
    if not timeout > 0:
        raise InputError(f"the timeout must be a positive number of seconds, got {timeout}")
    launched = all(name in os.environ for name in _BY_TORCHRUN) and os.environ["WORLD_SIZE"] != "1"
    if not launched and not dist.is_initialized():
        return ALONE
    kind = str(device).split(":")[0]
    if kind not in _BACKENDS:
        raise InputError(f"several processes cannot compute on {kind!r}; valid: {', '.join(_BACKENDS)}")
    if kind == "cuda":
        _take_gpu(int(os.environ.get("LOCAL_RANK", "0")))
    if not dist.is_initialized():
        try:
            dist.init_process_group(_BACKENDS[kind], timeout=timedelta(seconds=timeout))
        except (RuntimeError, ValueError) as error:
            raise LostRank(f"the processes did not find each other: {brief(error)}") from error
    where = torch.device("cuda", torch.cuda.current_device()) if kind == "cuda" else torch.device("cpu")
    return Processes(dist.get_rank(), dist.get_world_size(), where)


def _take_gpu(number: int) -> None:
    """Makes "cuda" mean the GPU of that number; every process of a machine needs its own."""
    there = torch.cuda.device_count()
    if number >= there:
        raise InputError(f"process {number} of this machine has no GPU: there are {there}, and each needs its own")
    torch.cuda.set_device(number)


class Coordinates:
    """All coordinates, here in this process: what is summed over them is whole already.

    Attributes:
        processes: that share them out.
        held: which of them are here.
    """

    processes: Processes = ALONE
    held: slice | torch.Tensor = slice(None)

    def count(self, held: int) -> int:
        """How many there are, `held` of them here."""
        return held

    def width(self, count: int) -> int:
        """How many are here, of `count` in all."""
        return count

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        """A sum over all coordinates, given that over those here."""
        return part

    def local(self, rows: slice | torch.Tensor) -> slice | torch.Tensor:
        """Where some coordinates stand among those here; the others are left out."""
        return rows

    def subset(self, rows: slice | torch.Tensor) -> Coordinates:
        """Some of the coordinates, numbered anew in this order."""
        return self

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """(..., p) in all processes, given the columns (..., held) here."""
        return part

    def lead(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first process's tensor: what all of them computed alike, but may have rounded differently."""
        return tensor

    def agree(self, decision: bool) -> bool:
        """The first process's decision, where clocks or rounding may make others decide differently."""
        return decision


WHOLE = Coordinates()


class Shard(Coordinates):
    """The coordinates that one process of several holds.

    Args:
        processes: all of them.
        count: p, how many coordinates there are.
        held: which of them are here, in ascending order (p_here,).
    """

    held: torch.Tensor

    def __init__(self, processes: Processes, count: int, held: torch.Tensor) -> None:
        self.processes, self.held, self._count = processes, held, count

    @classmethod
    def striped(cls, processes: Processes, count: int, stripe: int) -> Shard:
        """Every so many stripes of consecutive coordinates one, beginning with the rank's own."""
        numbers = torch.arange(count)
        return cls(processes, count, numbers[(numbers // stripe) % processes.ranks == processes.rank])

    def count(self, held: int) -> int:
        """p."""
        return self._count

    def width(self, count: int) -> int:
        """How many are here."""
        return self.held.numel()

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        """Added up over the processes."""
        return self.processes.sum(part)

    def local(self, rows: slice | torch.Tensor) -> slice | torch.Tensor:
        """A window stays a window, because those here are in ascending order."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(self._count)
            return slice(*torch.searchsorted(self.held, torch.tensor([first, last])).tolist())
        place, here = self._places(rows)
        return place[here]

    def subset(self, rows: slice | torch.Tensor) -> Shard:
        """Those here among them."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(self._count)
            return Shard(self.processes, max(last - first, 0), self.held[self.local(rows)] - first)
        _, here = self._places(rows)
        return Shard(self.processes, rows.numel(), here.nonzero().squeeze(1))

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """Every process puts its columns into zeros, and all are added up."""
        whole = part.new_zeros((*part.shape[:-1], self._count))
        whole[..., self.held.to(part.device)] = part
        return self.sum(whole)

    def lead(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sent by the first process."""
        return self.processes.lead(tensor)

    def agree(self, decision: bool) -> bool:
        """Sent by the first process."""
        return bool(self.processes.lead(torch.tensor(int(decision))))

    def _places(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For every coordinate its place among those here, and whether it is here at all."""
        rows = rows.cpu()
        if not self.held.numel():
            return torch.zeros_like(rows), torch.zeros_like(rows, dtype=torch.bool)
        place = torch.searchsorted(self.held, rows).clamp_max(self.held.numel() - 1)
        return place, self.held[place] == rows


def stripe_for(count: int, ranks: int, most: int) -> int:
    """How wide a stripe of `count` coordinates is: `most`, or narrower if each process would get only a few."""
    return max(1, min(most, count // (_STRIPES * ranks)))


def coordinates_of(features: object) -> Coordinates:
    """The coordinates that the tensors of a feature map hold: all, unless it is one process's part of a map."""
    held: Coordinates = getattr(features, "coordinates", WHOLE)
    return held
