"""Networks with a pooled head: they are recognised by what they compute, and their samples come back from noise."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import exhume
from exhume.attacks._base.problem import Problem
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.layers import LayersSearch
from exhume.attacks._search.pooled import PooledSearch, layers_search
from exhume.equation.channels import ChannelEquation
from exhume.equation.path import Nodes
from exhume.equation.pooled_head import find_pooled_head
from exhume.equation.trained_network import TrainedNetwork
from exhume.support import checkpoint
from exhume.target.network_weights import NetworkWeights

SHAPE = (1, 4, 4)
SAMPLES = torch.randn((2, 16), generator=torch.Generator().manual_seed(0))


class GlobalMean(nn.Module):
    def forward(self, inputs):
        return inputs.mean((2, 3))


def network(*between, **options):
    """Two convolutions, layers between them and the head, and a linear head."""
    torch.manual_seed(0)
    second = nn.Conv2d(16, 32, 3, padding=1, stride=2, **options)
    head = nn.LazyLinear(2)
    module = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), second, *between, head).eval()
    module(torch.zeros(1, *SHAPE))  # shapes the head
    return module


def trained(module, steps=60):
    """A target after full-batch SGD on cross-entropy."""
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(SAMPLES.reshape(-1, *SHAPE)), torch.arange(2)).backward()
        optimiser.step()
    return exhume.Target.network(module.eval(), initial=before, input_shape=SHAPE)


POOLED = (nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
RECOGNISED = {
    "mean over positions": POOLED,
    "in place, batch norm": (nn.BatchNorm2d(32), nn.ReLU(inplace=True), GlobalMean()),
    "maximum, no activation": (nn.AdaptiveMaxPool2d(1), nn.Flatten()),
}
OTHERS = {
    "all positions": (nn.ReLU(), nn.Flatten()),
    "channels mixed": (*POOLED, nn.Linear(32, 32), nn.ReLU()),
    "normalised over channels": (*POOLED, nn.LayerNorm(32)),
}


def head_of(module, names=None, moved=None):
    every = dict(module.named_parameters())
    before = {name: 0.9 * weight.detach() for name, weight in every.items()}
    before |= {} if moved is None else {name: every[name].detach() for name in every if not name.startswith(moved)}
    weights = NetworkWeights(module, str(len(module) - 1), tuple(every), before)
    network = TrainedNetwork(weights, SHAPE, torch.float32)
    return find_pooled_head(network, weights.head, tuple(every) if names is None else names)


@pytest.mark.parametrize("kind", RECOGNISED)
def test_a_head_on_what_becomes_of_every_channel_is_recognised(kind):
    module = network(*RECOGNISED[kind])
    found = head_of(module)
    assert (found.convolution, found.head) == ("2", str(len(module) - 1))
    assert found.scale > 0
    assert not module[2]._forward_hooks
    assert not module[-1]._forward_pre_hooks


@pytest.mark.parametrize("kind", OTHERS)
def test_other_heads_are_not(kind):
    assert head_of(network(*OTHERS[kind])) is None


def test_convolutions_whose_equation_is_another_are_not():
    assert head_of(network(*POOLED, groups=2)) is None
    assert head_of(network(*POOLED, padding_mode="circular")) is None
    assert head_of(network(*POOLED), names=("0.weight", "0.bias")) is None
    assert head_of(nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))) is None


class Unusual(nn.Module):
    """A pooled head on a convolution that is called in an unusual way."""

    def __init__(self, kind):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.kind = kind

    def forward(self, inputs):
        values = self.first(inputs)
        if self.kind == "keywords":
            values = self.second(input=values)
        elif self.kind == "beside":
            self.second(values)
        elif self.kind == "in place":
            values += self.second(values)
        else:
            values = values + self.second(values)
        return values.mean((2, 3))


@pytest.mark.parametrize(("kind", "recognised"), [("keywords", False), ("beside", False), ("in place", True)])
def test_convolutions_that_are_called_in_unusual_ways(kind, recognised):
    torch.manual_seed(0)
    module = nn.Sequential(Unusual(kind), nn.Linear(8, 2)).eval()
    found = head_of(module)
    assert (found is not None) == recognised
    if found is not None:  # what the convolution read, not what became of it
        weights = {name: weight.detach() for name, weight in module.named_parameters()}
        patches, slopes = found.patches_and_slopes(weights, SAMPLES, 1.0)
        module[0].kind = "sum"
        weight, bias = module[0].second.weight, module[0].second.bias
        own = torch.autograd.grad(module[0](SAMPLES.reshape(-1, *SHAPE)).sum(), (weight, bias))
        expected = torch.cat([own[0].flatten(1), own[1][:, None]], 1)
        torch.testing.assert_close((slopes @ patches.mT).sum(0), expected)


def test_a_convolution_that_did_not_move_or_is_zero_tells_nothing():
    assert head_of(network(*POOLED), moved="2") is not None
    assert head_of(network(*POOLED), moved="0") is None
    silent = network(*POOLED)
    nn.init.zeros_(silent[2].weight)
    nn.init.zeros_(silent[2].bias)
    assert head_of(silent) is None


def test_the_scale_of_the_outputs_is_that_of_samples_of_the_norm():
    module = network(*POOLED)
    after = {name: weight.detach() for name, weight in module.named_parameters()}
    weights = NetworkWeights(module, "6", tuple(after), {name: 0.9 * each for name, each in after.items()})
    find = partial(find_pooled_head, TrainedNetwork(weights, SHAPE, torch.float32), "6", tuple(after))
    assert find(radius=400.0).scale > 50 * find(radius=4.0).scale
    assert find(radius=4.0).scale == find().scale


def test_nodes_and_rows_that_coincide_leave_a_solution():
    torch.manual_seed(0)
    module = network(*POOLED)
    after = {name: weight.detach() for name, weight in module.named_parameters()}
    weights = NetworkWeights(module, "6", tuple(after), {name: 0.9 * each for name, each in after.items()})
    trained_network = TrainedNetwork(weights, SHAPE, torch.float32)
    head = find_pooled_head(trained_network, "6", tuple(after))
    equation = ChannelEquation(head, tuple(trained_network.straight((1.0,) * 5)), 3.0)
    sizes = torch.tensor([2.0, *[0.01] * 23])[:, None]
    point = equation.at(sizes * SAMPLES[:1].expand(24, -1))
    assert 0 < point.loss <= 1
    assert bool(equation.contributions(point).isfinite().all())


@pytest.mark.parametrize("samples", [2, 40])
def test_channels_that_coefficients_fill_are_not_searched(samples):
    target = trained(network(*POOLED), steps=1)
    weights = TrainedNetwork(target.known_model, target.input_shape, torch.float32)
    problem = Problem(target, target.features, samples)
    kind = PooledSearch if samples == 2 else LayersSearch
    assert type(layers_search(problem, weights, Nodes((), tuple(weights.after)), 1)) is kind


@pytest.mark.parametrize(("between", "kind"), [(POOLED, PooledSearch), (OTHERS["all positions"], LayersSearch)])
def test_the_search_is_chosen_by_the_head(between, kind):
    target = trained(network(*between), steps=1)
    weights = TrainedNetwork(target.known_model, target.input_shape, torch.float32)
    problem = Problem(target, target.features, 2)
    assert type(layers_search(problem, weights, Nodes((), tuple(weights.after)), 1)) is kind


@pytest.fixture
def short(monkeypatch):
    """Starts end after one draw that brings nothing, and with one sharper fit."""
    layers = DEFAULT_TUNING.layers
    pooled = replace(layers.pooled, patience=1, last=(3.5, 7.0))
    monkeypatch.setattr(exhume.Layers, "tuning", replace(DEFAULT_TUNING, layers=replace(layers, pooled=pooled)))


def test_samples_come_back_from_noise(short):
    target = trained(network(*POOLED))
    result = exhume.Layers(max_starts=1)(target, num_samples=2)
    errors = [match.error for match in exhume.score(result, SAMPLES).matches]
    assert len(errors) == 2
    assert max(errors) < 0.1
    assert result.evidence["miss"] < 0.1
    assert result.certificate.verdict == "failed"  # of one start


@pytest.mark.slow
def test_samples_that_two_starts_found_have_error_bars():
    result = exhume.Layers(max_starts=2)(trained(network(*POOLED)), num_samples=2)
    matches, bars = exhume.score(result, SAMPLES).matches, result.certificate.predicted_errors
    assert result.evidence["confirmed"] == 2
    assert result.certificate.verdict == "approximate"
    assert max(bars) < 0.1
    assert all(match.error < 3 * bars[match.row] for match in matches)


def test_a_run_that_was_cut_ends_as_the_uncut_one(short, monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    target, path = trained(network(*POOLED)), tmp_path / "checkpoint"
    uncut = exhume.Layers(max_starts=1)(target, num_samples=2)
    seen = []

    def progress(event):
        seen.append(event)
        if len(seen) == 4:
            raise KeyboardInterrupt

    attack = exhume.Layers(max_starts=1)
    with pytest.raises(KeyboardInterrupt):
        attack(target, num_samples=2, checkpoint=path, progress=progress)
    resumed = attack(target, num_samples=2, checkpoint=path, resume=True)
    torch.testing.assert_close(resumed.samples, uncut.samples)
    assert resumed.passes == pytest.approx(uncut.passes, rel=0.05)


def test_a_known_sample_is_not_looked_for(short):
    target = trained(network(*POOLED))
    found = exhume.Layers(max_starts=1)(target.assuming(samples=SAMPLES[:1]), num_samples=2).samples
    error = (found - SAMPLES[1]).norm() / SAMPLES[1].norm()
    assert found.shape == (1, 16)
    assert float(error) < 0.1


def test_what_a_spent_budget_leaves_are_n_rows():
    result = exhume.Layers()(trained(network(*POOLED)), num_samples=2, max_passes=5)
    assert result.samples.shape == (2, 16)
    assert result.passes < 200
    assert result.certificate.verdict == "failed"
