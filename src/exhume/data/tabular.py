"""The last steps that every table shares: statistics, decimals, and the data set they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import torch
from sklearn.preprocessing import StandardScaler

from exhume.data.checks import one_of, whole_number
from exhume.data.dataset import Dataset
from exhume.data.tables import MOST_DECIMALS, Column, TableFormat
from exhume.errors import InputError
from exhume.randomness import generator_for

STANDARDISATIONS = ("subset", "full", "none")
_WORDS = {
    "subset": "every column standardised by its mean and standard deviation over these records",
    "full": "every column standardised by its mean and standard deviation over all records",
    "none": "values as they are",
}


@dataclass(frozen=True)
class Split:
    """Which records are trained on, and which others are kept for comparison."""

    members: list[int]
    others: list[int]


def draw(samples: int, available: int, seed: int, where: str) -> Split:
    """Draws `samples` of the `available` records by `seed`, and as many others as are left."""
    whole_number("samples", samples)
    if samples > available:
        raise InputError(f"samples: wanted {samples}, available {available} records of {where}")
    generator = generator_for(whole_number("seed", seed, least=0), f"records of {where}")
    order = torch.randperm(available, generator=generator).tolist()
    return Split(order[:samples], order[samples : 2 * samples])


def table_dataset(
    name: str,
    records: torch.Tensor,
    columns: Sequence[Column],
    split: Split,
    labels: torch.Tensor,
    selection: str,
    *,
    mode: str,
) -> Dataset:
    """Standardises the chosen records, and the others with the same statistics.

    Args:
        name: of the data set.
        records: all (m, d) values in original units, float64.
        columns: their names and units; statistics and decimals are filled in here.
        split: which of them are trained on.
        labels: of the members.
        selection: the protocol's beginning: which records, in which order, with which labels.
        mode: "subset", "full" or "none".
    """
    one_of("standardise", mode, STANDARDISATIONS)
    members, others = records[split.members], records[split.others]
    filled = with_statistics(columns, {"subset": members, "full": records, "none": None}[mode])
    table = with_decimals(TableFormat(filled), torch.cat((members, others)))
    protocol = f"{selection}, {_WORDS[mode]}."
    inputs, non_members = table.to_vectors(members), table.to_vectors(others)
    return Dataset(name, inputs, labels, non_members, None, protocol, table=table)


def with_statistics(columns: Sequence[Column], records: torch.Tensor | None) -> tuple[Column, ...]:
    """The columns with the mean and standard deviation of the records (m, d); with 0 and 1 if there are none.

    They are those of scikit-learn's StandardScaler. A constant column is centred and keeps the scale 1.
    """
    if records is None:
        return tuple(replace(column, mean=0.0, std=1.0) for column in columns)
    if len(records) < 2:
        raise InputError(f"{len(records)} record has no standard deviation; valid: two or more, or standardise 'none'")
    scaler = StandardScaler().fit(records.numpy())
    # The mean of equal numbers may be off by rounding; the first of them is not.
    constant = records.amin(dim=0) == records.amax(dim=0)
    means = torch.where(constant, records[0], torch.from_numpy(scaler.mean_))
    statistics = zip(columns, means.tolist(), scaler.scale_.tolist(), strict=True)
    return tuple(replace(column, mean=mean, std=std) for column, mean, std in statistics)


def with_decimals(table: TableFormat, records: torch.Tensor) -> TableFormat:
    """The table with as many decimals a column as its values (m, d) have, where float32 vectors carry them all."""
    carried = table.to_records(table.to_vectors(records))
    columns = []
    for column, values, kept in zip(table.columns, records.T.tolist(), carried.T.tolist(), strict=True):
        decimals = max(map(_decimals_of, values))
        rounded = replace(column, decimals=decimals if decimals <= MOST_DECIMALS else None)
        same = all(rounded.text(value) == rounded.text(other) for value, other in zip(values, kept, strict=True))
        columns.append(rounded if same else column)
    return TableFormat(tuple(columns))


def real_targets(values: torch.Tensor) -> torch.Tensor:
    """Labels with mean 0 and standard deviation 1, as float32; equal values all become 0."""
    column = with_statistics((Column("label"),), values[:, None])
    return TableFormat(column).to_vectors(values[:, None]).flatten()


def _decimals_of(value: float) -> int:
    """How many digits after the point the shortest text of a number has."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
