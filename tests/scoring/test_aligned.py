"""Recovered rows aligned with the truth: undetermined norms and signs are taken from the truth."""

import pytest
import torch

from exhume.scoring import score_samples
from exhume.scoring.aligned import align

TRUTH = torch.tensor([[3.0, 4.0], [0.0, 2.0], [-6.0, 8.0]])
FACTORS = torch.tensor([-0.1, 2.0, 5.0])
ROWS = (TRUTH * FACTORS[:, None])[[2, 0, 1]]  # row 0 is sample 2, row 1 sample 0, row 2 sample 1


@pytest.mark.parametrize("truth", [TRUTH, TRUTH.reshape(3, 1, 1, 2)])
def test_open_norms_and_signs_are_those_of_the_truth(truth):
    score = score_samples(ROWS, truth, norms_known=False, signs_known=False)
    aligned = align(ROWS, score, truth)
    assert aligned.borrowed == ("norms", "signs")
    assert aligned.indices == (0, 1, 2)
    torch.testing.assert_close(aligned.rows, TRUTH)
    torch.testing.assert_close(aligned.every_row, TRUTH[[2, 0, 1]])
    assert aligned.errors == pytest.approx((0, 0, 0), abs=1e-6)


def test_claimed_signs_stay_as_they_were_found():
    score = score_samples(ROWS, TRUTH, norms_known=False)
    aligned = align(ROWS, score, TRUTH)
    assert aligned.borrowed == ("norms",)
    torch.testing.assert_close(aligned.rows, TRUTH * FACTORS.sign()[:, None])
    assert aligned.errors == pytest.approx((2, 0, 0), abs=1e-6)


def test_claimed_rows_are_shown_as_they_are():
    score = score_samples(ROWS, TRUTH)
    aligned = align(ROWS, score, TRUTH)
    assert aligned.borrowed == ()
    assert torch.equal(aligned.every_row, ROWS)
    assert torch.equal(aligned.rows, ROWS[[match.row for match in score.matches]])


def test_rows_without_a_match_get_the_mean_norm_of_the_truth():
    rows = torch.cat([ROWS, torch.tensor([[7.0, 0.0]])])
    score = score_samples(rows, TRUTH, norms_known=False, signs_known=False)
    assert score.strays == (3,)
    aligned = align(rows, score, TRUTH)
    torch.testing.assert_close(aligned.every_row[3], torch.tensor([17 / 3, 0.0]))
    assert torch.equal(rows[3], torch.tensor([7.0, 0.0]))  # the reconstruction itself is not changed
