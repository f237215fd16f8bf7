"""Samples and labels of a model's owner, read from files: arrays, tensors, tables and folders of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from exhume.data.dataset import Dataset
from exhume.data.formats import PictureFormat
from exhume.data.user.csv import load_table
from exhume.data.user.images import load_folder
from exhume.errors import DataError, FileError, InputError, brief
from exhume.support import files

# Bytes of the largest file that is opened by default.
_LARGEST = 16 * 2**30
_INPUTS, _LABELS = ("x", "inputs"), ("y", "labels")
_FILES = "a folder of pictures, .npy, .npz, .csv, .safetensors"
_ARRAY_FILES = (".npy", ".npz", ".safetensors")


@dataclass(frozen=True)
class Reading:
    """How files hold what a model takes.

    Attributes:
        shape: (channels, height, width) of the model's inputs, if they are pictures.
        picture: how the model's inputs are pictures; by default pixels in [0, 1].
        standardise: how columns of a table become inputs: as they are, or by their own mean and deviation.
        label_column: which column of a table is the label.
        largest: bytes of the largest file that is opened.
    """

    shape: tuple[int, int, int] | None = None
    picture: PictureFormat | None = None
    standardise: Literal["none", "subset"] = "none"
    label_column: str | None = None
    largest: int = _LARGEST


def read_dataset(samples: Path, labels: Path | None, how: Reading) -> Dataset:
    """Samples as the model takes them, with the labels of a file of their own or those that came with the samples.

    Arrays are taken as they are: the model was trained on what they hold. Pictures become numbers in [0, 1], less the
    mean and divided by the standard deviation of `how.picture`; columns of a table are standardised as `how` says.
    """
    _check_size(samples, how.largest)
    suffix = samples.suffix.lower()
    if samples.is_dir():
        read = _read_pictures(samples, how)
    elif suffix == ".csv":
        read = _read_table(samples, how)
    elif suffix in _ARRAY_FILES:
        read = Dataset.of(*read_arrays(samples))
    else:
        raise InputError(f"{samples} cannot be read as data; valid: {_FILES}")
    return read if labels is None else replace(read, labels=_read_labels(labels, how))


def read_arrays(file: Path) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The inputs of a file of arrays in their own shape, and its labels if it has any; float64, bytes in [0, 1].

    Inputs are the array of a .npy file, or what an .npz or .safetensors file has under `x` or `inputs`; labels stand
    under `y` or `labels`.
    """
    arrays = _load_arrays(file, (*_INPUTS, *_LABELS))
    inputs, labels = _first(arrays, _INPUTS), _first(arrays, _LABELS)
    if inputs is None:
        raise DataError(f"{file} holds {brief(', '.join(arrays)) or 'nothing'}; valid: inputs under x or inputs")
    return _numbers(inputs, file, "inputs"), None if labels is None else _numbers(labels, file, "labels")


def _read_table(file: Path, how: Reading) -> Dataset:
    """A table; its label column as the numbers it holds, or one-hot if it holds names."""
    if how.label_column is None:
        unlabelled = load_table(file, standardise=how.standardise)
        return replace(unlabelled, labels=torch.empty(0))
    try:
        return load_table(file, how.label_column, labels="given", standardise=how.standardise)
    except DataError:
        return load_table(file, how.label_column, labels="one-hot", standardise=how.standardise)


def _read_pictures(folder: Path, how: Reading) -> Dataset:
    if how.shape is None:
        raise InputError(f"{folder} is a folder of pictures, but the model's inputs are none")
    channels, height, width = how.shape
    classes = any(each.is_dir() for each in folder.iterdir())
    read = load_folder(
        folder,
        labels="one-hot" if classes else "auto",
        standardise="none",
        size=height if height == width else None,
        channels=channels,
    )
    assert read.picture is not None
    picture = how.picture or read.picture
    inputs = picture.to_vectors(read.picture.to_pictures(read.inputs))
    return replace(read, inputs=inputs, labels=read.labels if classes else torch.empty(0), picture=picture)


def _read_labels(file: Path, how: Reading) -> torch.Tensor:
    _check_size(file, how.largest)
    found = _first(_load_arrays(file, _LABELS), _LABELS)
    if found is None:
        raise InputError(f"{file} holds no labels; valid: under 'y' or 'labels'")
    return _numbers(found, file, "labels").float()


def _check_size(path: Path, limit: int) -> None:
    """Refuses a file that is too large before it is opened."""
    if path.is_file() and path.stat().st_size > limit:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; the limit is {limit:,} (--max-size)")


def _load_arrays(file: Path, names: Sequence[str]) -> Mapping[str, torch.Tensor]:
    """The arrays of a file by name; that of a .npy file has the first of the given names."""
    if file.suffix.lower() not in _ARRAY_FILES:
        raise InputError(f"{file} ends in {file.suffix!r}; valid: {', '.join(_ARRAY_FILES)}")
    try:
        return files.read_tensors(file) if file.suffix.lower() == ".safetensors" else files.read_arrays(file, names)
    except FileError as error:
        raise DataError(str(error)) from error


def _first(arrays: Mapping[str, torch.Tensor], names: Sequence[str]) -> torch.Tensor | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _numbers(values: torch.Tensor, file: Path, word: str) -> torch.Tensor:
    """The array as finite float64, bytes of inputs scaled to [0, 1]; float32 must be able to hold it."""
    numbers = values.double()
    if not bool(torch.isfinite(numbers.float()).all()):
        raise DataError(f"{file} holds {word} that are NaN, infinite or beyond float32")
    return numbers / 255 if values.dtype == torch.uint8 and word == "inputs" else numbers
