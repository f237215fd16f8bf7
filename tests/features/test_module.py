"""Modules: heads are found and checked, derivatives cost what they should, drift is what a step of the body does."""

import pytest
import torch
from torch import nn

from exhume.equation.span import Span
from exhume.errors import InputError
from exhume.features import FirstLayerMap, ModuleFeatureMap, Symmetry, list_heads
from exhume.networks import ResNet, TwoLayer, VisionTransformer
from exhume.target.target import fastest

SHAPE = (2, 6, 6)
DIM = 72


class ConvNet(nn.Module):
    """A typical user model: GELU, batch statistics, dropout and a head with a bias."""

    def __init__(self, dropout=0.5):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5)
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(5 * 36, 7)
        self.head = nn.Linear(7, 3)
        self.norm.running_mean.normal_()

    def forward(self, x):
        hidden = nn.functional.gelu(self.norm(self.conv(x)))
        return self.head(nn.functional.gelu(self.fc(self.drop(hidden.flatten(1)))))


class Fully(nn.Module):
    """A 1 x 1 convolution for a head, its positions averaged or not."""

    def __init__(self, averaged):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.averaged = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 4, 1, bias=False), averaged

    def forward(self, x):
        maps = self.head(torch.tanh(self.body(x)))
        return maps.mean((2, 3)) if self.averaged else maps


@pytest.fixture
def rows():
    return torch.randn((5, DIM), generator=torch.Generator().manual_seed(1))


def test_heads_are_listed_and_the_last_is_the_default():
    module = ConvNet().eval()
    assert [head.name for head in list_heads(module)] == ["fc", "head"]
    assert ModuleFeatureMap(module, None, SHAPE).head.name == "head"
    assert ModuleFeatureMap(module, "fc", SHAPE).num_features == 180


def test_unknown_head_lists_those_there_are():
    with pytest.raises(InputError, match=r"no head 'classifier'; there are: fc \(linear, 180 .*; head \(linear, 7 "):
        ModuleFeatureMap(ConvNet().eval(), "classifier", SHAPE)
    with pytest.raises(InputError, match="no linear layer"):
        ModuleFeatureMap(nn.ReLU().eval(), None, SHAPE)


def test_training_mode_is_refused():
    with pytest.raises(InputError, match="training mode"):
        ModuleFeatureMap(ConvNet(), None, SHAPE)
    module = ConvNet().eval()
    module.drop.train()
    with pytest.raises(InputError, match=r"training mode \(drop\); call .eval"):
        ModuleFeatureMap(module, None, SHAPE)


def test_random_forward_is_detected_and_refused():
    class Noisy(ConvNet):
        def forward(self, x):
            return super().forward(x + torch.randn_like(x))

    with pytest.raises(InputError, match="different outputs for the same inputs"):
        ModuleFeatureMap(Noisy().eval(), None, SHAPE)


def test_samples_that_mix_in_a_batch_are_refused():
    class Mixing(ConvNet):
        def forward(self, x):
            return super().forward(x - x.mean(0))

    with pytest.raises(InputError, match="another output in another batch"):
        ModuleFeatureMap(Mixing().eval(), None, SHAPE)


def test_whatever_a_forward_raises_is_told_with_the_shape():
    with pytest.raises(InputError, match=r"fails on inputs of shape \(3, 3, 6, 6\)"):
        ModuleFeatureMap(ConvNet().eval(), None, (3, 6, 6))


def test_weights_that_are_not_finite_are_named():
    module = ConvNet().eval()
    module.fc.weight.data[0, 0] = float("nan")
    with pytest.raises(InputError, match="1 of 1260 weights of 'fc.weight' are NaN"):
        ModuleFeatureMap(module, None, SHAPE)


def test_features_are_what_the_head_is_given(rows):
    module = ConvNet().eval()
    features = ModuleFeatureMap(module, None, SHAPE).forward(rows)
    torch.testing.assert_close(module.head(features), module(rows.reshape(-1, *SHAPE)))


def test_positions_are_averaged_if_the_module_does_and_refused_if_not(rows):
    module = Fully(averaged=True).eval()
    features = ModuleFeatureMap(module, None, SHAPE).forward(rows)
    assert features.shape == (5, 6)
    torch.testing.assert_close(features @ module.head.weight[:, :, 0, 0].T, module(rows.reshape(-1, *SHAPE)))
    with pytest.raises(InputError, match="does not average its outputs"):
        ModuleFeatureMap(Fully(averaged=False).eval(), None, SHAPE)


def test_little_memory_means_chunks_and_the_same_numbers(rows):
    whole, parts = (ModuleFeatureMap(ConvNet().eval(), None, SHAPE, memory_budget=size) for size in ("1GB", 1))
    one, other = whole.linearise(rows), parts.linearise(rows)
    cotangents = torch.randn((5, 7), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(one.features, other.features)
    torch.testing.assert_close(one.jvp(rows), other.jvp(rows))
    torch.testing.assert_close(one.vjp(cotangents), other.vjp(cotangents))
    torch.testing.assert_close(whole.drift(rows, cotangents), parts.drift(rows, cotangents))


def test_a_conjugate_gradient_iteration_runs_through_the_graph_of_the_point(rows):
    features = ModuleFeatureMap(ConvNet().eval(), None, SHAPE)
    span = Span(features, torch.randn((3, 7), generator=torch.Generator().manual_seed(3)))
    point = span.at(rows)
    features.counter.work, batches = 0, []
    features.module.register_forward_hook(lambda _module, args, _out: batches.append(args[0].shape[0]))
    span.adjoint(point, span.project(point, span.jacobian(point, rows)))
    assert (
        features.counter.passes(5, features.num_features, features.input_dim) == 2
    )  # one Jacobian product, one adjoint
    assert batches == []  # neither evaluates the module again


class HalfSquare(torch.autograd.Function):
    """x^2 / 2, whose backward pass has no derivative."""

    @staticmethod
    def forward(x):
        return 0.5 * x * x

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(inputs[0])
        context.save_for_forward(inputs[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, cotangent):
        return cotangent * context.saved_tensors[0]

    @staticmethod
    def jvp(context, direction):
        return direction * context.saved_tensors[0]


def test_operations_without_a_second_derivative_are_differentiated_forwards(rows):
    class Squared(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.body, self.head = nn.Linear(DIM, 9), nn.Linear(9, 3)

        def forward(self, x):
            return self.head(HalfSquare.apply(self.body(x.flatten(1))))

    features = ModuleFeatureMap(Squared().eval(), None, SHAPE)
    body = features.module.body
    expected = body(rows) * (rows.flip(0) @ body.weight.T)
    torch.testing.assert_close(features.linearise(rows).jvp(rows.flip(0)), expected.detach())


@pytest.mark.parametrize("module", [ConvNet(), TwoLayer(DIM, 9, 3, "tanh"), ResNet(SHAPE, 3)], ids=type)
def test_drift_is_what_a_small_step_of_the_body_does(module, rows):
    feature_map = ModuleFeatureMap(module.eval(), None, SHAPE).with_dtype(torch.float64)
    rows = rows.double()
    cotangents = torch.randn(
        (5, feature_map.num_features), generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    expected = feature_map.drift(rows, cotangents)
    moved = feature_map.with_dtype(torch.float32).with_dtype(torch.float64)  # a copy to step
    own = f"{feature_map.head.name}."
    weights = {name: each for name, each in moved.module.named_parameters() if not name.startswith(own)}
    for weight in weights.values():
        weight.requires_grad_(True)
    gradients = torch.autograd.grad((moved._features(rows) * cotangents).sum(), list(weights.values()))
    before, eps = moved.forward(rows), 1e-7
    with torch.no_grad():
        for weight, gradient in zip(weights.values(), gradients, strict=True):
            weight += eps * gradient
    change = (moved.forward(rows) - before) / eps
    assert float((change - expected).norm() / expected.norm()) < 1e-3


def test_symmetries_are_measured():
    assert ModuleFeatureMap(ResNet(SHAPE, 3).eval(), None, SHAPE).symmetry == Symmetry(homogeneous=True)
    assert ModuleFeatureMap(VisionTransformer(SHAPE, 8, 2).eval(), None, SHAPE).symmetry == Symmetry()
    odd = ModuleFeatureMap(TwoLayer(DIM, 9, 3, "tanh").eval(), None, SHAPE).symmetry
    assert (odd.parity, odd.homogeneous, odd.signs_identified) == ("odd", False, False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU(), nn.Tanh()], ids=lambda a: type(a).__name__)
def test_one_hidden_layer_gets_the_fast_path(rows, activation, bias):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(DIM, 20, bias=bias), activation, nn.Linear(20, 3)).eval()
    slow = ModuleFeatureMap(module, None, SHAPE)
    fast = fastest(slow)
    assert isinstance(fast, FirstLayerMap)
    torch.testing.assert_close(fast.forward(rows), slow.forward(rows))
    cotangents = torch.randn((5, 20), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(fast.linearise(rows).vjp(cotangents), slow.linearise(rows).vjp(cotangents))
    torch.testing.assert_close(fast.drift(rows, cotangents), slow.drift(rows, cotangents), rtol=1e-4, atol=1e-4)
    assert fast.identity() == slow.identity()
    some = torch.tensor([3, 4, 11])
    torch.testing.assert_close(fast.subset(some).forward(rows), slow.subset(some).forward(rows))


def test_deeper_modules_do_not_get_the_fast_path():
    module = ConvNet().eval()
    slow = ModuleFeatureMap(module, None, SHAPE)
    assert fastest(slow) is slow


def test_strided_and_linear_bodies_are_refused_for_what_they_are():
    strided = nn.Sequential(nn.Conv2d(2, 6, 3), nn.GELU(), nn.Conv2d(6, 4, 1, stride=2), nn.AdaptiveAvgPool2d(1))
    with pytest.raises(InputError, match="no linear layer and no 1x1 convolution"):
        ModuleFeatureMap(strided.eval(), None, SHAPE)
    with pytest.raises(InputError, match="linear in its input"):
        ModuleFeatureMap(nn.Sequential(nn.Flatten(), nn.Linear(DIM, 3)).eval(), None, SHAPE)


def test_bodies_without_a_derivative_are_refused():
    class Rounding(ConvNet):
        def forward(self, x):
            return super().forward(x.round())

    with pytest.raises(InputError, match="do not depend on its input in a differentiable way"):
        ModuleFeatureMap(Rounding().eval(), None, SHAPE)
    recurrent = nn.LSTM(6, 5, batch_first=True)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = recurrent, nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.body(x)[0][:, -1])

    with pytest.raises(InputError, match="torch.func cannot differentiate Recurrent up to its head"):
        ModuleFeatureMap(Recurrent().eval(), None, (4, 6))


def test_fused_attention_can_be_attacked(rows):
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            x.sub_(0.5)  # in place, on what must be a copy
            return self.head(input=nn.functional.scaled_dot_product_attention(x, x, x).mean(1))

    features = ModuleFeatureMap(Attends().eval(), None, (12, 6))
    at = features.linearise(rows)
    assert at.jvp(rows).shape == (5, 6)
    assert float(at.vjp(torch.ones(5, 6)).norm()) > 0


def test_even_features_stay_even_beside_a_constant():
    class Squares(nn.Module):
        def forward(self, x):
            return x * x

    module = nn.Sequential(nn.Flatten(), nn.Linear(DIM, 9, bias=False), Squares(), nn.Linear(9, 3)).eval()
    symmetry = ModuleFeatureMap(module, None, SHAPE).with_bias().symmetry
    assert (symmetry.parity, symmetry.homogeneous, symmetry.signs_identified) == ("even", False, False)
    assert ModuleFeatureMap(module, None, SHAPE, bias=True).symmetry == symmetry
