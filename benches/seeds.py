"""The seed of the initial weights: five architectures trained on digits by SGD and AdamW, searched from 0 to 99,999.

Models and results are kept in figs/seeds; a run that was interrupted continues.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import nn

import exhume
from benches.problems import FIGURES, say, table
from exhume.support import files
from exhume.support.randomness import generator_for, seed_for
from exhume.target import seed_search

SEEDS = range(100_000)
INSIDE, OUTSIDE = 5, 1  # models of every architecture and optimiser whose seed is in the range, and is not
SAMPLES, BATCH, MOST_STEPS, LOW_LOSS = 200, 20, 4000, 0.01
REQUIRED = 49  # of the 50 inside
NOISY, CORRELATIONS = 40, (0.05, 0.07, 0.1, 0.15, 0.2)
FOLDER = FIGURES / "seeds"


class Transformer(nn.Module):
    """An encoder of the eight rows of a digit."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.embed, self.position = nn.Linear(8, 32), nn.Parameter(0.02 * torch.randn(8, 32))
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(inputs.reshape(-1, 8, 8)) + self.position).mean(1))


def relu_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def gelu_dropout_mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10)
    )


def conv() -> nn.Module:
    body = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU())
    return nn.Sequential(body, nn.Flatten(), nn.Linear(512, 10))


def conv_batchnorm() -> nn.Module:
    first = nn.Sequential(nn.Conv2d(1, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    second = nn.Sequential(nn.Conv2d(16, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU())
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), first, second, nn.Flatten(), nn.Linear(512, 10))


BUILDS = {
    "MLP, ReLU": relu_mlp,
    "MLP, GELU, dropout": gelu_dropout_mlp,
    "conv net": conv,
    "conv net, BatchNorm": conv_batchnorm,
    "transformer": Transformer,
}


class Case(NamedTuple):
    """A model: its architecture, optimiser, number, and whether its seed is in the range."""

    architecture: str
    optimiser: str
    number: int
    inside: bool

    @property
    def seed(self) -> int:
        drawn = seed_for(self.number, f"{self.architecture}, {self.optimiser}")
        return drawn % len(SEEDS) if self.inside else len(SEEDS) + drawn % 10**9

    @property
    def path(self) -> Path:
        name = f"{self.architecture}-{self.optimiser}-{self.number}".replace(", ", "-").replace(" ", "-")
        return FOLDER / f"{name}.safetensors"


def cases() -> Iterator[Case]:
    for architecture, optimiser in itertools.product(BUILDS, ("SGD", "AdamW")):
        for number in range(INSIDE + OUTSIDE):
            yield Case(architecture, optimiser, number, number < INSIDE)


def trained(case: Case) -> tuple[dict[str, torch.Tensor], float]:
    """The weights after a plain training loop to a low loss on other digits for every model, and that loss."""
    digits = load_digits()
    chosen = torch.randperm(len(digits.target), generator=generator_for(case.number, "samples"))[:SAMPLES]
    inputs = torch.tensor(digits.data, dtype=torch.float32)[chosen] / 16
    labels = torch.tensor(digits.target)[chosen]
    torch.manual_seed(case.seed)
    model = BUILDS[case.architecture]()
    if case.optimiser == "SGD":
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    else:
        optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    recent = torch.ones(())
    for _ in range(MOST_STEPS):
        batch = torch.randint(SAMPLES, (BATCH,))
        loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        recent = 0.95 * recent + 0.05 * loss.detach()
        if recent < LOW_LOSS:
            break
    return {name: each.detach() for name, each in model.state_dict().items()}, float(recent)


def run(case: Case) -> dict[str, float | int | None]:
    """Trains, searches and keeps what was found; what is kept is not done again."""
    record = case.path.with_suffix(".json")
    if record.exists():
        return json.loads(record.read_text())
    if not case.path.exists():
        state, loss = trained(case)
        files.write_tensors(case.path, state, {"loss": str(loss)})
    state, loss = load_file(case.path), float(files.read_metadata(case.path)["loss"])
    build = BUILDS[case.architecture]
    search = seed_search.Search.of(build, 0, state)
    correlations = search.described(case.seed)[1].values()
    began = time.perf_counter()
    found = exhume.find_seed(build, state, SEEDS, checkpoint=case.path.with_suffix(".seeds.json"))
    seconds = time.perf_counter() - began
    value = {
        "found": None if found is None else found.origin,
        "odds": None if found is None else found.log10_odds,
        "loss": loss,
        "least": min(correlations),
        "most": max(correlations),
        "microseconds": 1e6 * seconds / (found.tried if found else len(SEEDS)),
    }
    files.write_json(record, value)
    say(f"{case.architecture}, {case.optimiser}, seed {case.seed}: found {value['found']}, {seconds:.1f} s")
    return value


def recognised(build: Callable[[], nn.Module], correlation: float) -> int:
    """Of so many models whose weights are noise with this correlation with the initial ones, those that are found."""
    count = 0
    for seed in range(NOISY):
        torch.manual_seed(seed)
        initial = build().state_dict()
        torch.manual_seed(len(SEEDS) + seed)
        rest = (1 - correlation**2) ** 0.5
        noisy = {
            name: correlation * each + rest * each.std() * torch.randn_like(each) for name, each in initial.items()
        }
        search = seed_search.Search.of(build, 0, noisy)
        count += search.first_fitting([seed], len(SEEDS)) is not None
    return count


def main() -> None:
    torch.set_num_threads(1)
    results = {case: run(case) for case in cases()}
    rows, right, wrong = [], 0, 0
    for architecture, optimiser in itertools.product(BUILDS, ("SGD", "AdamW")):
        here = {case: value for case, value in results.items() if case[:2] == (architecture, optimiser)}
        inside = {case: value for case, value in here.items() if case.inside}
        hits = sum(value["found"] == case.seed for case, value in inside.items())
        false = sum(value["found"] not in (None, case.seed) for case, value in here.items())
        right, wrong = right + hits, wrong + false
        values = list(here.values())
        odds = [value["odds"] for value in inside.values() if value["odds"] is not None]
        rows.append(
            (
                architecture,
                optimiser,
                f"{max(value['loss'] for value in values):.3f}",
                f"{min(value['least'] for value in values):.2f} to {max(value['most'] for value in values):.2f}",
                f"{hits} of {len(inside)}",
                f"{false} of {len(here)}",
                f"10^{min(odds):.0f}" if odds else "-",
                f"{max(value['microseconds'] for case, value in here.items() if not case.inside) / 10:.0f} s",
            )
        )
    columns = ("architecture", "optimiser", "largest loss", "correlations of layers", "found", "wrong", "least odds")
    table((*columns, "100,000 seeds take"), rows)
    total = sum(case.inside for case in results)
    print(
        f"\nFound: {right} of {total} (at least {REQUIRED}). Wrong: {wrong} of {len(results)} models, of which "
        f"{len(results) - total} have a seed outside the range. Each search goes through all {len(SEEDS):,} seeds or "
        "stops at the first that fits."
    )
    print(f"\nFound of {NOISY} models whose layers all have this correlation with the initial ones:\n")
    builds = {name: BUILDS[name] for name in ("MLP, ReLU", "conv net")}
    counts = [(name, *(recognised(build, each) for each in CORRELATIONS)) for name, build in builds.items()]
    table(("architecture", *map(str, CORRELATIONS)), counts)
