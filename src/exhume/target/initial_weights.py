"""Where the initial weights come from: the seed under which a trained model was built."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from exhume.errors import FileError, InputError
from exhume.support import files
from exhume.support.checkpoint import EVERY_SECONDS
from exhume.support.text import plural
from exhume.support.validation import whole_number
from exhume.target.seed_search import LARGEST_SEED, Build, Fitting, Search

# Called with the number of seeds that were tried, and of all.
SeedProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class InitialWeights:
    """The weights that a model had before training, as they were found.

    Attributes:
        origin: the seed, or the name of the file.
        initial: the state dict before training: `initial` of `exhume.audit`, `initial_head` of `Target.last_layer`.
        correlations: of the trained weights with the initial ones, by layer; layers that say nothing are left out.
        log10_odds: odds against chance, corrected for the number of candidates, as a power of ten: 6 is a million to 1.
        tried: how many candidates were tried.
        candidates: how many there were.

    Examples:
        >>> import exhume, torch
        >>> from torch import nn
        >>> _ = torch.manual_seed(7)
        >>> found = exhume.find_seed(lambda: nn.Linear(20, 20), nn.Linear(20, 20), range(100))  # before training
        >>> found.origin, round(found.correlations["weight"], 3), found.tried, found.candidates
        (7, 1.0, 8, 100)
    """

    origin: int | str
    initial: dict[str, torch.Tensor]
    correlations: dict[str, float]
    log10_odds: float
    tried: int
    candidates: int

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        kind = f"seed {self.origin}" if isinstance(self.origin, int) else f"file {self.origin}"
        lowest, highest = min(self.correlations.values()), max(self.correlations.values())
        range_ = f"{lowest:.2f}" if len(self.correlations) == 1 else f"{lowest:.2f} to {highest:.2f}"
        return (
            f"The initial weights are those of {kind}: the trained ones correlate with them by {range_} in "
            f"{plural(len(self.correlations), 'layer')}; the odds against chance are 10^{self.log10_odds:.0f} to 1 "
            f"({self.tried:,} of {self.candidates:,} tried)."
        )


def find_seed(
    build: Build,
    weights: Mapping[str, torch.Tensor] | nn.Module,
    seeds: Sequence[int] = range(10_000),
    *,
    draws: int | Callable[[], object] = 0,
    workers: int = 1,
    progress: SeedProgress | None = None,
    checkpoint: str | Path | None = None,
) -> InitialWeights | None:
    """Finds the seed under which a model was built before it was trained.

    Training leaves much of the initial weights in place, so they are recognised by their correlation with the trained
    ones. torch, numpy and Python are seeded alike, as training scripts do; their random states are restored afterwards.
    What `build` prints is dropped.

    Args:
        build: makes the untrained model, without arguments.
        weights: the trained model, or its state dict.
        seeds: the seeds to try, in this order; the search stops at the first that fits beyond chance.
        draws: what was drawn between seeding and building: a function that draws it, such as one that shuffles data, or
            how many numbers torch's generator gave (`torch.randperm(n)` takes n - 1).
        workers: processes; more than one need a `build` and `draws` that can be pickled: functions of a module.
        progress: called now and then with the number of seeds that were tried, and of all.
        checkpoint: a JSON file that keeps how many seeds were tried, from which an interrupted search continues.

    Returns:
        The initial weights, or None if no seed fits: `initial` is their state dict, `sentence` says how sure it is.

    Examples:
        >>> import exhume, torch
        >>> from torch import nn
        >>> def build():
        ...     return nn.Sequential(nn.Linear(8, 50), nn.ReLU(), nn.Linear(50, 2))
        >>> _ = torch.manual_seed(321)
        >>> model = build()
        >>> inputs, labels = torch.randn(10, 8), torch.randint(2, (10,))
        >>> optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
        >>> for _ in range(100):
        ...     optimiser.zero_grad()
        ...     nn.functional.cross_entropy(model(inputs), labels).backward()
        ...     optimiser.step()
        >>> exhume.find_seed(build, model, range(1000)).origin
        321
    """
    workers, seeds = whole_number("workers", workers), _checked(seeds)
    state = weights.state_dict() if isinstance(weights, nn.Module) else weights
    with _restored():
        search = Search.of(build, draws, state)
        record = _Record(None if checkpoint is None else Path(checkpoint), search.fingerprint(seeds))
        for tried, found in _in_turn(search, seeds, record.read(), workers):
            if found is not None:
                initial, correlations = search.described(found.seed)
                place = seeds.index(found.seed) + 1
                return InitialWeights(found.seed, initial, correlations, found.log10_odds, place, len(seeds))
            record.write(tried, last=tried == len(seeds))
            if progress is not None:
                progress(tried, len(seeds))
    return None


def _in_turn(search: Search, seeds: Sequence[int], start: int, workers: int) -> Iterator[tuple[int, Fitting | None]]:
    """Tries seeds from a place on; after every piece of them, how many were tried, and the first that fits."""
    size = search.at_once
    pieces = [seeds[place : place + size] for place in range(start, len(seeds), size)]
    ends = [min(place + size, len(seeds)) for place in range(start, len(seeds), size)]
    if workers == 1:
        yield from zip(ends, (search.first_fitting(piece, len(seeds)) for piece in pieces), strict=True)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, search.for_workers())
    try:
        yield from zip(ends, pool.map(_in_worker, pieces, [len(seeds)] * len(pieces)), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


_in_this_worker: list[Search] = []


def _start_worker(*arguments: Any) -> None:
    """Makes the search of a worker process; torch's generator is one for all threads, so each process has its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one ends the others
    torch.set_num_threads(1)
    _in_this_worker[:] = [Search(*arguments)]


def _in_worker(seeds: Sequence[int], candidates: int) -> Fitting | None:
    return _in_this_worker[0].first_fitting(seeds, candidates)


@dataclass
class _Record:
    """The file that says how many seeds were tried; without a path nothing is kept."""

    path: Path | None
    fingerprint: str
    _written: float = field(default_factory=time.monotonic)

    def read(self) -> int:
        """How many seeds an earlier search has tried."""
        if self.path is None or not self.path.exists():
            return 0
        value = files.read_json(self.path)
        if value.get("fingerprint") != self.fingerprint or not isinstance(value.get("tried"), int):
            raise FileError(f"{self.path} belongs to another search (other weights, seeds or factory); remove it")
        return int(value["tried"])

    def write(self, tried: int, last: bool) -> None:
        """Keeps the number now and then, and the last one."""
        if self.path is not None and (last or time.monotonic() - self._written >= EVERY_SECONDS):
            files.write_json(self.path, {"fingerprint": self.fingerprint, "tried": tried})
            self._written = time.monotonic()


def _checked(seeds: Sequence[int]) -> Sequence[int]:
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds is {seeds!r}; valid: the seeds to try, such as range(100)")
    seeds = seeds if isinstance(seeds, range) else [int(each) for each in seeds]
    if not seeds or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise InputError(f"seeds must be whole numbers from 0 to {LARGEST_SEED}, at least one")
    return seeds


@contextmanager
def _restored() -> Iterator[None]:
    """Restores the random states of torch, numpy and Python."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(python)
