"""The cases of `benches unmix`, by group: which network, which recipe, which attack, and what is asked of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from benches.broken_premises import PREMISES, SAMPLES
from benches.ordinary_networks import (
    EARLY,
    RECIPES,
    SIMUDY,
    SIMUDY_LONG,
    Network,
    Recipe,
    Victim,
    train,
    victim,
)
from benches.pictures import draw_simudy

SEEDS = 5
# Budget of one attack by unmixing: three times the largest bar. Searches that do not find all columns would go on.
UNMIX_SECONDS = 300.0
# After long training, for which no time is asked, a hundred samples may take longer.
LONG_SECONDS = 600.0
# The same on networks of at most 512 neurons a layer, where the number of starts ends the search first (about 15 s of
# CPU), and for the certificate, where a search that goes on certifies nothing.
SMALL_SECONDS, CERTIFICATE_SECONDS = 120.0, 15.0
RIVALS = ("descent", "exact", "subspace", "ntk")
RIVAL_SECONDS = 20.0
# On smooth activations `exact` is the attack to compare with; `unmix` ends by itself, earlier on machines at rest.
SMOOTH_SECONDS = {"exact": 100.0, "unmix": 300.0}
SIZES = ((64, 256, 5), (256, 512, 512, 5), (784, 128, 10))
COUNTS = (10, 20)
SIMUDY_SECONDS = {20: 10.0, 50: 30.0, 100: 90.0}
SMOOTH_SIZES = ((64, 2000, 5), (256, 512, 512, 5))
SMOOTH_RECIPES = ("full batch", "batches, momentum", "cosine, smoothing")
MIXED, BROKEN_SEEDS = 200, 6
COST_SAMPLES, COST_WIDTHS, COST_SEEDS = (10, 20, 50, 100), (250, 500, 1000, 2000, 4000), 3


@dataclass(frozen=True)
class Bar:
    """What a row of the table must reach: a share of all samples below an error, within seconds (the median)."""

    below: float = 1e-3
    share: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Case:
    """One attack on one victim.

    Attributes:
        group: of the table.
        row: network, recipe and n: cases of one row differ in their seed.
        seed: of the data and the training, or the number of the case.
        make: trains the victim.
        bar: what the row must reach; rivals have none.
        method: the attack.
        max_seconds: its budget. A rival is told n.
    """

    group: str
    row: tuple[str, str, str]
    seed: int
    make: Callable[[], Victim]
    bar: Bar = Bar()
    method: str = "unmix"
    max_seconds: float = UNMIX_SECONDS

    @property
    def key(self) -> str:
        """Names the case in the file of results."""
        return "/".join((self.group, *self.row, str(self.seed), self.method))

    def by(self, method: str, max_seconds: float) -> Case:
        """The same problem for another attack."""
        return replace(self, method=method, max_seconds=max_seconds, bar=Bar(self.bar.below))


def simudy() -> Iterator[Case]:
    """SimuDy's own problem: 20 full-batch steps."""
    for samples, seconds in SIMUDY_SECONDS.items():
        yield from _simudy("simudy", samples, SIMUDY, "20 steps", Bar(1e-3, 1.0, seconds))
    yield from _rivals(next(_simudy("simudy", 20, SIMUDY, "20 steps", Bar())))


def simudy_long() -> Iterator[Case]:
    """SimuDy's network trained with small batches and momentum until its loss is small."""
    for samples in SIMUDY_SECONDS:
        for case in _simudy("simudy-long", samples, SIMUDY_LONG, "batches of 5, loss < 1e-3", Bar(1e-3, 1.0)):
            yield replace(case, max_seconds=LONG_SECONDS)


def large() -> Iterator[Case]:
    """More samples, with no bar."""
    yield from _simudy("large", 200, SIMUDY, "20 steps", Bar())
    yield from _simudy("large", 500, SIMUDY, "20 steps", Bar(), width=4000)


def ordinary() -> Iterator[Case]:
    """The tutorials' sizes, with several classes."""
    yield from _small("ordinary", SIZES, RECIPES, Bar(1e-3, 0.95))


def one_output() -> Iterator[Case]:
    """The same networks with one output and the square loss."""
    yield from _small("one-output", tuple((*sizes[:-1], 1) for sizes in SIZES), RECIPES, Bar(1e-3, 0.8))


def two_classes() -> Iterator[Case]:
    """The same networks with two classes."""
    yield from _small("two-classes", tuple((*sizes[:-1], 2) for sizes in SIZES), RECIPES, Bar(1e-3, 0.8))


def decay() -> Iterator[Case]:
    """Weight decay whose share the attack is not told."""
    plain = RECIPES["batches, momentum"]
    recipes = {f"decay {share:g}": replace(plain, decay=share) for share in (5e-4, 1e-2)}
    yield from _small("decay", SIZES, recipes, Bar(1e-3, 1.0), rivals=False)


def rounded() -> Iterator[Case]:
    """Weights released in float16 and bfloat16."""
    for dtype, bar in ((torch.float16, Bar(0.02, 1.0)), (torch.bfloat16, Bar(0.1, 0.9))):
        name = str(dtype).removeprefix("torch.")
        for case in _small("rounded", SIZES, {"full batch": RECIPES["full batch"]}, bar, rivals=False):
            network, recipe, samples = case.row
            yield replace(case, row=(network, f"{recipe}, {name}", samples), make=partial(_released, case.make, dtype))


def raw() -> Iterator[Case]:
    """Pixels between 0 and 1, not centred, with no bar: such pictures activate nearly the same neurons."""
    for case in _small("raw", SIZES, {"full batch": RECIPES["full batch"]}, Bar(), rivals=False):
        yield replace(case, make=partial(case.make, standardise="none"))


def smooth() -> Iterator[Case]:
    """GELU and tanh, one and two hidden layers."""
    recipes = {name: RECIPES[name] for name in SMOOTH_RECIPES}
    for activation in ("gelu", "tanh"):
        for case in _small("smooth", SMOOTH_SIZES, recipes, Bar(0.1, 0.8), activation):
            yield replace(case, max_seconds=SMOOTH_SECONDS.get(case.method, case.max_seconds))


def early() -> Iterator[Case]:
    """Training stopped once the loss of held-out pictures rises, with no bar."""
    yield from _small("early", SIZES, {"early stopping": EARLY}, Bar(), rivals=False)


def certificate() -> Iterator[Case]:
    """Networks of mixed recipes, and broken premises: no sample may be certified wrongly."""
    for number in range(MIXED):
        yield _mixed(number)
    for name, make in PREMISES.items():
        for seed in range(BROKEN_SEEDS):
            row = ("broken premise", name, str(SAMPLES))
            yield Case("certificate", row, seed, partial(make, seed), max_seconds=CERTIFICATE_SECONDS)


def cost() -> Iterator[Case]:
    """SimuDy's problem over n and over the width of the first layer."""
    sizes = [(samples, 1000) for samples in COST_SAMPLES] + [(20, width) for width in COST_WIDTHS if width != 1000]
    for samples, width in sizes:
        for case in _simudy("cost", samples, SIMUDY, "20 steps", Bar(), width):
            if case.seed < COST_SEEDS:
                yield case


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "simudy": simudy,
    "simudy-long": simudy_long,
    "ordinary": ordinary,
    "one-output": one_output,
    "two-classes": two_classes,
    "decay": decay,
    "rounded": rounded,
    "early": early,
    "raw": raw,
    "smooth": smooth,
    "certificate": certificate,
    "cost": cost,
    "large": large,
}


def _simudy(group: str, samples: int, recipe: Recipe, words: str, bar: Bar, width: int = 1000) -> Iterator[Case]:
    network = Network((3072, width, 1000, 10), bias="first")

    def make(seed: int) -> Victim:
        return train(network, recipe, draw_simudy(samples // 10, seed), seed)

    for seed in range(SEEDS):
        yield Case(group, (network.name, words, str(samples)), seed, partial(make, seed), bar)


def _small(
    group: str,
    all_sizes: tuple[tuple[int, ...], ...],
    recipes: dict[str, Recipe],
    bar: Bar,
    activation: str = "relu",
    rivals: bool = True,
) -> Iterator[Case]:
    """Every network with every recipe, n and seed, and the rivals on the first problem of each network."""
    for sizes in all_sizes:
        network = Network(sizes, activation)
        cases = [
            Case(
                group,
                (network.name, name, str(samples)),
                seed,
                partial(victim, network, recipe, samples, seed),
                bar,
                max_seconds=SMALL_SECONDS,
            )
            for name, recipe in recipes.items()
            for samples in COUNTS
            for seed in range(SEEDS)
        ]
        yield from cases
        if rivals:
            yield from _rivals(cases[0])


def _rivals(case: Case) -> Iterator[Case]:
    for method in RIVALS:
        yield case.by(method, RIVAL_SECONDS)


def _released(make: Callable[[], Victim], dtype: torch.dtype) -> Victim:
    return make().released(dtype)


def _mixed(number: int) -> Case:
    """A network, outputs, recipe, n, decay and rounding drawn from the number of the case."""
    drawn = random.Random(number)
    sizes = drawn.choice(SIZES)
    network = Network((*sizes[:-1], drawn.choice((sizes[-1], sizes[-1], 2, 1))))
    recipe = drawn.choice((*RECIPES.values(), EARLY))
    if recipe.optimiser == "sgd":
        recipe = replace(recipe, decay=drawn.choice((0.0, 0.0, 5e-4, 1e-2)))
    samples, dtype = drawn.choice((5, 10, 15, 20)), drawn.choice((None, None, None, torch.float16, torch.bfloat16))
    make: Callable[[], Victim] = partial(victim, network, recipe, samples, number)
    if dtype is not None:
        make = partial(_released, make, dtype)
    release = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    row = (network.name, f"mixed, {release}", "5 to 20")
    return Case("certificate", row, number, make, max_seconds=CERTIFICATE_SECONDS)
