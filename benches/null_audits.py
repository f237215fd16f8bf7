"""Scores against images that a model never saw (at most 2 % may be called recovered or recognised), and power."""

import sys
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

import exhume
from benches.problems import side_by_side, table
from exhume import data
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import score
from exhume.scoring.findings import Findings, findings_of

DIM, SAMPLES, MODELS = 64, 10, 10
# Sets of images that were never seen, scored against each model: 200 audits in all.
NULL_SETS = 20
HELD_OUT = (0, 20, 60, 300)
# Numbers of a head per number in its training data, and passes: from nothing to everything comes back.
RATIOS, PASSES = (1.0, 1.2, 1.6, 2.0, 2.5), (150.0, 100.0, 200.0, 300.0, 800.0)


@dataclass(frozen=True)
class Victim:
    """One attacked model: what came back, and the images by their part in the audit."""

    result: Reconstruction
    members: torch.Tensor
    held_out: torch.Tensor
    never_seen: torch.Tensor


def victim(place: int) -> Victim:
    """A head on random features, or a network trained by SGD, whose attack got more or less far."""
    drawn = data.load("digits", samples=1700).inputs
    drawn = drawn[torch.randperm(len(drawn), generator=torch.Generator().manual_seed(place))]
    members, others = drawn[:SAMPLES], drawn[SAMPLES:]
    ratio, passes = RATIOS[place // 2 % len(RATIOS)], PASSES[place // 2 % len(PASSES)]
    target = network(members, place) if place % 2 else head(members, ratio, place)
    settings = {"max_passes": passes, "allow_underdetermined": True}
    result = exhume.reconstruct(target, SAMPLES, method="exact", seed=place, **settings)
    return Victim(result, members, others[: HELD_OUT[-1]], others[HELD_OUT[-1] :])


def head(members: torch.Tensor, ratio: float, seed: int) -> exhume.Target:
    """Random features with so many weights per number in the data."""
    values = torch.randn(SAMPLES, generator=torch.Generator().manual_seed(seed))
    width = int(ratio * DIM * SAMPLES)
    return exhume.RandomFeatures(num_features=width, activation="gelu", seed=seed).fit(members, values).target()


def network(members: torch.Tensor, seed: int) -> exhume.Target:
    """A convolutional network whose features drifted in training."""
    torch.manual_seed(seed)
    parts = (nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1536, 3))
    model = nn.Sequential(*parts)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    classes, moves = torch.arange(SAMPLES) % 3, torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(100):
        moves.zero_grad()
        nn.functional.cross_entropy(model(members), classes).backward()
        moves.step()
    return exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(DIM,))


def found(attacked: Victim, truth: torch.Tensor, held_out: int) -> Findings:
    """What a score says against some images, with so many held-out ones."""
    others = attacked.held_out[:held_out] if held_out else None
    return findings_of(attacked.result, score(attacked.result, truth, non_members=others))


def run(place: int) -> tuple[int, float, list[Findings], list[Findings]]:
    """Null scores of one model (held-out images of every number in turn), and its own images with each number."""
    attacked = victim(place)
    unseen = attacked.never_seen[: NULL_SETS * SAMPLES].reshape(NULL_SETS, SAMPLES, -1)
    null = [found(attacked, each, HELD_OUT[1 + index % 3]) for index, each in enumerate(unseen)]
    power = [found(attacked, attacked.members, count) for count in HELD_OUT]
    error = score(attacked.result, attacked.members).claimed_error
    print(
        place, f"error {error:.2g}", [(each.recovered, each.recognised) for each in power], file=sys.stderr, flush=True
    )
    return place, error, null, power


def called(findings: Findings) -> bool:
    """Whether a score calls a sample recovered or recognised."""
    return findings.recovered > 0 or findings.recognised > 0


def main() -> None:
    rows = side_by_side(run, list(range(MODELS)))
    null = [each for _, _, scores, _ in rows for each in scores]
    print(f"images never seen: {sum(map(called, null))} of {len(null)} audits called recovered or recognised")
    lines = []
    for index, count in enumerate(HELD_OUT):
        power = [each[index] for _, _, _, each in rows]
        samples = sum(max(each.recovered, each.recognised) for each in power)
        lines.append(
            (count, f"{sum(map(called, power))} of {len(power)}", samples, sum(each.recovered for each in power))
        )
    table(("held-out images", "audits with a finding", "samples found", "of these recovered"), lines)
    lost = [
        place
        for place, _, _, power in rows
        if any(called(before) and not called(after) for before, after in pairwise(power))
    ]
    print(f"models whose finding was lost with more held-out images: {lost or 'none'}")


if __name__ == "__main__":
    main()
