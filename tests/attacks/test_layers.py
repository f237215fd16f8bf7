"""The attack on all layers: it finds the samples of whole networks, and certifies what independent starts agree on."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._finish.layers import _exchanges
from exhume.attacks._search.layers import LayersSearch, LayersState
from exhume.attacks._search.training_path import curved_nodes
from exhume.equation.path import Nodes, PathEquation
from exhume.equation.trained_network import TrainedNetwork
from exhume.errors import InputError
from exhume.report.key_figures import layers_table
from exhume.target.network_weights import NetworkWeights

DIGITS = data.load("digits", samples=4).inputs


def conv(activation=nn.GELU):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3), activation(), nn.Flatten(), nn.Linear(288, 2))


def trained(network, samples, steps=100, decay=0.0):
    """Full-batch SGD on cross-entropy; returns the weights before."""
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    optimiser = torch.optim.SGD(network.parameters(), 0.05, weight_decay=decay)
    classes = torch.arange(len(samples)) % 2
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(
            network(samples.reshape(-1, 1, 8, 8) if samples.shape[1] == 64 else samples), classes
        ).backward()
        optimiser.step()
    network.eval()
    return before


def network_of(module, before):
    names = tuple(name for name, _ in module.named_parameters())
    return TrainedNetwork(NetworkWeights(module, "3", names, before), (1, 8, 8)), names


def dense(samples, decay=0.0):
    """A target of 8 inputs, 40 hidden units with GELU and two classes, trained on all layers."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 40), nn.GELU(), nn.Linear(40, 2))
    before = trained(module, samples, decay=decay)
    return exhume.Target.network(module, initial=before, input_shape=(8,))


# With decay the duration of the training is one of a few that are tried, and the end of the path misses more.
@pytest.mark.parametrize(("decay", "most_missed"), [(0.0, 0.1), pytest.param(0.02, 0.3, marks=pytest.mark.slow)])
def test_samples_of_a_dense_network_are_found_and_certified(decay, most_missed):
    samples = data.load("sphere", dim=8, samples=2).inputs
    target = dense(samples, decay)
    result = exhume.Layers()(target, num_samples=2)
    errors = [match.error for match in exhume.score(result, samples).matches]
    assert result.certificate.verdict == "approximate"
    assert max(errors) < 0.05
    assert all(error < 3 * bar for error, bar in zip(errors, result.certificate.predicted_errors, strict=True))
    assert result.evidence["confirmed"] == 2
    assert result.evidence["miss"] < most_missed
    assert any(
        "on a path of training that was simulated with the samples; its end misses" in note for note in result.notes
    )
    (table,) = layers_table(result)
    assert table.rows == (("0.weight", 320), ("0.bias", 40), ("2.weight", 80), ("2.bias", 2))
    assert sum(count for _, count in table.rows) == 442
    assert table.title == "Weights whose displacement was read"


def test_where_no_start_was_finished_nothing_is_said_of_a_simulated_training():
    result = exhume.Layers()(dense(data.load("sphere", dim=8, samples=2).inputs), num_samples=2, max_passes=5)
    assert result.certificate.verdict == "failed"
    assert result.evidence["miss"] is None
    (note,) = [note for note in result.notes if note.startswith("Equation")]
    assert "straight line" in note
    assert "no training was simulated" in note
    assert "misses" not in note


@pytest.mark.slow
def test_samples_of_a_convolutional_network_are_found_and_certified():
    module = conv()
    target = exhume.Target.network(module, initial=trained(module, DIGITS[:2]), input_shape=(1, 8, 8))
    result = exhume.Layers()(target, num_samples=2)
    errors = [match.error for match in exhume.score(result, DIGITS[:2]).matches]
    assert result.certificate.verdict == "approximate"
    assert max(errors) < 0.05
    assert all(error < 3 * bar for error, bar in zip(errors, result.certificate.predicted_errors, strict=True))
    assert result.evidence["confirmed"] == 2
    single = exhume.Layers(max_starts=1)(target, num_samples=2)
    assert single.certificate.verdict == "failed"
    assert not any(bar < 1 for bar in single.certificate.predicted_errors)
    assert f"{80 + 578} numbers of 0.weight, 0.bias, 3.weight, 3.bias" in result.summary()


def test_the_simulated_path_explains_more_than_the_straight_line():
    module = conv(nn.ReLU)
    network, names = network_of(module, trained(module, DIGITS))
    straight = PathEquation(network, Nodes(tuple(network.straight([0, 0.25, 0.5, 0.75, 1])), names)).at(DIGITS)
    weights, miss = curved_nodes(network, DIGITS, 5, DEFAULT_TUNING.smooth)
    curved = PathEquation(network, Nodes(tuple(weights), names)).at(DIGITS)
    assert curved.loss < 0.25 * straight.loss
    assert miss < 0.05


def test_an_exchange_of_parts_between_samples_of_one_class_shows_in_the_residual():
    module = conv(nn.ReLU)
    network, names = network_of(module, trained(module, DIGITS))
    exchanged = DIGITS.double()
    exchanged[[0, 2], :32] = exchanged[[2, 0], :32]
    errors = (exchanged - DIGITS).norm(dim=1) / DIGITS.norm(dim=1)
    factor, bounds = DEFAULT_TUNING.layers.exchanged, {}
    for name, rows in (("right", DIGITS.double()), ("exchanged", exchanged)):
        weights, _ = curved_nodes(network, rows, DEFAULT_TUNING.layers.last_nodes, DEFAULT_TUNING.smooth)
        equation = PathEquation(network, Nodes(tuple(weights), names))
        bounds[name] = factor * torch.tensor(_exchanges(equation, equation.at(rows), torch.arange(4) % 2))
    assert float(bounds["right"].max()) < 0.02
    assert bool((bounds["exchanged"][[0, 2]] > errors[[0, 2]]).all())
    alone = _exchanges(equation, equation.at(rows), torch.arange(4))
    assert alone == [0.0] * 4


def test_confirmations_count_the_starts_that_ended_with_a_row():
    search = LayersSearch.__new__(LayersSearch)
    search.count, search._tuning = 2, DEFAULT_TUNING.layers
    rows = torch.eye(3)[:2] * 10
    starts = torch.cat([rows, rows[[1, 0]] + 0.1, torch.stack([rows[0], -rows[1]])])
    assert search.confirmations(rows, starts).tolist() == [3, 2]
    assert search.confirmations(rows, starts[:0]).tolist() == [0, 0]
    torch.testing.assert_close(search.disagreement(rows, starts), torch.tensor([0.0, 0.01 * 3**0.5]))


@pytest.mark.parametrize(("moved", "phase"), [(0.1, "settle"), (0.01, "round")])
def test_rows_that_still_move_are_fitted_again_though_the_path_ends_no_nearer(monkeypatch, moved, phase):
    search = LayersSearch.__new__(LayersSearch)
    search._tuning = DEFAULT_TUNING.layers
    rows = torch.eye(2)
    monkeypatch.setattr(search, "curved", lambda rows, count: (None, 0.49))
    fitted = SimpleNamespace(point=SimpleNamespace(rows=rows * (1 + moved), loss=0.1))
    monkeypatch.setattr(search, "_solve", lambda *args: fitted)
    none = torch.zeros(0, 2)
    after = search._settle(LayersState("settle", rows, none, none, none, miss=0.5), None)
    assert after.phase == phase
    assert torch.equal(after.rows, fitted.point.rows)


def test_targets_that_cannot_be_read_are_refused_with_what_to_do():
    module = conv()
    before = trained(module, DIGITS, steps=1)
    with pytest.raises(InputError, match="initial is a str; valid: the untrained module or its state dict"):
        exhume.Target.network(module, initial="zero", input_shape=(1, 8, 8))
    head_only = {name: weight for name, weight in before.items() if name.startswith("3")}
    with pytest.raises(
        InputError, match=r"the initial state dict has no 0\.weight, 0\.bias; it has: 3\.bias, 3\.weight"
    ):
        exhume.Target.network(module, initial=head_only, input_shape=(1, 8, 8))
    target = exhume.Target.last_layer(module, initial_head=head_only, input_shape=(1, 8, 8))
    with pytest.raises(InputError, match="layers reads a whole network.*Target.network"):
        exhume.Layers()(target, num_samples=2)
    with pytest.raises(InputError, match="max_starts must be at least 1, got 0"):
        exhume.Layers(max_starts=0)


def test_gradients_beyond_the_memory_budget_are_refused():
    module = conv()
    network, names = network_of(module, trained(module, DIGITS, steps=1))
    equation = PathEquation(network, Nodes(tuple(network.straight([1.0])), names), memory_budget=1000)
    with pytest.raises(InputError, match="gradients of 4 samples in 658 weights, 1 each, take"):
        equation.at(DIGITS)
