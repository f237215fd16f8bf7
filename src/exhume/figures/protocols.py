"""What the figures share: their attacks at both scales, and the paper's data."""

from __future__ import annotations

from typing import Any

from exhume.sweep.grid import Grid

FROGS_AND_TRUCKS: dict[str, Any] = {"name": "cifar10", "classes": "frog,truck"}
TEN_CLASSES: dict[str, Any] = {"name": "cifar10", "classes": "all"}
TINY_IMAGENET: dict[str, Any] = {"name": "tiny-imagenet"}
CHANNELS: dict[str, Any] = {"standardise": "channel"}
# The paper descends until its loss has converged; this is a limit for runs that never do.
PAPER_STEPS = 1_000_000


def descent(steps: int = PAPER_STEPS, **options: Any) -> dict[str, Any]:
    """The paper's attack with its own settings and at most so many steps."""
    return {"method": "descent", "max_steps": steps, **options}


def exact(passes: float | None = None, **options: Any) -> dict[str, Any]:
    """The second-order attack with at most so many feature passes of search."""
    return {"method": "exact", **({} if passes is None else {"max_passes": passes}), **options}


def sphere(dim: int, samples: int, **options: Any) -> dict[str, Any]:
    """The paper's synthetic data."""
    return {"name": "sphere", "dim": dim, "samples": samples, **options}


def below_and_above(
    name: str, data: dict[str, Any], features: list[int], ratio: list[float], attack: list[dict[str, Any]], **more: Any
) -> tuple[Grid, Grid]:
    """A curve over p: a few widths around p = n by number, the others as multiples of d n."""
    return (
        Grid(name=f"{name} around p = n", data=data, features=features, attack=attack, **more),
        Grid(name=f"{name} around p = dn", data=data, ratio=ratio, attack=attack, **more),
    )
