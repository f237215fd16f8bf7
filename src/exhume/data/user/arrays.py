"""The user's own numbers: a .npy or .npz file of inputs and, if it has them, labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from exhume.data.classes import class_targets, random_signs
from exhume.data.dataset import NORM_WORDS, Dataset
from exhume.data.formats import NORMS, PictureFormat, rescale_rows, scalar_statistics
from exhume.data.read import read_arrays
from exhume.data.registry import user_data
from exhume.errors import DataError, InputError
from exhume.support.validation import one_of, whole_number

LABELS = ("given", "sign", "one-hot")
STANDARDISATIONS = ("none", "subset")


@user_data("arrays", "your own .npy or .npz file")
def load_arrays(
    path: str | Path,
    samples: int | None = None,
    shape: Sequence[int] | None = None,
    labels: str = "given",
    standardise: str = "none",
    norm: str = "keep",
    seed: int = 0,
) -> Dataset:
    """Reads inputs (n, d) or (n, C, H, W) from a .npy, .npz or .safetensors file; bytes become [0, 1].

    Args:
        path: the file; an .npz or .safetensors file has inputs under `x` or `inputs`, labels under `y` or `labels`.
        samples: the first as many rows are trained on and the next as many are the non-members; None trains on all.
        shape: (C, H, W), if rows of (n, d) are pictures.
        labels: "given" takes the file's numbers, or random +-1 from `seed` if it has none; "sign" turns the smaller
            of two values into -1 and the larger into +1; "one-hot" has a column per distinct value, ascending.
        standardise: "none", or "subset" for one scalar mean and std over all trained values.
        norm: "keep", or "sphere" for rows of norm sqrt(d).
        seed: of random labels; nothing else uses it.
    """
    one_of("standardise", standardise, STANDARDISATIONS)
    one_of("norm", norm, NORMS)
    one_of("labels", labels, LABELS)
    file = Path(path).expanduser()
    values, numbers = read_arrays(file)
    if values.dim() not in (2, 4) or 0 in values.shape:
        raise DataError(f"{file} holds inputs of shape {tuple(values.shape)}; valid: (n, d) or (n, C, H, W)")
    if numbers is not None and (numbers.dim() not in (1, 2) or len(numbers) != len(values)):
        raise DataError(
            f"{file} holds labels of shape {tuple(numbers.shape)}; valid: (n,) or (n, k), n = {len(values)}"
        )
    count = len(values) if samples is None else whole_number("samples", samples)
    if count > len(values):
        raise InputError(f"samples: wanted {count}, available {len(values)} in {file}")
    picture_shape, rows = _picture_shape(values, shape), values.flatten(start_dim=1)
    members, others = rows[:count], rows[count : count + (0 if samples is None else count)]
    mean, std = (0.0, 1.0) if standardise == "none" else scalar_statistics(members)
    if numbers is None:
        if labels != "given":
            raise InputError(f"{file} holds no labels to turn into {labels!r}; valid: 'given' (then random +-1)")
        targets, words = random_signs(count, seed), f"random labels +-1 from seed {seed} (the file has none)"
    else:
        targets, words = _targets(numbers[:count], labels, file)
    words = f"The first {count} of {len(values)} rows of {file.name}, {words}"
    words += ", standardised by one scalar mean and std over these rows" if standardise == "subset" else ", as they are"
    picture, picture_words = _picture(members, picture_shape, mean, std)
    inputs, non_members = (rescale_rows(((part - mean) / std).float(), norm) for part in (members, others))
    return Dataset("arrays", inputs, targets, non_members, picture, f"{words}{NORM_WORDS[norm]}{picture_words}.")


def _picture_shape(values: torch.Tensor, shape: Sequence[int] | None) -> tuple[int, int, int] | None:
    if shape is None:
        return None if values.dim() == 2 else (values.shape[1], values.shape[2], values.shape[3])
    if len(shape) != 3 or np.prod(shape) != values[0].numel():
        raise InputError(f"shape is {tuple(shape)}; valid: (C, H, W) of {values[0].numel()} numbers in all")
    if values.dim() == 4 and tuple(shape) != tuple(values.shape[1:]):
        raise InputError(f"shape is {tuple(shape)}; valid: {tuple(values.shape[1:])}, the array's own, or none")
    return (int(shape[0]), int(shape[1]), int(shape[2]))


def _picture(
    members: torch.Tensor, shape: tuple[int, int, int] | None, mean: float, std: float
) -> tuple[PictureFormat | None, str]:
    """How standardised rows are pictures; values outside [0, 1] are stretched so that their range is visible."""
    if shape is None:
        return None, ""
    low, high = float(members.min()), float(members.max())
    if (low >= 0 and high <= 1) or low == high:
        return PictureFormat(shape, (mean,), (std,)), ""
    words = f", pictures drawn with {low:.6g} as black and {high:.6g} as white"
    return PictureFormat.of_pixels(shape, mean, std, (low, high)), words


def _targets(numbers: torch.Tensor, labels: str, file: Path) -> tuple[torch.Tensor, str]:
    """The labels of the members, and the protocol's words for them."""
    if labels == "given":
        return numbers.float(), "labels of the file"
    if numbers.dim() != 1:
        raise InputError(f"{file} holds labels of {numbers.shape[1]} columns; {labels!r} needs one number a row")
    values, positions = torch.unique(numbers, return_inverse=True)
    targets = class_targets(positions.tolist(), labels, range(len(values)))
    return targets, f"{labels} labels of the file's classes"
