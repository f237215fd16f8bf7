"""Outcome and exit code of audits: what was found, what was missed, what was not tested, with and without the truth."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import exhume
from benches.problems import table
from exhume import data
from exhume.auditing import Audit
from exhume.auditing.exit_code import exit_code
from exhume.scoring.outcome import Outcome

DIM, SAMPLES, CLASSES = 64, 6, 3
# Feature passes of an attack that is meant to succeed, and of one that is meant not to.
ENOUGH, TOO_FEW = 3000.0, 8.0


@dataclass(frozen=True)
class Case:
    """An audit.

    Attributes:
        name: what is the matter with the model, or with what was given.
        model: makes the trained model and what is known of its start.
        expected: the outcomes with the truth and without it.
        settings: of the audit.
        wrong_truth: whether other images are given as the truth.
        cheap: whether a test runs it.
    """

    name: str
    model: Callable[[], tuple[nn.Module, Any]]
    expected: tuple[Outcome, Outcome]
    settings: dict[str, Any]
    wrong_truth: bool = False
    cheap: bool = True


def images() -> torch.Tensor:
    """Digits: the first are trained on, others are held out, others never shown to anybody."""
    return data.load("digits", samples=200).inputs


def labels() -> torch.Tensor:
    return torch.arange(SAMPLES) % CLASSES


def probe(width: int, *, body_given: bool = False) -> tuple[nn.Module, Any]:
    """A frozen random body, its start given or not, and a head that was fitted in closed form; only the head moved."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(DIM, width, bias=False), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(width, 1, bias=False)).eval()
    targets = torch.randn(SAMPLES, 1, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        model[1].weight.copy_((torch.linalg.pinv(body(images()[:SAMPLES])) @ targets).T)
    body.requires_grad_(False)
    start = {"0.0.weight": body[0].weight.detach().clone(), "1.weight": torch.zeros_like(model[1].weight)}
    return model, start if body_given else "zero"


def network(
    width: int = 200, *, optimiser: str = "sgd", steps: int = 200, other_start: bool = False, scale: float = 1.0
) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A dense network trained by SGD or Adam from known initial weights, or from others than are given."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, width), nn.ReLU(), nn.Linear(width, CLASSES))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    inputs, classes = images()[:SAMPLES], labels()
    moves = (
        torch.optim.Adam(model.parameters(), 1e-2) if optimiser == "adam" else torch.optim.SGD(model.parameters(), 0.05)
    )
    for _ in range(steps):
        moves.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        moves.step()
    if other_start:
        torch.manual_seed(1)
        before = {
            name: weight.clone()
            for name, weight in nn.Sequential(*(type_of(each) for each in model)).state_dict().items()
        }
    with torch.no_grad():
        model[2].weight.mul_(scale)
    return model.eval(), before


def type_of(layer: nn.Module) -> nn.Module:
    """A layer of the same sizes with new weights."""
    return nn.Linear(layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else nn.ReLU()


def head_alone(width: int) -> tuple[nn.Module, str]:
    """A whole network that was trained, of which only the head's start is known to be zero."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, width), nn.ReLU(), nn.Linear(width, 1, bias=False))
    nn.init.zeros_(model[2].weight)
    inputs, targets = images()[:SAMPLES], labels().float()[:, None] - 1
    moves = torch.optim.SGD(model.parameters(), 0.02)
    for _ in range(200):
        moves.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        moves.step()
    return model.eval(), "zero"


R, N, U, G = Outcome.RECOVERED, Outcome.NOT_RECOVERED, Outcome.INCONCLUSIVE, Outcome.NOT_RECOVERABLE
CASES = (
    Case("recovered from the head", lambda: probe(1200), (R, R), {"budget_passes": ENOUGH}, cheap=False),
    Case("recovered from the first layer", network, (R, R), {"budget_passes": ENOUGH}),
    Case("premise holds, budget spent", lambda: probe(1200), (N, U), {"budget_passes": TOO_FEW}),
    Case(
        "premise holds, search fails",
        lambda: probe(1200),
        (N, U),
        {"method": "descent", "budget_passes": 50.0},
        cheap=False,
    ),
    Case(
        "premise broken (Adam)", lambda: network(optimiser="adam"), (U, U), {"method": "exact", "budget_passes": 300.0}
    ),
    Case("not run (method does not apply)", lambda: probe(1200), (N, U), {"method": "unmix"}),
    Case("diverged", lambda: network(scale=1e25), (N, U), {"method": "exact", "budget_passes": 300.0}),
    Case(
        "wrong n (two too few)",
        lambda: probe(1200),
        (R, U),
        {"num_samples": SAMPLES - 2, "budget_passes": 600.0},
        cheap=False,
    ),
    Case("wrong truth", lambda: probe(1200), (R, R), {"budget_passes": ENOUGH}, wrong_truth=True, cheap=False),
    Case("wrong truth, budget spent", lambda: probe(1200), (U, U), {"budget_passes": TOO_FEW}, wrong_truth=True),
    Case("wrong initial weights", lambda: network(other_start=True), (U, U), {"budget_passes": 300.0}, cheap=False),
    Case("below the wall, other layers published", lambda: head_alone(40), (N, U), {}),
    Case("fewer equations, nothing else published", lambda: probe(300, body_given=True), (G, U), {}),
    Case("the same, body only marked as frozen", lambda: probe(300), (U, U), {}),
    Case("fewer equations than one sample asks", lambda: probe(100, body_given=True), (G, G), {}),
    Case("all layers together hold too little", lambda: head_alone(4), (G, U), {}),
)


def run(case: Case, with_truth: bool) -> Audit:
    """Audits one case; held-out images are given with the truth."""
    model, initial = case.model()
    rows = images()
    own = rows[SAMPLES : 2 * SAMPLES] if case.wrong_truth else rows[:SAMPLES]
    given = {"truth": own, "held_out": rows[60:160]} if with_truth else {"num_samples": SAMPLES}
    settings = given | {"budget_seconds": 60.0} | case.settings
    return exhume.audit(model, initial=initial, input_shape=(DIM,), name=case.name, **settings)


def codes(audited: Audit, with_truth: bool) -> tuple[int, int]:
    """Exit codes without a threshold, and with recovered=1 (with the truth) or certain=1."""
    value = audited.measured["recovered" if with_truth else "certain"]
    reached = None if value is None else value >= 1
    return exit_code(audited.outcome, []), exit_code(audited.outcome, [reached])


def main() -> None:
    rows, green = [], 0
    for case in CASES:
        for with_truth, expected in zip((True, False), case.expected, strict=True):
            audited = run(case, with_truth)
            level = audited.report.verdict.level.value
            tested = audited.count is not None and audited.count.shows_too_few
            green += level == "out-of-reach" and not tested
            best = None if audited.premise is None else audited.premise.best
            premise = "-" if best is None else f"{best.truth:.2g} / {best.others:.2g}"
            shown = (case.name, "yes" if with_truth else "no", premise, audited.outcome.value, level)
            rows.append(
                (
                    *shown,
                    *codes(audited, with_truth),
                    "" if audited.outcome is expected else f"expected {expected.value}",
                )
            )
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    header = ("audit", "truth", "left by truth / others", "outcome", "level", "exit", "exit with threshold", "")
    table(header, rows)
    print(f"{len(rows)} audits; green without a count that says so: {green}")


if __name__ == "__main__":
    main()
