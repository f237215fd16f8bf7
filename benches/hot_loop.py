"""Share of the attack's time inside matrix products: CIFAR-10, n = 30, p = 3dn (EXHUME_DATA)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import exhume
from benches.headline import Teller
from benches.problems import table
from exhume import data

PER_CLASS, RATIO, SIZE = 15, 3, 32
LIMIT = 0.7
SHOWN = 12
PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv"})
DRAWS = frozenset({"randn", "normal", "randn_like", "rand", "uniform", "randint", "randperm", "bernoulli"})


@dataclass
class Profile:
    """Seconds and calls of every PyTorch operation, in the attack's thread and in the threads that it starts.

    Attributes:
        seconds, calls: by the operation's name. Times of worker threads are divided by their number, because they run
            in parallel while the attack waits.
        wall: seconds of the whole block.
        overhead: estimated seconds that the timing itself took.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    wall: float = 0.0
    overhead: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, seconds: float) -> None:
        """Records one call."""
        with self._lock:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.calls[name] = self.calls.get(name, 0) + 1

    def share(self, names: frozenset[str]) -> float:
        """Fraction of the wall time inside these operations."""
        return sum(seconds for name, seconds in self.seconds.items() if name in names) / self.wall

    @property
    def outside(self) -> float:
        """Fraction of the wall time outside all operations: Python, and waiting."""
        return 1.0 - sum(self.seconds.values()) / self.wall


class _Timer(TorchDispatchMode):
    """Times every operation of the thread that enters it; CPU operations have finished when they return."""

    def __init__(self, profile: Profile, weight: float) -> None:
        super().__init__()
        self._profile, self._weight = profile, weight

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        started = time.perf_counter()
        try:
            return func(*args, **(kwargs or {}))
        finally:
            name = func.overloadpacket.__name__.rstrip("_")
            self._profile.add(name, self._weight * (time.perf_counter() - started))


@contextmanager
def profiled() -> Iterator[Profile]:
    """Times every operation inside the block, including those of threads that it starts."""
    profile = Profile()
    overhead = _overhead()  # first, because the first timed call loads much of PyTorch
    weight = 1.0 / torch.get_num_threads()
    run = threading.Thread.run

    def timed_run(thread: threading.Thread) -> None:
        with _Timer(profile, weight):
            run(thread)

    started = time.perf_counter()
    with mock.patch.object(threading.Thread, "run", timed_run), _Timer(profile, 1.0):
        yield profile
    profile.wall = time.perf_counter() - started
    profile.overhead = sum(profile.calls.values()) * overhead


def main(per_class: int = PER_CLASS, size: int = SIZE, max_passes: float = float("inf")) -> None:
    training = data.load("cifar10", per_class=per_class, size=size)
    width = RATIO * training.inputs.numel()
    victim = exhume.RandomFeatures(num_features=width).fit(training.inputs, training.labels)
    target = victim.target(knowledge=exhume.Knowledge.about(training.labels))
    with profiled() as profile:
        result = exhume.reconstruct(target, max_passes=max_passes, progress=Teller("hot loop"), method="exact")
    ranked = sorted(profile.seconds, key=lambda name: -profile.seconds[name])
    rows = [
        (
            f"`{name}`",
            "yes" if name in PRODUCTS else "no",
            f"{profile.calls[name]:,}",
            f"{profile.seconds[name]:.1f}",
            f"{profile.seconds[name] / profile.wall:.1%}",
            f"{1e3 * profile.seconds[name] / profile.calls[name]:.2f}",
        )
        for name in ranked[:SHOWN]
    ]
    rest = sum(profile.seconds[name] for name in ranked[SHOWN:])
    rows.append(("other operations", "no", "-", f"{rest:.1f}", f"{rest / profile.wall:.1%}", "-"))
    outside = profile.outside
    rows.append(("outside operations", "no", "-", f"{outside * profile.wall:.1f}", f"{outside:.1%}", "-"))
    table(("operation", "product", "calls", "seconds", "share", "ms a call"), rows)
    share = profile.share(PRODUCTS)
    print(f"\nn = {training.num_samples}, p = {width:,}, {torch.get_num_threads()} threads; {result.passes:.0f} passes")
    print(f"{profile.wall:.1f} s, of which drawing random numbers, as for V: {profile.share(DRAWS):.1%}")
    print(f"inside matrix products: {share:.1%} (at least {LIMIT:.0%}: {'yes' if share >= LIMIT else 'no'})")
    print(f"the timing itself took about {profile.overhead / profile.wall:.2%}")


def _overhead(calls: int = 2_000) -> float:
    """Seconds that timing adds to one call, measured on nearly empty calls."""
    small = torch.zeros(1)

    def seconds() -> float:
        started = time.perf_counter()
        for _ in range(calls):
            small.neg()
        return time.perf_counter() - started

    bare = seconds()
    with _Timer(Profile(), 1.0):
        small.neg()
        return max(0.0, seconds() - bare) / calls
