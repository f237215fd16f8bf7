"""Counts of all layers, against counts by hand and against the rank of a layer's displacement."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.errors import InputError
from exhume.law import forecast
from exhume.networks.resnet18 import ResNet18
from exhume.planning import forecast_network
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target


def _conv() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 40, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(40 * 4, 30),
        nn.ReLU(),
        nn.Linear(30, 3),
    )


def test_layers_are_counted_as_by_hand() -> None:
    counted = forecast_network(_conv(), (1, 4, 4), num_samples=2)
    found = [(each.kind, each.inputs, each.outputs, each.positions, each.weights) for each in counted.layers]
    assert found == [
        ("convolution", 9, 16, 16, 160),
        ("convolution", 144, 40, 4, 5800),
        ("dense", 160, 30, 1, 4830),
        ("dense", 30, 3, 1, 93),
    ]
    assert counted.num_parameters == 160 + 5800 + 4830 + 93
    assert counted.unknowns == 2 * 16
    assert [each.largest_samples for each in counted.layers] == [0, 9, 29, 2]
    assert "convolution" in counted.unmix


@pytest.mark.parametrize("num_samples", [2, 5])
def test_a_layer_that_samples_do_not_fill_moves_by_as_many_directions_as_they_have_positions(num_samples: int) -> None:
    model = _conv().double()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    inputs = torch.randn(num_samples, 1, 4, 4, dtype=torch.float64)
    functional.cross_entropy(model(inputs), torch.arange(num_samples) % 3).backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    for layer in forecast_network(model, (1, 4, 4), num_samples).spans:
        moved = (model.get_parameter(f"{layer.name}.weight") - before[f"{layer.name}.weight"]).flatten(1)
        values = torch.linalg.svdvals(moved.detach())
        assert int((values > 1e-9 * values[0]).sum()) <= num_samples * layer.positions < min(moved.shape)


def test_what_speaks_against_unmixing_is_said() -> None:
    def reason(model: nn.Module, num_samples: int) -> str:
        return forecast_network(model, (8,), num_samples).unmix

    relu = nn.Sequential(nn.Linear(8, 20), nn.ReLU(), nn.Linear(20, 2))
    assert reason(relu, 3) == ""
    assert "20 neurons" in reason(relu, 7)
    assert "9 samples fill" in reason(nn.Sequential(nn.Linear(8, 90), nn.ReLU(), nn.Linear(90, 2)), 9)
    assert reason(nn.Sequential(nn.Linear(8, 90), nn.ReLU(), nn.Linear(90, 2)), 8) == ""
    assert "8 samples fill" in reason(nn.Sequential(nn.Linear(8, 90, bias=False), nn.ReLU(), nn.Linear(90, 2)), 8)
    leaky = nn.Sequential(nn.Linear(8, 20), nn.LeakyReLU(), nn.Linear(20, 2))
    assert "neither a ReLU nor a smooth activation" in reason(leaky, 3)
    narrow = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 2))
    assert "7 samples fill the first layer '0' of 8 inputs, a bias and 6 neurons: it shows at most 5" in reason(
        narrow, 7
    )


@pytest.mark.parametrize(("activation", "exact"), [(nn.ReLU, True), (nn.GELU, False), (nn.Tanh, False)])
def test_smooth_activations_are_attacked_approximately(activation: type[nn.Module], exact: bool) -> None:
    counted = forecast_network(nn.Sequential(nn.Linear(8, 20), activation(), nn.Linear(20, 2)), (8,), 3)
    assert (counted.unmix, counted.unmix_exact, counted.unmix_starts is None) == ("", exact, not exact)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_samples", [2, 10])
def test_the_head_is_counted_as_that_of_a_target_is(activation: type[nn.Module], bias: bool, num_samples: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64, bias=bias), activation(), nn.Linear(64, 3))
    before = {name: weight + 0.1 for name, weight in model.state_dict().items()}
    known = Knowledge(num_samples=num_samples)
    target = Target.last_layer(model.eval(), initial_head=before, input_shape=(16,), knowledge=known)
    assert forecast_network(model, (16,), num_samples).head == target.forecast()


@pytest.mark.parametrize("num_samples", [3, 40, 41])
def test_starts_of_unmixing_are_those_of_a_search_that_has_all_columns_but_one(num_samples: int) -> None:
    tuning = UnmixTuning()
    model = nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 2))
    starts = forecast_network(model, (64,), num_samples).unmix_starts
    more = tuning.starts_per_column * (num_samples - 1) if num_samples <= 40 else 0
    assert starts == tuning.starts + tuning.starts_per_sample * num_samples + more


class _Attending(nn.Module):
    """Attention or a layer of a transformer over five tokens."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside, self.head = inside, nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        attention = isinstance(self.inside, nn.MultiheadAttention)
        found = self.inside(inputs, inputs, inputs)[0] if attention else self.inside(inputs)
        means: torch.Tensor = self.head(found.mean(1))
        return means


@pytest.mark.parametrize(
    "inside", [nn.MultiheadAttention(8, 2, batch_first=True), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)]
)
def test_a_network_with_attention_is_counted_as_a_target_of_it_is(inside: nn.Module) -> None:
    model = _Attending(inside).eval()
    before = {name: weight + 0.1 for name, weight in model.state_dict().items()}
    target = Target.last_layer(model, initial_head=before, input_shape=(5, 8), knowledge=Knowledge(num_samples=2))
    assert forecast_network(model, (5, 8), 2).head == target.forecast()


def test_a_network_in_half_precision_is_counted_as_in_full_precision() -> None:
    half = nn.Sequential(nn.Linear(8, 20), nn.GELU(), nn.Linear(20, 2)).to(torch.bfloat16)
    assert forecast_network(half, (8,), 3) == forecast_network(copy.deepcopy(half).float(), (8,), 3)
    assert half[0].weight.dtype is torch.bfloat16


class _Recurrent(nn.Module):
    """An LSTM, which torch.func cannot differentiate."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.head = nn.LSTM(6, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.head(self.inside(inputs)[0][:, -1])
        return last


@pytest.mark.parametrize("activation", [None, "tanh"])
def test_a_head_that_no_attack_reads_is_counted_by_the_formula(activation: str | None) -> None:
    linear = nn.Sequential(nn.Linear(30, 16), nn.Linear(16, 3))
    for model, shape in ((_Recurrent(), (5, 6)), (linear, (30,))):
        with pytest.raises(InputError):
            Target.last_layer(model.eval(), initial_head="zero", input_shape=shape)
        expected = forecast(3 * 16, 30, 2, num_outputs=3, activation=activation or "relu")
        assert forecast_network(model, shape, 2, activation).head == expected


def test_an_activation_that_is_stated_is_taken() -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 3))
    stated = forecast_network(model, (16,), 4, activation="relu").head
    assert (stated.activation, stated.active_share, stated.equations) == ("relu", 0.5, 65 * 3)


def test_frozen_layers_are_not_counted() -> None:
    model = _conv()
    model[0].requires_grad_(False)
    counted = forecast_network(model, (1, 4, 4), num_samples=2)
    assert [each.name for each in counted.layers] == ["2", "5", "7"]
    assert counted.num_parameters == 5800 + 4830 + 93


def test_the_mode_of_the_module_is_kept() -> None:
    model = _conv().train()
    forecast_network(model, (1, 4, 4), num_samples=2)
    assert model.training


def test_the_last_stage_of_a_resnet_can_be_read_though_its_head_cannot() -> None:
    counted = forecast_network(ResNet18((3, 32, 32)), (3, 32, 32), num_samples=10)
    assert counted.head.equations < counted.unknowns < counted.num_parameters
    assert counted.spans
    assert all(each.positions == 16 for each in counted.spans if each.kind == "convolution")


def test_sample_counts_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="num_samples is 0"):
        forecast_network(_conv(), (1, 4, 4), num_samples=0)
