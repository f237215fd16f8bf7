"""The guest room for records: a CSV file with a header, one record a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from exhume.data.checks import one_of, whole_number
from exhume.data.classes import class_targets, describe_targets, random_signs
from exhume.data.dataset import Dataset
from exhume.data.sources import DataSource
from exhume.data.table_file import DELIMITERS, Table, read_table
from exhume.data.tabular import Split, real_targets, table_dataset
from exhume.errors import DataError, InputError

LABELS = ("auto", "given", "real", "sign", "one-hot")
# More classes than this are a slip: a column of numbers or names, not of classes.
_MOST_CLASSES = 1000


def load_table(
    path: str | Path,
    label: str | None = None,
    columns: str | Sequence[str] | None = None,
    samples: int | None = None,
    labels: str = "auto",
    standardise: str = "subset",
    delimiter: str | None = None,
    seed: int = 0,
) -> Dataset:
    """Reads complete records of numbers from a CSV file whose header is "name", "name (unit)" or "name [unit]".

    Args:
        path: the file, UTF-8, with commas, semicolons or tabs between cells.
        label: the column to learn; None draws random +-1 from `seed`.
        columns: the columns to learn from, as a list or with commas between them; None takes all but the label.
        samples: the first as many records are trained on and the next as many are the non-members; None trains on all.
        labels: "given" takes the numbers as they are, "real" standardises them, "sign" makes the smaller of two values
            -1 and the larger +1, "one-hot" has a column for each value, ascending; "auto" is "sign" for two values,
            else "real" for numbers and "one-hot" for texts.
        standardise: "subset" standardises each column over the trained records, "full" over all, "none" not at all.
        delimiter: "," or ";" or a tab; None looks at the header.
        seed: of random labels; nothing else uses it.
    """
    one_of("labels", labels, LABELS)
    table = read_table(Path(path).expanduser(), delimiter)
    available = len(table.cells)
    count = available if samples is None else whole_number("samples", samples)
    if not 1 <= count <= available:
        raise InputError(f"samples: wanted {count}, available {available} records in {table.file}")
    label_at = None if label is None else table.position(label)
    chosen = _chosen(table, columns, label_at)
    records = torch.tensor([table.numbers(index) for index in chosen], dtype=torch.float64).T.contiguous()  # (m, d)
    targets, words = _targets(table, label_at, labels, count, seed)
    others = range(count, available if samples is None else min(2 * count, available))
    selection = (
        f"The first {count} of {available} records of {table.file.name} ({DELIMITERS[table.delimiter]}), {words}"
    )
    return table_dataset(
        "table",
        records,
        [table.columns[index] for index in chosen],
        Split(list(range(count)), list(others)),
        targets,
        selection,
        mode=standardise,
    )


def _chosen(table: Table, columns: str | Sequence[str] | None, label_at: int | None) -> list[int]:
    """The positions of the columns to learn from, in the given order."""
    if columns is None:
        chosen = [index for index in range(len(table.columns)) if index != label_at]
    else:
        names = columns.split(",") if isinstance(columns, str) else columns
        chosen = [table.position(str(name).strip()) for name in names]
    if not chosen:
        raise InputError(f"no columns of {table.file} are left to learn from; valid: at least one beside the label")
    if label_at in chosen:
        raise InputError(f"column {table.columns[label_at].name!r} is the label; valid: columns without it")
    if len(set(chosen)) < len(chosen):
        raise InputError(f"columns {columns!r} name a column twice; valid: each column once")
    return chosen


def _targets(table: Table, label_at: int | None, labels: str, count: int, seed: int) -> tuple[torch.Tensor, str]:
    """The labels of the first `count` records, and the protocol's words for them."""
    if label_at is None:
        if labels != "auto":
            raise InputError(f"labels {labels!r} need a label column; valid: the option label, or labels 'auto'")
        return random_signs(count, seed), f"random labels +-1 from seed {seed} (no label column)"
    name, texts = table.columns[label_at].name, table.texts(label_at)[:count]
    numbers = _numbers_or_none(table, label_at)
    values = texts if numbers is None else numbers[:count].tolist()
    classes = sorted(set(values))
    kind = labels
    if labels == "auto":
        kind = "sign" if len(classes) == 2 else "one-hot" if numbers is None else "real"
    if kind in ("given", "real"):
        wanted = torch.tensor(table.numbers(label_at), dtype=torch.float64)[:count]  # a text is an error here
        if kind == "given":
            return wanted.float(), f"labels the column {name!r} as it is"
        return real_targets(wanted), f"labels the standardised column {name!r}"
    if len(classes) > _MOST_CLASSES:
        raise InputError(f"column {name!r} has {len(classes)} values; valid: at most {_MOST_CLASSES} classes")
    positions = [classes.index(value) for value in values]
    targets = class_targets(positions, kind, range(len(classes)), len(classes))
    return targets, f"{describe_targets(targets, [f'{value}' for value in classes])} of the column {name!r}"


def _numbers_or_none(table: Table, index: int) -> torch.Tensor | None:
    """The column as numbers, or None if it holds texts."""
    try:
        return torch.tensor(table.numbers(index), dtype=torch.float64)
    except DataError:
        return None


SOURCE = DataSource(
    name="table",
    summary="your own CSV file: one record a line, names and units in the header",
    load=load_table,
    locate=lambda: "wherever `path` points",
    how_to_get="give the option path",
)
