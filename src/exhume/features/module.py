"""The feature map of any nn.Module: what its head is given, with derivatives by torch.func."""

from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import replace
from typing import Any, Self

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.errors import InputError
from exhume.features.find_head import Head, check_ready, find_head, input_of, run, token_hint
from exhume.features.pass_counter import PassCounter
from exhume.features.protocol import FeatureMap, Linearisation, Parity, Symmetry
from exhume.networks import Network
from exhume.support.text import parse_bytes

KIND = "module"
# Inputs that a module is tried on when it is opened, and their seed.
_PROBES, _PROBE_SEED = 3, 0
# Random cotangents from which the mean of J_i^T J_j is estimated.
_KERNEL_PROBES = 2
_SAME = 1e-4


def probe_inputs(module: nn.Module, input_shape: tuple[int, ...], count: int = _PROBES) -> torch.Tensor:
    """A few Gaussian inputs (m, *input_shape) in the module's precision and on its device."""
    generator = torch.Generator().manual_seed(_PROBE_SEED)
    like = next((weight for weight in module.parameters() if weight.is_floating_point()), torch.empty(0))
    return torch.randn((count, *input_shape), generator=generator).to(like.device, like.dtype)


class ModuleFeatureMap(FeatureMap):
    """phi(x): the input of a module's head, for flat rows x; a constant 1 is appended if the head's bias is used.

    A head at several positions (a 1 x 1 convolution, a linear layer over tokens) has the mean over positions for
    features if the module averages its outputs; other such heads are refused.

    Args:
        module: in eval mode; it is copied, so that it may be trained on.
        head: name of a linear layer or 1 x 1 convolution; None takes the last one that runs.
        input_shape: shape of one input.
        bias: whether to append the constant.
        memory_budget: activations of more samples than fit are computed in chunks, again for every derivative.
    """

    def __init__(
        self,
        module: nn.Module,
        head: str | None,
        input_shape: tuple[int, ...],
        *,
        bias: bool = False,
        memory_budget: int | str = "4GB",
    ) -> None:
        probes = probe_inputs(module, tuple(input_shape))
        check_ready(module, probes)
        self.head: Head = find_head(module, head, probes)
        self.input_shape, self.bias = tuple(input_shape), bias
        self.input_dim = math.prod(self.input_shape)
        self.module = copy.deepcopy(module).requires_grad_(False)
        self.layer = self.module.get_submodule(self.head.name)
        self._selected: torch.Tensor | None = None
        self.counter = PassCounter()
        self.dtype, self.device = probes.dtype, probes.device
        self._check_positions(probes)
        self.num_features = self.head.num_features + bias
        flat = probes.reshape(len(probes), -1)
        self._check_derivatives(flat)
        self.symmetry = Symmetry.measured(self._features, flat)
        self._chunk = max(1, parse_bytes(memory_budget) // self._bytes_per_sample(flat))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X) (m, p)."""
        self.count(len(inputs))
        return self._in_chunks(self.checked(inputs))

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> ModuleLinearisation:
        """Phi(X) and its derivative. `inactive_slope` is ignored: the module's own derivative is used."""
        if linear_rows:
            raise InputError(f"a module has no linear part to solve for; linear_rows must be 0, got {linear_rows}")
        self.count(len(inputs))
        return ModuleLinearisation(self, self.checked(inputs), self._chunk)

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """J_theta(x_i) sum_j J_theta(x_j)^T c_j over the weights theta of the body."""
        self.count(2 * len(inputs))
        inputs = self.checked(inputs)
        own = f"{self.head.name}." if self.head.name else ""
        weights = {name: each.detach() for name, each in self.module.named_parameters() if not name.startswith(own)}

        def features(weights: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            return self._features(rows, weights)

        parts = list(zip(inputs.split(self._chunk), cotangents.split(self._chunk), strict=True))
        step = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        for rows, part in parts:
            pull = torch.func.vjp(lambda each, rows=rows: features(each, rows), weights)[1]
            for name, change in pull(part)[0].items():
                step[name] += change
        return torch.cat(
            [torch.func.jvp(lambda each, rows=rows: features(each, rows), (weights,), (step,))[1] for rows, _ in parts]
        )

    def with_bias(self) -> Self:
        """The same map with the constant appended."""
        other = copy.copy(self)
        other.bias, other.num_features = True, self.head.num_features + 1
        parity: Parity = "even" if self.symmetry.parity == "even" else "none"
        other.symmetry = replace(self.symmetry, parity=parity, homogeneous=False, signs_identified=parity == "none")
        return other

    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """Some of the features; all of the body is computed nevertheless."""
        before = torch.arange(self.num_features, device=self.device) if self._selected is None else self._selected
        other = copy.copy(self)
        other._selected = before[coordinates]
        other.num_features = int(other._selected.numel())
        return other

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same module in another precision."""
        if dtype == self.dtype:
            return self
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module).to(dtype)
        other.layer = other.module.get_submodule(self.head.name)
        other.dtype = dtype
        return other

    def identity(self) -> str:
        """A hash of the weights, the input shape and the head."""
        digest = hashlib.sha256(repr((type(self.module).__name__, self.input_shape, self.head, self.bias)).encode())
        for name, tensor in sorted(self.module.state_dict().items()):
            digest.update(name.encode())
            plain = tensor.detach().cpu().clone(memory_format=torch.contiguous_format).view(-1)
            digest.update(plain.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The architecture in words; only exhume's own can be built again from them."""
        if not isinstance(self.module, Network):
            raise InputError(
                f"{type(self.module).__name__} cannot be saved: only exhume's own architectures can be built again "
                "from a file; attack it from Python, in one go"
            )
        return {
            "kind": KIND,
            "architecture": self.module.name,
            "config": self.module.config,
            "head": self.head.name,
            "bias": self.bias,
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """The module's weights."""
        return {name: tensor.detach() for name, tensor in self.module.state_dict().items()}

    def _in_chunks(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([self._features(part) for part in inputs.split(self._chunk)])

    def _features(self, rows: torch.Tensor, weights: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
        """Phi of flat rows, differentiable in them (and in the weights, if some are given)."""
        features = self._body(rows, weights)
        if self.bias:
            features = torch.cat([features, torch.ones_like(features[:, :1])], 1)
        return features if self._selected is None else features[:, self._selected]

    def _body(self, rows: torch.Tensor, weights: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
        """What the head is given, the mean over its positions."""
        inputs = rows.reshape(-1, *self.input_shape).clone()  # a forward may change it in place
        with input_of(self.layer) as caught, sdpa_kernel(SDPBackend.MATH):
            if weights is None:
                self.module(inputs)
            else:
                torch.func.functional_call(self.module, weights, (inputs,))
        return self._over_positions(caught[0])

    def _over_positions(self, values: torch.Tensor) -> torch.Tensor:
        """(m, p) from what stands at every position; the channels of a convolution come second, else last."""
        if values.ndim == 2:
            return values
        if self.head.kind == "linear":
            return values.flatten(1, -2).mean(1)
        return values.flatten(2).mean(2)

    def _check_derivatives(self, flat: torch.Tensor) -> None:
        """Refuses bodies that torch.func cannot differentiate, that are constant, or linear in the input."""
        name = type(self.module).__name__
        try:
            moved = torch.func.jvp(self._features, (flat,), (flat.flip(0),))[1]
            values, pull, *_ = torch.func.vjp(self._features, flat)
            # Not a constant: layer normalisation makes the sum of all features constant.
            weights = torch.linspace(1, 2, values.shape[1]).to(values)
            pulled = pull(weights.expand_as(values))[0]
        except Exception as error:  # whatever an operation without a derivative raises
            raise InputError(
                f"torch.func cannot differentiate {name} up to its head: {type(error).__name__}: {error}"
            ) from error
        if not bool(moved.any()) or not bool(pulled.any()):
            raise InputError(
                f"the features of {name} do not depend on its input in a differentiable way{token_hint(self.module)}"
            )
        with torch.no_grad():
            places = (flat, flat.flip(0), flat + flat.flip(0), torch.zeros_like(flat))
            one, other, both, none = (self._features(rows) for rows in places)
        if float((both - one - other + none).norm()) <= _SAME * float((one - none).norm()):
            raise InputError(
                f"the features of {name} are linear in its input: its head shows the span of the samples and no more"
            )

    def _check_positions(self, probes: torch.Tensor) -> None:
        """Refuses heads with several positions whose outputs are not averaged."""
        with input_of(self.layer) as caught:
            outputs = run(self.module, probes)
        shape = tuple(caught[0].shape[1:])
        if shape.count(1) == len(shape) - 1 or len(shape) == 1:
            return
        means = self._over_positions(caught[0])
        averaged = self.layer(means if self.head.kind == "linear" else means[:, :, None, None]).flatten()
        if outputs.numel() != averaged.numel() or float((outputs.flatten() - averaged).norm()) > _SAME * float(
            averaged.norm()
        ):
            raise InputError(
                f"head {self.head.name!r} works on {shape} at a time and the module does not average its outputs; "
                "every position would have coefficients of its own, which is not supported"
            )

    def _bytes_per_sample(self, flat: torch.Tensor) -> int:
        """Memory that one sample's activations take."""
        sizes: list[int] = []

        def count(_layer: nn.Module, _args: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                sizes.append(output.numel() * output.element_size())

        handles = [layer.register_forward_hook(count) for layer in self.module.modules()]
        run(self.module, flat[:1].reshape(1, *self.input_shape))
        for handle in handles:
            handle.remove()
        return max(1, 2 * sum(sizes))


class ModuleLinearisation(Linearisation):
    """Phi(X) and its derivative: one jvp or vjp over all samples at once, or a chunk of them at a time.

    For one chunk the graph of Phi is kept, and that of u -> J^T u, whose transpose is J: a jvp through it takes a tenth
    of the time of `torch.func.jvp` on small networks, which evaluates Phi again.
    """

    def __init__(self, feature_map: ModuleFeatureMap, inputs: torch.Tensor, chunk: int) -> None:
        self._map, self._inputs, self._chunk = feature_map, inputs, chunk
        self._graph: tuple[torch.Tensor, torch.Tensor] | None = None  # rows and Phi of them
        self._pulled: tuple[torch.Tensor, torch.Tensor] | None = None  # u and J^T u
        self._may_pull = 2 * len(inputs) <= chunk  # the second graph is about as large as the first
        if len(inputs) <= chunk:
            rows = inputs.detach().clone().requires_grad_()
            with torch.enable_grad():
                values = feature_map._features(rows)
            self._graph, self.features = (rows, values), values.detach()
        else:
            self.features = feature_map._in_chunks(inputs)

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """J_i directions_i: through the graph of J^T u if it is kept, else by forward-mode differentiation."""
        self._map.count(len(directions))
        if self._graph is not None and self._may_pull:
            try:
                return self._jvp_of_graph(*self._graph, directions)
            except RuntimeError:  # an operation whose backward pass has no derivative
                self._may_pull = False
        parts = zip(self._inputs.split(self._chunk), directions.split(self._chunk), strict=True)
        return torch.cat([torch.func.jvp(self._map._features, (rows,), (part,))[1] for rows, part in parts])

    def _jvp_of_graph(self, rows: torch.Tensor, values: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        if self._pulled is None:
            with torch.enable_grad():
                cotangents = torch.zeros_like(values, requires_grad=True)
                self._pulled = cotangents, torch.autograd.grad(values, rows, cotangents, create_graph=True)[0]
        cotangents, pulled = self._pulled
        return torch.autograd.grad(pulled, cotangents, directions, retain_graph=True)[0]

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """J_i^T cotangents_i by reverse-mode differentiation."""
        self._map.count(len(cotangents))
        if self._graph is not None:
            rows, values = self._graph
            return torch.autograd.grad(values, rows, cotangents, retain_graph=True)[0]
        parts = zip(self._inputs.split(self._chunk), cotangents.split(self._chunk), strict=True)
        return torch.cat([torch.func.vjp(self._map._features, rows)[1](part)[0] for rows, part in parts])

    def mean_kernel(self, count: int) -> torch.Tensor:
        """tr(J_i^T J_j) / d, estimated from random signs z: E[(J_i^T z) . (J_j^T z)] (Hutchinson 1990)."""
        generator = torch.Generator().manual_seed(_PROBE_SEED)
        width = self.features.shape[1]
        kernel = torch.zeros((count, count), dtype=torch.float64, device=self.features.device)
        for _ in range(_KERNEL_PROBES):
            signs = (torch.randint(0, 2, (1, width), generator=generator) * 2 - 1).to(self.features)
            pulled = self.vjp(signs.expand(len(self._inputs), -1))[:count].double()
            kernel += pulled @ pulled.T / (_KERNEL_PROBES * self._map.input_dim)
        return kernel
