"""Behaviour of the synthetic sphere data."""

from __future__ import annotations

import math

import pytest
import torch

from exhume.data import load
from exhume.errors import InputError


def test_same_seed_gives_the_same_data_and_another_seed_another() -> None:
    first, again, other = (load("sphere", dim=7, samples=5, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.labels, again.labels)
    assert torch.equal(first.non_members, again.non_members)
    assert not torch.equal(first.inputs, other.inputs)


def test_the_global_generator_is_neither_used_nor_moved() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = load("sphere", dim=7, samples=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(load("sphere", dim=7, samples=5).inputs, first.inputs)


def test_inputs_lie_on_the_sphere_and_spread_evenly() -> None:
    data = load("sphere", dim=10, samples=20_000, seed=0)
    for rows in (data.inputs, data.non_members):
        torch.testing.assert_close(rows.norm(dim=1), torch.full((20_000,), math.sqrt(10)), rtol=1e-5, atol=0)
        # A mean over 20,000 unit-variance values is below 5 / sqrt(20,000) = 0.035 with near certainty.
        assert float(rows.mean(dim=0).abs().max()) < 0.035
        torch.testing.assert_close(rows.T @ rows / len(rows), torch.eye(10), atol=0.05, rtol=0)
    assert not torch.equal(data.inputs, data.non_members)


def test_real_labels_are_linear_plus_noise_of_variance_one_quarter() -> None:
    data = load("sphere", dim=10, samples=20_000, seed=0)
    teacher = torch.linalg.lstsq(data.inputs, data.labels.unsqueeze(1)).solution
    residual = data.labels - (data.inputs @ teacher).flatten()
    assert float(residual.var()) == pytest.approx(0.25, abs=0.01)


def test_teacher_entries_have_variance_one_over_d() -> None:
    data = load("sphere", dim=200, samples=1_500, seed=0)
    teacher = torch.linalg.lstsq(data.inputs, data.labels.unsqueeze(1)).solution
    assert float(teacher.square().sum()) == pytest.approx(1.0, abs=0.35)


def test_sign_labels_are_noiseless_and_leave_the_inputs_alone() -> None:
    real, sign = (load("sphere", dim=10, samples=20_000, labels=labels, seed=0) for labels in ("real", "sign"))
    assert torch.equal(real.inputs, sign.inputs)
    assert torch.equal(real.non_members, sign.non_members)
    teacher = torch.linalg.lstsq(real.inputs, real.labels.unsqueeze(1)).solution
    agreement = ((real.inputs @ teacher).flatten().sign() == sign.labels).float().mean()
    assert set(sign.labels.tolist()) == {-1.0, 1.0}
    # The fitted teacher is off by about 1%, so near the boundary alone signs may differ.
    assert float(agreement) > 0.985


@pytest.mark.parametrize("options", [{"dim": 0}, {"samples": -1}, {"seed": -1}, {"labels": "noisy"}, {"samples": True}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="valid"):
        load("sphere", **options)
