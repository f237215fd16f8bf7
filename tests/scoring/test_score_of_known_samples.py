"""Scores leave out known samples, whether or not the result has rows for them."""

from types import SimpleNamespace

import pytest
import torch

from exhume.errors import InputError
from exhume.scoring.against_truth import score, score_samples


@pytest.fixture
def truth():
    return torch.randn(5, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_only_unknown_samples_are_counted(truth):
    found = score_samples(truth[[4, 0, 2]], truth, known=truth[[3, 1]])
    assert (found.num_samples, found.recovered, found.missing) == (3, 3, 0)
    assert found.known == (1, 3)
    assert found.error == 0
    assert [(match.truth_index, match.row) for match in found.matches] == [(0, 1), (2, 2), (4, 0)]
    assert "2 more were known" in found.summary()


def test_an_attack_that_looks_for_all_of_them_is_given_nothing_for_the_known(truth):
    found = score_samples(truth, truth, known=truth[:2])
    assert (found.num_samples, found.recovered) == (3, 3)
    assert found.duplicates == (0, 1)
    assert found.strays == ()


def test_rows_that_are_no_true_samples_are_not_known(truth):
    found = score_samples(truth, truth, known=torch.cat([-truth[:1], truth[1:2] + 0.001, 2 * truth[2:3]]))
    assert found.known == (1,)
    directions = score_samples(truth, truth, known=2 * truth[2:3], norms_known=False)
    assert directions.known == (2,)


def test_labels_pictures_and_features_are_those_of_the_unknown(truth):
    labels = torch.tensor([1.0, -1, 1, -1, 1])
    found = score_samples(
        truth[[2, 0]],
        truth,
        known=truth[[1, 3, 4]],
        labels=labels[[2, 0]],
        true_labels=labels,
        to_pictures=lambda rows: rows.reshape(-1, 1, 4, 5),
        features=lambda rows: rows,
    )
    assert found.label_accuracy == 1
    assert found.psnr == 100
    assert found.orthogonal_residual < 1e-12


def test_a_result_brings_what_it_knew(truth):
    result = SimpleNamespace(samples=truth[3:], knowledge=SimpleNamespace(samples=truth[:3].float()))
    assert score(result, truth).known == (0, 1, 2)


def test_nothing_left_to_find_is_an_error(truth):
    with pytest.raises(InputError, match="all 5 true samples were known"):
        score_samples(truth, truth, known=truth)
    with pytest.raises(InputError, match="known has 3 inputs a row; valid: 20"):
        score_samples(truth, truth, known=torch.ones(1, 3))
