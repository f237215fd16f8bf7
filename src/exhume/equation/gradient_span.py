"""The unified equation: the displacement of chosen parameters as a combination of per-sample gradients.

    Delta_S = sum_i J_S(x_i)^T c_i

S is a set of parameters, J_S(x) (k, |S|) the Jacobian of the k outputs in them, taken at a chosen point. The head at
the trained weights gives the law's span equation (J^T c = c phi(x)^T); all parameters at the trained weights, with
the trained weights themselves for Delta, the stationarity of the maximum margin (Haim et al. 2022, Buzaglo et al.
2023); all parameters with trained minus initial weights for Delta, the tangent-kernel equation (Loo et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from exhume.equation.gradients import Coefficients, Combination, HeadGradients, NetworkGradients, WeightsAt
from exhume.equation.parameters import chosen_names, known_network
from exhume.errors import InputError
from exhume.target.target import Target

WEIGHTS_AT: tuple[WeightsAt, ...] = ("trained", "initial", "midpoint")
# How far a candidate is stretched to see whether the equation hides norms, and how parallel its gradients then are.
_FAR, _PARALLEL = 20.0, 1e-6


class GradientSpan:
    """Delta_S = sum_i J_S(x_i)^T c_i for candidates x_i and coefficients c_i, differentiable in both.

    A target without a network (random features, a pruned head) has the head alone: J^T c = c phi(x)^T, at every point
    the same. With coefficients projected out it is `exhume.equation.path` with one node.

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
        at: WeightsAt = "trained",
        from_initial: bool = True,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if at not in WEIGHTS_AT:
            raise InputError(f"gradients at {at!r}; valid: {', '.join(WEIGHTS_AT)}")
        self.names, self.left_out = chosen_names(target, parameters, from_initial)
        self.input_dim, self.input_shape, self.dtype = target.features.input_dim, target.input_shape, dtype
        self.device = target.features.device
        model = known_network(target)
        self._map: Combination = (
            HeadGradients(target, from_initial, dtype)
            if model is None
            else NetworkGradients(model, self.names, at, from_initial, dtype, target.input_shape)
        )
        self.rhs = self._map.rhs  # one tensor a parameter
        self.num_equations = sum(part.numel() for part in self.rhs)
        self.squared_norm = float(sum(part.square().sum() for part in self.rhs))
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
        explained = self.combination(samples, coefficients)
        return tuple(part - other for part, other in zip(self.rhs, explained, strict=True))

    def loss(self, samples: torch.Tensor, coefficients: Coefficients) -> torch.Tensor:
        """||Delta_S - sum_i J_S(x_i)^T c_i||^2 / ||Delta_S||^2."""
        squares = [part.square().sum() for part in self.residual(samples, coefficients)]
        return torch.stack(squares).sum() / self.squared_norm

    def unknowns(self, num_samples: int, per_sample: int) -> int:
        """Numbers to be found in so many samples with so many coefficients each; hidden norms do not count."""
        return num_samples * (self.input_dim - self.hides_norms + per_sample)

    @cached_property
    def hides_norms(self) -> bool:
        """Whether J_S(r x) is a multiple of J_S(x): a sample's norm cannot be separated from its coefficient."""
        probe = self._probe()
        ones = torch.ones((1, self.num_outputs), dtype=self.dtype, device=self.device)
        one, far = (_flat(self.combination(factor * probe, ones)) for factor in (1.0, _FAR))
        return float(torch.cosine_similarity(one, far, dim=0)) > 1 - _PARALLEL

    def _probe(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randn((1, self.input_dim), generator=generator).to(self.device, self.dtype)


def _flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """One vector (e,) of a tensor for each parameter."""
    return torch.cat([part.detach().flatten() for part in parts])
