"""Pictures from all layers of small conv nets and transformers, from noise, the recipe unknown (EXHUME_DATA).

Every finished case is appended to runs/layers_bench.jsonl, or to the path in EXHUME_BENCH_STORE, and skipped by the
next run; an interrupted attack goes on from its checkpoint beside that file. EXHUME_BENCH_CASES selects groups, such as
"full,momentum", EXHUME_BENCH_SEEDS limits the victims of each. EXHUME_RECORD=1 draws the gallery of the documentation.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import nn

import exhume
from benches.ordinary_networks import Recipe, Victim, train
from benches.pictures import draw
from benches.problems import say, table
from benches.unmix import certified
from exhume.errors import ExhumeError
from exhume.networks import VisionTransformer

STORE, IN_DOCS = Path("runs/layers_bench.jsonl"), Path("docs/images/layers_gallery.png")
SIZE, CLASSES, FEW = 8, 5, 4  # samples and classes of transformers: few
COLUMNS = (
    *("network and recipe", "n", "attack", "seed", "cosine", "within 0.1", "within 0.2", "error", "verdict"),
    *("certified wrongly", "passes", "seconds"),
)


@dataclass(frozen=True)
class Conv:
    """Two 3 x 3 convolutions with ReLU and a linear head on all positions, or on their mean."""

    widths: tuple[int, int] = (32, 32)
    pooled: bool = False
    activation: Callable[[], nn.Module] = nn.ReLU

    def build(self, dropout: float = 0.0) -> nn.Sequential:
        """The module, with torch's own start."""
        first, second = self.widths
        body = [nn.Unflatten(1, (1, SIZE, SIZE)), nn.Conv2d(1, first, 3, padding=1), self.activation()]
        body += [nn.Conv2d(first, second, 3, padding=1, stride=2 if self.pooled else 1), self.activation()]
        pool = [nn.AdaptiveAvgPool2d(1)] if self.pooled else []
        return nn.Sequential(*body, *pool, nn.Flatten(), nn.Linear(second * (1 if self.pooled else SIZE**2), CLASSES))


@dataclass(frozen=True)
class Transformer:
    """A vision transformer of four patches and two blocks, whose head has four times as many weights as unknowns."""

    def build(self, dropout: float = 0.0) -> VisionTransformer:
        """The module, with a start drawn from torch's generator."""
        seed = int(torch.randint(2**31, ()))
        return VisionTransformer((1, SIZE, SIZE), 4 * SIZE**2, FEW, patch=SIZE // 2, depth=2, seed=seed)


@dataclass(frozen=True)
class Group:
    """Victims that differ in their seed: of the pictures, the start and the batches."""

    words: str
    network: Conv | Transformer
    recipe: Recipe
    seeds: int
    samples: int = 10
    method: str = "layers"
    max_seconds: float = float("inf")

    def victim(self, seed: int) -> Victim:
        """Trained on digits for even seeds, on CIFAR-10 for odd ones."""
        pictures = draw(("digits", "cifar10")[seed % 2], SIZE, min(CLASSES, self.samples), self.samples, seed)
        return train(self.network, self.recipe, pictures, seed)  # type: ignore[arg-type]


FULL = Recipe(0.02, 3000, until=0.01)
BATCHES = Recipe(0.01, 1000, batch=5, momentum=0.9, until=0.01)
GROUPS = {
    "full": Group("conv 32-32, full batch", Conv(), FULL, 5),
    "momentum": Group("conv 32-32, batches of 5, momentum 0.9", Conv(), BATCHES, 3),
    "gelu": Group("conv 32-32 with GELU, full batch", Conv(activation=nn.GELU), FULL, 2),
    "pooled": Group(
        "conv 64-128, pooled head",
        Conv((64, 128), pooled=True),
        Recipe(0.1, 5000, until=0.01),
        2,
        max_seconds=600.0,
    ),
    "adam": Group("conv 32-32, Adam (premise broken)", Conv(), Recipe(1e-3, 500, until=0.01, optimiser="adam"), 1),
    "twenty": Group("conv 32-32, full batch", Conv(), FULL, 1, samples=20),
    "vit": Group(
        "ViT, four patches, depth 2, full batch", Transformer(), Recipe(0.02, 400, until=0.01), 2, samples=FEW
    ),
    "ntk": Group("conv 32-32, full batch", Conv(), FULL, 2, method="ntk", max_seconds=60.0),
}
FIRST_SEED = 1001  # no victim or set of pictures that anything was tuned on


@dataclass(frozen=True)
class Measured:
    """What came of a case: cosines and errors of true samples to the rows matched with them, and the certificate."""

    key: str
    cosine: float = 0.0
    errors: tuple[float, ...] = ()
    bars: tuple[float, ...] = ()
    verdict: str = "declined"
    claimed: int = 0
    wrong: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    reason: str = ""


def measure(key: str, group: Group, seed: int, checkpoint: Path) -> Measured:
    """Trains the victim, attacks it and compares with the truth."""
    victim = group.victim(seed)
    if victim.diverged:
        return Measured(key, verdict="diverged", reason=f"The loss went to {victim.loss:.2g}.")
    target = victim.target(group.samples)
    settings: dict[str, Any] = {"checkpoint": checkpoint, "resume": True, "max_seconds": group.max_seconds}
    try:
        result = exhume.reconstruct(target, method=group.method, seed=seed, **settings)
    except ExhumeError as error:
        return Measured(key, reason=str(error))
    truth = victim.pictures.inputs
    matches = exhume.score(result, truth).matches
    found = [(truth[match.truth_index], result.samples[match.row]) for match in matches]
    cosines = [float(torch.cosine_similarity(one, other, dim=0)) for one, other in found]
    claims, certificate = certified(result, victim), result.certificate
    torch.save(result.samples, checkpoint.with_suffix(".rows"))
    checkpoint.unlink(missing_ok=True)
    return Measured(
        key=key,
        cosine=sum(cosines) / len(truth),
        errors=tuple(match.error for match in matches),
        bars=certificate.predicted_errors,
        verdict=certificate.verdict,
        claimed=len(claims),
        wrong=sum(claims),
        passes=result.passes,
        seconds=result.seconds,
        reason=certificate.reason,
    )


def finished(path: Path) -> dict[str, Measured]:
    """What is in the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    values = [json.loads(line) for line in lines]
    return {each["key"]: Measured(**{**each, "errors": tuple(each["errors"])}) for each in values}


def cells(group: Group, seed: int, found: Measured) -> tuple[object, ...]:
    """A row of the table."""
    count, errors = group.samples, found.errors or (1.0,)
    within = [f"{sum(error < limit for error in found.errors)} of {count}" for limit in (0.1, 0.2)]
    error, wrong = f"{statistics.mean(errors):.3f}", f"{found.wrong} of {found.claimed}"
    cost = f"{found.passes:,.0f}", f"{found.seconds:.0f}"
    return group.words, count, group.method, seed, f"{found.cosine:.4f}", *within, error, found.verdict, wrong, *cost


def draw_gallery(path: Path, folder: Path) -> None:
    """Training pictures of the first victim of three groups, and below them what was recovered."""
    names = [name for name in ("full", "momentum", "pooled") if (folder / f"layers_{name}_{FIRST_SEED}.rows").exists()]
    figure, axes = plt.subplots(2 * len(names), 10, figsize=(7, 1.5 * len(names)), squeeze=False)
    for place, name in enumerate(names):
        truth = GROUPS[name].victim(FIRST_SEED).pictures.inputs
        rows = torch.load(folder / f"layers_{name}_{FIRST_SEED}.rows")
        order = torch.cdist(truth, rows).argmin(1)
        for column in range(10):
            for line, picture in enumerate((truth[column], rows[order[column]])):
                axes[2 * place + line][column].imshow(picture.reshape(SIZE, SIZE), cmap="gray", vmin=-2, vmax=2)
        axes[2 * place][0].set_title(GROUPS[name].words, fontsize=8, loc="left")
    for axis in axes.flat:
        axis.set_axis_off()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    print(f"gallery: {path}", flush=True)


def main() -> None:
    names = os.environ.get("EXHUME_BENCH_CASES", "").replace(",", " ").split() or list(GROUPS)
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        sys.exit(f"EXHUME_BENCH_CASES: no group {', '.join(unknown)}; valid: {', '.join(GROUPS)}")
    store, limit = Path(os.environ.get("EXHUME_BENCH_STORE", STORE)), int(os.environ.get("EXHUME_BENCH_SEEDS", "99"))
    store.parent.mkdir(parents=True, exist_ok=True)
    known, rows = finished(store), []
    for name in names:
        group = GROUPS[name]
        for seed in range(FIRST_SEED, FIRST_SEED + min(group.seeds, limit)):
            key = f"{name}/{seed}"
            if key not in known:
                known[key] = measure(key, group, seed, store.parent / f"layers_{name}_{seed}.checkpoint")
                with store.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(known[key])) + "\n")
                say(f"{key}: cosine {known[key].cosine:.4f}, {known[key].verdict}. {known[key].reason}")
            rows.append(cells(group, seed, known[key]))
    table(COLUMNS, rows)
    wrong, claimed = (sum(getattr(each, field) for each in known.values()) for field in ("wrong", "claimed"))
    print(f"\ncertified wrongly: {wrong} of {claimed} certified samples, {len(known)} cases", flush=True)
    if os.environ.get("EXHUME_RECORD") == "1":
        draw_gallery(IN_DOCS, store.parent)
