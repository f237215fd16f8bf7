"""What a report is about: one attack on one model, and the truth if it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from exhume.data import PictureFormat, TableFormat
from exhume.defences import Outcome
from exhume.law import Forecast
from exhume.reconstruction import Reconstruction
from exhume.report.content import Fact
from exhume.scoring import Score


@dataclass(frozen=True)
class Subject:
    """One attack on one model, as the report tells of it.

    Attributes:
        name: of the model, in the user's words.
        result: what the attack recovered; None if it could not be run, and `reason` says why.
        reason: why there is no result.
        forecast: the law's word on the sizes; None if the number of samples is not known.
        input_shape: of one sample.
        picture: how samples are drawn; by default pictures are stretched to their own range if their shape allows.
        table: how samples are records of a table.
        truth, true_labels: the training data, if they were given.
        score: of the result against the truth.
        class_names: of the outputs, for labels.
        defences: what the same attack found on altered copies.
        notes: what else is worth telling.
        provenance: versions, files, dates.
        redacted: blur pictures and withhold values.
    """

    name: str
    result: Reconstruction | None
    forecast: Forecast | None
    input_shape: tuple[int, ...]
    reason: str = ""
    picture: PictureFormat | None = None
    table: TableFormat | None = None
    truth: torch.Tensor | None = None
    true_labels: torch.Tensor | None = None
    score: Score | None = None
    class_names: Sequence[str] = ()
    defences: Sequence[Outcome] = ()
    notes: Sequence[str] = ()
    provenance: Sequence[Fact] = field(default_factory=tuple)
    redacted: bool = False
