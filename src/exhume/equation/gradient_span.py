"""The unified equation: the displacement of chosen parameters as a combination of per-sample gradients.

    Delta_S = sum_i J_S(x_i)^T c_i

S is a set of parameters, J_S(x) (k, |S|) the Jacobian of the k outputs in them, taken at a chosen point. The head at
the trained weights gives the law's span equation (J^T c = c phi(x)^T); all parameters at the trained weights, with
the trained weights themselves for Delta, the stationarity of the maximum margin (Haim et al. 2022, Buzaglo et al.
2023); all parameters with trained minus initial weights for Delta, the tangent-kernel equation (Loo et al. 2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from exhume.equation.gradients import Coefficients, Combination, HeadGradients, NetworkGradients, WeightsAt
from exhume.equation.normal_system import DenseNormalSystem
from exhume.equation.norms import Norms
from exhume.equation.parameters import chosen_names, known_network
from exhume.equation.protocol import Point
from exhume.errors import InputError
from exhume.target.target import Target

WEIGHTS_AT: tuple[WeightsAt, ...] = ("trained", "initial", "midpoint")
# How far a candidate is stretched to see whether the equation hides norms, and how parallel its gradients then are.
_FAR, _PARALLEL = 20.0, 1e-6
# Equations times unknowns up to which matrices are written out.
_MOST_DENSE = 2**26


@dataclass(frozen=True)
class GradientPoint(Point):
    """The equation at a candidate; its residual is flat (e,).

    Attributes:
        columns: J_S(x_i)^T e_o for every sample i and output o, (e, n k).
        basis: an orthonormal basis of their span, (e, r).
        inverse_gram: the (pseudo-)inverse of columns^T columns, (n k, n k).
    """

    columns: torch.Tensor
    basis: torch.Tensor
    inverse_gram: torch.Tensor


class GradientSpan:
    """Delta_S = sum_i J_S(x_i)^T c_i for candidates x_i and coefficients c_i, differentiable in both.

    A target without a network (random features, a pruned head) has the head alone: J^T c = c phi(x)^T, at every point
    the same. As an `Equation`, with coefficients projected out, it writes the columns J_S(x_i)^T e_o out, which is for
    small networks.

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

    def independent_outputs(self, point: Point) -> tuple[int, int]:
        """All outputs: its equations are not told apart by them."""
        return int(point.coefficients.shape[1]), int(point.coefficients.shape[1])

    def without_part(self, part: int, parts: int) -> None:
        """None: it is not divided."""

    def at(self, rows: torch.Tensor) -> GradientPoint:
        """The equation with coefficients fitted by least squares."""
        rows = rows.to(self.device, self.dtype)
        if self.num_equations * rows.numel() > _MOST_DENSE:
            raise InputError(
                f"{self.num_equations} equations for {rows.numel()} unknowns are too many to write out; "
                f"valid: a product of at most {_MOST_DENSE}"
            )
        units = torch.eye(self.num_outputs).to(rows)[:, None]
        columns = torch.stack([_flat(self.combination(row, unit)) for row in rows.split(1) for unit in units], 1)
        left, sizes, right = torch.linalg.svd(columns, full_matrices=False)
        independent = sizes > torch.finfo(sizes.dtype).eps * max(columns.shape) * sizes[0]
        basis, scaled = left[:, independent], right[independent].T / sizes[independent]
        displacement = _flat(self.rhs)
        weights = basis.T @ displacement
        residual = displacement - basis @ weights
        coefficients = (scaled @ weights).reshape(len(rows), self.num_outputs)
        loss = self.squared_size(residual) / self.squared_norm
        return GradientPoint(rows, len(rows), coefficients, residual, loss, columns, basis, scaled @ scaled.T)

    def jacobian(self, point: GradientPoint, directions: torch.Tensor) -> torch.Tensor:
        """Change of sum_i J_S(x_i)^T c_i along directions (n, d), coefficients fixed: (e,)."""
        return _flat(self._map.derivative(point.rows, point.coefficients, directions))

    def dependence(self, point: GradientPoint, directions: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        """`jacobian`; equations are not told apart by sample."""
        return self.jacobian(point, directions), None

    def adjoint(self, point: GradientPoint, change: torch.Tensor) -> torch.Tensor:
        """The adjoint of `jacobian`: (e,) -> (n, d)."""
        with torch.enable_grad():
            samples = point.rows.detach().requires_grad_()
            along = torch.cat([part.flatten() for part in self.combination(samples, point.coefficients)]) @ change
        return torch.autograd.grad(along, samples)[0]

    def project(self, point: GradientPoint, change: torch.Tensor) -> torch.Tensor:
        """What no coefficients explain of a change (e,)."""
        return change - point.basis @ (point.basis.T @ change)

    def squared_size(self, change: torch.Tensor) -> float:
        """||change||^2."""
        return float(change.square().sum(dtype=torch.float64))

    def normal_system(self, point: GradientPoint, damping: float, norms: Norms) -> DenseNormalSystem:
        """The linear system of a Gauss-Newton step, its Jacobian written out."""
        units = torch.eye(point.rows.numel()).to(point.rows).reshape(-1, *point.rows.shape)
        columns = torch.stack([self.project(point, self.jacobian(point, unit)) for unit in units], 1)
        return DenseNormalSystem(columns.reshape(-1, *point.rows.shape), point, damping, norms)

    def contributions(self, point: GradientPoint) -> torch.Tensor:
        """For every sample the increase of the loss when it is removed: c_i^T ([G^-1]_ii)^-1 c_i, (n,)."""
        count, outputs = point.coefficients.shape
        blocks = point.inverse_gram.reshape(count, outputs, count, outputs).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        weights = torch.linalg.solve(blocks, point.coefficients)
        return (weights * point.coefficients).sum(1) / self.squared_norm

    def cancellation(self, point: GradientPoint) -> float:
        """How much larger the terms J_S(x_i)^T c_i are than Delta_S."""
        terms = (point.columns * point.coefficients.reshape(-1)).reshape(-1, *point.coefficients.shape).sum(2)
        return max(1.0, math.sqrt(self.squared_size(terms) / self.squared_norm))

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
