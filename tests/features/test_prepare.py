"""Modules are made ready for attacks: half precision, several outputs, attention, the meta device, tokens."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from exhume import Target
from exhume.errors import InputError
from exhume.features.prepare import prepare


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.Linear(20, 3)).eval()


class Returning(nn.Module):
    """A network whose forward returns its outputs in some wrapping."""

    def __init__(self, wrap):
        super().__init__()
        self.net, self.wrap = network(), wrap

    def forward(self, inputs):
        return self.wrap(self.net(inputs))


def target(module, shape=(6,)):
    return Target.last_layer(module.eval(), initial_head="zero", input_shape=shape)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_runs_in_float32_with_the_same_weights(dtype):
    half = network().to(dtype)
    found = target(half)
    assert found.features.dtype == torch.float32
    assert torch.equal(found.displacement, half[2].weight.float())
    assert half[2].weight.dtype == dtype  # the user's module stays as it is


def test_a_module_on_the_meta_device_is_refused_with_what_to_do():
    with torch.device("meta"):
        module = network()
    with pytest.raises(InputError, match="on the meta device: '0.weight' .*; build it on the CPU"):
        target(module)


@pytest.mark.parametrize(
    "wrap",
    [lambda outputs: {"logits": outputs}, lambda outputs: SimpleNamespace(logits=outputs)],
    ids=["dict", "object"],
)
def test_logits_are_taken_from_what_forward_returns(wrap):
    inputs = torch.randn(4, 6)
    ready = prepare(Returning(wrap).eval(), (6,))
    assert torch.equal(ready(inputs), network()(inputs))
    assert list(ready.state_dict()) == list(Returning(wrap).state_dict())
    assert torch.equal(target(Returning(wrap)).displacement, target(network()).displacement)


def test_a_dict_without_logits_is_refused_with_its_names():
    with pytest.raises(InputError, match="returns a dict with hidden, pooled; valid: a tensor, or a dict"):
        target(Returning(lambda outputs: {"hidden": outputs, "pooled": outputs}))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 2)

    def forward(self, inputs):
        return self.head(self.encoder(inputs).mean(1))


def test_transformer_encoders_are_differentiated_and_the_fast_path_is_restored():
    torch.manual_seed(0)
    module, before = Encoder().eval(), torch.backends.mha.get_fastpath_enabled()
    found = target(module, (4, 8))
    inputs, change = torch.randn(2, 32), torch.randn(2, 32)
    moved = found.features.linearise(inputs).jvp(change)
    step = 1e-2
    expected = (found.features.forward(inputs + step * change) - found.features.forward(inputs - step * change)) / (
        2 * step
    )
    assert float((moved - expected).norm() / expected.norm()) < 1e-2
    assert torch.backends.mha.get_fastpath_enabled() == before


class Tokens(nn.Module):
    """A model of tokens; some convert their inputs to whole numbers themselves."""

    def __init__(self, convert):
        super().__init__()
        self.table, self.head, self.convert = nn.Embedding(50, 8), nn.Linear(8, 2), convert

    def forward(self, inputs):
        return self.head(torch.relu(self.table(self.convert(inputs))).mean(1))


@pytest.mark.parametrize(
    "convert", [lambda x: x, lambda x: x.abs().long(), lambda x: x.long() - 100], ids=["float", "whole", "out of range"]
)
def test_models_of_tokens_are_refused_with_the_reason(convert):
    with pytest.raises(InputError, match="'table' is an embedding: .* derivatives by the inputs and tokens have none"):
        target(Tokens(convert), (5,))
