"""Recovered rows as they are shown beside the truth: norms and signs that the attack leaves open are the truth's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from exhume.scoring.against_truth import Score
from exhume.scoring.matching import borrow, on_sphere


@dataclass(frozen=True)
class AlignedRows:
    """Recovered rows with the norms and signs of the truth where the attack leaves them open.

    Attributes:
        indices: of the true samples that have a match, q of them.
        rows: (q, d) their matches.
        errors: (q,) of the matches, up to sign if the signs are the truth's.
        every_row: (m, d) all rows; if norms are open, those without a match have the mean norm of the truth.
        borrowed: what is the truth's: "norms", "signs".
    """

    indices: tuple[int, ...]
    rows: Tensor
    errors: tuple[float, ...]
    every_row: Tensor
    borrowed: tuple[str, ...]


def align(samples: Tensor, score: Score, truth: Tensor) -> AlignedRows:
    """Aligns the rows of a reconstruction (m, d) with the truth (n, d) that they were scored against."""
    truth = truth.detach().flatten(1)
    every_row = samples.detach().to(truth, copy=True)  # (m, d)
    indices, places = ([getattr(match, name) for match in score.matches] for name in ("truth_index", "row"))
    flipped = torch.tensor([match.flipped for match in score.matches], dtype=torch.bool)
    rows = borrow(
        every_row[places], truth[indices], flipped, norms_known=score.norms_claimed, signs_known=score.signs_claimed
    )
    if not score.norms_claimed:
        every_row = on_sphere(every_row, float(truth.norm(dim=1).mean()))
    every_row[places] = rows
    claims = {"norms": score.norms_claimed, "signs": score.signs_claimed}
    borrowed = tuple(name for name, claimed in claims.items() if not claimed)
    return AlignedRows(tuple(indices), rows, score.claimed_errors, every_row, borrowed)
