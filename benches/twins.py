"""Similar samples: conv nets trained on 12 digits, among them two pairs of the same class; seeds 3 to 6."""

import sys

import torch
from torch import nn

import exhume
from benches.problems import side_by_side, table
from exhume import data

SAMPLES, SEEDS = 12, range(3, 7)
# Loss, step size and number of steps of full-batch gradient descent.
TRAININGS = (
    ("square", 0.05, 500),
    ("cross-entropy", 0.01, 50),
    ("cross-entropy", 0.01, 100),
    ("cross-entropy", 0.005, 300),
)


def network(seed: int) -> nn.Module:
    """The tutorial's network: one convolution, ReLU, a head with a bias."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10))


def victim(loss: str, rate: float, steps: int, seed: int) -> tuple[exhume.Target, torch.Tensor]:
    """A trained network, its initial weights known, and its training inputs."""
    digits = data.load("digits", samples=SAMPLES, labels="one-hot")
    images, model = digits.inputs.reshape(-1, 1, 8, 8), network(seed)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    measure = nn.functional.mse_loss if loss == "square" else nn.functional.cross_entropy
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        value = measure(model(images), digits.labels)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    known = exhume.Knowledge(num_samples=SAMPLES)
    target = exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(1, 8, 8), knowledge=known)
    return target, digits.inputs


def run(case: tuple[tuple[str, float, int], int]) -> tuple[str, int, str, int, int, int, float, float]:
    """Trains, attacks, and counts certified samples with an error above 0.1."""
    (loss, rate, steps), seed = case
    target, truth = victim(loss, rate, steps, seed)
    result = exhume.reconstruct(target, max_passes=6000, method="exact")
    judged = exhume.score(result, truth)
    bars = result.certificate.predicted_errors or (float("inf"),) * SAMPLES
    certified = [(match.error, bars[match.row]) for match in judged.matches if bars[match.row] < 0.1]
    wrong = sum(error > 0.1 for error, _ in certified)
    worst = max((error / bar for error, bar in certified), default=0.0)
    print(f"{loss} {rate} x {steps}, seed {seed}: {judged.recovered} of {SAMPLES}", file=sys.stderr, flush=True)
    verdict = result.certificate.verdict
    return f"{loss}, {steps} x {rate}", seed, verdict, judged.recovered, len(certified), wrong, worst, result.passes


def main() -> None:
    cases = [(training, seed) for training in TRAININGS for seed in SEEDS]
    rows = side_by_side(run, cases)
    header = ("training", "seed", "verdict", "recovered", "certified", "wrongly", "worst error / bar", "passes")
    table(header, [(*row[:6], f"{row[6]:.2g}", f"{row[7]:,.0f}") for row in rows])


if __name__ == "__main__":
    main()
