"""A data set: samples, labels, non-members, and how vectors become pictures or records again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from exhume.data.formats import (
    TABLE_STANDARDISATIONS,
    ChannelStatistics,
    Column,
    PictureFormat,
    TableFormat,
    rescale_rows,
    standardise,
    with_decimals,
    with_statistics,
)
from exhume.errors import InputError
from exhume.support.labels import as_outputs
from exhume.support.validation import finite, one_of

_PICTURE_WORDS = {
    "subset": "standardised by one scalar mean and one scalar unbiased standard deviation over the whole subset",
    "channel": "standardised per channel by the statistics of the full training split",
    "none": "raw pixels in [0, 1]",
}
_TABLE_WORDS = {
    "subset": "every column standardised by its mean and standard deviation over these records",
    "full": "every column standardised by its mean and standard deviation over all records",
    "none": "values as they are",
}
# What each norm adds to a protocol. The original norms are lost, so pictures can only show the rescaled rows.
NORM_WORDS = {"keep": "", "sphere": ", every row rescaled to norm sqrt(d) (pictures are drawn from the rescaled rows)"}


def _nothing() -> torch.Tensor:
    return torch.empty(0)


@dataclass(frozen=True)
class Dataset:
    """Training samples, their labels, and samples of the same source that were not trained on.

    What is not given has no rows: the owner of a model may hold samples without labels, or no samples at all.

    Args:
        name: the registry's name.
        inputs: (n, d) float32, or float64 for records in their own units.
        labels: (n,) real, +-1 or numbers of classes, or (n, k) one-hot or real.
        non_members: (m, d) float32, standardised with the statistics of `inputs`.
        picture: how rows are pictures, if they are.
        protocol: one sentence that says exactly how this was made.
        subspace: (r, d) orthonormal basis of the subspace that the distribution lives in, if it is known to.
        table: how rows are records of named columns, if they are.
        non_member_labels: labels of `non_members`, of the same kind as `labels`.
        reference: (q, d) further samples of the same kind without labels, such as a public pool, for baselines.
    """

    name: str
    inputs: torch.Tensor
    labels: torch.Tensor
    non_members: torch.Tensor
    picture: PictureFormat | None
    protocol: str
    subspace: torch.Tensor | None = None
    table: TableFormat | None = None
    non_member_labels: torch.Tensor = field(default_factory=_nothing)
    reference: torch.Tensor = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        if self.inputs.dim() != 2 or self.inputs.shape[1] == 0:
            raise InputError(f"inputs of shape {tuple(self.inputs.shape)}; valid: (n, d), d at least 1")
        size = self.input_dim
        if self.non_members.dim() != 2 or self.non_members.shape[1] != size:
            raise InputError(f"non_members of shape {tuple(self.non_members.shape)}; valid: (m, {size})")
        _check_labels("labels", self.labels, len(self.inputs))
        _check_labels("non_member_labels", self.non_member_labels, len(self.non_members))
        if len(self.reference) and (self.reference.dim() != 2 or self.reference.shape[1] != size):
            raise InputError(f"reference of shape {tuple(self.reference.shape)}; valid: (q, {size})")
        for word, tensor in (("inputs", self.inputs), ("non_members", self.non_members), ("reference", self.reference)):
            if tensor.dtype not in (torch.float32, torch.float64):
                raise InputError(f"{word} are {tensor.dtype}; valid: torch.float32, torch.float64")
            finite(word, tensor)
        if self.picture is not None and math.prod(self.picture.shape) != size:
            raise InputError(f"pictures {self.picture.shape} do not fill vectors of dimension {size}")
        if self.table is not None and len(self.table.columns) != size:
            raise InputError(f"{len(self.table.columns)} columns do not name the {size} numbers of a sample")

    @classmethod
    def of(cls, inputs: Any, labels: Any = None, non_members: Any = None, non_member_labels: Any = None) -> Dataset:
        """A data set of arrays or tensors: samples (n, ...) are flattened; what is None has no rows.

        >>> from exhume.data import Dataset
        >>> Dataset.of([[1.0, 2.0], [3.0, 4.0]], labels=[1, -1]).labels
        tensor([ 1., -1.])
        """
        rows, others = _rows("inputs", inputs), _rows("non_members", non_members)
        like = others if rows is None else rows
        if like is None:
            raise InputError("neither inputs nor non_members are given; valid: one or both")
        return cls(
            "own",
            like[:0] if rows is None else rows,
            _label_tensor("labels", labels),
            like[:0] if others is None else others,
            None,
            "Samples given by the caller.",
            non_member_labels=_label_tensor("non_member_labels", non_member_labels),
        )

    @classmethod
    def without_samples(cls, input_dim: int) -> Dataset:
        """A data set of inputs of this dimension without a single one: the owner of the model gave none."""
        none = torch.empty(0, input_dim)
        return cls("none", none, _nothing(), none, None, "No samples were given.")

    @property
    def num_samples(self) -> int:
        """n, the number of training samples."""
        return int(self.inputs.shape[0])

    @property
    def input_dim(self) -> int:
        """d, the dimension of an input."""
        return int(self.inputs.shape[1])

    @property
    def is_labelled(self) -> bool:
        """Whether the training samples and their labels are given."""
        return len(self.labels) > 0

    @property
    def comparison_samples(self) -> torch.Tensor | None:
        """All samples that were not trained on: non-members and the reference pool; None if there are none."""
        rows = torch.cat([each for each in (self.non_members, self.reference) if len(each)] or [self.non_members])
        return rows if len(rows) else None

    def with_reference(self, pool: Dataset) -> Dataset:
        """The same with the samples of another data set as reference pool, on the scale of this one."""
        return replace(self, reference=self.with_non_members(pool).non_members)

    def with_non_members(self, others: Dataset) -> Dataset:
        """The same with the training samples of another data set as non-members, on the scale of this one."""
        rows = others.inputs
        if self.table is not None and others.table is not None:
            rows = self.table.to_vectors(others.table.to_records(rows))
        return replace(self, non_members=rows, non_member_labels=others.labels)

    def fitted_to(self, input_dim: int, num_outputs: int) -> Dataset:
        """The same for a model of these sizes, numbers of classes as one-hot rows; an error says what does not fit."""
        if self.input_dim != input_dim:
            hint = "; is one column the label (--label-column)?" if self.table is not None else ""
            raise InputError(
                f"the data set holds samples of {self.input_dim} numbers, the model takes {input_dim}{hint}"
            )
        pool = self.reference.reshape(-1, self.input_dim)
        for name, rows in (("inputs", self.inputs), ("non_members", self.non_members), ("reference", pool)):
            if bool((rows == 0).all(1).any()):
                raise InputError(f"{name} hold a row of zeros, which has no direction to recover")
        return replace(
            self,
            labels=_for_outputs(self.labels, num_outputs),
            non_member_labels=_for_outputs(self.non_member_labels, num_outputs),
        )


@dataclass(frozen=True)
class Selection:
    """What a loader chose, before it is standardised.

    Attributes:
        name: of the data set.
        members: pixels (n, C, H, W) in [0, 1] or records (n, d) in original units, to be trained on.
        others: likewise, not trained on.
        labels: of the members.
        words: the beginning of the protocol: which samples, in which order, with which labels.
    """

    name: str
    members: torch.Tensor
    others: torch.Tensor
    labels: torch.Tensor
    words: str


def picture_dataset(
    chosen: Selection, mode: str, norm: str, channel_statistics: ChannelStatistics | None = None
) -> Dataset:
    """Standardises the chosen pictures, and the others with the same statistics."""
    inputs, picture = standardise(chosen.members, mode, channel_statistics)
    non_members = picture.to_vectors(chosen.others.reshape(-1, *picture.shape))
    inputs, non_members = rescale_rows(inputs, norm), rescale_rows(non_members, norm)
    protocol = f"{chosen.words}, flattened to d = {inputs.shape[1]}, {_PICTURE_WORDS[mode]}{NORM_WORDS[norm]}."
    return Dataset(chosen.name, inputs, chosen.labels, non_members, picture, protocol)


def table_dataset(chosen: Selection, columns: Sequence[Column], mode: str, every_record: torch.Tensor) -> Dataset:
    """Standardises the chosen records, and the others with the same statistics.

    Args:
        chosen: records of float64.
        columns: their names and units; statistics and decimals are filled in here.
        mode: "subset" takes the statistics of the members, "full" those of `every_record`, "none" keeps the values.
        every_record: all (m, d) records of the source.
    """
    one_of("standardise", mode, TABLE_STANDARDISATIONS)
    filled = with_statistics(columns, {"subset": chosen.members, "full": every_record, "none": None}[mode])
    table = with_decimals(TableFormat(filled), torch.cat((chosen.members, chosen.others)))
    inputs, non_members = table.to_vectors(chosen.members), table.to_vectors(chosen.others)
    protocol = f"{chosen.words}, {_TABLE_WORDS[mode]}."
    return Dataset(chosen.name, inputs, chosen.labels, non_members, None, protocol, table=table)


def _check_labels(name: str, labels: torch.Tensor, rows: int) -> None:
    if labels.dim() not in (1, 2) or len(labels) not in (0, rows) or 0 in labels.shape[1:]:
        raise InputError(f"{name} of shape {tuple(labels.shape)} for {rows} samples; valid: ({rows},) or ({rows}, k)")
    if not labels.is_floating_point():
        raise InputError(f"{name} are {labels.dtype}; valid: a floating-point type")
    finite(name, labels)


def _for_outputs(labels: torch.Tensor, num_outputs: int) -> torch.Tensor:
    """Labels (n,) of a model with one output, else (n, k); none stay none."""
    if not len(labels):
        return labels
    outputs = as_outputs(labels, num_outputs)
    return outputs[:, 0] if num_outputs == 1 else outputs


def _rows(name: str, values: Any) -> torch.Tensor | None:
    """Samples (n, d) in float32 from (n, ...)."""
    if values is None:
        return None
    rows = _tensor(name, values)
    if rows.ndim < 2 or not len(rows):
        raise InputError(f"{name} of shape {tuple(rows.shape)}; valid: (n, ...), a row a sample, at least one sample")
    return rows.float().flatten(1)


def _label_tensor(name: str, values: Any) -> torch.Tensor:
    return _nothing() if values is None else _tensor(name, values).float()


def _tensor(name: str, values: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: a {type(values).__name__} is no array of numbers: {error}") from error
