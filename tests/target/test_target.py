"""Targets refuse models that cannot be attacked, and survive a round trip to disk."""

import json
from dataclasses import replace

import pytest
import torch

import exhume
from exhume.errors import FileError, InputError, TooFewEquations
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.target.target import Knowledge, Target


@pytest.fixture
def features():
    return RandomFeatureMap(GaussianMatrix(50, 12, seed=0), "relu")


def test_round_trip(features, tmp_path):
    knowledge = Knowledge(num_samples=3, label_alphabet="signs")
    target = Target(features, torch.arange(50.0), knowledge, (3, 2, 2))
    target.save(tmp_path)
    again = Target.load(tmp_path)
    assert torch.equal(again.displacement, target.displacement)
    assert again.displacement.shape == (1, 50)
    assert (again.knowledge, again.input_shape) == (knowledge, (3, 2, 2))
    torch.testing.assert_close(again.feature_map.forward(torch.ones(1, 12)), features.forward(torch.ones(1, 12)))


def test_knowledge_about_labels_is_their_number_and_alphabet():
    assert Knowledge.about(torch.tensor([1.0, -1, 1])) == Knowledge(num_samples=3, label_alphabet="signs")
    assert Knowledge.about(torch.tensor([1.0, -0.5])) == Knowledge(num_samples=2)
    assert Knowledge.about(torch.eye(3)) == Knowledge(num_samples=3, label_alphabet="one-hot")


def test_nan_and_infinite_weights_are_counted_and_refused(features):
    weights = torch.ones(50)
    weights[3], weights[7] = float("nan"), float("inf")
    with pytest.raises(InputError, match="2 of 50 numbers in the weights are NaN or infinite"):
        Target(features, weights)


def test_weights_may_be_numpy_but_must_be_floating_point(features):
    assert Target(features, torch.ones(50).numpy()).num_parameters == 50
    with pytest.raises(InputError, match="floating-point numbers, not torch.int64"):
        Target(features, torch.ones(50, dtype=torch.int64))


def test_knowledge_that_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="label_alphabet"):
        Knowledge(label_alphabet="runes")


def test_wrong_shapes_are_named(features):
    with pytest.raises(InputError, match=r"\(49,\).*50"):
        Target(features, torch.ones(49))
    with pytest.raises(InputError, match=r"\(3, 3\) has 9 numbers.*12"):
        Target(features, torch.ones(50), input_shape=(3, 3))


def test_head_that_did_not_move_is_refused(features):
    with pytest.raises(InputError, match="did not move"):
        Target(features, torch.zeros(50))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": "abc"}, "features is 'abc'; it must be fields and their values"),
        ({"features": {"kind": "oracle"}}, "unknown kind of features 'oracle'; valid: module, random_features"),
        ({"features": {"kind": "random_features", "seed": 0}}, "incomplete"),
        ({"knowledge": {"num_samples": -1}}, "whole victim"),
        ({"knowledge": {"gossip": 1}}, "whole victim"),
    ],
)
def test_damaged_description_is_a_clear_error(features, tmp_path, change, message):
    Target(features, torch.ones(50)).save(tmp_path)
    description = json.loads((tmp_path / "victim.json").read_text())
    (tmp_path / "victim.json").write_text(json.dumps(description | change))
    with pytest.raises((FileError, InputError), match=message):
        Target.load(tmp_path)


def test_surviving_features_are_all_that_is_attacked_and_come_back(features, tmp_path):
    surviving = torch.tensor([4, 7, 30])
    target = Target(features, torch.arange(3.0), Knowledge(num_samples=1), surviving=surviving)
    inputs = torch.randn((2, 12), generator=torch.Generator().manual_seed(0))
    expected = features.forward(inputs)[:, surviving]
    torch.testing.assert_close(target.features.forward(inputs), expected)
    target.save(tmp_path)
    again = Target.load(tmp_path)
    torch.testing.assert_close(again.features.forward(inputs), expected)
    assert again.fingerprint == target.fingerprint
    renamed = replace(target, knowledge=Knowledge(num_samples=2))
    torch.testing.assert_close(renamed.features.forward(inputs), expected)
    assert target.fingerprint != replace(target, surviving=torch.tensor([4, 7, 31])).fingerprint


@pytest.mark.parametrize("indices", [[50], [-1], [3, 3], []])
def test_wrong_surviving_features_are_refused(features, indices):
    with pytest.raises(InputError, match="surviving features"):
        Target(features, torch.ones(max(len(indices), 1)), surviving=torch.tensor(indices, dtype=torch.int64))


def test_a_forecast_counts_what_is_known(features):
    target = Target(features, torch.arange(50.0), Knowledge(num_samples=3))
    expected = exhume.forecast(50, input_dim=12, num_samples=3, activation="relu")
    assert target.forecast() == expected
    assert target.forecast(2) == exhume.forecast(50, input_dim=12, num_samples=2, activation="relu")
    one = Target(features, torch.arange(50.0), Knowledge(num_samples=3, samples=torch.ones(1, 12)))
    assert one.forecast() == exhume.forecast(50, input_dim=12, num_samples=3, activation="relu", known_samples=1)
    inside = Target(features, torch.arange(50.0), Knowledge(num_samples=3, subspace=torch.eye(12)[:4]))
    assert inside.forecast() == exhume.forecast(50, input_dim=12, num_samples=3, activation="relu", subspace_dim=4)
    with pytest.raises(InputError, match="needs the number of samples"):
        Target(features, torch.arange(50.0)).forecast()


def test_knowledge_of_tensors_survives_a_round_trip(features, tmp_path):
    knowledge = Knowledge(num_samples=3, samples=torch.ones(1, 12), labels=torch.tensor([1.0, -1, 1]), norm=2.5)
    Target(features, torch.arange(50.0), knowledge).save(tmp_path)
    again = Target.load(tmp_path).knowledge
    assert again == knowledge
    assert torch.equal(again.samples, knowledge.samples)


def test_a_forecast_knows_which_share_of_a_networks_features_is_active():
    torch.manual_seed(0)
    for layer, share in ((torch.nn.ReLU(), 0.5), (torch.nn.GELU(), 1.0)):
        body = (torch.nn.Linear(8, 60), torch.nn.Tanh(), torch.nn.Linear(60, 90), layer)
        model = torch.nn.Sequential(*body, torch.nn.Linear(90, 10)).eval()
        target = Target.last_layer(model, initial_head="zero", input_shape=(8,))
        work = target.features.counter.work
        assert target.forecast(10).active_share == pytest.approx(share, abs=0.1)
        assert target.features.counter.work == work


def test_fewer_samples_than_outputs_with_too_few_features_are_refused():
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(40, 39, seed=0), "gelu")
    theta = torch.randn((10, 2), generator=generator) @ features.forward(torch.randn((2, 39), generator=generator))
    with pytest.raises(TooFewEquations, match="40 features cannot determine the 41 unknowns of each sample: 2 samples"):
        exhume.reconstruct(Target(features, theta), num_samples=2)
