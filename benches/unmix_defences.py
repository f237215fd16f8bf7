"""What stops unmix and what it costs: 64-256-5 networks on 20 digits, trained and released in several ways; 3 seeds.

Every finished attack is appended to a file and skipped by the next run: runs/unmix_defences_bench.jsonl, or the path in
EXHUME_BENCH_STORE. EXHUME_BENCH_SEEDS limits the number of seeds.
"""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

import exhume
from benches.problems import say, table
from exhume import data
from exhume.errors import InputError
from exhume.results.certificate import EXACT_BELOW, FAILED, RECOVERED_BELOW

STORE = Path("runs/unmix_defences_bench.jsonl")
SEEDS = 3
DIM, CLASSES, PER_CLASS = 64, 5, 4
POOL = 80  # digits of each class that training and held-out digits are drawn from
WIDTH, BATCH, EPOCHS = 256, 5, 100
# Half of the starts that the search would make by itself. Seconds would make rows depend on what else the machine does:
# with 20 of them the undefended network lost seed 1, which takes 1,202 passes.
MAX_PASSES = 1_500

State = dict[str, torch.Tensor]
Release = Callable[[State, State, torch.Generator], State]


@dataclass(frozen=True)
class Digits:
    """Training and held-out digits of the same classes."""

    inputs: torch.Tensor
    labels: torch.Tensor
    other_inputs: torch.Tensor
    other_labels: torch.Tensor


@dataclass(frozen=True)
class Recipe:
    """A network and its optimiser."""

    activation: type[nn.Module] = nn.ReLU
    normalised: bool = False
    width: int = WIDTH
    optimiser: str = "SGD"

    def network(self, seed: int) -> nn.Sequential:
        torch.manual_seed(seed)
        between = [nn.BatchNorm1d(self.width)] if self.normalised else []
        return nn.Sequential(nn.Linear(DIM, self.width), *between, self.activation(), nn.Linear(self.width, CLASSES))

    def steps(self, model: nn.Module) -> torch.optim.Optimizer:
        if self.optimiser == "SGD":
            return torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        return {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}[self.optimiser](model.parameters(), 1e-3)


@dataclass(frozen=True)
class Row:
    """One attack: accuracies of the released model, counts of samples, and the verdict or why it was refused.

    Of the certified samples `wrong` have an error of at least 0.1; `not_exact` have an error bar below 1e-3 and an
    error of at least that.
    """

    training: float
    held_out: float
    recovered: int = 0
    exact: int = 0
    certified: int = 0
    wrong: int = 0
    not_exact: int = 0
    verdict: str = ""


def as_trained(_before: State, after: State, _generator: torch.Generator) -> State:
    return after


def rounded(dtype: torch.dtype) -> Release:
    return lambda _before, after, _generator: {name: each.to(dtype).to(each) for name, each in after.items()}


def in_int8(_before: State, after: State, _generator: torch.Generator) -> State:
    """One symmetric scale for each tensor."""
    scales = {name: each.abs().max() / 127 for name, each in after.items()}
    return {name: (each / scales[name]).round() * scales[name] for name, each in after.items()}


def noisy(level: float) -> Release:
    """Gaussian noise on the first layer with the given share of the norm by which it moved."""

    def release(before: State, after: State, generator: torch.Generator) -> State:
        names = [name for name in after if name.startswith("0.")]
        moved = torch.cat([(after[name] - before[name]).flatten() for name in names])
        scale = level * float(moved.norm()) / moved.numel() ** 0.5
        noise = {name: scale * torch.randn(after[name].shape, generator=generator) for name in names}
        return {name: each + noise[name] if name in noise else each for name, each in after.items()}

    return release


# Defence, how the network is trained, and how it is released.
CASES: dict[str, tuple[Recipe, Release]] = {
    "none": (Recipe(), as_trained),
    "Adam": (Recipe(optimiser="Adam"), as_trained),
    "AdamW": (Recipe(optimiser="AdamW"), as_trained),
    "GELU": (Recipe(nn.GELU), as_trained),
    "tanh": (Recipe(nn.Tanh), as_trained),
    "BatchNorm before the ReLU": (Recipe(normalised=True), as_trained),
    "h/n = 6": (Recipe(width=120), as_trained),
    "h/n = 4": (Recipe(width=80), as_trained),
    "h/n = 2": (Recipe(width=40), as_trained),
    "start unknown (another seed's)": (Recipe(), as_trained),
    "float16": (Recipe(), rounded(torch.float16)),
    "bfloat16": (Recipe(), rounded(torch.bfloat16)),
    "int8": (Recipe(), in_int8),
    **{f"noise {level:g}": (Recipe(), noisy(level)) for level in (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)},
}


def digits(seed: int) -> Digits:
    """The same number of each class for training, drawn anew for every seed; all others are held out."""
    pool = data.load("digits", samples=POOL * CLASSES, classes=list(range(CLASSES)), labels="one-hot")
    labels, generator = pool.labels.argmax(1), torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    of_class = [order[labels[order] == each] for each in range(CLASSES)]
    own = torch.cat([each[:PER_CLASS] for each in of_class])
    others = torch.cat([each[PER_CLASS:] for each in of_class])
    return Digits(pool.inputs[own], labels[own], pool.inputs[others], labels[others])


def train(recipe: Recipe, own: Digits, seed: int) -> tuple[State, State]:
    """Weights before and after a plain training loop."""
    model = recipe.network(seed)
    before, optimiser = _copy(model), recipe.steps(model)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(own.inputs), generator=generator).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(own.inputs[rows]), own.labels[rows]).backward()
            optimiser.step()
    return before, _copy(model)


def attack(name: str, own: Digits, before: State, after: State, seed: int) -> Row:
    """Unmix on one release; the number of samples is not given."""
    recipe, release = CASES[name]
    model = recipe.network(seed)
    model.load_state_dict(release(before, after, torch.Generator().manual_seed(seed)))
    model.eval()
    known = _copy(recipe.network(seed + 1000)) if name.startswith("start unknown") else before
    accuracy = [
        float((model(inputs).argmax(1) == labels).float().mean())
        for inputs, labels in ((own.inputs, own.labels), (own.other_inputs, own.other_labels))
    ]
    target = exhume.Target.last_layer(model, initial_head=known, input_shape=(DIM,))
    try:
        result = exhume.reconstruct(target, method="unmix", seed=seed, max_passes=MAX_PASSES)
    except InputError as error:
        return Row(*accuracy, verdict=f"refused: {_brief(str(error))}")
    judged = exhume.score(result, own.inputs)
    errors, certificate = judged.claimed_errors, result.certificate
    bars = () if certificate.verdict == FAILED else certificate.predicted_errors
    certified = {row for row, bar in enumerate(bars) if bar < RECOVERED_BELOW}
    found = {match.row: error for match, error in zip(judged.matches, errors, strict=True)}
    good = {row for row, error in found.items() if error < RECOVERED_BELOW}
    exact = {row for row, error in found.items() if error < EXACT_BELOW}
    claimed = {row for row, bar in enumerate(bars) if bar < EXACT_BELOW}
    counts = (len(good), len(exact), len(certified), len(certified - good), len(claimed - exact))
    return Row(*accuracy, *counts, verdict=f"{certificate.verdict} ({result.stop.value})")


def _brief(reason: str) -> str:
    """Why unmix refuses, in a few words."""
    for words in ("no clear rank", "no ReLU follows", "too few to separate"):
        if words in reason:
            return words
    return reason


def _copy(model: nn.Module) -> State:
    return {name: each.detach().clone() for name, each in model.state_dict().items()}


def run(path: Path, seeds: int) -> dict[str, list[Row]]:
    """The rows of each defence, one for each seed; what the file does not hold is measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    known = {(each["name"], each["seed"]): Row(**each["row"]) for each in map(json.loads, filter(None, lines))}
    for seed in range(seeds):
        own, trained = digits(seed), dict[Recipe, tuple[State, State]]()
        for name, (recipe, _) in CASES.items():
            if (name, seed) in known:
                continue
            if recipe not in trained:
                trained[recipe] = train(recipe, own, seed)
            row = known[name, seed] = attack(name, own, *trained[recipe], seed)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "seed": seed, "row": asdict(row)}) + "\n")
            say(f"{name}, seed {seed}: {row}")
    return {name: [known[name, seed] for seed in range(seeds)] for name in CASES}


def main() -> None:
    seeds = min(SEEDS, int(os.environ.get("EXHUME_BENCH_SEEDS", SEEDS)))
    rows = run(Path(os.environ.get("EXHUME_BENCH_STORE", STORE)), seeds)
    total = seeds * CLASSES * PER_CLASS
    columns = ("defence", "training accuracy", "held-out accuracy", f"of {total} below {RECOVERED_BELOW:g}")
    table(
        (*columns, f"below {EXACT_BELOW:g}", "certified", "certified wrongly", "called exact wrongly", "verdict"),
        [
            (
                name,
                *(f"{statistics.mean(getattr(row, each) for row in own):.3f}" for each in ("training", "held_out")),
                *(
                    sum(getattr(row, each) for row in own)
                    for each in ("recovered", "exact", "certified", "wrong", "not_exact")
                ),
                ", ".join(f"{count} {word}" for word, count in Counter(row.verdict for row in own).items()),
            )
            for name, own in rows.items()
        ],
    )
