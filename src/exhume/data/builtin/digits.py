"""The 8x8 digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits as read_digits

from exhume.data.classes import Classes, class_targets, describe_targets, resolve_classes, split_per_class
from exhume.data.dataset import Dataset, Selection, picture_dataset
from exhume.data.registry import SHIPPED, data_set
from exhume.errors import InputError
from exhume.support.validation import one_of, whole_number

LABELS = ("sign", "one-hot")
_NAMES = tuple("0123456789")
# scikit-learn's digits count ink in steps 0 to 16.
_LARGEST_VALUE = 16


@data_set("digits", "1,797 handwritten digits of 8x8 pixels", SHIPPED)
def load_digits(
    samples: int = 20,
    classes: Classes | None = None,
    labels: str = "sign",
    standardise: str = "subset",
    norm: str = "keep",
) -> Dataset:
    """Selects 8x8 digits, pixels in [0, 1], d = 64.

    Args:
        samples: n.
        classes: None takes the first n digits in file order; otherwise n / len(classes) of each, class after class.
        labels: "sign" is -1 for the first and +1 for the second of two chosen classes, else the parity (even -1, odd
            +1); "one-hot" has ten columns, the 1 at the digit.
        standardise: "subset" or "none".
        norm: "keep", or "sphere" for rows of norm sqrt(d).
    """
    whole_number("samples", samples)
    one_of("labels", labels, LABELS)
    pixels, digits = _read()
    if classes is None:
        if samples > len(digits):
            raise InputError(f"samples: wanted {samples}, available {len(digits)} digits")
        chosen = list(range(10))
        rows, others = np.arange(samples), np.arange(samples, min(2 * samples, len(digits)))
        words = f"The first {samples} digits of scikit-learn's load_digits in file order"
    else:
        chosen = resolve_classes(classes, _NAMES)
        rows, others = _balanced(digits, chosen, samples)
        words = (
            f"The first {samples // len(chosen)} of each digit {chosen} of scikit-learn's load_digits, in that order"
        )
    targets, label_words = _targets(digits[rows], chosen, labels)
    selection = Selection("digits", pixels[rows], pixels[others], targets, f"{words}, {label_words}")
    return picture_dataset(selection, standardise, norm)


def _read() -> tuple[torch.Tensor, np.ndarray]:
    bunch = read_digits()
    pixels = torch.from_numpy(bunch.images).to(torch.float32) / _LARGEST_VALUE
    return pixels.unsqueeze(1), np.asarray(bunch.target)  # (1797, 1, 8, 8), (1797,)


def _balanced(digits: np.ndarray, chosen: list[int], samples: int) -> tuple[np.ndarray, np.ndarray]:
    if samples % len(chosen):
        raise InputError(f"samples {samples} cannot be balanced over {len(chosen)} classes; valid: a multiple of it")
    groups = {str(digit): np.flatnonzero(digits == digit).tolist() for digit in chosen}
    split = split_per_class(groups, samples // len(chosen), "scikit-learn's load_digits")
    return np.array(split.members, dtype=np.int64), np.array(split.others, dtype=np.int64)


def _targets(digits: np.ndarray, chosen: list[int], labels: str) -> tuple[torch.Tensor, str]:
    if labels == "sign" and len(chosen) != 2:
        return torch.from_numpy(digits % 2).to(torch.float32) * 2 - 1, "labels -1 for even and +1 for odd digits"
    positions = [chosen.index(int(digit)) for digit in digits]
    targets = class_targets(positions, labels, columns=chosen, width=10)
    return targets, describe_targets(targets, [f"digit {digit}" for digit in chosen])
