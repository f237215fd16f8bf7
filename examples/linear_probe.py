"""Recovers the training set of a linear probe on a frozen backbone exactly.

    python examples/linear_probe.py

Only the probe is trained, from zero, on fixed features. Its weights are therefore in the span of the training
features up to rounding, whatever the loss. Here the loss is cross-entropy with ten outputs, minimised by a few hundred
steps of gradient descent.
"""

from __future__ import annotations

import torch
from torch import nn

import exhume
from exhume import data


def backbone() -> nn.Module:
    """A stand-in for pretrained features; here they are random."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.SiLU(), nn.Conv2d(24, 16, 3), nn.SiLU(), nn.Flatten()
    ).eval()


def main() -> exhume.Score:
    training = data.load("digits", samples=10, labels="one-hot")
    body = backbone().requires_grad_(False)
    features = body(training.inputs.reshape(-1, 1, 8, 8))
    probe = nn.Linear(features.shape[1], 10)
    nn.init.zeros_(probe.weight)
    nn.init.zeros_(probe.bias)
    optimiser = torch.optim.SGD(probe.parameters(), lr=0.05, momentum=0.9)
    for _ in range(300):
        loss = nn.functional.cross_entropy(probe(features), training.labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"trained to a loss of {float(loss.detach()):.1e}")

    model = nn.Sequential(body, probe).eval()
    target = exhume.Target.last_layer(
        model,
        initial_head="zero",
        initial_bias="zero",
        input_shape=(1, 8, 8),
        knowledge=exhume.Knowledge(num_samples=10),
    )
    result = exhume.reconstruct(target)
    print(result.summary())
    score = exhume.score(result, training.inputs)
    print(score.summary())
    return score


if __name__ == "__main__":
    main()
