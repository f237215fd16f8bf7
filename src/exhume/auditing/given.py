"""What the owner of a model gives besides its weights: training data for the score, and data that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exhume import data, files
from exhume.auditing.settings import Settings
from exhume.data import Dataset, PictureFormat, TableFormat
from exhume.data.arrays import read_arrays
from exhume.errors import DataError, InputError
from exhume.features import parse_bytes
from exhume.pixels import shape_of_picture

_ARRAYS, _TENSORS, _TABLE = (".npy", ".npz"), ".safetensors", ".csv"
_INPUTS, _LABELS = ("x", "inputs"), ("y", "labels")


@dataclass(frozen=True)
class Given:
    """The owner's data, opened after the last attack. All of it is optional.

    Attributes:
        inputs, labels: (n, d) and (n,) or (n, k), what the model was trained on.
        held_out, held_out_labels: likewise, what it was not.
        picture, table: how an input is a picture or a record.
    """

    inputs: torch.Tensor | None = None
    labels: torch.Tensor | None = None
    held_out: torch.Tensor | None = None
    held_out_labels: torch.Tensor | None = None
    picture: PictureFormat | None = None
    table: TableFormat | None = None

    @classmethod
    def of(cls, truth: Any, labels: Any = None, held_out: Any = None, held_out_labels: Any = None) -> Given:
        """From what a caller has: arrays, tensors, or a data set of `exhume.data`."""
        if isinstance(truth, Dataset):
            labels = truth.labels if labels is None else labels
            held_out = truth.non_members if held_out is None and len(truth.non_members) else held_out
            return cls(
                truth.inputs, _tensor(labels), _flat(held_out), _tensor(held_out_labels), truth.picture, truth.table
            )
        return cls(_flat(truth), _tensor(labels), _flat(held_out), _tensor(held_out_labels))

    @classmethod
    def read(cls, settings: Settings) -> Given:
        """From the files that the settings name."""
        truth = None if settings.truth is None else _read(settings.truth, settings)
        others = None if settings.held_out is None else _read(settings.held_out, settings)
        return cls(
            None if truth is None else truth.inputs,
            _labels(settings.labels, truth, settings),
            None if others is None else _alike(others, truth),
            _labels(settings.held_out_labels, others, settings),
            (truth.picture if truth else None) or picture_format(settings),
            (truth.table if truth else None) or table_format(settings),
        )

    def fitting(self, input_dim: int, num_outputs: int) -> Given:
        """The same, if its sizes fit the model and each other; classes by number become one-hot rows."""
        for name, rows, labels in (
            ("truth", self.inputs, self.labels),
            ("held_out", self.held_out, self.held_out_labels),
        ):
            if rows is None:
                if labels is not None:
                    raise InputError(f"labels were given without {name}")
                continue
            if rows.ndim != 2 or rows.shape[1] != input_dim:
                raise InputError(
                    f"{name} holds samples of {rows[0].numel() if len(rows) else 0} numbers, "
                    f"the model takes {input_dim}"
                    + ("; is one column the label (--label-column)?" if self.table is not None else "")
                )
            if not len(rows):
                raise InputError(f"{name} holds no sample; valid: at least one")
            if not bool(torch.isfinite(rows).all()):
                raise InputError(f"{name} holds NaN or infinite numbers; valid: finite ones")
            if bool((rows == 0).all(1).any()):
                raise InputError(f"{name} holds a row of zeros, which has no direction to recover")
            if labels is not None and len(labels) != len(rows):
                raise InputError(f"{len(labels)} labels for the {len(rows)} samples of {name}")
        if self.table is not None and len(self.table.columns) != input_dim:
            raise InputError(f"{len(self.table.columns)} columns do not name the {input_dim} numbers of a sample")
        return replace(
            self,
            labels=_as_outputs(self.labels, num_outputs),
            held_out_labels=_as_outputs(self.held_out_labels, num_outputs),
        )


def _as_outputs(labels: torch.Tensor | None, num_outputs: int) -> torch.Tensor | None:
    """Labels as the model outputs them: (n, k) for k outputs, numbers of classes as one-hot rows."""
    if labels is None:
        return None
    if not bool(torch.isfinite(labels.double()).all()):
        raise InputError("labels hold NaN or infinite numbers; valid: finite ones")
    labels = labels.squeeze(1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim == 1 and num_outputs > 1:
        classes = labels.long()
        if not bool((classes == labels).all()) or bool((classes < 0).any()) or bool((classes >= num_outputs).any()):
            raise InputError(
                f"labels must be classes from 0 to {num_outputs - 1}, or rows of {num_outputs} numbers, "
                f"for a model of {num_outputs} outputs"
            )
        return torch.nn.functional.one_hot(classes, num_outputs).float()
    width = 1 if labels.ndim == 1 else labels.shape[1]
    if labels.ndim > 2 or width != num_outputs:
        raise InputError(f"labels of shape {tuple(labels.shape)} do not fit a model of {num_outputs} outputs")
    return labels.float()


@dataclass(frozen=True)
class _File:
    """What one file or folder held."""

    inputs: torch.Tensor
    labels: torch.Tensor | None = None
    picture: PictureFormat | None = None
    table: TableFormat | None = None


def _read(path: Path, settings: Settings) -> _File:
    """Samples as the model takes them, from a file or a folder of pictures.

    Arrays are taken as they are: the model was trained on what they hold. Pictures become numbers in [0, 1], less
    the mean and divided by the standard deviation that `know` states; columns of a table are standardised if
    `standardise` says so.
    """
    _check_size(path, settings.max_size)
    suffix = path.suffix.lower()
    if path.is_dir():
        return _read_pictures(path, settings)
    if suffix == _TABLE:
        table = _read_table(path, settings)
        return _File(table.inputs, None if settings.label_column is None else table.labels, None, table.table)
    if suffix in _ARRAYS:
        inputs, labels = read_arrays(path)
        return _File(inputs.float().flatten(1), labels)
    if suffix == _TENSORS:
        tensors = files.read_tensors(path)
        found = next((tensors[name] for name in _INPUTS if name in tensors), None)
        if found is None or found.ndim < 2:
            there = ", ".join(sorted(tensors)) or "nothing"
            raise InputError(f"{path} holds {there}; valid: samples (n, ...) under 'x' or 'inputs'")
        return _File(found.float().flatten(1), next((tensors[name] for name in _LABELS if name in tensors), None))
    raise InputError(f"{path} cannot be read as data; valid: a folder of pictures, .npy, .npz, .csv, .safetensors")


def _read_table(path: Path, settings: Settings) -> Dataset:
    """A table; its label column as the numbers it holds, or one-hot if it holds names."""
    if settings.label_column is None:
        return data.load("table", path=path, standardise=settings.standardise)
    options = {"path": path, "standardise": settings.standardise, "label": settings.label_column}
    try:
        return data.load("table", **options, labels="given")
    except DataError:
        return data.load("table", **options, labels="one-hot")


def _read_pictures(path: Path, settings: Settings) -> _File:
    shape = shape_of_picture(settings.input_shape)
    if shape is None:
        raise InputError(f"{path} is a folder of pictures, but inputs of shape {settings.input_shape} are none")
    size = shape[1] if shape[1] == shape[2] else None
    classes = any(each.is_dir() for each in path.iterdir())
    folder = data.load(
        "folder",
        path=path,
        channels=shape[0],
        size=size,
        standardise="none",
        labels="one-hot" if classes else "auto",
    )
    assert folder.picture is not None
    as_taken = picture_format(settings) or folder.picture
    vectors = as_taken.to_vectors(folder.picture.to_pictures(folder.inputs))
    return _File(vectors, folder.labels if classes else None, as_taken)


def picture_format(settings: Settings) -> PictureFormat | None:
    """How inputs are drawn, from the normalisation that `know` states; None if it states none."""
    shape, know = shape_of_picture(settings.input_shape), settings.known
    if shape is None or not {"pixel_mean", "pixel_std", "pixel_range"} & set(know):
        return None
    low, high = (float(bound) for bound in know.get("pixel_range") or (0.0, 1.0))
    mean, std = (_numbers(know.get(name), default) for name, default in (("pixel_mean", 0.0), ("pixel_std", 1.0)))
    spread = high - low
    if not spread > 0:
        raise InputError(f"pixel_range {low:g} to {high:g} must rise")
    return PictureFormat(shape, tuple((each - low) / spread for each in mean), tuple(each / spread for each in std))


def table_format(settings: Settings) -> TableFormat | None:
    """How inputs are records, from the columns that the settings name; None if they name none."""
    return TableFormat(settings.columns) if settings.columns else None


def _numbers(value: Any, default: float) -> tuple[float, ...]:
    """One number or several."""
    if value is None:
        return (default,)
    return tuple(float(each) for each in value) if isinstance(value, Sequence) else (float(value),)


def _labels(path: Path | None, beside: _File | None, settings: Settings) -> torch.Tensor | None:
    """Labels of a file of their own, or those that came with the samples."""
    if path is None:
        return None if beside is None else beside.labels
    _check_size(path, settings.max_size)
    if path.suffix.lower() == _TENSORS:
        tensors = files.read_tensors(path)
        found = next((tensors[name] for name in _LABELS if name in tensors), None)
        if found is None:
            raise InputError(f"{path} holds no labels; valid: under 'y' or 'labels'")
        return found.float()
    if path.suffix.lower() != ".npy":
        raise InputError(f"{path} cannot be read as labels; valid: .npy, .safetensors")
    return read_arrays(path)[0].float()


def _alike(others: _File, truth: _File | None) -> torch.Tensor:
    """Held-out samples on the scale of the training samples."""
    if others.table is None or truth is None or truth.table is None:
        return others.inputs
    return truth.table.to_vectors(others.table.to_records(others.inputs))


def _check_size(path: Path, limit: str) -> None:
    """Refuses a file that is too large before it is opened."""
    if path.is_file() and path.stat().st_size > parse_bytes(limit):
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; the limit is {limit} (--max-size)")


def _flat(values: Any) -> torch.Tensor | None:
    """Samples (n, d) from (n, ...)."""
    rows = _tensor(values)
    if rows is None:
        return None
    if rows.ndim < 2:
        raise InputError(f"samples of shape {tuple(rows.shape)}; valid: (n, ...), a row a sample")
    return rows.float().flatten(1)


def _tensor(values: Any) -> torch.Tensor | None:
    if values is None:
        return None
    try:
        return torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"a {type(values).__name__} is no array of numbers: {error}") from error
