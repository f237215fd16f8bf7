"""What all layers of a network could tell about its training samples, counted before any attack is run.

Whoever publishes a network and its start publishes how far every layer moved: P equations, one for each weight, for the
n d numbers of n samples. Single layers say more than their share where samples x positions do not fill them: then the
patches of every sample lie in the row space of the layer's displacement, and samples can be tested one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.attacks.unmix import FEWEST_NEURONS, why_filled
from exhume.equation.feature_span import is_read, patches_of
from exhume.errors import InputError
from exhume.features.find_head import Head, find_head, run
from exhume.features.load import fastest
from exhume.features.module import ModuleFeatureMap, probe_inputs
from exhume.features.prepare import prepare
from exhume.law import Forecast, forecast
from exhume.support.validation import whole_number
from exhume.target.first_layer import first_layer, is_followed_by_curve, is_followed_by_relu
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target


@dataclass(frozen=True)
class LayerCount:
    """A linear layer or convolution.

    Attributes:
        name: as in `module.named_modules()`.
        kind: "dense" or "convolution".
        inputs, outputs: numbers of a patch that the layer reads at one position, and of what it computes there.
        positions: of one sample: pixels of a convolution's output, tokens of a transformer, 1 for most dense layers.
        weights: with the bias.
    """

    name: str
    kind: str
    inputs: int
    outputs: int
    positions: int
    weights: int

    @property
    def largest_samples(self) -> int:
        """The most samples whose patches do not fill the layer: samples x positions < inputs and < outputs."""
        return (min(self.inputs, self.outputs) - 1) // self.positions


@dataclass(frozen=True)
class NetworkForecast:
    """Equations of all layers against the unknowns of n samples.

    These are counts. They say what cannot be determined; what an attack finds depends on the training too.

    Attributes:
        num_samples: n.
        input_dim: d.
        num_parameters: P, all trainable weights.
        layers: those whose displacement is a sum of errors times patches.
        head: the law's forecast for the last layer alone.
        unmix: why the first layer cannot be unmixed; empty if nothing speaks against it.
        unmix_exact: whether a ReLU follows it, whose zeros can make the result exact; else it is approximate.
        unmix_starts: about the most starts of `unmix`, a feature pass each, to which estimates of samples add passes of
            their own; None without a ReLU.

    Examples:
        >>> from torch import nn
        >>> from exhume.planning import forecast_network
        >>> model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 5))
        >>> counted = forecast_network(model, (64,), num_samples=10)
        >>> counted.num_parameters, counted.unknowns, counted.head.verdict, counted.unmix
        (17925, 640, 'grey zone', '')
        >>> [layer.largest_samples for layer in counted.layers]
        [63, 4]
    """

    num_samples: int
    input_dim: int
    num_parameters: int
    layers: tuple[LayerCount, ...]
    head: Forecast
    unmix: str
    unmix_exact: bool
    unmix_starts: int | None

    @property
    def unknowns(self) -> int:
        """Numbers of all samples, n d."""
        return self.num_samples * self.input_dim

    @property
    def spans(self) -> tuple[LayerCount, ...]:
        """The layers that n samples do not fill, so that samples can be tested one by one."""
        return tuple(layer for layer in self.layers if layer.largest_samples >= self.num_samples)

    @property
    def sentence(self) -> str:
        """Whether all layers together can determine the samples."""
        counts = f"{self.num_parameters:,} weights, {self.unknowns:,} unknown numbers of {self.num_samples} samples"
        if self.num_parameters <= self.unknowns:
            return f"All layers together do not determine the samples: {counts}."
        return f"All layers together have enough equations to determine the samples: {counts}."

    def to_json(self) -> dict[str, Any]:
        """All counts as plain JSON values."""
        layers = [{**asdict(layer), "largest_samples": layer.largest_samples} for layer in self.layers]
        unmix = {"possible": not self.unmix, "exact": self.unmix_exact, "reason": self.unmix}
        return {
            "sentence": self.sentence,
            "num_samples": self.num_samples,
            "input_dim": self.input_dim,
            "num_parameters": self.num_parameters,
            "unknowns": self.unknowns,
            "head": self.head.to_json(),
            "unmix": {**unmix, "most_starts": self.unmix_starts},
            "spans": [layer.name for layer in self.spans],
            "layers": layers,
        }


def forecast_network(
    module: nn.Module, input_shape: tuple[int, ...], num_samples: int, activation: str | None = None
) -> NetworkForecast:
    """Counts the equations of all layers of a network.

    Args:
        module: in any mode; it is not changed. Of its weights only the share of features that are zero at random inputs
            is counted, as in an audit of them.
        input_shape: shape of one input.
        num_samples: n.
        activation: of the features that the head reads, for the law's forecast; by default their zeros at random
            inputs show what it needs, or it is "relu" where no attack can read the head.
    """
    whole_number("num_samples", num_samples)
    training = module.training
    module.eval()
    try:
        prepared = prepare(module, tuple(input_shape))
        head = find_head(prepared, None, probes := probe_inputs(prepared, input_shape, 2))
        layers, (reason, exact) = _layers(prepared, probes), _why_not_unmixed(prepared, input_shape, num_samples)
        of_head = _head_forecast(prepared, head, input_shape, num_samples, activation)
    finally:
        module.train(training)
    tuning = UnmixTuning()
    starts = tuning.starts + tuning.starts_per_sample * num_samples
    if num_samples <= tuning.most_drawn:
        starts += tuning.starts_per_column * (num_samples - 1)
    return NetworkForecast(
        num_samples=num_samples,
        input_dim=math.prod(input_shape),
        num_parameters=sum(weight.numel() for weight in module.parameters() if weight.requires_grad),
        layers=layers,
        head=of_head,
        unmix=reason,
        unmix_exact=exact,
        unmix_starts=starts if exact else None,
    )


def _head_forecast(
    module: nn.Module, head: Head, input_shape: tuple[int, ...], num_samples: int, activation: str | None
) -> Forecast:
    """The law's forecast for the head, as of a target with known initial weights, its bias included."""
    count = partial(forecast, input_dim=math.prod(input_shape), num_samples=num_samples, num_outputs=head.num_outputs)
    try:
        features = ModuleFeatureMap(module, head.name, input_shape)
    except InputError:  # a target of it is refused too; the formula alone, without the bias
        return count(head.num_outputs * head.num_features, activation=activation or "relu")
    if head.has_bias and (not features.symmetry.homogeneous or num_samples <= head.num_outputs):
        features = features.with_bias()
    displacement = torch.ones((head.num_outputs, features.num_features))
    target = Target(fastest(features), displacement, Knowledge(num_samples=num_samples), input_shape)
    return target.forecast() if activation is None else count(target.num_parameters, activation=activation)


def _layers(module: nn.Module, probes: torch.Tensor) -> tuple[LayerCount, ...]:
    """Every linear layer and convolution that the forward pass calls."""
    positions: dict[str, int] = {}

    def hook(name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
        def keep(layer: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            positions[name] = positions.get(name, 0) + patches_of(layer, inputs[0][:1]).shape[1]

        return keep

    read = {name: layer for name, layer in module.named_modules() if is_read(layer)}
    handles = [layer.register_forward_pre_hook(hook(name)) for name, layer in read.items()]
    try:
        run(module, probes)
    finally:
        for handle in handles:
            handle.remove()
    counted = []
    for name, layer in read.items():
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        if name in positions and weight.requires_grad:
            outputs, inputs = weight.flatten(1).shape
            weights = sum(each.numel() for each in layer.parameters())
            kind = "convolution" if isinstance(layer, nn.Conv2d) else "dense"
            counted.append(LayerCount(name, kind, inputs, outputs, positions[name], weights))
    return tuple(counted)


def _why_not_unmixed(module: nn.Module, input_shape: tuple[int, ...], num_samples: int) -> tuple[str, bool]:
    """What speaks against unmixing the first layer, empty if nothing does; and whether a ReLU follows it."""
    try:
        first = first_layer(module, input_shape)
    except InputError as error:
        return str(error), False
    if not isinstance(first.layer, nn.Linear):
        return f"the first layer {first.name!r} is a convolution", False
    neurons, inputs = first.layer.weight.shape
    relu = is_followed_by_relu(module, first.layer, input_shape)
    if not relu and not is_followed_by_curve(module, first.layer, input_shape):
        return f"neither a ReLU nor a smooth activation follows the first layer {first.name!r}", False
    if filled := why_filled(first, inputs + (first.layer.bias is not None), num_samples):
        return filled, relu
    if relu and neurons < FEWEST_NEURONS * num_samples:
        return f"{neurons} neurons are fewer than {FEWEST_NEURONS:g} for each of {num_samples} samples", relu
    return "", relu
