"""One descent step compared with two plain matrix products of the same sizes: n=10, d=3072, p=100,000."""

import statistics
import time
from collections.abc import Callable

import torch

from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap

SAMPLES, DIM, FEATURES, REPEATS = 10, 3072, 100_000, 9


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    feature_map = RandomFeatureMap(GaussianMatrix(FEATURES, DIM, seed=0, memory_budget="2GB"), "relu")
    (_, matrix), *more = feature_map.matrix.chunks()
    matrix = torch.cat([matrix, *(part for _, part in more)])
    samples = torch.randn((SAMPLES, DIM), generator=generator)
    theta = torch.randn((1, FEATURES), generator=generator)
    cotangents = torch.randn((SAMPLES, FEATURES), generator=generator)
    span = Span(feature_map, theta, inactive_slope=0.02)

    def step() -> None:
        span.gradient(span.at(samples))

    def products() -> None:
        _ = samples @ matrix.T
        _ = cotangents @ matrix

    def faster_products() -> None:
        _ = matrix @ samples.T
        _ = cotangents @ matrix

    times: dict[str, list[float]] = {"step": [], "X V^T and C V": [], "V X^T and C V": []}
    for _ in range(REPEATS):  # interleaved, so that other load affects all of them alike
        for name, work in zip(times, (step, products, faster_products), strict=True):
            times[name].append(_seconds(work))
    print("| work | median seconds | step / work |\n|---|---|---|")
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"| {name} | {median:.3f} | {medians['step'] / median:.2f} |")


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
