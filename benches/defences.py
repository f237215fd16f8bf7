"""Measured defences: what exact recovers from altered copies of two small models, and how much accuracy each costs."""

import sys
from dataclasses import dataclass

import torch
from torch import nn

import exhume
from benches.problems import side_by_side
from exhume import data
from exhume.attacks import build
from exhume.defences import Outcome, Release, measure, table, where_recovery_ends
from exhume.target.knowledge import Knowledge

HELD_OUT, MAX_PASSES = 100, 6_000
STEPS, STEP_SIZE = 500, 0.1


@dataclass(frozen=True)
class Case:
    """A victim to defend."""

    title: str
    samples: int


FEATURES = Case("random features, digits 3 and 8, d=64, n=10, p=5dn=3200, square loss", 10)
PROBE = Case("conv net with a linear probe, ten digits, d=64, n=6, 513 features x 10 outputs, softmax", 6)


def digits(case: Case, **options: object) -> data.Dataset:
    """Training digits, and as non-members the same digits from later in the file, shuffled with a seed."""
    everything = data.load("digits", samples=case.samples + HELD_OUT, **options)
    order = torch.randperm(case.samples + HELD_OUT, generator=torch.Generator().manual_seed(0))
    inputs, labels = everything.inputs[order].float(), everything.labels[order].float()
    count = case.samples
    return data.Dataset.of(inputs[:count], labels[:count], inputs[count:], labels[count:])


def random_features() -> Release:
    chosen = digits(FEATURES, classes=[3, 8])
    victim = exhume.RandomFeatures(num_features=5 * chosen.inputs.numel(), seed=0).fit(chosen.inputs, chosen.labels)
    return Release(victim.target(knowledge=Knowledge.about(chosen.labels)), chosen)


def linear_probe() -> Release:
    chosen = digits(PROBE, labels="one-hot")
    inputs, labels = chosen.inputs, chosen.labels
    torch.manual_seed(0)
    body = (nn.Conv2d(1, 16, 3), nn.GELU(), nn.Conv2d(16, 32, 3), nn.GELU(), nn.Flatten())
    net = nn.Sequential(*body, nn.Linear(512, 10))
    initial = {name: weight.clone() for name, weight in net.state_dict().items()}
    net[:-1].requires_grad_(False)
    optimiser = torch.optim.SGD(net[-1].parameters(), lr=STEP_SIZE, momentum=0.9)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs.reshape(-1, 1, 8, 8)), labels).backward()
        optimiser.step()
    knowledge = Knowledge(num_samples=len(inputs))
    target = exhume.Target.last_layer(net.eval(), "5", initial_head=initial, input_shape=(1, 8, 8), knowledge=knowledge)
    return Release(target, chosen)


def run(case: Case) -> list[Outcome]:
    release = random_features() if case == FEATURES else linear_probe()

    def say(outcome: Outcome) -> None:
        print(f"{case.title.split(',')[0]}: {outcome.defence} {outcome.setting}", file=sys.stderr, flush=True)

    return measure(release, build("exact"), max_passes=MAX_PASSES, progress=say)


def main() -> None:
    cases = (FEATURES, PROBE)
    for case, outcomes in zip(cases, side_by_side(run, cases), strict=True):
        seconds = sum(outcome.seconds for outcome in outcomes)
        print(f"\n### {case.title}\n\nexact, at most {MAX_PASSES} passes each; {seconds:.0f} s in all\n")
        print(table(outcomes), "", *where_recovery_ends(outcomes).values(), sep="\n", flush=True)
