"""Images on a laptop: CIFAR-10 with n = 30 and n = 10, Tiny-ImageNet with n = 20 (EXHUME_DATA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benches.headline import COLUMNS, Case, Measured, apart, chosen
from benches.problems import FIGURES, table

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Limit:
    """The limit that a case must stay below."""

    attribute: str
    most: float
    unit: str

    def met(self, measured: Measured) -> bool:
        """Whether a solved case stayed below the limit."""
        return measured.solved and getattr(measured, self.attribute) <= self.most


LIMITS = {
    "laptop_cifar10_30": Limit("seconds", 360, "s in all"),
    "laptop_cifar10_10": Limit("passes", 200, "passes"),
    "laptop_tiny_imagenet": Limit("peak_gb", 16, "GB"),
}
CASES = (
    *(Case(f"laptop_cifar10_10_seed{seed}", "cifar10", 5, 100_000, seed) for seed in SEEDS),
    *(Case(f"laptop_cifar10_30_seed{seed}", "cifar10", 15, 3 * 3072 * 30, seed) for seed in SEEDS),
    # V would take 36 GB.
    Case("laptop_tiny_imagenet_seed0", "tiny-imagenet", 10, 3 * 12_288 * 20, 0, size=64, memory_budget="12GB"),
)


def limit_of(case: Case) -> Limit:
    """The limit for the beginning of the case's name."""
    return next(limit for name, limit in LIMITS.items() if case.name.startswith(name))


def main(cases: Sequence[Case] = CASES) -> None:
    rows = []
    for measured in apart(chosen(cases)):
        limit = limit_of(measured.case)
        met = "yes" if limit.met(measured) else "no"
        rows.append((measured.case.source, *measured.cells(), f"{limit.most:g} {limit.unit}", met))
        threads = measured.threads
    table(("data", *COLUMNS, "limit", "met"), rows)
    print(f"\nmet: all recovered with signs, mean error below 1e-3, within the limit; {threads} threads; see {FIGURES}")
