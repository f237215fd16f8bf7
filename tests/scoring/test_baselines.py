"""Baselines: as many non-members as members, a permutation test, ranks, and findings that more data do not weaken."""

import pytest
import torch

from exhume.errors import InputError
from exhume.scoring.against_truth import score_samples
from exhume.scoring.baselines import DRAWS, SIGNIFICANT, Baseline, measure_baseline
from exhume.scoring.findings import RECOGNISABLE_BELOW

DIM, SAMPLES = 30, 8


def drawn(count, seed, dim=DIM):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def near(samples, error, seed=99):
    """Rows at so large a relative distance of the samples."""
    noise = drawn(len(samples), seed, samples.shape[1])
    return samples + error * noise * (samples.norm(dim=1) / noise.norm(dim=1))[:, None]


def baseline(truth, rows, non_members=None, *, up_to_sign=False):
    return measure_baseline(truth, rows, torch.arange(len(truth)), non_members, up_to_sign=up_to_sign, seed=0)


def test_as_many_non_members_as_members_are_matched_to_the_same_rows():
    truth, others = drawn(SAMPLES, 0), drawn(SAMPLES, 1)
    rows = near(truth, 0.3)
    found = baseline(truth, rows, others)
    # With as many non-members as members every draw is all of them: the error is that of one matching.
    assert found.error == pytest.approx(score_samples(rows, others).error)
    assert found.non_members == SAMPLES


def test_the_error_of_non_members_does_not_fall_with_their_number():
    truth, others = drawn(SAMPLES, 0), drawn(400, 1)
    rows = near(truth, 0.3)
    few, many = (baseline(truth, rows, others[:count]).error for count in (20, 400))
    assert many == pytest.approx(few, rel=0.05)


def test_recovered_samples_have_the_smallest_p_values_and_the_first_ranks():
    truth = drawn(SAMPLES, 0)
    found = baseline(truth, near(truth, 0.01), drawn(300, 1))
    assert found.p_value == pytest.approx(1 / (DRAWS + 1))
    assert found.ranks == (1,) * SAMPLES
    assert found.p_values == (1 / 301,) * SAMPLES
    assert found.true_positive_rate == 1
    assert found.recovered == 0


def test_the_true_positive_rate_needs_a_hundred_non_members():
    truth = drawn(SAMPLES, 0)
    assert baseline(truth, near(truth, 0.5), drawn(99, 1)).true_positive_rate is None
    assert baseline(truth, near(truth, 0.5), drawn(100, 1)).true_positive_rate is not None


def test_rows_that_have_nothing_to_do_with_the_members_are_no_finding():
    p_values, calls = [], 0
    for seed in range(60):
        truth, rows = drawn(SAMPLES, 3 * seed), drawn(SAMPLES, 3 * seed + 1)
        found = baseline(truth, rows, drawn(60, 3 * seed + 2))
        p_values.append(found.p_value)
        calls += found.recognised([0.4] * SAMPLES, RECOGNISABLE_BELOW) > 0
    assert calls <= 1
    assert 0.35 < sum(p_values) / len(p_values) < 0.65  # uniform under the null hypothesis


@pytest.mark.parametrize("error", [0.05, 0.3, 0.43])
def test_more_held_out_samples_never_weaken_a_finding(error):
    for seed in range(8):
        truth = drawn(SAMPLES, 2 * seed)
        rows, pool = near(truth, error, seed), drawn(300, 2 * seed + 1)
        found = [baseline(truth, rows, pool[:count] if count else None) for count in (0, 20, 60, 300)]
        counts = [each.recognised([error] * SAMPLES, RECOGNISABLE_BELOW) for each in found]
        assert counts[0] == 0  # nothing is recognised by closeness alone
        assert counts == sorted(counts)
        assert counts[-1] == SAMPLES


def test_a_mean_that_all_samples_share_is_no_recovery():
    """Samples that differ by less than the threshold: any of them would count as recovered."""
    common = drawn(1, 5)
    truth, others = common + 0.02 * drawn(SAMPLES, 6), common + 0.02 * drawn(50, 7)
    rows = common.repeat(SAMPLES, 1)
    for non_members in (others, None):
        found = baseline(truth, rows, non_members)
        assert not found.recovery_is_significant
        assert found.recovered == SAMPLES


def test_recovery_is_significant_also_beside_few_non_members_and_for_one_sample():
    for count in (1, 2, SAMPLES):
        truth = drawn(count, 0)
        for non_members in (None, drawn(2, 1)):
            assert baseline(truth, near(truth, 1e-3), non_members).recovery_is_significant


def test_a_member_among_the_non_members_is_not_counted_as_one():
    truth, others = drawn(SAMPLES, 0), drawn(100, 1)
    rows = near(truth, 0.01)
    assert baseline(truth, rows, torch.cat([truth, others])) == baseline(truth, rows, others)


def test_signs_are_forgiven_where_the_attack_does_not_claim_them():
    truth, others = drawn(SAMPLES, 0), drawn(100, 1)
    assert baseline(truth, -near(truth, 0.01), others, up_to_sign=True).p_value <= SIGNIFICANT
    assert baseline(truth, -near(truth, 0.01), others).p_value > SIGNIFICANT


def test_no_non_members_at_all_are_refused():
    with pytest.raises(InputError, match="non_members has no rows"):
        baseline(drawn(2, 0), drawn(2, 1), drawn(0, 1))


def test_one_sample_alone_is_recognised_if_it_beats_very_many():
    alone = Baseline(2000, 1.0, 0.0, 0.0025, p_value=0.3, ranks=(1, 900, 1000))
    assert alone.recognised([0.3, 0.4, 0.4], RECOGNISABLE_BELOW) == 1
    assert Baseline(100, 1.0, 0.0, 0.0025, p_value=0.3, ranks=(1, 50, 60)).recognised([0.3] * 3, 0.5) == 0
