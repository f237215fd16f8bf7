"""The content of a report as plain values: runs, comparisons, sweeps and audits fill it in, `page` renders it.

Texts are plain: the page escapes them. Charts are markup of our own making; images are data URIs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad it is, for the colour and the symbol beside the verdict."""

    LEAK = "leak"  # at least half of the samples were recovered
    PARTIAL = "partial"  # fewer were
    IN_WEIGHTS = "in-weights"  # none was, but the training data are in the weights
    INCONCLUSIVE = "inconclusive"  # none was, and it was not shown that none can be
    OUT_OF_REACH = "out-of-reach"  # fewer equations than unknowns in all published layers
    NEUTRAL = "neutral"  # a sweep or a comparison: no verdict on one model


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees.

    Attributes:
        level: how bad it is.
        headline: one sentence that somebody who has never heard of the law understands.
        sentences: what it rests on.
    """

    level: Level
    headline: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fact:
    """A name and its value, and a word of explanation if it needs one."""

    name: str
    value: str
    explanation: str = ""


@dataclass(frozen=True)
class Chart:
    """A drawing with its title, description and caption.

    Attributes:
        title: above it.
        image: SVG markup of our own making, or a data URI of a picture.
        description: what it shows, for those who cannot see it.
        caption: below it.
    """

    title: str
    image: str
    description: str
    caption: str = ""


class Link(str):
    """A text that leads to another page: the path of a file in the same folder or below it."""

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """A table that can be sorted and downloaded; cells are None, bool, numbers, texts or links."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""
    name: str = "table"  # of the file that is downloaded

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, Any]], *, caption: str = "", name: str = "table") -> Table:
        """A table of rows by the names of their columns; columns that no row fills are left out."""
        names = dict.fromkeys(column for row in rows for column in row)
        columns = tuple(column for column in names if any(row.get(column) is not None for row in rows))
        return cls(title, columns, tuple(tuple(row.get(column) for column in columns) for row in rows), caption, name)


@dataclass(frozen=True)
class Field:
    """A column of tabular data."""

    name: str
    unit: str = ""
    decimals: int | None = None  # of its values as they are written; None shows three significant digits


@dataclass(frozen=True)
class PipelineStep:
    """A step of a pipeline as the page draws it.

    Attributes:
        path: the names that lead to it.
        name: of its class.
        status: what it gives away, in two words.
        level: "leak", "partial", "open" or "ok", for its colour.
        sentences: what it holds, and why.
    """

    path: str
    name: str
    status: str
    level: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """A recovered sample.

    Attributes:
        row: which row of the reconstruction it is.
        certainty: "certain", "likely" or "not trusted", by the certificate alone.
        error_bar: expected relative error; None if the certificate gives none.
        picture, true_picture: data URIs; None if samples are no pictures, or the truth was not given.
        record, true_record: values in original units, one for each field of the report; empty if there are none.
        label, true_label: in words.
        error, error_up_to_sign, psnr, ssim: against the match in the truth, where it was given.
        truth_index: of that match.
        rank, p_value: of that match among samples that were not trained on, by distance to the closest row.
    """

    row: int
    certainty: str
    error_bar: float | None = None
    picture: str | None = None
    true_picture: str | None = None
    record: tuple[float | str, ...] = ()
    true_record: tuple[float | str, ...] = ()
    label: str | None = None
    true_label: str | None = None
    error: float | None = None
    error_up_to_sign: float | None = None
    psnr: float | None = None
    ssim: float | None = None
    truth_index: int | None = None
    rank: str | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Remedy:
    """Something that would reduce the risk, and why it applies to this model."""

    title: str
    text: str


@dataclass(frozen=True)
class Report:
    """Everything on one page. What is empty has no section.

    Attributes:
        title: names the model, run, comparison or sweep.
        verdict: the first thing a reader sees.
        pipeline: the steps of a pipeline, in the order in which rows reach them.
        facts: the key numbers.
        law: the model's place on the law's chart.
        samples: sorted by certainty, the most certain first.
        samples_note: how the samples are shown: norms or signs taken from the truth, pixels stretched.
        samples_folded: whether samples are shown on request only, because none of them was recovered.
        fields: of tabular data, in the order of a sample's record.
        premise: the attack's equation at the training data, layer by layer.
        diagnosis: what the weights show of the training.
        assumptions: what the attacker was assumed to know.
        convergence: charts of the attack's progress.
        layers: that the attack read, with their equations.
        defence_charts, defence_tables: of altered copies of the model.
        charts, tables: of comparisons and sweeps.
        remedies: what would reduce the risk.
        notes: further sentences.
        model_card: a Markdown snippet to be copied.
        provenance: versions, seeds, files and dates.
        redacted: whether pictures are blurred and values withheld.
    """

    title: str
    verdict: Verdict
    pipeline: tuple[PipelineStep, ...] = ()
    facts: tuple[Fact, ...] = ()
    law: Chart | None = None
    samples: tuple[Sample, ...] = ()
    samples_note: str = ""
    samples_folded: bool = False
    fields: tuple[Field, ...] = ()
    premise: tuple[Table, ...] = ()
    diagnosis: tuple[Fact, ...] = ()
    assumptions: tuple[Fact, ...] = ()
    convergence: tuple[Chart, ...] = ()
    layers: tuple[Table, ...] = ()
    defence_charts: tuple[Chart, ...] = ()
    defence_tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
    model_card: str = ""
    provenance: tuple[Fact, ...] = ()
    redacted: bool = False

    def to_json(self) -> dict[str, Any]:
        """What a reader may download: everything but pictures and drawings."""
        value = asdict(self)
        for sample in value["samples"]:
            del sample["picture"], sample["true_picture"]
        for name in ("law", "convergence", "defence_charts", "charts"):
            del value[name]
        return value
