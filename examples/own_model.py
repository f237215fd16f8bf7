"""Attacks a user's own model: a small conv net with GELU, BatchNorm and a head with a bias.

    python examples/own_model.py

Trains the net on six digits, then recovers them from its weights. The attack is given the trained module and the head's
initial weights, and no data.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import exhume
from exhume import data
from exhume.scoring.gallery import save_gallery


class DigitNet(nn.Module):
    """A network as a user might write it."""

    def __init__(self, width: int = 2000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(16 * 64, width),
            nn.GELU(),
        )
        self.classifier = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x))


def fit(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, step: float, steps: int) -> float:
    """Full-batch gradient descent on the square loss; the batch statistics are computed once and then frozen."""
    model.train()
    with torch.no_grad():
        for _ in range(50):
            model(images)  # computes the BatchNorm statistics of the data
    model.eval()
    optimiser = torch.optim.SGD(model.parameters(), lr=step)
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return float(loss.detach())


def main(out: Path | None = Path("own_model.png")) -> exhume.Score:
    training = data.load("digits", samples=6, labels="one-hot")
    images = training.inputs.reshape(-1, 1, 8, 8)
    torch.manual_seed(0)
    model = DigitNet()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    loss = fit(model, images, training.labels, step=0.05, steps=1000)
    print(f"trained to a loss of {loss:.1e}")

    target = exhume.Target.last_layer(
        model, head="classifier", initial_head=before, input_shape=(1, 8, 8), knowledge=exhume.Knowledge(num_samples=6)
    )
    result = exhume.reconstruct(target, method="exact")  # reads the head alone
    print(result.summary())

    score = exhume.score(result, training.inputs)
    print(score.summary())
    if out is not None and training.picture is not None:
        found = result.samples[[match.row for match in score.matches]].to(training.inputs)
        errors = [match.error for match in score.matches]
        save_gallery(out, training.inputs, found, errors, training.picture.to_pictures, title="From the weights alone")
    return score


if __name__ == "__main__":
    main()
