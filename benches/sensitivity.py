"""Every tuned number halved and doubled: what changes in recovered and certified samples and in passes.

Each number names the suite of small problems that shows its effect (`exhume.support.tuning`), or the rare case that
needs it, which no small suite shows: such numbers are listed and not measured. Finished measurements
are kept in figs/sensitivity.json, so that an interrupted run goes on where it was; delete the file to measure anew.
`EXHUME_BENCH_CASES` limits the run to numbers whose name contains one of the given words.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

import exhume
from benches import layers, records, twins
from benches.problems import FIGURES, say, side_by_side, sphere_problem, table
from benches.tuned_numbers import TunedNumber, scaled, tuned_numbers, with_number
from exhume import data
from exhume.attacks import ATTACKS, Attack
from exhume.networks import TwoLayer
from exhume.support import files
from exhume.victims import train
from exhume.victims.trained_network import target as network_target

STORE = FIGURES / "sensitivity.json"
# More than any of the problems needs with the values as they are.
CAP = 6_000
FACTORS = (0.5, 2.0)
# Passes that change by a smaller share are not shown.
_NOTABLE = 0.05
_AT_ONCE = 20  # measurements between two writes of the store
Problem = tuple[exhume.Target, torch.Tensor]  # what is attacked, and the truth


@dataclass(frozen=True)
class Outcome:
    """What a suite's attacks reached together.

    Attributes:
        recovered: samples with an error below 0.1, of all problems.
        certified: samples with an error bar below 0.1.
        wrong: certified samples whose error exceeds 0.1 and three times the bar.
        passes: feature passes in all.
    """

    recovered: int
    certified: int
    wrong: int
    passes: float


@dataclass(frozen=True)
class Case:
    """One attack of a suite: its method, and a function that makes the target and the truth."""

    method: str
    make: Callable[[], Problem]
    counted: bool = True  # whether the attack is given the number of samples
    cap: float = CAP  # passes at most


def _sphere(dim: int, samples: int, ratio: float, seed: int, **victim: Any) -> Problem:
    training, model = sphere_problem(dim, samples, ratio, seed, **victim)
    return model.target(), training.inputs


def _digits(samples: int, ratio: float, seed: int) -> Problem:
    training = data.load("digits", samples=samples)
    model = exhume.RandomFeatures(num_features=round(ratio * training.inputs.numel()), seed=seed)
    return model.fit(training.inputs, training.labels).target(), training.inputs


def _several_outputs(seed: int) -> Problem:
    training = data.load("breast-cancer", samples=8, labels="one-hot", seed=seed)
    model = exhume.RandomFeatures(num_features=round(2 * training.inputs.numel()), seed=seed)
    return model.fit(training.inputs, training.labels).target(), training.inputs


def _rounded(seed: int) -> Problem:
    target, truth = _sphere(16, 6, 6, seed)
    return exhume.Target(target.feature_map, target.displacement.half().float()), truth


def _known_but_one(seed: int) -> Problem:
    training, model = sphere_problem(30, 10, 0.25, seed)
    known = exhume.Knowledge(num_samples=10, samples=training.inputs[1:], norm=training.inputs[0].norm().item())
    return model.target(knowledge=known), training.inputs[:1]


def _network(width: int, samples: int, seed: int) -> Problem:
    """A two-layer network of which all weights were trained: its features have moved."""
    digits = data.load("digits", samples=samples, labels="one-hot")
    trained = train(TwoLayer(64, width, 10, seed=seed), digits.inputs, digits.labels, stable=True)
    return network_target(trained, knowledge=exhume.Knowledge.about(digits.labels)), digits.inputs


def _below_the_wall(seed: int) -> Problem:
    """Fewer weights in the head than unknowns; the first layer has moved within the span of the samples."""
    inputs = data.load("sphere", dim=100, samples=4, seed=seed).inputs
    trained = train(TwoLayer(100, 60, 4, seed=seed), inputs, torch.eye(4), stable=True)
    return network_target(trained, knowledge=exhume.Knowledge(label_alphabet="one-hot")), inputs


def _dense_network(width: int, samples: int, seed: int, activation: type[nn.Module] = nn.ReLU) -> Problem:
    """A network with known initial weights, trained by momentum on mini-batches of digits."""
    digits = data.load("digits", samples=samples, labels="one-hot")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(64, width), activation(), nn.Linear(width, 10))
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        optimiser = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
        for _ in range(100):
            for rows in torch.randperm(samples).split(5):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(digits.inputs[rows]), digits.labels[rows]).backward()
                optimiser.step()
    return exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(64,)), digits.inputs


def _convolutional(seed: int) -> Problem:
    """A conv net of which all weights were trained, on four pictures."""
    victim = replace(layers.GROUPS["full"], samples=4).victim(seed)
    return victim.target(4), victim.pictures.inputs


SUITES: dict[str, tuple[Case, ...]] = {
    "sphere": tuple(Case("exact", partial(_sphere, 30, 20, 2, seed)) for seed in range(3)),
    "scarce": tuple(Case("exact", partial(_sphere, 16, 6, 1.75, seed)) for seed in range(4)),
    "alike": tuple(Case("exact", partial(_digits, 12, 3, seed)) for seed in range(2)),
    "norms": tuple(Case("exact", partial(_sphere, 16, 5, 5, seed, activation="tanh")) for seed in range(2)),
    "basis": tuple(Case("exact", partial(_sphere, 400, 8, 3, seed)) for seed in range(2)),
    "outputs": tuple(Case("exact", partial(_several_outputs, seed)) for seed in range(3)),
    "network": tuple(Case("exact", partial(_network, 400, 5, seed)) for seed in range(2)),
    "rounded": tuple(Case("exact", partial(_rounded, seed)) for seed in range(3)),
    "count": tuple(Case("exact", partial(_sphere, 20, 6, 4, seed), counted=False) for seed in range(3)),
    "last": tuple(Case("exact", partial(_known_but_one, seed)) for seed in range(3)),
    "twins": tuple(Case("exact", partial(twins.victim, "cross-entropy", 0.01, 100, seed)) for seed in (0, 3)),
    "columns": tuple(Case("unmix", partial(_dense_network, 200, 12, seed), counted=False) for seed in range(2)),
    "smooth": tuple(Case("unmix", partial(_dense_network, 500, 6, seed, nn.GELU), counted=False) for seed in range(2)),
    "layers": tuple(Case("layers", partial(_convolutional, seed), cap=math.inf) for seed in range(2)),
    "records": tuple(
        Case("greedy", partial(records.sensitivity_problem, gamma, seed), cap=math.inf)
        for gamma in (0.05, 1.0)
        for seed in range(2)
    ),
    "subspace": tuple(Case("subspace", partial(_below_the_wall, seed)) for seed in range(2)),
}


@dataclass(frozen=True)
class Variation:
    """An attack's class, one number of its tuning or of the certificate's limits, and the value it gets."""

    method: str
    holder: str  # "tuning" or "limits"
    number: TunedNumber
    value: float

    def attack(self) -> Attack:
        """The attack with this one number changed: a subclass, so that its options stay as they are."""
        known = ATTACKS[self.method]
        changed = with_number(getattr(known, self.holder), self.number.path, self.value)
        return type(known.__name__, (known,), {self.holder: changed})()


def numbers() -> list[tuple[str, str, TunedNumber]]:
    """Every tuned number once, with the method that is run and the attribute that holds it."""
    found: dict[tuple[str, str], tuple[str, str, TunedNumber]] = {}
    for method, attack in ATTACKS.items():
        for holder in ("tuning", "limits"):
            for number in tuned_numbers(getattr(attack, holder)):
                used = {case.method for case in SUITES[number.evidence.suite]}
                if method in used:
                    found.setdefault((holder, number.name), (method, holder, number))
    return list(found.values())


def run_suite(name: str, change: Variation | None) -> Outcome:
    """Runs a suite's attacks, those of the changed method with the change."""
    recovered = certified = wrong = 0
    passes = 0.0
    for case in SUITES[name]:
        target, truth = case.make()
        varied = change is not None and change.method == case.method
        attack = change.attack() if change is not None and varied else ATTACKS[case.method]()
        count = len(truth) + target.knowledge.known_samples if case.counted else None
        try:
            result = attack(target, num_samples=count, max_passes=case.cap)
        except (exhume.ExhumeError, ArithmeticError, RuntimeError) as error:
            say(f"{name}: {type(error).__name__}: {error}")
            continue
        judged, bars = exhume.score(result, truth), result.certificate.predicted_errors
        recovered, passes = recovered + judged.claimed_recovered, passes + result.passes
        if result.certificate.verdict == "failed":
            continue
        certified += sum(bar < 0.1 for bar in bars)
        for match in judged.matches:
            error = match.error if judged.signs_claimed else match.error_up_to_sign
            wrong += bars[match.row] < 0.1 < error and error > 3 * bars[match.row]
    return Outcome(recovered, certified, wrong, passes)


def measure(case: tuple[str, Variation | None]) -> Outcome:
    """One measurement, for a process of its own."""
    return run_suite(*case)


def key_of(suite: str, change: Variation | None) -> str:
    """Under which name a measurement is kept."""
    if change is None:
        return suite
    return f"{suite}/{change.method}.{change.holder}.{change.number.name}={change.value:.6g}"


def cell(base: Outcome, varied: Outcome) -> str:
    """What changed, in a few words."""
    ratio = varied.passes / base.passes if base.passes else float("nan")
    parts = [
        f"{getattr(varied, name) - getattr(base, name):+d} {name}"
        for name in ("recovered", "certified", "wrong")
        if getattr(varied, name) != getattr(base, name)
    ]
    if abs(ratio - 1) > _NOTABLE:
        parts.append(f"passes x {ratio:.2f}")
    return ", ".join(parts) or "-"


def main() -> None:
    """Measures what is not yet kept, then prints one row per number."""
    words = os.environ.get("EXHUME_BENCH_CASES", "").split()
    chosen = [entry for entry in numbers() if not words or any(word in entry[2].name for word in words)]
    changes = {
        (holder, number.name): [Variation(method, holder, number, scaled(number, factor)) for factor in FACTORS]
        for method, holder, number in chosen
        if not number.evidence.rare  # its suite cannot show it
    }
    suites = sorted({number.evidence.suite for _, _, number in chosen})
    wanted: list[tuple[str, Variation | None]] = [(suite, None) for suite in suites]
    wanted += [(each.number.evidence.suite, each) for varied in changes.values() for each in varied]
    kept: dict[str, Any] = files.read_json(STORE) if STORE.exists() else {}
    todo = [case for case in wanted if key_of(*case) not in kept]
    say(f"{len(wanted)} measurements, {len(wanted) - len(todo)} kept in {STORE}")
    for start in range(0, len(todo), _AT_ONCE):
        part = todo[start : start + _AT_ONCE]
        outcomes = side_by_side(measure, part)
        kept |= {key_of(*case): asdict(outcome) for case, outcome in zip(part, outcomes, strict=True)}
        STORE.parent.mkdir(exist_ok=True)
        files.write_json(STORE, kept)
        say(f"{start + len(part)} of {len(todo)} measured")
    rows, flat = [], []
    for method, holder, number in chosen:
        suite = number.evidence.suite
        base, name = Outcome(**kept[key_of(suite, None)]), f"{method}.{holder}.{number.name}"
        cells = ["not measured"] * len(FACTORS)
        if (holder, number.name) in changes:
            cells = [cell(base, Outcome(**kept[key_of(suite, each)])) for each in changes[holder, number.name]]
            flat += [name] if set(cells) == {"-"} else []
        rows.append((name, f"{number.value:g}", number.evidence.unit, suite, *cells, number.evidence.rare))
    table(("number", "value", "unit", "suite", "half", "double", "rare case that needs it"), rows)
    print(f"\n{len(flat)} of {len(rows)} numbers change nothing on their suite and name no rare case.")
    for name in flat:
        print(f"- {name}")


if __name__ == "__main__":
    main()
