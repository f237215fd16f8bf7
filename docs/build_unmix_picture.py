"""Draws docs/images/unmix.png: the matrix C of a small network, and the digits that its columns give back.

python docs/build_unmix_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import nn

import exhume
from exhume import data

WIDTH, SAMPLES = 120, 10
PICTURE = Path(__file__).resolve().parent / "images" / "unmix.png"


def main() -> None:
    """Trains, attacks and draws."""
    digits = data.load("digits", samples=SAMPLES, labels="one-hot")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    for _ in range(60):
        for rows in torch.randperm(SAMPLES).split(5):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(digits.inputs[rows]), digits.labels[rows]).backward()
            optimiser.step()
    target = exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(64,))
    result = exhume.reconstruct(target, method="unmix")
    found = result.samples.double()
    moved = target.known_model.displacement("0.weight").double()  # (h, d)
    columns = moved @ torch.linalg.pinv(found)  # C: (h, n)
    sizes = columns.abs() / columns.abs().amax(0)
    shown = torch.where(sizes < 1e-4, torch.nan, sizes)[sizes.sum(1).argsort(descending=True)]

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4.2), width_ratios=(1.2, 1), layout="constrained")
    left.imshow(shown, aspect="auto", cmap="viridis", interpolation="nearest")
    left.set(xlabel="training sample", ylabel="neuron of the first layer", xticks=range(SAMPLES))
    zeros = float((sizes < 1e-4).double().mean())
    left.set_title(f"C: how far each sample moved each neuron\n(white: exactly zero, {zeros:.0%} of the entries)")
    assert digits.picture is not None
    pictures = digits.picture.to_pictures(result.samples)[:, 0]
    right.imshow(torch.cat([torch.cat(list(row), 1) for row in pictures.reshape(2, 5, 8, 8)], 0), cmap="gray")
    right.set(xticks=[], yticks=[])
    worst = max(match.error for match in exhume.score(result, digits.inputs).matches)
    right.set_title(f"The inputs that belong to its columns\n(largest relative error {worst:.0e})")
    figure.savefig(PICTURE, dpi=110)
    print(result.summary(), PICTURE.name, sep="\n")


if __name__ == "__main__":
    main()
