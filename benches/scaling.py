"""Cost against n at p = 4dn: passes and seconds, with fitted exponents; sphere d = 200 and CIFAR-10 at 16 x 16 x 3."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import NullLocator

import exhume
from benches.problems import FIGURES, say, table
from exhume import data
from exhume.data import Dataset

RATIO, SPHERE_DIM, PICTURE_SIDE = 4, 200, 16
SPHERE_SAMPLES, PICTURE_SAMPLES = (5, 10, 20, 40, 80), (6, 10, 20, 40)
SEEDS = 3
# From this number of samples on, only one seed is measured.
MANY = 80
MAX_PASSES = 6_000
COSTS = ("passes", "flops", "seconds")
IN_DOCS = Path("docs/images/scaling.png")


@dataclass(frozen=True)
class Fit:
    """y = factor x^exponent, by least squares of the logarithms."""

    exponent: float
    standard_error: float
    factor: float

    def __call__(self, x: float) -> float:
        """The fitted value."""
        return self.factor * x**self.exponent

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.standard_error:.2f}"


@dataclass(frozen=True)
class Size:
    """Medians over the solved seeds at one n, or over all seeds if none was solved; verdicts of all seeds."""

    samples: int
    num_features: int
    passes: float
    seconds: float
    flops: float
    verdicts: tuple[str, ...]

    @property
    def solved(self) -> int:
        """Number of seeds with the verdict exact."""
        return self.verdicts.count("exact")


def fit_power(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Fits a power law to positive points; the standard error of the exponent is NaN for two points."""
    logs = [math.log(value) for value in x]
    line = statistics.linear_regression(logs, [math.log(value) for value in y])
    left = sum((math.log(b) - line.intercept - line.slope * a) ** 2 for a, b in zip(logs, y, strict=True))
    spread = statistics.pvariance(logs) * len(logs)
    error = math.sqrt(left / (len(logs) - 2) / spread) if len(logs) > 2 else math.nan
    return Fit(line.slope, error, math.exp(line.intercept))


def fitted(sizes: Sequence[Size]) -> dict[str, Fit]:
    """Fits power laws in n to all costs at the solved sizes; empty if fewer than two sizes were solved."""
    solved = [size for size in sizes if size.solved]
    x = [size.samples for size in solved]
    names = COSTS if len(solved) > 1 else ()
    return {name: fit_power(x, [getattr(size, name) for size in solved]) for name in names}


def sphere(samples: int, seed: int) -> Dataset:
    return data.load("sphere", dim=SPHERE_DIM, samples=samples, seed=seed)


def pictures(samples: int, seed: int) -> Dataset:
    """The first images of two classes: only V depends on the seed."""
    return data.load("cifar10", per_class=samples // 2, size=PICTURE_SIDE)


CURVES = {"sphere": sphere, "CIFAR-10": pictures}


def measure(curve: str, samples: int) -> Size:
    """Attacks at p = 4dn; a pass takes 2pdn flops."""
    results, width, dim = [], 0, 0
    for seed in range(SEEDS if samples < MANY else 1):
        training = CURVES[curve](samples, seed)
        dim, width = training.input_dim, RATIO * training.inputs.numel()
        victim = exhume.RandomFeatures(num_features=width, seed=seed).fit(training.inputs, training.labels)
        result = exhume.reconstruct(
            victim.target(), num_samples=samples, seed=seed, max_passes=MAX_PASSES, method="exact"
        )
        results.append(result)
        verdict = result.certificate.verdict
        say(f"{curve} n = {samples} seed {seed}: {verdict}, {result.passes:.0f} passes, {result.seconds:.1f} s")
    verdicts = tuple(result.certificate.verdict for result in results)
    counted = [result for result in results if result.certificate.verdict == "exact"] or results
    passes = statistics.median(result.passes for result in counted)
    seconds = statistics.median(result.seconds for result in counted)
    return Size(samples, width, passes, seconds, 2.0 * passes * width * dim * samples, verdicts)


def main(
    sphere_samples: Sequence[int] = SPHERE_SAMPLES, picture_samples: Sequence[int] | None = None, record: bool = False
) -> None:
    if picture_samples is None:
        picture_samples = PICTURE_SAMPLES if "EXHUME_DATA" in os.environ else ()
    curves = {"sphere": [measure("sphere", samples) for samples in sphere_samples]}
    if picture_samples:
        curves["CIFAR-10"] = [measure("CIFAR-10", samples) for samples in picture_samples]
    rows, fits = [], {}
    for curve, sizes in curves.items():
        for size in sizes:
            flops = size.flops / 1e12
            exact = f"exact {size.solved} of {len(size.verdicts)}"
            speed = f"{size.seconds / flops:.1f}"
            costs = (f"{size.passes:.0f}", f"{size.seconds:.1f}", f"{flops:.3g} T", speed)
            rows.append((curve, size.samples, f"{size.num_features:,}", *costs, exact))
        fits[curve] = fitted(sizes)
    table(("data", "n", "p", "passes", "seconds", "flops", "seconds per Tflop", "verdict"), rows)
    print()
    exponents = [(curve, *(fits[curve].get(name, "-") for name in COSTS)) for curve in fits]
    table(("data", *(f"exponent of {name}" for name in COSTS)), exponents)
    print(f"\np = {RATIO}dn: a pass takes 2pdn flops, as n squared; {torch.get_num_threads()} threads")
    print("costs are medians of the seeds that were solved; sizes of which none was are not fitted")
    draw(curves, fits, record or os.environ.get("EXHUME_RECORD") == "1")


def draw(curves: dict[str, list[Size]], fits: dict[str, dict[str, Fit]], record: bool) -> None:
    """Draws passes and seconds against n with the fitted power laws; also for the documentation if recording."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for panel, name in zip(panels, ("passes", "seconds"), strict=True):
        for (curve, sizes), colour in zip(curves.items(), ("tab:blue", "tab:orange"), strict=False):
            for size in sizes:
                face = colour if size.solved else "none"
                panel.scatter(size.samples, getattr(size, name), s=18, edgecolors=colour, facecolors=face)
            if name in fits[curve]:
                x, fit = [size.samples for size in sizes], fits[curve][name]
                panel.plot(x, [fit(each) for each in x], color=colour, label=f"{curve}: exponent {fit}")
        panel.set(xscale="log", yscale="log", xlabel="n", ylabel={"passes": "feature passes"}.get(name, name))
        panel.set_title(f"{name} against n at p = {RATIO}dn")
        panel.set_xticks(sorted({size.samples for sizes in curves.values() for size in sizes}), minor=False)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.legend(fontsize=7)
    FIGURES.mkdir(exist_ok=True)
    for path in (FIGURES / "scaling.png", *([IN_DOCS] if record else [])):
        figure.savefig(path, dpi=110)
        print(f"picture: {path}")
