"""What an audit of an estimator found, as plain values: step by step, and the columns of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StepKind(StrEnum):
    """What a step of a pipeline gives away, from bad to harmless."""

    KEEPS_ROWS = "keeps rows"  # training rows stand in the file
    RECOVERED = "rows recovered"  # training rows were computed from its weights
    NOT_RECOVERED = "nothing recovered"  # an attack was run and returned nothing that is certified
    DECLINED = "not examined"  # no attack of exhume applies: nothing is shown
    STATISTICS = "statistics"  # means, ranges, categories
    NOTHING = "nothing of the rows"  # it holds no number that depends on single rows


@dataclass(frozen=True)
class StepFinding:
    """One step of a pipeline.

    Attributes:
        path: the names that lead to it.
        name: of its class.
        kind: what it gives away.
        rows: training rows that it keeps or that were recovered from it.
        leaks: what else it tells, in sentences.
        reason: why it keeps them, why nothing was recovered, or why it was not examined.
    """

    path: str
    name: str
    kind: StepKind
    rows: int = 0
    leaks: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class FitColumn:
    """A column of what was passed to `fit`; its values are numbers, or places in `categories`."""

    name: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class PipelineFindings:
    """The steps of a pipeline in the order in which rows reach them, and the columns of its rows.

    Attributes:
        steps: all of them.
        columns: of a recovered row; columns that no step reads are left out.
        left_out: names of these.
    """

    steps: tuple[StepFinding, ...]
    columns: tuple[FitColumn, ...] = ()
    left_out: tuple[str, ...] = ()
