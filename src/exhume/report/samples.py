"""The gallery of a report: recovered samples by certainty, as pictures, records or plain rows, beside their matches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from exhume import gallery, measures
from exhume.data import PictureFormat
from exhume.knowledge import Knowledge
from exhume.pixels import data_uri, shape_of_picture, stretched
from exhume.reconstruction import Reconstruction
from exhume.report import findings
from exhume.report.content import Field, Sample
from exhume.report.labels import in_words
from exhume.report.pictures import blurred
from exhume.report.subject import Subject


@dataclass(frozen=True)
class Gallery:
    """Samples, the most certain first, and what a reader must know of them."""

    samples: tuple[Sample, ...] = ()
    note: str = ""
    fields: tuple[Field, ...] = ()


def of(subject: Subject) -> Gallery:
    """The gallery of one attack; an empty one if it could not be run."""
    result = subject.result
    if result is None:
        return Gallery()
    rows, borrowed = _as_shown(subject, result)
    drawn, drawn_truth, drawing_note = _drawn(subject, result, rows)
    notes = [*_borrowed_words(result, borrowed, subject.score is not None), drawing_note]
    if subject.table is not None and not subject.redacted:
        notes.append("Original units follow from how the columns were standardised, which an attacker must know too.")
    if not bool(torch.isfinite(result.samples).all()):
        notes.append("The attack diverged: where it left no numbers, zeros are shown.")
    if subject.redacted:
        notes.append("Redacted: pictures are blurred, records and labels withheld.")
    bars: Sequence[float | None] = result.certificate.predicted_errors or [None] * len(rows)
    words = findings.certainties(result)
    labels = [None] * len(rows) if subject.redacted else in_words(subject, result.labels, len(rows))
    truths = 0 if subject.true_labels is None else len(subject.true_labels)
    true_labels = [None] * truths if subject.redacted else in_words(subject, subject.true_labels, truths)
    records, true_records = _records(subject, rows)
    matches = {match.row: match for match in subject.score.matches} if subject.score is not None else {}
    samples = []
    for row in range(len(rows)):
        match = matches.get(row)
        index = None if match is None else match.truth_index
        samples.append(
            Sample(
                row=row,
                certainty=words[row],
                error_bar=bars[row],
                picture=drawn[row] if drawn else None,
                true_picture=drawn_truth[index] if drawn_truth and index is not None else None,
                record=records[row] if records else (),
                true_record=true_records[index] if true_records and index is not None else (),
                label=labels[row],
                true_label=true_labels[index] if index is not None and index < truths else None,
                error=None if match is None else match.error,
                error_up_to_sign=None if match is None else match.error_up_to_sign,
                psnr=None if match is None else match.psnr,
                ssim=None if match is None else match.ssim,
                truth_index=index,
            )
        )
    samples.sort(key=lambda each: (math.inf if each.error_bar is None else each.error_bar, each.row))
    columns = () if subject.table is None else subject.table.columns
    fields = tuple(Field(column.name, column.unit) for column in columns)
    return Gallery(tuple(samples), " ".join(filter(None, notes)), fields)


def _as_shown(subject: Subject, result: Reconstruction) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Rows (m, d) with norms and signs of the truth where the attack leaves them open, and what was borrowed."""
    # A diverged attack leaves rows without numbers; nothing can be drawn of them.
    rows, truth, score = result.samples.detach().cpu().nan_to_num(0.0, 0.0, 0.0), subject.truth, subject.score
    if truth is None or score is None:
        return rows, ()
    truth = truth.detach().cpu().reshape(len(truth), -1)
    shown = gallery.as_shown(result, score, truth)
    if not result.norms_determined:
        # Rows beyond the truth have no match to take a norm from.
        rows = measures.on_sphere(rows, truth.norm(dim=1).mean().to(rows).expand(len(rows)))
    rows = rows.clone()
    rows[[match.row for match in score.matches]] = shown.rows.to(rows)
    return rows, shown.borrowed


def _borrowed_words(result: Reconstruction, borrowed: Sequence[str], scored: bool) -> list[str]:
    notes = []
    if borrowed:
        notes.append(
            f"The weights leave the {' and '.join(borrowed)} of the samples open; "
            "they are shown with those of their matches in the training data."
        )
    elif not scored and not result.norms_determined:
        notes.append("The weights leave the norms of the samples open: values are right up to a factor for each.")
    if not scored and not result.signs_determined:
        notes.append("The weights leave signs open: a sample may be the negative of what is shown.")
    return notes


def _drawn(subject: Subject, result: Reconstruction, rows: torch.Tensor) -> tuple[list[str], list[str], str]:
    """Data URIs of all rows and of all true samples, and how they were drawn; nothing if samples are no pictures."""
    if subject.table is not None:
        return [], [], ""
    shape = subject.picture.shape if subject.picture else shape_of_picture(subject.input_shape)
    if shape is None:
        return [], [], ""
    exact_norms = result.norms_determined or subject.score is not None
    picture = (subject.picture or _known_format(result.knowledge, shape)) if exact_norms else None

    def draw(vectors: torch.Tensor) -> list[str]:
        drawn = picture.to_pictures(vectors) if picture else stretched(vectors, shape)
        return [data_uri(each) for each in (blurred(drawn) if subject.redacted else drawn)]

    note = "" if picture else "Every picture is stretched to its own range of values, so brightness means nothing."
    truth = subject.truth if subject.score is not None else None
    true_rows = [] if truth is None else draw(truth.detach().cpu().float().reshape(len(truth), -1))
    return draw(rows.float()), true_rows, note


def _known_format(known: Knowledge, shape: tuple[int, int, int]) -> PictureFormat | None:
    """How vectors are pictures, from what the attacker knows of pixels; None if that is nothing."""
    if known.pixel_mean is None and known.pixel_std is None and known.pixel_range is None:
        return None
    low, high = known.pixel_range or (0.0, 1.0)
    mean, std = (
        (value if isinstance(value, tuple) else (default if value is None else value,))
        for value, default in ((known.pixel_mean, 0.0), (known.pixel_std, 1.0))
    )
    width = high - low
    if any(len(numbers) not in (1, shape[0]) for numbers in (mean, std)):
        return None
    return PictureFormat(shape, tuple((each - low) / width for each in mean), tuple(each / width for each in std))


def _records(subject: Subject, rows: torch.Tensor) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Recovered and true records in original units; none if the data are no table, or are redacted."""
    if subject.table is None or subject.redacted:
        return [], []
    to_records = subject.table.to_records
    found = [tuple(record) for record in to_records(rows).tolist()]
    if subject.truth is None or subject.score is None:
        return found, []
    truth = subject.truth.reshape(len(subject.truth), -1)
    return found, [tuple(record) for record in to_records(truth).tolist()]
