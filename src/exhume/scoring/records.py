"""Records: recovered rows of a table beside the true ones, in original units, and how many values are right."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import torch

from exhume.data import Column, TableFormat
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.scoring.aligned import align
from exhume.support import text

# How many records a terminal shows side by side.
_SHOWN = 3
_LONGEST_TITLE = 40


@dataclass(frozen=True)
class Records:
    """Recovered records and the true ones that they are matched to.

    Attributes:
        columns: names, units and decimals.
        indices: of the true records that have a match.
        recovered, true: (q, d) values in original units.
        num_samples: n true records that were looked for, matched or not.
        borrowed: what the attack leaves open and is taken from the truth: "norms", "signs".
    """

    columns: tuple[Column, ...]
    indices: tuple[int, ...]
    recovered: torch.Tensor
    true: torch.Tensor
    num_samples: int
    borrowed: tuple[str, ...]

    @property
    def right(self) -> torch.Tensor:
        """(q, d) whether a value, written as the original data write it, is the true one."""
        pairs = zip(self.recovered.tolist(), self.true.tolist(), strict=True)
        equal = [
            [column.text(a) == column.text(b) for column, a, b in zip(self.columns, *pair, strict=True)]
            for pair in pairs
        ]
        return torch.tensor(equal, dtype=torch.bool).reshape(-1, len(self.columns))

    @property
    def counted(self) -> torch.Tensor:
        """(d,) whether a column has a last digit: its decimals are known."""
        return torch.tensor([column.decimals is not None for column in self.columns])

    @property
    def values_right(self) -> int:
        """How many values are right to the last digit, in the columns that have one."""
        return int(self.right[:, self.counted].sum())

    @property
    def values(self) -> int:
        """How many there are in these columns, those of records without a match included."""
        return self.num_samples * int(self.counted.sum())

    def to_json(self) -> dict[str, int | list[str]]:
        """The counts, and what was borrowed, as plain JSON values."""
        return {"values_right": self.values_right, "values": self.values, "borrowed": list(self.borrowed)}

    def summary(self, shown: int = _SHOWN) -> str:
        """The first records, a line for each column: recovered, true, and a star where the two differ."""
        lines = []
        if self.values:
            lines.append(f"  {self.values_right} of {self.values} values right to the last digit")
        left_out = len(self.columns) - int(self.counted.sum())
        if left_out:
            lines.append(f"  {left_out} columns have more digits than the model carries and are not counted")
        if self.borrowed:
            lines.append(f"  {' and '.join(self.borrowed)} are shown as in the truth: the attack leaves them open")
        shown = min(shown, len(self.indices))
        lines.append(f"  {text.plural(shown, 'record')}, recovered | true; a star marks a difference:")
        return "\n".join([*lines, textwrap.indent(self._table(shown), "  ")])

    def _table(self, shown: int) -> str:
        right = self.right.tolist()
        rows = []
        for place, column in enumerate(self.columns):
            pairs = zip(self.recovered[:shown, place].tolist(), self.true[:shown, place].tolist(), strict=True)
            cells = [
                f"{column.text(a)} | {column.text(b)} {' ' if equal[place] else '*'}"
                for (a, b), equal in zip(pairs, right, strict=False)
            ]
            rows.append([column.title[:_LONGEST_TITLE], *cells])
        return text.table(["", *(f"record {index}" for index in self.indices[:shown])], rows)


def as_records(result: Reconstruction, score: Score, truth: torch.Tensor, table: TableFormat) -> Records:
    """The matched rows of a result as records, beside those of the truth (n, d)."""
    shown = align(result.samples, score, truth)
    return Records(
        table.columns,
        shown.indices,
        table.to_records(shown.rows),
        table.to_records(truth[list(shown.indices)]),
        score.num_samples,
        shown.borrowed,
    )
