"""Several processes that share one attack: how they communicate, and which coordinates of the equation each holds.

The span equation is a sum over p coordinates. Each process holds its rows of V and its columns of Theta, and what is
summed over coordinates (Gram matrix, V^T c, losses) is summed over the processes. Samples and everything of their size
are the same in all processes, and so must be every decision.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from exhume.errors import ExhumeError, InputError, brief
from exhume.support.validation import one_of, positive_number

# Seconds that a process waits for the others before it considers one lost.
TIMEOUT = 600.0
# Least number of stripes of coordinates in each process, so that any window of coordinates is split about evenly.
_STRIPES = 16
_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR")  # environment variables that torchrun sets

RESUME = "Run the same command with --resume, on any number of processes, to go on from the last checkpoint."

Value = TypeVar("Value")


class LostRank(ExhumeError):
    """A process of several was lost, and the others cannot go on."""


@dataclass(frozen=True)
class Processes:
    """The processes that share an attack, and what they send each other; a single one sends nothing.

    Attributes:
        rank: the number of this process.
        ranks: how many there are.
        device: where tensors must be to be sent.
    """

    rank: int = 0
    ranks: int = 1
    device: torch.device | str = "cpu"

    @property
    def leads(self) -> bool:
        """Whether this is the first process, which decides, writes and prints."""
        return self.rank == 0

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of all processes' tensors, the same in each."""
        return self._exchanged(part, dist.all_reduce)

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first process's tensor; it has the same shape in all."""
        return self._exchanged(tensor, lambda sent: dist.broadcast(sent, 0))

    def broadcast_object(self, value: Value) -> Value:
        """The first process's value; those of the others are ignored."""
        if self.ranks == 1:
            return value
        values = [value]
        self._call(lambda: dist.broadcast_object_list(values, 0))
        return values[0]

    def gather(self, value: Value) -> list[Value]:
        """Every process's value, in the order of their ranks."""
        if self.ranks == 1:
            return [value]
        values: list[Any] = [None] * self.ranks
        self._call(lambda: dist.all_gather_object(values, value))
        return values

    def require_same(self, what: str, given: str) -> None:
        """Raises, in all processes, if one was given something else than the first."""
        hashes = self.gather(hashlib.sha256(given.encode()).hexdigest())
        others = [rank for rank, digest in enumerate(hashes) if digest != hashes[0]]
        if others:
            raise InputError(
                f"rank {', '.join(map(str, others))} of {self.ranks} was given another {what} than rank 0; "
                "all must be given the same files and options"
            )

    def wait(self) -> None:
        """Returns when all processes have called it."""
        if self.ranks > 1:
            self._call(dist.barrier)

    def close(self) -> None:
        """Ends the connections."""
        if self.ranks > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def _exchanged(self, tensor: torch.Tensor, exchange: Callable[[torch.Tensor], object]) -> torch.Tensor:
        if self.ranks == 1 or not tensor.numel():
            return tensor
        sent = tensor.to(self.device, copy=True, memory_format=torch.contiguous_format)
        self._call(lambda: exchange(sent))
        return sent.to(tensor.device)

    def _call(self, exchange: Callable[[], object]) -> None:
        try:
            exchange()
        except RuntimeError as error:  # torch reports lost connections and timeouts so
            lost = f"rank {1 - self.rank} of 2" if self.ranks == 2 else f"one of {self.ranks} ranks"
            # Torch's message begins with a place in its sources and ends with advice; the reason is between them.
            reason = re.sub(r"^(\[[^\]]*\]\s*)+", "", brief(error, 200)).split(". ")[0].rstrip(".")
            raise LostRank(f"{lost} was lost: {reason}. {RESUME}") from error


ALONE = Processes()


def initialise(device: torch.device | str = "cpu", timeout: float = TIMEOUT) -> Processes:
    """The processes that torchrun started, of which this is one; this one alone if torchrun did not start it.

    Args:
        device: where the attack computes: "cpu" (they communicate by gloo) or "cuda" (nccl, a GPU for each process).
        timeout: seconds that a process waits for the others before it considers one lost.
    """
    positive_number("timeout", timeout)
    launched = all(name in os.environ for name in _BY_TORCHRUN) and os.environ["WORLD_SIZE"] != "1"
    if not launched and not dist.is_initialized():
        return ALONE
    kind = one_of("device of several processes", str(device).split(":")[0], _BACKENDS)
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
    """Makes the GPU of that number the current one; every process on a machine needs its own."""
    there = torch.cuda.device_count()
    if number >= there:
        raise InputError(f"process {number} of this machine has no GPU: there are {there}, and each needs its own")
    torch.cuda.set_device(number)


class Coordinates:
    """Which coordinates this process holds: here all of them, so that a sum over them needs no other process.

    Attributes:
        processes: that share the coordinates.
        local_indices: the coordinates that this process holds.
    """

    processes: Processes = ALONE
    local_indices: slice | torch.Tensor = slice(None)

    def count(self, held: int) -> int:
        """How many coordinates there are in all processes, if this one holds `held`."""
        return held

    def width(self, count: int) -> int:
        """How many of `count` coordinates this process holds."""
        return count

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        """A sum over all coordinates, from the sum over those of this process."""
        return self.processes.sum(part)

    def local(self, coordinates: slice | torch.Tensor) -> slice | torch.Tensor:
        """The places of some coordinates among those of this process; coordinates of others are left out."""
        return coordinates

    def subset(self, coordinates: slice | torch.Tensor) -> Coordinates:
        """Some of the coordinates, numbered anew in this order."""
        return self

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """The columns (..., p) of all processes, from those of this one."""
        return part

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first process's tensor, where all computed the same but may have rounded differently."""
        return self.processes.broadcast(tensor)

    def broadcast_decision(self, decision: bool) -> bool:
        """The first process's decision, where clocks or rounding may make others decide differently."""
        if self.processes.ranks == 1:
            return decision
        return bool(self.processes.broadcast(torch.tensor(int(decision))))


WHOLE = Coordinates()


class Shard(Coordinates):
    """The coordinates that one process of several holds.

    Args:
        processes: all of them.
        count: p, how many coordinates there are.
        local_indices: which of them this process holds, in ascending order (p_local,).
    """

    local_indices: torch.Tensor

    def __init__(self, processes: Processes, count: int, local_indices: torch.Tensor) -> None:
        self.processes, self.local_indices, self._count = processes, local_indices, count

    @classmethod
    def striped(cls, processes: Processes, count: int, stripe: int) -> Shard:
        """Stripes of consecutive coordinates go to the processes in turn."""
        numbers = torch.arange(count)
        return cls(processes, count, numbers[(numbers // stripe) % processes.ranks == processes.rank])

    def count(self, held: int) -> int:
        """p."""
        return self._count

    def width(self, count: int) -> int:
        """How many coordinates this process holds."""
        return self.local_indices.numel()

    def local(self, coordinates: slice | torch.Tensor) -> slice | torch.Tensor:
        """A slice stays a slice, because the local coordinates are in ascending order."""
        if isinstance(coordinates, slice):
            first, last, _ = coordinates.indices(self._count)
            return slice(*torch.searchsorted(self.local_indices, torch.tensor([first, last])).tolist())
        place, here = self._places(coordinates)
        return place[here]

    def subset(self, coordinates: slice | torch.Tensor) -> Shard:
        """Those among them that this process holds."""
        if isinstance(coordinates, slice):
            first, last, _ = coordinates.indices(self._count)
            return Shard(self.processes, max(last - first, 0), self.local_indices[self.local(coordinates)] - first)
        _, here = self._places(coordinates)
        return Shard(self.processes, coordinates.numel(), here.nonzero().squeeze(1))

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """Every process puts its columns into zeros, and all are summed."""
        full = part.new_zeros((*part.shape[:-1], self._count))
        full[..., self.local_indices.to(part.device)] = part
        return self.sum(full)

    def _places(self, coordinates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For every coordinate its place among the local ones, and whether it is one of them."""
        coordinates = coordinates.cpu()
        if not self.local_indices.numel():
            return torch.zeros_like(coordinates), torch.zeros_like(coordinates, dtype=torch.bool)
        place = torch.searchsorted(self.local_indices, coordinates).clamp_max(self.local_indices.numel() - 1)
        return place, self.local_indices[place] == coordinates


def stripe_for(count: int, ranks: int, most: int) -> int:
    """The width of a stripe of `count` coordinates: `most`, or less if each process would get only a few stripes."""
    return max(1, min(most, count // (_STRIPES * ranks)))
