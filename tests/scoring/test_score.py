"""Scores against brute force, dense projectors and cases worked out by hand."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import exhume
from exhume import data
from exhume.errors import InputError
from exhume.scoring.against_truth import score, score_samples


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def sphere(count: int, dim: int, seed: int = 0) -> Tensor:
    rows = gaussian(count, dim, seed=seed)
    return rows / rows.norm(dim=1, keepdim=True) * math.sqrt(dim)


def brute_force(truth: Tensor, rows: Tensor, signs: tuple[int, ...]) -> float:
    """Eq. (12) by trying every permutation and the best sign of each pair."""
    dim, count = truth.shape[1], len(truth)
    return min(
        sum(
            min(float((truth[i] - sign * rows[j]).norm()) for sign in signs) / math.sqrt(dim)
            for i, j in enumerate(order)
        )
        / count
        for order in itertools.permutations(range(count))
    )


def test_a_permuted_copy_is_recovered_exactly() -> None:
    truth = sphere(7, 12)
    order = [3, 0, 6, 1, 5, 2, 4]
    found = score_samples(truth[order], truth)
    assert found.error == found.error_up_to_sign == 0
    assert found.recovered == found.recovered_up_to_sign == 7
    assert [match.row for match in found.matches] == [order.index(i) for i in range(7)]
    assert [match.truth_index for match in found.matches] == list(range(7))
    assert not any(match.flipped for match in found.matches)


def test_flipped_samples_are_recovered_only_up_to_sign() -> None:
    truth = sphere(6, 50)
    rows = truth.clone()
    rows[[1, 4]] *= -1
    found = score_samples(rows, truth)
    assert found.error_up_to_sign == 0
    assert found.recovered_up_to_sign == 6
    assert found.recovered == 4
    assert [match.flipped for match in found.matches] == [False, True, False, False, True, False]
    assert found.matches[1].error == pytest.approx(2)
    # The signed matching may pair the two flipped rows crosswise, which beats 2 + 2 when they are nearly orthogonal.
    crosswise = float((truth[1] + truth[4]).norm()) / math.sqrt(50)
    assert found.error == pytest.approx(min(4, 2 * crosswise) / 6)


@pytest.mark.parametrize("seed", range(6))
def test_both_errors_match_brute_force(seed: int) -> None:
    truth, rows = sphere(5, 3, seed), sphere(5, 3, seed + 100)
    found = score_samples(rows, truth)
    assert found.error_up_to_sign == pytest.approx(brute_force(truth, rows, (1, -1)), abs=1e-8)
    assert found.error == pytest.approx(brute_force(truth, rows, (1,)), abs=1e-8)


def test_one_sign_is_forgiven_per_sample_and_never_per_coordinate() -> None:
    truth = torch.ones(1, 8)
    rows = truth * torch.tensor([1, -1, 1, -1, 1, -1, 1, -1])
    found = score_samples(rows, truth)
    assert float((truth.abs() - rows.abs()).norm()) == 0  # the element-wise metric would call this perfect
    assert found.error_up_to_sign == pytest.approx(math.sqrt(2))
    assert found.recovered_up_to_sign == 0


def test_errors_are_relative_to_the_norm_of_each_true_sample() -> None:
    truth = torch.tensor([[100.0, 0.0], [0.0, 0.01]])
    found = score_samples(torch.tensor([[95.0, 0.0], [0.0, 0.005]]), truth)
    assert [match.error for match in found.matches] == pytest.approx([0.05, 0.5])
    assert found.error == pytest.approx(0.275)
    assert found.recovered == 1


def test_directions_are_compared_when_norms_are_unknown() -> None:
    truth = gaussian(5, 20)
    rows = truth * torch.tensor([0.1, 2.0, 30.0, 1.0, 7.0])[:, None]
    directions = score_samples(rows, truth, norms_known=False)
    assert (directions.compared, directions.recovered) == ("directions", 5)
    assert directions.error < 1e-14
    vectors = score_samples(rows, truth)
    assert (vectors.compared, vectors.recovered) == ("vectors", 1)


def test_a_zero_row_is_as_far_off_as_a_missing_one() -> None:
    truth = sphere(3, 10)
    rows = torch.cat((truth[:2], torch.zeros(1, 10)))
    for norms_known in (True, False):
        found = score_samples(rows, truth, norms_known=norms_known)
        assert found.error == pytest.approx(1 / 3)
        assert found.missing == 0


def test_missing_samples_count_with_error_one() -> None:
    truth = sphere(4, 10)
    found = score_samples(truth[[2]], truth)
    assert found.error == found.error_up_to_sign == pytest.approx(3 / 4)
    assert (found.missing, found.recovered, len(found.matches)) == (3, 1, 1)
    assert found.matches[0].truth_index == 2


def test_an_empty_reconstruction_scores_one() -> None:
    found = score_samples(torch.empty(0, 10), sphere(4, 10), features=lambda x: x @ torch.ones(10, 3, dtype=x.dtype))
    assert (found.error, found.recovered, found.matches, found.missing) == (1, 0, (), 4)


def test_extra_rows_are_duplicates_or_strays() -> None:
    truth = sphere(3, 40)
    stray = sphere(1, 40, seed=9)
    rows = torch.cat((-truth[:1] + 0.001, stray, truth, truth[2:] * 1.05))
    found = score_samples(rows, truth)
    assert [match.row for match in found.matches] == [2, 3, 4]
    assert found.duplicates == (0, 5)
    assert found.strays == (1,)
    assert found.missing == 0
    assert found.error == 0


def test_of_a_row_and_its_negative_the_right_sign_is_matched() -> None:
    truth = sphere(2, 6)
    found = score_samples(torch.cat((-truth, truth)), truth)
    assert [match.row for match in found.matches] == [2, 3]
    assert found.duplicates == (0, 1)


@pytest.mark.parametrize(("dim", "low", "high"), [(1000, 1.30, math.sqrt(2)), (3, 0.1, 1.0)])
def test_random_directions_score_just_below_the_square_root_of_two(dim: int, low: float, high: float) -> None:
    truth = 3.0 * sphere(20, dim, seed=0)  # drawn from the baseline's own seed, and yet not met again
    found = score_samples(truth, truth, seed=0)
    assert low < found.baseline_random < high
    assert found.baseline_random == score_samples(truth.flip(0), truth).baseline_random
    assert found.baseline_random != score_samples(truth, truth, seed=1).baseline_random


def test_non_members_are_scored_like_members() -> None:
    truth, others, state = sphere(4, 5), sphere(4, 5, seed=3), torch.get_rng_state()
    rows = sphere(4, 5, seed=8)
    found = score_samples(rows, truth, non_members=others)
    assert found.baseline_non_members == pytest.approx(brute_force(others, rows, (1,)), abs=1e-8)
    found = score_samples(rows, truth, non_members=others, signs_known=False)
    assert found.baseline_non_members == pytest.approx(brute_force(others, rows, (1, -1)), abs=1e-8)
    # A member among them is none, at whatever norm where norms are not compared.
    assert score_samples(truth, truth, non_members=5 * truth[:1], norms_known=False).baseline_non_members is None
    assert score_samples(truth, truth).baseline_non_members is None
    assert torch.equal(torch.get_rng_state(), state)  # no baseline draws from the global generator


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [4, 6, 30])
def test_orthogonal_residual_matches_a_dense_projector(count: int, dtype: torch.dtype) -> None:
    truth, rows = sphere(6, 8).to(dtype), sphere(count, 8, seed=1).to(dtype)
    rows[1] = rows[0]  # a repeated row adds nothing to the span
    weights = gaussian(8, 25, seed=2).to(dtype)

    def features(x: Tensor) -> Tensor:
        return torch.relu(x @ weights)

    phi, phi_hat = features(truth).double(), features(rows).double()
    projector = torch.eye(25) - torch.linalg.pinv(phi_hat, rtol=1e-6) @ phi_hat
    oracle = float((phi @ projector).norm(dim=1).mean()) / 5  # sqrt(p) = 5
    found = score_samples(rows, truth, features=features)
    assert found.orthogonal_residual == pytest.approx(oracle, abs=1e-12 if dtype == torch.float64 else 1e-5)


def test_orthogonal_residual_of_the_truth_is_rounding_even_if_it_is_ill_conditioned() -> None:
    truth = sphere(5, 8)
    truth[1] = truth[0] + 1e-7 * truth[2]
    weights = gaussian(8, 60, seed=2)
    found = score_samples(truth.flip(0), truth, features=lambda x: torch.tanh(x @ weights))
    assert found.orthogonal_residual is not None
    assert found.orthogonal_residual < 1e-14


def as_pictures(shape: tuple[int, int, int]) -> object:
    return lambda rows: rows.reshape(-1, *shape)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 16), (3, 2, 5)])
def test_pictures_give_psnr_and_ssim(shape: tuple[int, int, int]) -> None:
    truth = torch.rand(4, math.prod(shape), dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.8
    perfect = score_samples(truth.flip(0), truth, to_pictures=as_pictures(shape))  # type: ignore[arg-type]
    assert (perfect.psnr, perfect.ssim) == pytest.approx((100, 1))
    off = score_samples(truth + 0.1, truth, to_pictures=as_pictures(shape))  # type: ignore[arg-type]
    assert off.psnr == pytest.approx(20, abs=1e-4)  # -10 log10(0.1^2)
    assert off.ssim is not None
    assert 0 < off.ssim < 1
    assert off.matches[2].psnr == pytest.approx(20, abs=1e-4)
    assert score_samples(truth, truth).psnr is None


def test_unclaimed_signs_and_norms_are_lent_by_the_truth_for_pictures() -> None:
    truth = sphere(3, 64) * 2

    def to_pictures(rows: Tensor) -> Tensor:
        return (rows / 20 + 0.5).reshape(-1, 1, 8, 8)

    rows = -truth / 4
    lent = score_samples(rows, truth, signs_known=False, norms_known=False, to_pictures=to_pictures)
    claimed = score_samples(rows, truth, norms_known=False, to_pictures=to_pictures)
    assert lent.psnr == pytest.approx(100)
    assert claimed.psnr is not None
    assert claimed.psnr < 20


@pytest.mark.parametrize(
    ("labels", "true_labels", "accuracy", "error"),
    [
        ([0.8, -1.2, -0.1, 1.0], [1, -1, 1, 1], 0.75, None),
        ([0.2, -0.1, 0.9, 0.8], [1, 1, 1, 1], 0.75, None),
        ([[0.9, 0.2], [0.4, 0.3], [0, 1], [0, 1]], [[1, 0], [0, 1], [0, 1], [0, 1]], 0.75, None),
        ([0, 1, 1, 0], [[1, 0], [0, 1], [0, 1], [0, 1]], 0.75, None),
        ([3, 1, 2, 0], [3, 1, 2, 2], 0.75, None),
        ([[0.1], [0.3], [0.5], [0.9]], [0.2, 0.3, 0.6, 0.8], None, 0.1),
    ],
)
def test_labels_are_judged_by_their_kind(
    labels: list[float], true_labels: list[float], accuracy: float | None, error: float | None
) -> None:
    truth = sphere(4, 9)
    order = [2, 0, 3, 1]
    shuffled = torch.tensor(labels)[order]
    found = score_samples(truth[order], truth, labels=shuffled, true_labels=torch.tensor(true_labels))
    assert found.label_accuracy == accuracy
    assert found.label_error == (error if error is None else pytest.approx(error))


def test_score_reads_what_the_result_claims() -> None:
    truth = sphere(3, 9)
    claims = SimpleNamespace(
        samples=-2 * truth, signs_determined=False, norms_determined=False, labels=torch.tensor([1.0, -1.0, 1.0])
    )
    found = score(claims, truth.numpy(), true_labels=np.array([1, -1, -1]))
    assert (found.compared, found.recovered, found.recovered_up_to_sign) == ("directions", 0, 3)
    assert found.label_accuracy == pytest.approx(2 / 3)
    assert score(SimpleNamespace(samples=truth), truth).compared == "vectors"


def test_json_and_summary_hold_the_numbers() -> None:
    truth = sphere(5, 64)
    found = score_samples(truth[:4], truth, to_pictures=as_pictures((1, 8, 8)))  # type: ignore[arg-type]
    value = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert value["recovered"] == 4
    assert value["baseline_non_members"] is None
    assert value["matches"][0]["psnr"] == 100
    assert value["error"] == pytest.approx(0.2)
    text = found.summary()
    assert all(words in text for words in ("4 of 5 samples recovered", "1 missing", "PSNR"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": torch.tensor([[1.0, float("nan")]])}, "samples holds NaN or infinity, first in row 0"),
        ({"truth": torch.tensor([[1.0, float("inf")]])}, "truth holds NaN"),
        ({"truth": torch.tensor([[1.0, 1.0], [0.0, 0.0]])}, "row 1 of truth is zero"),
        ({"truth": torch.empty(0, 2)}, "truth has no rows"),
        ({"samples": torch.ones(2)}, "samples has shape \\(2,\\)"),
        ({"samples": torch.ones(2, 3)}, "samples has 3 inputs a row; valid: 2"),
        ({"non_members": torch.ones(2, 3)}, "non_members has 3 inputs"),
        ({"non_members": torch.ones(0, 2)}, "non_members has no rows"),
        ({"labels": torch.ones(4), "true_labels": torch.ones(1)}, "labels has shape"),
        ({"to_pictures": lambda rows: rows}, "to_pictures gave shape"),
    ],
)
def test_errors_name_the_value_and_what_is_valid(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"samples": torch.ones(1, 2), "truth": torch.ones(1, 2), **changes}
    with pytest.raises(InputError, match=message):
        score_samples(**arguments)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_the_truth_does_not_matter(seed: int, n: int, m: int, random: object) -> None:
    truth, rows = gaussian(n, 4, seed=seed), gaussian(m, 4, seed=seed + 1)
    row_order, truth_order = list(range(m)), list(range(n))
    random.shuffle(row_order)  # type: ignore[attr-defined]
    random.shuffle(truth_order)  # type: ignore[attr-defined]
    here, there = score_samples(rows, truth), score_samples(rows[row_order], truth[truth_order])
    assert there.error == pytest.approx(here.error, abs=1e-8)
    assert there.error_up_to_sign == pytest.approx(here.error_up_to_sign, abs=1e-8)
    assert here.error_up_to_sign <= here.error + 1e-8
    pairs = {(match.truth_index, match.row) for match in here.matches}
    assert {(truth_order[match.truth_index], row_order[match.row]) for match in there.matches} == pairs
    assert (here.recovered, len(here.strays)) == (there.recovered, len(there.strays))


def test_the_truth_may_have_the_shape_of_the_input() -> None:
    truth, rows = gaussian(3, 16, seed=1).reshape(3, 1, 4, 4), gaussian(3, 16, seed=2)
    others = gaussian(5, 16, seed=3).reshape(5, 1, 4, 4)
    shaped = score_samples(rows, truth, non_members=others, known=truth[:1], features=lambda inputs: inputs @ rows.T)
    flat = score_samples(
        rows,
        truth.flatten(1),
        non_members=others.flatten(1),
        known=truth[:1].flatten(1),
        features=lambda inputs: inputs @ rows.T,
    )
    assert shaped == flat


def test_a_result_on_pictures_is_scored_with_the_truth_as_pictures_or_flattened() -> None:
    digits = data.load("digits", samples=3)
    target = exhume.RandomFeatures(num_features=400).fit(digits.inputs, digits.labels).target()
    result = exhume.Descent(max_steps=3)(target, num_samples=3)
    pictures = digits.inputs.reshape(3, 1, 8, 8)
    assert exhume.score(result, pictures) == exhume.score(result, digits.inputs.flatten(1))
    with pytest.raises(InputError, match="64 inputs a row; valid: 56"):
        exhume.score(result, pictures[..., :7])


def test_claimed_errors_are_up_to_sign_only_where_signs_are_not_claimed() -> None:
    truth = gaussian(4, 6)
    rows = truth * torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=truth.dtype)[:, None]
    signed, unsigned = score_samples(rows, truth), score_samples(rows, truth, signs_known=False)
    assert (signed.signs_claimed, signed.claimed_error, signed.claimed_recovered) == (True, signed.error, 2)
    assert (unsigned.signs_claimed, unsigned.claimed_error, unsigned.claimed_recovered) == (False, 0, 4)
    assert signed.claimed_errors == pytest.approx((0, 2, 0, 2))
    assert unsigned.claimed_errors == (0, 0, 0, 0)
