"""Small attacks whose results are recorded in golden.json, and how to record them again.

    python tests/golden/golden_cases.py          records cases that are not in the file yet
    python tests/golden/golden_cases.py NAME...  records these anew; `all` records every case

Record anew only after a change that is meant to change results, and say in the commit which numbers moved and why.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import exhume
from exhume import data
from exhume.networks import MLP, TwoLayer
from exhume.victims import train
from exhume.victims.trained_network import target as network_target

RECORD = Path(__file__).with_name("golden.json")


@dataclass(frozen=True)
class Victim:
    """A target, and its training data, which only the comparison uses."""

    target: exhume.Target
    inputs: torch.Tensor
    labels: torch.Tensor


@dataclass(frozen=True)
class Case:
    """A victim and how it is attacked.

    Attributes:
        passes_within: relative tolerance of the passes; that of the steps is twice as large.
    """

    victim: Callable[[], Victim]
    attack: dict[str, Any] = field(default_factory=dict)
    passes_within: float = 0.05


# Where samples of smooth activations are solved to rounding, the last few steps depend on the last bits: weights moved
# by 3e-8 changed the passes of these cases by up to 28 %.
LAST_STEPS_VARY = 0.4
# More than any case needs: an attack that no longer finds its samples ends with it.
MOST_PASSES = 10_000


def sphere(
    activation: str,
    dim: int = 16,
    samples: int = 6,
    ratio: float = 5,
    outputs: int = 1,
    norms: tuple[float, float] = (1.0, 1.0),
    **known: Any,
) -> Victim:
    """Random features, p = ratio d n / k, on samples whose norms vary between two multiples of sqrt(d)."""
    drawn = data.load("sphere", dim=dim, samples=samples, seed=0)
    inputs = drawn.inputs * torch.linspace(*norms, samples)[:, None]
    labels = drawn.labels if outputs == 1 else torch.eye(outputs)[torch.arange(samples) % outputs]
    width = round(ratio * dim * samples / outputs)
    victim = exhume.RandomFeatures(num_features=width, activation=activation).fit(inputs, labels)
    return Victim(victim.target(knowledge=exhume.Knowledge(**known)), inputs, labels)


def informed(activation: str, unknown: int, width: int) -> Victim:
    """All samples but the first few are known, and so is the norm."""
    drawn = data.load("sphere", dim=30, samples=10, seed=0)
    victim = exhume.RandomFeatures(num_features=width, activation=activation).fit(drawn.inputs, drawn.labels)
    knowledge = exhume.Knowledge(num_samples=10, samples=drawn.inputs[unknown:], norm=math.sqrt(30))
    return Victim(victim.target(knowledge=knowledge), drawn.inputs[:unknown], drawn.labels[:unknown])


def noisy(share: float) -> Victim:
    """Weights with noise of this relative size."""
    clean = sphere("relu")
    theta = clean.target.displacement
    noise = torch.randn(theta.shape, generator=torch.Generator().manual_seed(0))
    target = exhume.Target(clean.target.feature_map, theta + share * theta.norm() * noise / noise.norm())
    return Victim(target, clean.inputs, clean.labels)


def digits() -> Victim:
    drawn = data.load("digits", samples=4, labels="one-hot")
    victim = exhume.RandomFeatures(num_features=300).fit(drawn.inputs, drawn.labels)
    return Victim(victim.target(knowledge=exhume.Knowledge.about(drawn.labels)), drawn.inputs, drawn.labels)


def trained_network() -> Victim:
    """The last layer of a network of which all weights were trained: the features have moved."""
    drawn = data.load("digits", samples=4, labels="one-hot")
    trained = train(TwoLayer(64, 200, 10, seed=3), drawn.inputs, drawn.labels, stable=True)
    known = exhume.Knowledge.about(drawn.labels)
    return Victim(network_target(trained, knowledge=known), drawn.inputs, drawn.labels)


def inside_a_subspace() -> Victim:
    """Fewer weights in the head than unknowns, but a first layer that has moved within the span of the samples."""
    inputs = data.load("sphere", dim=100, samples=4, seed=0).inputs
    trained = train(TwoLayer(100, 60, 4, seed=2), inputs, torch.eye(4), stable=True)
    known = exhume.Knowledge(label_alphabet="one-hot")
    return Victim(network_target(trained, knowledge=known), inputs, torch.eye(4))


def small_network() -> Victim:
    """Two hidden layers, all weights trained, initial weights known."""
    drawn = data.load("sphere", dim=8, samples=3, seed=0)
    trained = train(MLP(8, (40, 40), 1, "gelu", seed=1).double(), drawn.inputs, drawn.labels, stable=True)
    known = exhume.Knowledge.about(drawn.labels)
    return Victim(network_target(trained, knowledge=known), drawn.inputs, drawn.labels)


FOUR = {"num_samples": 4}
CASES = {
    "exact relu": Case(lambda: sphere("relu"), {"num_samples": 6}),
    "exact abs": Case(lambda: sphere("abs"), {"num_samples": 6}),
    "exact tanh, norms free": Case(lambda: sphere("tanh", samples=4, ratio=8), FOUR, LAST_STEPS_VARY),
    "exact gelu, norms free": Case(lambda: sphere("gelu", samples=4, ratio=8), FOUR, LAST_STEPS_VARY),
    "exact softplus, norms differ": Case(
        lambda: sphere("softplus", samples=3, ratio=12, norms=(0.9, 1.1)), {"num_samples": 3}, LAST_STEPS_VARY
    ),
    "exact gelu, norm known": Case(lambda: sphere("gelu", samples=4, ratio=12, norm=4.0), FOUR, LAST_STEPS_VARY),
    "exact relu, two outputs": Case(lambda: sphere("relu", samples=4, ratio=10, outputs=2), FOUR),
    "exact relu, number of samples unknown": Case(lambda: sphere("relu", samples=3, ratio=8)),
    "exact relu, one sample too many": Case(lambda: sphere("relu"), {"num_samples": 7}),
    "exact relu, one sample too few": Case(lambda: sphere("relu"), {"num_samples": 5, "max_starts": 1}),
    "exact relu, noise": Case(lambda: noisy(1e-3), {"num_samples": 6}),
    "exact relu, too few passes": Case(lambda: sphere("relu"), {"num_samples": 6, "max_passes": 60}),
    "exact gelu, one sample not known": Case(lambda: informed("gelu", 1, 60)),
    "exact relu, three samples not known": Case(lambda: informed("relu", 3, 400)),
    "exact digits": Case(digits, passes_within=0.1),
    "exact trained network": Case(trained_network, {"method": "exact"}),
    "exact in a basis": Case(lambda: sphere("relu", dim=260, samples=4, ratio=3), {"num_samples": 4}),
    "subspace": Case(inside_a_subspace, {"method": "subspace"}),
    "descent": Case(lambda: sphere("relu"), {"num_samples": 6, "method": "descent", "max_steps": 200}),
    "kkt": Case(small_network, {"method": "kkt", "max_steps": 100, "sample_rate": 0.02, "weight_rate": 0.01}),
    "ntk": Case(small_network, {"method": "ntk", "max_steps": 100, "precision": "float64"}),
}


def measured(case: Case) -> dict[str, Any]:
    """Numbers that describe an attack's result and barely depend on rounding."""
    victim = case.victim()
    result = exhume.reconstruct(victim.target, **{"max_passes": MOST_PASSES} | case.attack)
    judged = exhume.score(result, victim.inputs)
    rows = [match.row for match in judged.matches]  # in the order of the truth
    return {
        "verdict": result.certificate.verdict,
        "stop": result.stop.value,
        "steps": result.steps,
        "passes": round(result.passes, 2),
        "samples": len(result.samples),
        "equations": result.certificate.equations,
        "unknowns": result.certificate.unknowns,
        "signs_determined": result.signs_determined,
        "norms_determined": result.norms_determined,
        "residual": _short(result.certificate.residual),
        "error": _short(judged.error),
        "error_up_to_sign": _short(judged.error_up_to_sign),
        "predicted_error": _short(result.certificate.predicted_error),
        "labels": None if result.labels is None else _rounded(result.labels[rows].tolist()),
    }


def recorded() -> dict[str, dict[str, Any]]:
    """What golden.json holds."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.3g}")


def _rounded(values: Any) -> Any:
    return [_rounded(value) for value in values] if isinstance(values, list) else round(values, 4)


def main(names: list[str]) -> None:
    """Measures the named cases, or those that are missing, and writes the file."""
    before = recorded()
    chosen = list(CASES) if names == ["all"] else names or [name for name in CASES if name not in before]
    now = {name: measured(CASES[name]) for name in chosen}
    for name, values in now.items():
        print(name, json.dumps(values))
    kept = {name: now.get(name) or before[name] for name in CASES if name in now or name in before}
    lines = (f'  "{name}": {json.dumps(values)}' for name, values in kept.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
