"""The diagnosis names how a model was trained, from real small trainings, and advises only what applies."""

import pytest
import torch
from benches.diagnosis import ARCHITECTURES, OPTIMISERS, diagnosed, trained
from torch import nn

from exhume import Target
from exhume.target.diagnosis import diagnose
from exhume.target.diagnosis.optimiser_trace import trace

DENSE, NORMALISED = "two layers, ReLU", "conv, BatchNorm, pooled"


@pytest.fixture(scope="module")
def sgd():
    return trained(ARCHITECTURES[DENSE], "SGD", 0)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_family_of_the_optimiser_is_named(name):
    found = diagnosed(*trained(ARCHITECTURES[DENSE], name, 0))
    assert found["optimiser"] == OPTIMISERS[name][0]
    assert found["start"] == "fits"
    assert ("decay" in found) == (name in ("SGD with decay", "AdamW"))


@pytest.mark.parametrize(("name", "expected"), [("SGD with decay", None), ("AdamW", (1 - 3e-3 * 0.1) ** 150)])
def test_the_share_that_decay_left_is_exact(name, expected):
    module, before = trained(ARCHITECTURES[DENSE], name, 0)
    share = float(diagnosed(module, before)["decay"])
    dark = (module[0].weight.detach() / before["0.weight"])[:, 0]  # the first pixel of the digits is always 0
    assert share == pytest.approx(float(dark.median()), rel=1e-3)
    if expected is not None:
        assert share == pytest.approx(expected, rel=1e-3)


def test_initial_weights_of_another_seed_do_not_fit_and_no_optimiser_is_named(sgd):
    module, _ = sgd
    torch.manual_seed(99)
    found = {each.kind: each for each in diagnose(target(module, ARCHITECTURES[DENSE]().state_dict()))}
    assert found["start"].value == "does not fit"
    assert "seed:0-99999" in found["start"].advice
    assert "optimiser" not in found


def test_a_layer_that_was_drawn_anew_is_named(sgd):
    module, before = sgd
    torch.manual_seed(99)
    other = before | {"0.weight": ARCHITECTURES[DENSE]().state_dict()["0.weight"]}
    found = {each.kind: each for each in diagnose(target(module, other))}
    assert found["start"].value == "fits in part"
    assert "0.weight" in found["start"].sentence


def test_a_head_fitted_in_closed_form_is_told_from_a_trained_network():
    torch.manual_seed(0)
    module = ARCHITECTURES[DENSE]().eval().requires_grad_(False)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    inputs = torch.randn(12, 64)
    features = module[:2](inputs)
    ridge = torch.linalg.solve(features.T @ features + 0.1 * torch.eye(150), features.T @ torch.eye(12)[:, :10])
    module[2].weight.copy_(ridge.T)
    found = diagnosed(module, before)
    assert found["optimiser"] == "head only"
    assert "decay" not in found


def test_moved_statistics_of_batch_norm_and_a_pooled_head_are_reported():
    module, before = trained(ARCHITECTURES[NORMALISED], "momentum", 0)
    found = {each.kind: each for each in diagnose(target(module, before))}
    assert found["normalisation"].value == "moved"
    assert found["head"].value == "pooled"
    assert found["head"].advice == "Try --method layers, which reads all of them."
    fresh = ARCHITECTURES[NORMALISED]().eval()
    assert {each.value for each in diagnose(target(fresh, "zero"))} >= {"not moved"}


def test_nothing_is_said_of_batch_norm_or_pooling_where_there_is_none(sgd):
    assert {each.kind for each in diagnose(target(*sgd))} == {"start", "optimiser"}


def test_missing_initial_weights_are_asked_for_only_where_they_are_missing(sgd):
    module, before = sgd
    unknown = diagnose(target(module, "unknown"))
    assert [(each.kind, each.value) for each in unknown] == [("missing", "initial weights")]
    assert unknown[0].advice.startswith("Give --initial")
    head = diagnose(target(module, before["2.weight"]))
    assert ("missing", "initial body") in {(each.kind, each.value) for each in head}
    frozen = nn.Sequential(module[:2].requires_grad_(False), module[2]).eval()
    assert [each.value for each in diagnose(target(frozen, before["2.weight"]))] == ["fits"]


def test_entries_of_one_size_are_adam_even_if_their_rank_is_one():
    signs = torch.sign(torch.randn(40, 1)) * torch.sign(torch.randn(1, 30))
    before = {"weight": torch.randn(40, 30)}
    found = trace(before, {"weight": before["weight"] + 1e-3 * signs}, "head")
    assert found.family == "adaptive"


def test_tails_between_the_families_are_unknown():
    torch.manual_seed(0)
    sizes = 1 + 0.25 * torch.randn(200, 1)  # a Gaussian with varying spread: kurtosis of about 3.5
    before = {"weight": torch.randn(200, 150)}
    found = trace(before, {"weight": before["weight"] + sizes * torch.randn(200, 150)}, "head")
    assert found.family == "unknown"


def target(module, initial):
    return Target.last_layer(module, initial_head=initial, input_shape=(64,))
