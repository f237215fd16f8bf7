"""DP-SGD through opacus: the reported epsilon, the fit without noise, and the reason given if it cannot run."""

import importlib
import math
import re
import sys
import warnings

import pytest
import torch

from exhume.defences import PrivateTraining, private
from exhume.defences.altered import owner_initial_head, trained_head
from exhume.defences.private import train_privately

pytest.importorskip("opacus")


def variant_of(release, epsilon):
    (variant,) = PrivateTraining((epsilon,)).variants(release)
    return variant


@pytest.mark.parametrize("epsilon", [100.0, 3.0])
def test_the_epsilon_in_the_note_is_that_of_opacus_accountant(features_release, epsilon):
    note = variant_of(features_release, epsilon).note
    said = float(re.search(r"epsilon ([\d.]+) at delta 0.033", note).group(1))
    sigma = importlib.import_module("opacus.accountants.utils").get_noise_multiplier(
        target_epsilon=epsilon, target_delta=1 / 30, sample_rate=1.0, steps=200, accountant="rdp"
    )
    accountant = importlib.import_module("opacus.accountants").RDPAccountant()
    accountant.history = [(sigma, 1.0, 200)]
    assert said == pytest.approx(accountant.get_epsilon(delta=1 / 30), rel=0.01)
    assert 0.98 * epsilon <= said <= epsilon


def test_without_noise_clipped_descent_is_plain_descent_where_nothing_is_clipped():
    generator = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn((3, 40), generator=generator, dtype=torch.float64))
    wanted = torch.tensor([[0.4], [-0.7], [0.2]], dtype=torch.float64)
    moved, spent = train_privately(features, torch.zeros_like(wanted), wanted, "numbers", math.inf, generator)
    head = torch.zeros((1, 40), dtype=torch.float64)
    for _ in range(200):
        head -= 0.5 / 3 * (features @ head.T - wanted).T @ features
    torch.testing.assert_close(moved, head)
    assert spent == math.inf


@pytest.mark.parametrize("which", ["features_release", "signs_release", "net_release"])
def test_without_noise_it_fits_the_training_data(which, request):
    release = request.getfixturevalue(which)
    changed = variant_of(release, math.inf).release
    assert changed.training_error < 1e-3
    moved = trained_head(changed.target) - owner_initial_head(release.target)
    torch.testing.assert_close(moved, changed.target.displacement, atol=1e-6, rtol=1e-4)


def test_noise_grows_as_epsilon_shrinks_and_follows_the_seed(features_release):
    plain = variant_of(features_release, math.inf).release.target.displacement
    far, near = (
        float((variant_of(features_release, each).release.target.displacement - plain).norm()) for each in (1.0, 100.0)
    )
    assert far > 5 * near > 0
    again = variant_of(features_release, 100.0).release.target.displacement
    assert torch.equal(again, variant_of(features_release, 100.0).release.target.displacement)


def test_it_warns_of_nothing_and_leaves_the_global_generator_alone(features_release):
    state = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        variant_of(features_release, 10.0)
    assert torch.equal(torch.get_rng_state(), state)


def test_without_opacus_it_says_how_to_install_it(features_release, monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    variant = variant_of(features_release, 10.0)
    assert variant.release is None
    assert "pip install 'exhume[dp]'" in variant.reason


def test_too_large_a_head_is_a_reason_with_the_limit(features_release, monkeypatch):
    monkeypatch.setattr(private, "MOST_GRADIENTS", 899)
    assert "900 numbers a step; at most 899" in variant_of(features_release, 10.0).reason
