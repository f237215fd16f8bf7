"""The gallery of a report: recovered samples by certainty, as pictures, records or plain rows, beside their matches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from exhume.data import Dataset, PictureFormat
from exhume.errors import InputError
from exhume.report.content import Field, Sample
from exhume.report.subject import Subject
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.scoring.aligned import align
from exhume.scoring.findings import certainties
from exhume.support.images import blurred, data_uri, shape_of_picture, stretched
from exhume.support.labels import are_one_hot, in_words
from exhume.target.knowledge import Knowledge

# What a sample's match in the truth tells of it.
_OF_MATCH = ("truth_index", "error", "error_up_to_sign", "psnr", "ssim")


@dataclass(frozen=True)
class Gallery:
    """Samples, the most certain first, and what a reader must know of them."""

    samples: tuple[Sample, ...] = ()
    note: str = ""
    fields: tuple[Field, ...] = ()


def gallery_of(subject: Subject) -> Gallery:
    """The gallery of one attack; an empty one if it could not be run."""
    result = subject.result
    if result is None:
        return Gallery()
    data = subject.dataset or Dataset.without_samples(result.samples.shape[1])
    rows, borrowed = _as_shown(subject, result, data)
    drawn, drawn_truth, drawing_note = _drawn(subject, result, data, rows)
    notes = [*_borrowed_words(result, borrowed, subject.score is not None), drawing_note]
    if data.table is not None and not subject.redacted:
        notes.append("Original units follow from how the columns were standardised, which an attacker must know too.")
    if not bool(torch.isfinite(result.samples).all()):
        notes.append("The attack diverged: where it left no numbers, zeros are shown.")
    if subject.score is not None and not shows_truth(subject):
        notes.append("True samples are not shown, because none of them came back; --show-truth shows them.")
    if subject.redacted:
        notes.append("Redacted: pictures are blurred, records and labels withheld.")
    bars: Sequence[float | None] = result.certificate.predicted_errors or [None] * len(rows)
    words = certainties(result)
    labels, true_labels = (_labels(subject, each, data) for each in (result.labels, data.labels))
    records, true_records = _records(subject, data, rows)
    matches = {match.row: match for match in subject.score.matches} if subject.score is not None else {}
    ranks = _ranks(subject.score)
    samples = []
    for row in range(len(rows)):
        index = matches[row].truth_index if row in matches else None
        samples.append(
            Sample(
                row=row,
                certainty=words[row],
                error_bar=bars[row],
                picture=drawn[row] if drawn else None,
                true_picture=drawn_truth[index] if drawn_truth and index is not None else None,
                record=records[row] if records else (),
                true_record=true_records[index] if true_records and index is not None else (),
                label=labels[row] if row < len(labels) else None,
                true_label=true_labels[index] if index is not None and index < len(true_labels) else None,
                **ranks.get(row, {}),
                **{name: getattr(matches.get(row), name, None) for name in _OF_MATCH},
            )
        )
    samples.sort(key=lambda each: (math.inf if each.error_bar is None else each.error_bar, each.row))
    columns = () if data.table is None else data.table.columns
    fields = tuple(Field(column.name, column.unit) for column in columns)
    return Gallery(tuple(samples), " ".join(filter(None, notes)), fields)


def shows_truth(subject: Subject) -> bool:
    """Whether true samples are shown: something of them came back, or they were asked for."""
    found = subject.findings
    return subject.show_truth or found.recovered > 0 or found.recognised > 0


def _ranks(score: Score | None) -> dict[int, dict[str, Any]]:
    """For every matched row its rank among the non-members, and its p-value."""
    if score is None or score.baseline is None or not score.baseline.ranks:
        return {}
    baseline = score.baseline
    among = baseline.non_members + 1
    pairs = zip(score.matches, baseline.ranks, baseline.p_values, strict=True)
    return {match.row: {"rank": f"{rank:,} of {among:,}", "p_value": p_value} for match, rank, p_value in pairs}


def _as_shown(subject: Subject, result: Reconstruction, data: Dataset) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Rows (m, d) with norms and signs of the truth where the attack leaves them open, and what was borrowed."""
    if subject.score is None:
        # A diverged attack has no score; its rows that hold no numbers are shown as zeros.
        return result.samples.detach().cpu().nan_to_num(0.0, 0.0, 0.0), ()
    aligned = align(result.samples, subject.score, data.inputs.cpu())
    return aligned.every_row, aligned.borrowed


def _labels(subject: Subject, labels: torch.Tensor | None, data: Dataset) -> list[str]:
    """Labels in words; none if there are none, or they are withheld."""
    if labels is None or not len(labels) or subject.redacted:
        return []
    alphabet = None if subject.result is None else subject.result.knowledge.label_alphabet
    if data.is_labelled and are_one_hot(data.labels):
        alphabet = "one-hot"
    return in_words(labels, subject.class_names, alphabet)


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


def _drawn(
    subject: Subject, result: Reconstruction, data: Dataset, rows: torch.Tensor
) -> tuple[list[str], list[str], str]:
    """Data URIs of all rows and of all true samples, and how they were drawn; nothing if samples are no pictures."""
    if data.table is not None:
        return [], [], ""
    shape = data.picture.shape if data.picture else shape_of_picture(subject.input_shape)
    if shape is None:
        return [], [], ""
    exact_norms = result.norms_determined or subject.score is not None
    picture = (data.picture or _known_format(result.knowledge, shape)) if exact_norms else None

    def draw(vectors: torch.Tensor) -> list[str]:
        drawn = picture.to_pictures(vectors) if picture else stretched(vectors, shape)
        return [data_uri(each) for each in (blurred(drawn) if subject.redacted else drawn)]

    note = "" if picture else "Every picture is stretched to its own range of values, so brightness means nothing."
    truth = subject.score is not None and shows_truth(subject)
    return draw(rows.float()), draw(data.inputs.cpu()) if truth else [], note


def _known_format(known: Knowledge, shape: tuple[int, int, int]) -> PictureFormat | None:
    """How vectors are pictures, from what the attacker knows of pixels; None if that is nothing."""
    if known.pixel_mean is None and known.pixel_std is None and known.pixel_range is None:
        return None
    with suppress(InputError):  # as many numbers as another count of channels needs
        return PictureFormat.of_pixels(shape, known.pixel_mean, known.pixel_std, known.pixel_range)
    return None


def _records(
    subject: Subject, data: Dataset, rows: torch.Tensor
) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Recovered and true records in original units; none if the data are no table, or are redacted."""
    if data.table is None or subject.redacted:
        return [], []
    found, true = ([tuple(record) for record in data.table.to_records(each).tolist()] for each in (rows, data.inputs))
    return found, true if subject.score is not None and shows_truth(subject) else []
