"""The guest room for numbers: a .npy or .npz file of inputs and, if you have them, labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from exhume.data.array_files import UNREADABLE, check_claims
from exhume.data.checks import one_of, whole_number
from exhume.data.classes import class_targets, random_signs
from exhume.data.dataset import NORM_WORDS, NORMS, Dataset, PictureFormat, rescale_rows
from exhume.data.sources import DataSource
from exhume.errors import DataError, InputError, brief

LABELS = ("given", "sign", "one-hot")
STANDARDISATIONS = ("none", "subset")
_INPUT_KEYS = ("x", "inputs")
_LABEL_KEYS = ("y", "labels")
Array = npt.NDArray[np.generic]


def load_arrays(
    path: str | Path,
    samples: int | None = None,
    shape: Sequence[int] | None = None,
    labels: str = "given",
    standardise: str = "none",
    norm: str = "keep",
    seed: int = 0,
) -> Dataset:
    """Reads inputs (n, d) or (n, C, H, W) from .npy, or from .npz under `x` or `inputs`; bytes become [0, 1].

    Args:
        path: the file; labels stand under `y` or `labels` of an .npz.
        samples: the first as many rows are trained on and the next as many are the non-members; None trains on all.
        shape: (C, H, W), if rows of (n, d) are pictures.
        labels: "given" takes the file's numbers, or random +-1 from `seed` if it has none; "sign" turns the smaller
            of two values into -1 and the larger into +1; "one-hot" has a column per distinct value, ascending.
        standardise: "none", or "subset" for one scalar mean and std over all trained values.
        norm: "keep", or "sphere" for rows of norm sqrt(d).
        seed: of random labels; nothing else uses it.
    """
    one_of("standardise", standardise, STANDARDISATIONS)
    file = Path(path).expanduser()
    raw_inputs, raw_labels = _read(file)
    values = _numbers(raw_inputs, file, "inputs")
    if values.dim() not in (2, 4) or 0 in values.shape:
        raise DataError(f"{file} holds inputs of shape {tuple(values.shape)}; valid: (n, d) or (n, C, H, W)")
    count = len(values) if samples is None else whole_number("samples", samples)
    if count > len(values):
        raise InputError(f"samples: wanted {count}, available {len(values)} in {file}")
    picture_shape = _picture_shape(values, shape)
    rows = values.flatten(start_dim=1)
    members, others = rows[:count], rows[count : count + (0 if samples is None else count)]
    mean, std = _statistics(members, standardise)
    targets, label_words = _targets(raw_labels, labels, count, len(values), file, seed)
    words = f"The first {count} of {len(values)} rows of {file.name}, {label_words}"
    words += ", standardised by one scalar mean and std over these rows" if standardise == "subset" else ", as they are"
    words += NORM_WORDS[one_of("norm", norm, NORMS)]
    picture, picture_words = _picture(members, picture_shape, mean, std)
    inputs, non_members = (rescale_rows(((part - mean) / std).float(), norm) for part in (members, others))
    return Dataset("arrays", inputs, targets, non_members, picture, f"{words}{picture_words}.")


def read_arrays(path: str | Path) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The inputs of an .npy or .npz file in their own shape, and its labels if it has any; float64, bytes in [0, 1]."""
    file = Path(path).expanduser()
    inputs, labels = _read(file)
    return _numbers(inputs, file, "inputs"), None if labels is None else _numbers(labels, file, "labels")


def _read(file: Path) -> tuple[Array, Array | None]:
    if file.suffix not in (".npy", ".npz"):
        raise InputError(f"{file} ends in {file.suffix!r}; valid: .npy, .npz")
    if not file.is_file():
        what = "is not a regular file" if file.exists() else "does not exist"
        raise DataError(f"{file} {what}; give `path` an .npy or .npz file")
    try:
        check_claims(file)
        # A pickle inside can run code.
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content, None
        with content:
            inputs, labels = (_first(content, keys) for keys in (_INPUT_KEYS, _LABEL_KEYS))
    except UNREADABLE as error:
        raise DataError(f"{file} is not a readable numpy file without pickles: {brief(error)}") from error
    if inputs is None:
        there = brief(", ".join(content.files[:20]) or "nothing")
        raise DataError(f"{file} holds {there}; valid: inputs under x or inputs")
    return inputs, labels


def _first(content: np.lib.npyio.NpzFile, keys: Sequence[str]) -> Array | None:
    present = [key for key in keys if key in content.files]
    return np.asarray(content[present[0]]) if present else None


def _numbers(values: Array, file: Path, word: str) -> torch.Tensor:
    """The array as finite float64, bytes scaled to [0, 1]; float32 must be able to hold it."""
    if values.dtype.kind not in "fiub":
        raise DataError(f"{file} holds {word} of type {values.dtype}; valid: real numbers")
    numbers = torch.from_numpy(values.astype(np.float64))
    if not bool(torch.isfinite(numbers.float()).all()):
        raise DataError(f"{file} holds {word} that are NaN, infinite or beyond float32")
    return numbers / 255 if values.dtype == np.uint8 and word == "inputs" else numbers


def _picture_shape(values: torch.Tensor, shape: Sequence[int] | None) -> tuple[int, int, int] | None:
    if shape is None:
        return None if values.dim() == 2 else (values.shape[1], values.shape[2], values.shape[3])
    if len(shape) != 3 or np.prod(shape) != values[0].numel():
        raise InputError(f"shape is {tuple(shape)}; valid: (C, H, W) of {values[0].numel()} numbers in all")
    if values.dim() == 4 and tuple(shape) != tuple(values.shape[1:]):
        raise InputError(f"shape is {tuple(shape)}; valid: {tuple(values.shape[1:])}, the array's own, or none")
    return (int(shape[0]), int(shape[1]), int(shape[2]))


def _statistics(members: torch.Tensor, standardise: str) -> tuple[float, float]:
    if standardise == "none":
        return 0.0, 1.0
    mean, std = float(members.mean()), float(members.std(correction=1)) if members.numel() > 1 else 0.0
    if not std > 0:
        raise InputError("all selected values are equal: their standard deviation is 0; use standardise 'none'")
    return mean, std


def _picture(
    members: torch.Tensor, shape: tuple[int, int, int] | None, mean: float, std: float
) -> tuple[PictureFormat | None, str]:
    """How standardised rows are pictures; values outside [0, 1] are stretched so that their range is visible."""
    if shape is None:
        return None, ""
    low, high = float(members.min()), float(members.max())
    if (low >= 0 and high <= 1) or low == high:
        return PictureFormat(shape, (mean,), (std,)), ""
    spread = high - low
    words = f", pictures drawn with {low:.6g} as black and {high:.6g} as white"
    return PictureFormat(shape, ((mean - low) / spread,), (std / spread,)), words


def _targets(
    raw: Array | None, labels: str, count: int, available: int, file: Path, seed: int
) -> tuple[torch.Tensor, str]:
    one_of("labels", labels, LABELS)
    if raw is None:
        if labels != "given":
            raise InputError(f"{file} holds no labels to turn into {labels!r}; valid: 'given' (then random +-1)")
        return random_signs(count, seed), f"random labels +-1 from seed {seed} (the file has none)"
    numbers = _numbers(raw, file, "labels")
    if numbers.dim() not in (1, 2) or len(numbers) != available:
        raise DataError(f"{file} holds labels of shape {tuple(raw.shape)}; valid: ({available},) or ({available}, k)")
    if labels == "given":
        return numbers[:count].float(), "labels of the file"
    if numbers.dim() != 1:
        raise InputError(f"{file} holds labels of shape {tuple(raw.shape)}; {labels!r} needs ({available},)")
    values, positions = torch.unique(numbers[:count], return_inverse=True)
    columns = range(len(values))
    return class_targets(positions.tolist(), labels, columns, len(values)), f"{labels} labels of the file's classes"


SOURCE = DataSource(
    name="arrays",
    summary="your own .npy or .npz file",
    load=load_arrays,
    locate=lambda: "wherever `path` points",
    how_to_get="give the option path",
)
