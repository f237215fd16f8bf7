"""The unified equation: the displacement of chosen parameters as a combination of per-sample gradients.

    Delta_S = sum_i J_S(x_i)^T c_i

S is a set of parameters, J_S(x) (k, |S|) the Jacobian of the k outputs in them, taken at a chosen point. The head at
the trained weights gives the law's span equation (J^T c = c phi(x)^T); all parameters at the trained weights, with
the trained weights themselves for Delta, the stationarity of the maximum margin (Haim et al. 2022, Buzaglo et al.
2023); all parameters with trained minus initial weights for Delta, the tangent-kernel equation (Loo et al. 2024).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.errors import InputError
from exhume.features import FeatureMap
from exhume.model import Model
from exhume.target import Target

Point = Literal["trained", "initial", "midpoint"]
POINTS: tuple[Point, ...] = ("trained", "initial", "midpoint")
SETS = ("all", "head", "first", "body")
# Coefficients (m, k), or how they follow from the outputs (m, k) of the same candidates.
Coefficients = torch.Tensor | Callable[[torch.Tensor], torch.Tensor]
# How far a candidate is stretched to see whether the equation hides norms, and how parallel its gradients then are.
_FAR, _PARALLEL = 20.0, 1e-6


class GradientSpan:
    """Delta_S = sum_i J_S(x_i)^T c_i for candidates x_i and coefficients c_i, differentiable in both.

    A target without a network (random features, a pruned head) has the head alone: J^T c = c phi(x)^T, at every point
    the same.

    Args:
        target: what is attacked.
        parameters: "all" that were trained, "head", "first" (the first trained layer), "body", or names.
        at: where gradients are taken; "initial" and "midpoint" need the weights before training.
        from_initial: whether Delta is trained minus initial weights; otherwise the trained weights themselves. In
            "all", "first" and "body" parameters with unknown initial weights are left out.
        dtype: what is computed in.

    Attributes:
        names: of the parameters in S.
        left_out: names that were left out of the set because their initial weights are not known.
        num_equations: numbers in S.
        num_outputs: k.
        passes_per_step: feature passes over the candidates that a loss and its gradient cost.
    """

    def __init__(
        self,
        target: Target,
        parameters: str | Sequence[str] = "all",
        *,
        at: Point = "trained",
        from_initial: bool = True,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if at not in POINTS:
            raise InputError(f"gradients at {at!r}; valid: {', '.join(POINTS)}")
        self.names, self.left_out = chosen_names(target, parameters, from_initial)
        self.input_dim, self.input_shape, self.dtype = target.features.input_dim, target.input_shape, dtype
        self.device = target.features.device
        model = _network(target)
        self._map: _Map = (
            _HeadOnly(target, from_initial, dtype)
            if model is None
            else _Network(model, self.names, at, from_initial, dtype, target.input_shape)
        )
        self.goal = self._map.goal  # one tensor a parameter
        self.num_equations = sum(part.numel() for part in self.goal)
        self.squared_norm = float(sum(part.square().sum() for part in self.goal))
        if not self.squared_norm > 0:
            raise InputError(f"the parameters {', '.join(self.names)} did not move: they carry no training data")
        self.passes_per_step = self._map.passes
        self.num_outputs = int(self.outputs(self._probe()).shape[1])

    def outputs(self, samples: torch.Tensor) -> torch.Tensor:
        """f(x) (m, k) at the point."""
        with torch.no_grad():
            return self._map.outputs(samples.to(self.device, self.dtype))

    def combination(self, samples: torch.Tensor, coefficients: Coefficients) -> tuple[torch.Tensor, ...]:
        """sum_i J_S(x_i)^T c_i for candidates (m, d) and coefficients (m, k): one tensor for each parameter."""
        return self._map.combination(samples, coefficients)

    def residual(self, samples: torch.Tensor, coefficients: Coefficients) -> tuple[torch.Tensor, ...]:
        """Delta_S - sum_i J_S(x_i)^T c_i."""
        return tuple(
            part - other for part, other in zip(self.goal, self.combination(samples, coefficients), strict=True)
        )

    def loss(self, samples: torch.Tensor, coefficients: Coefficients) -> torch.Tensor:
        """||Delta_S - sum_i J_S(x_i)^T c_i||^2 / ||Delta_S||^2."""
        squares = [part.square().sum() for part in self.residual(samples, coefficients)]
        return torch.stack(squares).sum() / self.squared_norm

    def unknowns(self, num_samples: int, per_sample: int) -> int:
        """Numbers to be found in so many samples with so many coefficients each; hidden norms do not count."""
        return num_samples * (self.input_dim - self.hides_norms + per_sample)

    @cached_property
    def hides_norms(self) -> bool:
        """Whether J_S(r x) is a multiple of J_S(x), so that a sample's norm cannot be told from its coefficient."""
        probe = self._probe()
        ones = torch.ones((1, self.num_outputs), dtype=self.dtype, device=self.device)
        one, far = (
            torch.cat([part.detach().flatten() for part in self.combination(factor * probe, ones)])
            for factor in (1.0, _FAR)
        )
        return float(torch.cosine_similarity(one, far, dim=0)) > 1 - _PARALLEL

    def _probe(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randn((1, self.input_dim), generator=generator).to(self.device, self.dtype)


def chosen_names(
    target: Target, parameters: str | Sequence[str], from_initial: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that a choice of parameters stands for, and those left out of it for want of initial weights."""
    model = _network(target)
    if model is None:
        if parameters not in ("all", "head"):
            why = "its head is pruned" if target.model is not None else "it has no other weights"
            raise InputError(f"only the head of this target can be chosen ({why}), not {parameters!r}")
        _check_known(target.knowledge.initial_head != "unknown" or not from_initial, "head")
        return ("head",), ()
    if isinstance(parameters, str) and parameters in SETS:
        names = _of_set(model, parameters)
        known = tuple(name for name in names if not from_initial or name in model.initial)
        _check_known(bool(known), parameters)
        return known, tuple(name for name in names if name not in known)
    names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    wrong = [name for name in names if name not in model.trained]
    if wrong or not names:
        raise InputError(
            f"no trained parameters are called {', '.join(wrong) or 'nothing'}; "
            f"valid: {', '.join((*SETS, *model.trained))}"
        )
    missing = [name for name in names if from_initial and name not in model.initial]
    _check_known(not missing, ", ".join(missing))
    return names, ()


def count_equations(target: Target, parameters: str | Sequence[str], from_initial: bool) -> int:
    """How many numbers a choice of parameters has."""
    model = _network(target)
    names, _ = chosen_names(target, parameters, from_initial)
    return target.num_parameters if model is None else sum(each.numel() for each in model.weights(names).values())


def margin_coefficients(weights: torch.Tensor, labels: torch.Tensor) -> Coefficients:
    """c_i such that J(x_i)^T c_i is weights_i times the gradient of a sample's margin.

    One output: the margin is y f, so c_i = weights_i y_i. Several (Buzaglo et al. 2023): f_y less the largest other
    output, so c_i = weights_i (e_y - e_j).

    Args:
        weights: lambda (m,).
        labels: (m,) -1 and +1 for one output, else classes.
    """

    def of(outputs: torch.Tensor) -> torch.Tensor:
        if outputs.shape[1] == 1:
            return (weights * labels.to(weights))[:, None]
        classes = labels.long()[:, None]
        rivals = outputs.detach().scatter(1, classes, -math.inf).argmax(1, keepdim=True)
        signs = torch.zeros_like(outputs).scatter(1, classes, 1.0).scatter(1, rivals, -1.0)
        return weights[:, None] * signs

    return of


def _of_set(model: Model, parameters: str) -> tuple[str, ...]:
    if parameters == "all":
        return model.trained
    if parameters == "first":
        layer = model.trained[0].rpartition(".")[0]
        return tuple(name for name in model.trained if name.rpartition(".")[0] == layer)
    names = tuple(name for name in model.trained if model.in_head(name) == (parameters == "head"))
    if not names:
        raise InputError(f"no parameters of the {parameters} were trained; trained: {', '.join(model.trained)}")
    return names


def _check_known(known: bool, what: str) -> None:
    if not known:
        raise InputError(
            f"the weights before training are needed, of the head at least, and those of {what!r} are not known; "
            "give them as initial_head (a state dict gives all)"
        )


def _network(target: Target) -> Model | None:
    """The network whose parameters can be chosen; a pruned one is known by the features of its head alone."""
    return None if target.surviving is not None else target.known_model


class _Map:
    """sum_i J_S(x_i)^T c_i and what it should be."""

    goal: tuple[torch.Tensor, ...]
    passes: int

    def outputs(self, samples: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def combination(self, samples: torch.Tensor, coefficients: Coefficients) -> tuple[torch.Tensor, ...]:
        raise NotImplementedError


class _HeadOnly(_Map):
    """C^T Phi(X) by a feature map: a forward and an adjoint pass."""

    passes = 2

    def __init__(self, target: Target, from_initial: bool, dtype: torch.dtype) -> None:
        self._features = target.features.with_dtype(dtype)
        trained = target.displacement if target.trained_head is None else target.trained_head
        self._head = trained.to(target.displacement.device, dtype)
        self.goal = (target.displacement.to(dtype) if from_initial else self._head,)

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


class _Network(_Map):
    """The gradient of sum_i c_i . f(x_i) in the parameters: a forward and a backward pass, twice that to descend."""

    passes = 4

    def __init__(
        self,
        model: Model,
        names: tuple[str, ...],
        at: Point,
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
        self.goal = tuple((model.displacement(name) if from_initial else trained[name]).to(dtype) for name in names)

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
