"""Small sets of pictures for ordinary networks: grey ones of any size, and CIFAR-10 as SimuDy does (EXHUME_DATA)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from exhume import data
from exhume.data import PictureFormat

# Pictures of each class that seeds draw from: the first in file order, so that a part of the data set is enough.
POOL = {"cifar10": 80, "digits": 80, "tiny-imagenet": 24}
# The paper's two classes of Tiny-ImageNet.
TINY_CLASSES = (2, 116)
# SimuDy's normalisation of each channel of CIFAR-10.
SIMUDY_CHANNELS = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))


@dataclass(frozen=True)
class Pictures:
    """Training inputs (n, d), class indices (n,), how rows are pictures, and inputs that are not trained on."""

    inputs: Tensor
    labels: Tensor
    picture: PictureFormat
    others: Tensor
    other_labels: Tensor


def sources(num_outputs: int) -> tuple[str, ...]:
    """The data sets with enough classes, for seeds to take in turn."""
    return ("cifar10", "digits") if num_outputs > 2 else ("cifar10", "digits", "tiny-imagenet")


def draw(source: str, size: int, classes: int, samples: int, seed: int, standardise: str = "subset") -> Pictures:
    """Grey pictures of size x size, classes as balanced as n allows; by default with mean 0 and deviation 1."""
    per_class = -(-samples // classes)
    pixels, labels = _chosen(source, classes, 2 * per_class, seed)  # (2 per_class, classes, C, H, W): classes in turn
    grey = pixels.flatten(0, 1).mean(1, keepdim=True)
    if grey.shape[-1] != size:
        shrinks = size < grey.shape[-1]
        grey = functional.interpolate(grey, (size, size), mode="bilinear", antialias=shrinks, align_corners=False)
    labels = labels.flatten()
    inputs, picture = data.standardise(grey[:samples], standardise)
    return Pictures(inputs, labels[:samples], picture, picture.to_vectors(grey[-samples:]), labels[-samples:])


def draw_simudy(per_class: int, seed: int) -> Pictures:
    """Colour pictures of CIFAR-10's ten classes, normalised as SimuDy does; seed 0 takes the first of each class."""
    pixels, labels = _chosen("cifar10", 10, per_class, seed)
    picture = PictureFormat((3, 32, 32), *SIMUDY_CHANNELS)
    inputs, labels = picture.to_vectors(pixels.flatten(0, 1)), labels.flatten()
    return Pictures(inputs, labels, picture, inputs[:0], labels[:0])


def _chosen(source: str, classes: int, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (per_class, classes, C, H, W) and labels (per_class, classes); seed 0 takes the first of each class."""
    pool = _pool(source, classes)  # (classes, pool, C, H, W)
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(pool.shape[1], generator=generator) for _ in range(classes)]
    rows = [torch.arange(per_class) if seed == 0 else order[:per_class] for order in orders]
    pixels = torch.stack([each[row] for each, row in zip(pool, rows, strict=True)], 1)
    return pixels, torch.arange(classes).expand(per_class, classes)


@lru_cache(maxsize=4)
def _pool(source: str, classes: int) -> Tensor:
    """Pixels in [0, 1] of the first classes of a data set, (classes, POOL, C, H, W)."""
    count = POOL[source]
    chosen = TINY_CLASSES if source == "tiny-imagenet" else tuple(range(classes))
    if source == "digits":
        loaded = data.load(source, samples=count * classes, classes=chosen, standardise="none")
    else:
        loaded = data.load(source, per_class=count, classes=chosen, standardise="none")
    assert loaded.picture is not None
    return loaded.inputs.reshape(classes, count, *loaded.picture.shape)
