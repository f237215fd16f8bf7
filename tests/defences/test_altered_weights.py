"""Noise, rounding, pruning and fewer coordinates change the weights as documented, and nothing else."""

from dataclasses import replace

import pytest
import torch

from exhume.data import Dataset
from exhume.defences import Coordinates, Noise, Pruning, Release, Rounding
from exhume.defences.altered import trained_head
from exhume.defences.on_the_head import to_int8
from exhume.errors import InputError
from exhume.victims.pruning import magnitude


def only(defence, release):
    (variant,) = defence.variants(release)
    assert variant.release is not None, variant.reason
    return variant.release


def assumed_initial(target):
    return trained_head(target) - target.displacement


def test_noise_has_the_stated_size_and_falls_on_head_and_displacement_alike(release):
    target = only(Noise(shares=(0.2,)), release).target
    moved = target.displacement - release.target.displacement
    assert float(moved.norm() / release.target.displacement.norm()) == pytest.approx(0.2, rel=0.1)
    torch.testing.assert_close(assumed_initial(target), assumed_initial(release.target), atol=1e-6, rtol=1e-5)


def test_noise_follows_its_seed(release):
    noise = Noise(shares=(0.2,))
    again, other = only(noise, release).target, only(noise, replace(release, seed=6)).target
    assert torch.equal(only(noise, release).target.displacement, again.displacement)
    assert not torch.equal(other.displacement, again.displacement)


@pytest.mark.parametrize(("name", "dtype"), [("float16", torch.float16), ("bfloat16", torch.bfloat16)])
def test_the_head_of_random_features_is_cast_and_cast_back(features_release, name, dtype):
    target = only(Rounding((name,)), features_release).target
    assert torch.equal(target.displacement, features_release.target.displacement.to(dtype).float())


def test_every_weight_of_a_network_is_rounded(net_release):
    before, after = net_release.target, only(Rounding(("float16",)), net_release).target
    for name, weight in before.model.module.named_parameters():
        assert torch.equal(after.model.module.get_parameter(name), weight.half().float())
    inputs = net_release.dataset.inputs
    assert not torch.equal(after.features.forward(inputs), before.features.forward(inputs))
    head = after.model.module.get_parameter("3.weight")
    torch.testing.assert_close(trained_head(after)[:, :180], head)
    torch.testing.assert_close(assumed_initial(after), assumed_initial(before), atol=1e-6, rtol=1e-5)


def test_int8_has_at_most_255_evenly_spaced_values_and_is_off_by_half_a_step_at_most(features_release):
    weights = features_release.target.displacement
    rounded = only(Rounding(("int8",)), features_release).target.displacement
    step = float(weights.abs().max()) / 127
    assert float((rounded - weights).abs().max()) <= step / 2 * (1 + 1e-5)
    levels = rounded.double() / step
    torch.testing.assert_close(levels, levels.round(), atol=1e-4, rtol=0)
    assert torch.equal(to_int8(torch.tensor([0.1, 0.33])), torch.tensor([0.1, 0.33]))


def test_weights_beyond_float16_are_a_reason(features_release):
    target = features_release.target
    large = Release(replace(target, displacement=1e9 * target.displacement))
    (variant,) = Rounding(("float16",)).variants(large)
    assert variant.release is None
    assert "infinite" in variant.reason


def test_pruned_weights_are_those_of_the_victim_pruned_by_magnitude(features_release):
    target = only(Pruning((0.9,)), features_release).target
    surviving, weights = magnitude(features_release.target.displacement, 30)
    assert torch.equal(target.surviving, surviving)
    assert torch.equal(target.displacement, weights)


def test_a_pruned_network_keeps_its_bias_and_outputs_what_its_head_says(net_release):
    pruned = only(Pruning((0.5,)), net_release)
    target = pruned.target
    module = target.model.module
    assert target.surviving.numel() == 90 + 1
    assert int((module.get_parameter("3.weight") != 0).any(0).sum()) == 90
    assert torch.equal(module.get_parameter("3.bias"), net_release.target.model.module.get_parameter("3.bias"))
    with torch.no_grad():
        outputs = module(net_release.dataset.inputs.reshape(-1, 1, 4, 4))
    torch.testing.assert_close(pruned.outputs(net_release.dataset.inputs), outputs, atol=1e-5, rtol=1e-4)


def test_a_network_without_a_known_bias_outputs_it_all_the_same(forgotten_release):
    with torch.no_grad():
        outputs = forgotten_release.target.model.module(forgotten_release.dataset.inputs.reshape(-1, 1, 4, 4))
    found = forgotten_release.outputs(forgotten_release.dataset.inputs)
    torch.testing.assert_close(found, outputs, atol=1e-5, rtol=1e-4)


def test_fewer_coordinates_are_nested_and_fit_the_labels_anew(release):
    half, quarter = (variant.release for variant in Coordinates((0.5, 0.25)).variants(release))
    assert set(quarter.target.surviving.tolist()) < set(half.target.surviving.tolist())
    wanted = release.dataset.labels  # of classes one-hot rows
    outputs = half.outputs(release.dataset.inputs)
    torch.testing.assert_close(outputs, wanted.reshape(outputs.shape).to(outputs), atol=1e-3, rtol=1e-3)


def test_without_data_fewer_coordinates_are_cut_and_not_changed(features_release):
    bare = Release(features_release.target)
    cut = only(Coordinates((0.5,)), bare).target
    assert torch.equal(cut.displacement, bare.target.displacement[:, cut.surviving])


def test_shares_of_coordinates_straddle_the_wall(features_release):
    settings = Coordinates().settings(features_release)
    assert [setting.strength for setting in settings] == [2, 4, 8, 16]  # 300 equations, 30 unknowns


def test_labels_that_do_not_fit_are_refused(features_release):
    with pytest.raises(InputError, match=r"labels of shape \(3, 2\) do not fit"):
        replace(features_release, dataset=replace(features_release.dataset, labels=torch.ones(3, 2)))
    with pytest.raises(InputError, match="samples of 4 numbers, the model takes 10"):
        replace(features_release, dataset=Dataset.of(torch.ones(3, 4)))


@pytest.mark.parametrize(
    "make", [lambda: Noise((0.0,)), lambda: Pruning((1.0,)), lambda: Rounding(("int4",)), lambda: Coordinates((2.0,))]
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(InputError, match="valid"):
        make()
