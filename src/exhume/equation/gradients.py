"""sum_i J_S(x_i)^T c_i for chosen parameters S of a network, or for the head of a feature map."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.features import FeatureMap
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target

# Where on the way of training gradients are taken.
WeightsAt = Literal["trained", "initial", "midpoint"]
# Coefficients (m, k), or how they follow from the outputs (m, k) of the same candidates.
Coefficients = torch.Tensor | Callable[[torch.Tensor], torch.Tensor]


class Combination(ABC):
    """sum_i J_S(x_i)^T c_i, and what it should be.

    Attributes:
        rhs: Delta_S, one tensor for each parameter.
        passes: feature passes that a loss and its gradient cost.
    """

    rhs: tuple[torch.Tensor, ...]
    passes: int

    @abstractmethod
    def outputs(self, samples: torch.Tensor) -> torch.Tensor:
        """f(x) (m, k)."""

    @abstractmethod
    def combination(self, samples: torch.Tensor, coefficients: Coefficients) -> tuple[torch.Tensor, ...]:
        """sum_i J_S(x_i)^T c_i, one tensor for each parameter, differentiable in samples and coefficients."""


class HeadGradients(Combination):
    """C^T Phi(X) by a feature map: a forward and an adjoint pass."""

    passes = 2

    def __init__(self, target: Target, from_initial: bool, dtype: torch.dtype) -> None:
        self._features = target.features.with_dtype(dtype)
        trained = target.displacement if target.trained_head is None else target.trained_head
        self._head = trained.to(target.displacement.device, dtype)
        self.rhs = (target.displacement.to(dtype) if from_initial else self._head,)

    def outputs(self, samples: torch.Tensor) -> torch.Tensor:
        return self._features.forward(samples) @ self._head.T

    def combination(self, samples: torch.Tensor, coefficients: Coefficients) -> tuple[torch.Tensor, ...]:
        features = _FeaturesOf.apply(samples, self._features)  # type: ignore[no-untyped-call]
        if not isinstance(coefficients, torch.Tensor):
            coefficients = coefficients(features.detach() @ self._head.T)
        return (coefficients.T @ features,)


class _FeaturesOf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, samples: torch.Tensor, features: FeatureMap) -> torch.Tensor:
        ctx.linearisation = features.linearise(samples.detach())
        return ctx.linearisation.features.clone()

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.linearisation.vjp(cotangents[0]), None


class NetworkGradients(Combination):
    """The gradient of sum_i c_i . f(x_i) in the parameters: a forward and a backward pass, twice that to descend."""

    passes = 4

    def __init__(
        self,
        model: NetworkWeights,
        names: tuple[str, ...],
        at: WeightsAt,
        from_initial: bool,
        dtype: torch.dtype,
        input_shape: tuple[int, ...],
    ) -> None:
        self._module: nn.Module = copy.deepcopy(model.module).to(dtype).requires_grad_(False)
        self._shape = input_shape
        trained = model.weights()
        share = {"trained": 0.0, "midpoint": 0.5, "initial": 1.0}[at]  # of the way back
        self._point = {
            name: (weight - share * model.displacement(name) if share and name in model.trained else weight).to(dtype)
            for name, weight in trained.items()
        }
        for name in names:
            self._point[name] = self._point[name].clone().requires_grad_()
        self._chosen = [self._point[name] for name in names]
        self.rhs = tuple((model.displacement(name) if from_initial else trained[name]).to(dtype) for name in names)

    def outputs(self, samples: torch.Tensor) -> torch.Tensor:
        inputs = samples.reshape(-1, *self._shape).clone()  # a forward may change it in place
        with sdpa_kernel(SDPBackend.MATH):  # the only one with second derivatives
            return torch.func.functional_call(self._module, self._point, (inputs,)).flatten(1)

    def combination(self, samples: torch.Tensor, coefficients: Coefficients) -> tuple[torch.Tensor, ...]:
        keep_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            outputs = self.outputs(samples)
            if not isinstance(coefficients, torch.Tensor):
                coefficients = coefficients(outputs)
            weighted = (coefficients * outputs).sum()
        # Unused: a parameter that the outputs do not depend on.
        found = torch.autograd.grad(weighted, self._chosen, create_graph=keep_graph, allow_unused=True)
        return tuple(
            torch.zeros_like(weight) if part is None else part for part, weight in zip(found, self._chosen, strict=True)
        )
