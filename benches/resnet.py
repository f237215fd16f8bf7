"""SimuDy's ResNet-18, pre-trained on some CIFAR-10 images and fine-tuned on others: `layers` by feature spans.

The victim is fine-tuned as in SimuDy (Tian et al., ICLR 2025): one or two images of every class, normalised per
channel, 20 full-batch steps of SGD with a rate of 0.01, BatchNorm in eval mode. The score is theirs too: SSIM on
normalised pictures, averaged over greedy one-to-one pairs; a picture without a row counts 0. EXHUME_DATA needs the
first 800 images of CIFAR-10. EXHUME_BENCH_STORE is the folder of pre-trained networks and finished cases, by default
runs/resnet; EXHUME_BENCH_CASES selects cases by their names, EXHUME_BENCH_SECONDS limits each attack. EXHUME_RECORD=1
draws the gallery of the documentation.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy.ndimage import uniform_filter
from torch import Tensor
from torch.nn import functional

import exhume
from benches.pictures import SIMUDY_CHANNELS, _pool
from benches.problems import say, table
from exhume.data import PictureFormat
from exhume.networks import ResNet18

STORE, IN_DOCS = Path("runs/resnet"), Path("docs/images/resnet_gallery.png")
SHAPE, CLASSES = (3, 32, 32), 10
HELD_OUT = 16  # images of each class that no network is pre-trained on: victims train on two of them
EPOCHS = {32: 8, 64: 14}
COLUMNS = (
    "case",
    "width",
    "n",
    "pictures",
    "public prior",
    "found",
    "SSIM",
    "SSIM of found",
    "uncovered",
    "passes",
    "seconds",
)


@dataclass(frozen=True)
class Case:
    """A fine-tuned network and an attack."""

    width: int = 64
    per_class: int = 1
    pictures: int = 0  # which images of each class; 0 is what SimuDy takes
    public: bool = True

    @property
    def name(self) -> str:
        """Such as w64-n10-0-public."""
        prior = "public" if self.public else "smooth"
        return f"w{self.width}-n{CLASSES * self.per_class}-{self.pictures}-{prior}"


CASES = [
    Case(64, per_class, pictures, public) for per_class in (1, 2) for public in (True, False) for pictures in (1, 2)
]
CASES += [Case(32, 1, pictures, public) for public in (True, False) for pictures in (1, 2, 3)]
CASES += [Case(64, per_class) for per_class in (1, 2)]  # the pictures of SimuDy, on which numbers were tuned
RECORDED = CASES[0]


def images() -> Tensor:
    """Normalised pictures (classes, 80, d), in file order."""
    pixels = _pool("cifar10", CLASSES)
    picture = PictureFormat(SHAPE, *SIMUDY_CHANNELS)
    return picture.to_vectors(pixels.flatten(0, 1)).reshape(CLASSES, -1, math.prod(SHAPE))


def pretrained(width: int, folder: Path) -> ResNet18:
    """Trained on all images of a class but the first 16, with BatchNorm in train mode; read if it is in the folder."""
    network, path = ResNet18(SHAPE, width, CLASSES, seed=0), folder / f"resnet18_{width}.safetensors"
    if path.exists():
        network.load_state_dict(load_file(path))
        return network.eval()
    inputs = images()[:, HELD_OUT:].flatten(0, 1).reshape(-1, *SHAPE)
    labels = torch.arange(CLASSES).repeat_interleave(len(inputs) // CLASSES)
    generator = torch.Generator().manual_seed(1)
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps = EPOCHS[width] * math.ceil(len(inputs) / 40)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    network.train()
    for _ in range(EPOCHS[width]):
        for rows in torch.randperm(len(inputs), generator=generator).split(40):
            flipped = torch.rand(len(rows), generator=generator) < 0.5
            batch = torch.where(flipped[:, None, None, None], inputs[rows].flip(3), inputs[rows])
            optimiser.zero_grad()
            functional.cross_entropy(network(batch), labels[rows]).backward()
            optimiser.step()
            schedule.step()
    save_file({name: each.contiguous() for name, each in network.state_dict().items()}, path)
    return network.eval()


def accuracy(network: ResNet18) -> float:
    """On the images that it was not trained on."""
    with torch.no_grad():
        found = network(images()[:, :HELD_OUT].flatten(0, 1)).argmax(1)
    return float((found == torch.arange(CLASSES).repeat_interleave(HELD_OUT)).float().mean())


def greedy_pairs(truth: Tensor, rows: Tensor) -> dict[int, tuple[int, float]]:
    """For true pictures the row that they are paired with, most similar pairs first, and its SSIM."""
    values = np.array(
        [[similarity(one.reshape(SHAPE).numpy(), other.reshape(SHAPE).numpy()) for other in rows] for one in truth]
    )
    pairs = {}
    for _ in range(min(values.shape)):
        picture, row = (int(at) for at in np.unravel_index(values.argmax(), values.shape))
        pairs[picture] = row, float(values[picture, row])
        values[picture], values[:, row] = -np.inf, -np.inf
    return pairs


def similarity(truth: np.ndarray, row: np.ndarray) -> float:
    """SSIM as scikit-image computes it: a uniform window of 7, sample covariances, the range of the true picture."""
    one, other = truth.astype(np.float64), row.astype(np.float64)
    unbiased, data_range = 49 / 48, one.max() - one.min()

    def mean(values: np.ndarray) -> np.ndarray:
        return np.stack([uniform_filter(channel, 7) for channel in values])

    means = mean(one), mean(other)
    variances = [unbiased * (mean(each * each) - at * at) for each, at in zip((one, other), means, strict=True)]
    covariance = unbiased * (mean(one * other) - means[0] * means[1])
    small = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    above = (2 * means[0] * means[1] + small[0]) * (2 * covariance + small[1])
    below = (means[0] ** 2 + means[1] ** 2 + small[0]) * (variances[0] + variances[1] + small[1])
    return float((above / below)[:, 3:-3, 3:-3].mean())


def measure(case: Case, folder: Path, seconds: float) -> dict[str, object]:
    """Fine-tunes the victim, attacks it and compares with the truth."""
    network = pretrained(case.width, folder)
    say(f"{case.name}: pre-trained network, accuracy {accuracy(network):.2f} on other images")
    first = 2 * case.pictures
    truth = images()[:, first : first + case.per_class].flatten(0, 1)
    labels = torch.arange(CLASSES).repeat_interleave(case.per_class)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    optimiser = torch.optim.SGD(network.parameters(), 0.01)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = functional.cross_entropy(network(truth), labels)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    public = images()[:, HELD_OUT:].flatten(0, 1) if case.public else None
    knowledge = exhume.Knowledge(num_samples=len(truth), public=public)
    target = exhume.Target.network(network, initial=before, input_shape=SHAPE, knowledge=knowledge)
    result = exhume.Layers()(target, seed=case.pictures, max_seconds=seconds)
    pairs = greedy_pairs(truth, result.samples)
    score = sum(ssim for _, ssim in pairs.values()) / len(truth)
    save_file({"truth": truth.contiguous(), "rows": result.samples.contiguous()}, folder / f"{case.name}.safetensors")
    found = {
        "ssim": score,
        "found": result.evidence["found"],
        "uncovered": result.evidence["uncovered"],
        "passes": result.passes,
    }
    return found | {"seconds": result.seconds, "loss": [losses[0], losses[-1]], "stop": result.stop.value}


def draw_gallery(case: Case, folder: Path) -> None:
    """Training pictures of a finished case, and below each the row that it is paired with."""
    stored = load_file(folder / f"{case.name}.safetensors")
    truth, rows = (stored[name].reshape(-1, *SHAPE) for name in ("truth", "rows"))
    pairs = greedy_pairs(truth, rows)
    mean, deviation = (torch.tensor(each)[:, None, None] for each in SIMUDY_CHANNELS)
    figure, axes = plt.subplots(2, len(truth), figsize=(0.8 * len(truth), 1.8), squeeze=False)
    for place, picture in enumerate(truth):
        shown = picture, rows[pairs[place][0]] if place in pairs else None
        for axis, each in zip(axes[:, place], shown, strict=True):
            axis.set_axis_off()
            if each is not None:
                axis.imshow((each * deviation + mean).clamp(0, 1).permute(1, 2, 0))
        axes[1][place].set_title(f"{pairs[place][1]:.2f}" if place in pairs else "none", fontsize=8)
    figure.savefig(IN_DOCS, dpi=110, bbox_inches="tight")
    print(f"gallery: {IN_DOCS}", flush=True)


def main() -> None:
    folder = Path(os.environ.get("EXHUME_BENCH_STORE", STORE))
    folder.mkdir(parents=True, exist_ok=True)
    chosen = os.environ.get("EXHUME_BENCH_CASES", "").replace(",", " ").split()
    seconds, rows = float(os.environ.get("EXHUME_BENCH_SECONDS", "3600")), []
    for case in (case for case in CASES if not chosen or case.name in chosen):
        path = folder / f"{case.name}.json"
        if not path.exists():
            path.write_text(json.dumps(measure(case, folder, seconds)), encoding="utf-8")
        found = json.loads(path.read_text(encoding="utf-8"))
        count = CLASSES * case.per_class
        of_found = found["ssim"] * count / max(found["found"], 1)
        numbers = f"{found['ssim']:.3f}", f"{of_found:.3f}", f"{found['uncovered']:.2f}", f"{found['passes']:,.0f}"
        setting = case.name, case.width, count, case.pictures, "yes" if case.public else "no"
        rows.append((*setting, f"{found['found']} of {count}", *numbers, f"{found['seconds']:.0f}"))
        say(" ".join(map(str, rows[-1])))
        if case == RECORDED and os.environ.get("EXHUME_RECORD") == "1":
            draw_gallery(case, folder)
    table(COLUMNS, rows)
