"""Retrained heads: ridge and more samples compared with dense solutions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as SklearnRidge

from exhume.defences import MoreSamples, Ridge
from exhume.defences.altered import owner_initial_head, trained_head, unread_bias


def release_of(defence, release):
    (variant,) = defence.variants(release)
    assert variant.release is not None, variant.reason
    return variant.release, variant.note


def wanted(release, outputs):
    return release.dataset.labels.reshape(-1, outputs)  # of classes one-hot rows


def test_ridge_equals_scikit_learns_from_the_initial_head(release):
    relative = 0.3
    target = release.target
    changed, _ = release_of(Ridge((relative,)), release)
    features = target.features.forward(release.dataset.inputs).double().numpy()
    initial = owner_initial_head(target).double().numpy()
    left = wanted(release, target.num_outputs).double().numpy() - features @ initial.T - unread_bias(target).numpy()
    strength = relative * np.trace(features @ features.T) / len(features)
    oracle = SklearnRidge(alpha=strength, fit_intercept=False, solver="svd").fit(features, left)
    moved = (trained_head(changed.target).double().numpy() - initial).reshape(-1)
    np.testing.assert_allclose(moved, oracle.coef_.reshape(-1), atol=1e-5, rtol=1e-3)


def test_ridge_equals_the_ridge_victim(features_release):
    from exhume.victims import RandomFeatures

    changed, _ = release_of(Ridge((1.0,)), features_release)
    features = features_release.target.features.forward(features_release.dataset.inputs).double()
    mean = float((features @ features.T).diagonal().mean())
    victim = RandomFeatures(num_features=300, seed=0, ridge=mean / 3)
    victim.fit(features_release.dataset.inputs, features_release.dataset.labels)
    torch.testing.assert_close(changed.target.displacement, victim.theta_, atol=1e-6, rtol=1e-4)


def test_a_refit_starts_at_zero_and_says_so_where_the_initial_head_is_unknown(forgotten_release):
    changed, note = release_of(Ridge((0.1,)), forgotten_release)
    assert "from zero" in note
    target = forgotten_release.target
    features = target.features.forward(forgotten_release.dataset.inputs).double()
    head = trained_head(changed.target).double()
    inside = torch.linalg.lstsq(features.T, head.T).solution
    torch.testing.assert_close(features.T @ inside, head.T, atol=1e-5, rtol=1e-3)


def test_an_owner_refits_from_the_initial_head_that_the_attacker_does_not_know(net_release):
    hidden = replace(net_release, target=net_release.target.assuming(initial_head="unknown"))
    known, _ = release_of(Ridge((0.1,)), net_release)
    forgotten, note = release_of(Ridge((0.1,)), hidden)
    assert "from zero" not in note
    torch.testing.assert_close(trained_head(forgotten.target), trained_head(known.target))
    assert torch.equal(forgotten.target.displacement, trained_head(forgotten.target))


def test_more_samples_fit_old_and_new_ones_and_the_attacker_is_told_how_many(release):
    changed, _ = release_of(MoreSamples((2,)), release)
    assert changed.target.knowledge.num_samples == len(changed.dataset.inputs) == 9
    assert torch.equal(changed.dataset.inputs[3:], release.dataset.non_members[:6])
    assert len(changed.dataset.non_members) == len(release.dataset.non_members) - 6
    outputs = changed.outputs(changed.dataset.inputs)
    expected = wanted(changed, release.target.num_outputs)
    torch.testing.assert_close(outputs, expected.to(outputs), atol=2e-3, rtol=1e-3)


def test_too_few_held_out_samples_are_a_reason(release):
    (variant,) = MoreSamples((100,)).variants(release)
    assert variant.reason == f"needs 300 held-out samples; {len(release.dataset.non_members)} are given"


def test_the_alphabet_of_labels_is_not_assumed_of_models_that_miss_them(signs_release):
    told = replace(signs_release, target=signs_release.target.assuming(label_alphabet="signs"))
    changed, _ = release_of(Ridge((1.0,)), told)
    assert changed.target.knowledge.label_alphabet is None


@pytest.mark.parametrize("defence", [Ridge((0.1,)), MoreSamples((1,))])
def test_the_body_stays_as_it_was(net_release, defence):
    changed, _ = release_of(defence, net_release)
    before = net_release.target.features.forward(net_release.dataset.inputs)
    torch.testing.assert_close(changed.target.features.forward(net_release.dataset.inputs), before)
