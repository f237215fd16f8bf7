"""The span equation Theta = A^T Phi(X) + nuisance: projected residual, its derivatives, and what they concentrate on.

Notation of the paper: Phi (n, p) features of the candidate X, theta the displacement (here Theta, k rows), P the
projector onto the complement of the rows of Phi (and of the nuisance), alpha the coefficients (here A, (n, k)).
L(X) = ||P Theta||^2, Eq. (11), is a separable least-squares problem: A is optimal for every X (Golub & Pereyra 1973),
and with J D = sum_i a_i J_i D_i, J_i the Jacobian of phi at sample i, the Jacobian of the residual in Kaufman's form
(1975) is -P J.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, cast

import torch

from exhume.equation.normal_system import SpanNormalSystem
from exhume.equation.norms import Norms
from exhume.equation.nuisance import Nuisance, NuisanceBasis, cholesky
from exhume.equation.protocol import Point
from exhume.features import FeatureMap, Linearisation, OneLayerFeatures
from exhume.support.distributed import Coordinates

# Share of Theta's largest singular value below which a combination of outputs is rounding. A solution counts as found
# at a relative residual of 3e-5 (`Tuning.found`), so that what is smaller is not tested; rounding leaves about 1e-6.
_ROUNDING_OF_OUTPUTS = 1e-4
# Times its share of the squared residual that a combination of outputs must have moved for its equations to count.
# Weight decay leaves a share of the initial head in the sum of the rows of Theta, which no sample explains.
_CLEAR_OF_RESIDUAL = 4.0


def independent_outputs(theta: torch.Tensor, coordinates: Coordinates, num_samples: int, noise: float = 0.0) -> int:
    """How many outputs' worth of equations Theta (k, p) holds: k, or its rank if samples do not explain that.

    n samples move min(n, k) combinations of the outputs. With cross-entropy the rows of Theta add up to zero, so that
    k outputs give the equations of k - 1.

    Args:
        theta: the displacement.
        coordinates: which columns of it this process holds.
        num_samples: n, known ones included.
        noise: squared size that a combination of outputs must exceed to count.
    """
    theta = theta.double()
    sizes = torch.linalg.eigvalsh(coordinates.sum(theta @ theta.T))
    rank = int((sizes > max(_ROUNDING_OF_OUTPUTS**2 * float(sizes[-1]), noise)).sum())
    return len(theta) if rank >= min(num_samples, len(theta)) else max(1, rank)


@dataclass(frozen=True)
class SpanPoint(Point):
    """The span equation at a candidate; its residual is P Theta (k, p).

    Attributes:
        linearised: features and derivative at the rows.
        gram_factor: Cholesky factor of Phi Phi^T, the nuisance projected out (float64).
        nuisance_of_features: coefficients (n, q) of the nuisance part of Phi; None without one.
        nuisance_coefficients: (k, q) of the nuisance part of Theta; None without one.
    """

    linearised: Linearisation
    gram_factor: torch.Tensor
    nuisance_of_features: torch.Tensor | None
    nuisance_coefficients: torch.Tensor | None

    @property
    def features(self) -> torch.Tensor:
        """Phi (n, p)."""
        return self.linearised.features[: self.num_samples]


class Span:
    """The equation for a feature map and a displacement, for one or several outputs.

    Where several processes share the coordinates out, tensors of p columns hold those of this one, and all that is
    summed over coordinates is summed over the processes.

    Args:
        features: phi.
        displacement: Theta (k, p).
        nuisance: parts of Theta that are free.
        ridge: share of the mean diagonal added to Phi Phi^T, against near-duplicates.
        squared_norm: what losses are relative to; by default ||Theta||^2 without its nuisance part.
        inactive_slope: slope given to inactive ReLUs in derivatives.
        fixed: features (m, p) of samples that are known; their coefficients are fitted like a nuisance.
    """

    def __init__(
        self,
        features: FeatureMap,
        displacement: torch.Tensor,
        nuisance: Nuisance | None = None,
        *,
        ridge: float = 0.0,
        squared_norm: float | None = None,
        inactive_slope: float = 0.0,
        fixed: torch.Tensor | None = None,
    ) -> None:
        self.features, self.fixed, self.coordinates = features, fixed, features.coordinates
        self.displacement = displacement.to(features.dtype)
        self.nuisance = nuisance or Nuisance()
        self.ridge = ridge
        self._inactive_slope = inactive_slope
        projected_linear = self.nuisance.linear and not self.nuisance.joint
        self.basis: NuisanceBasis | None = None
        if projected_linear or self.nuisance.constant or fixed is not None:
            self.basis = NuisanceBasis(features, projected_linear, self.nuisance.constant, fixed)
        self.squared_norm = self.squared_size(self.without_nuisance()) if squared_norm is None else squared_norm

    @property
    def num_outputs(self) -> int:
        """k."""
        return int(self.displacement.shape[0])

    @property
    def num_equations(self) -> int:
        """k p, less the k that the coefficients of every known sample take."""
        return self.num_outputs * (self.features.num_features - (0 if self.fixed is None else len(self.fixed)))

    def independent_outputs(self, point: SpanPoint) -> tuple[int, int]:
        """How many outputs count by the rank of Theta, and how many moved by far more than their share of residual."""
        count = point.num_samples + (0 if self.fixed is None else len(self.fixed))
        noise = _CLEAR_OF_RESIDUAL * point.loss * self.squared_norm / self.num_outputs
        by_rank = independent_outputs(self.displacement, self.coordinates, count)
        return by_rank, min(by_rank, independent_outputs(self.displacement, self.coordinates, count, noise))

    def without_part(self, part: int, parts: int) -> Self:
        """The equation without one of so many blocks of neighbouring coordinates: channels of a convolution."""
        count = self.features.num_features
        kept = torch.arange(count, device=self.displacement.device)
        first, last = part * count // parts, (part + 1) * count // parts
        return self.subset(torch.cat([kept[:first], kept[last:]]))

    @property
    def num_linear(self) -> int:
        """Rows of W among the unknowns: k if the linear part is solved for jointly, else 0."""
        return self.num_outputs if self.nuisance.linear and self.nuisance.joint else 0

    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """The same equation on some of the coordinates; losses keep their scale."""
        features = self.features.subset(coordinates)
        share = features.num_features / self.features.num_features
        columns = self.coordinates.local(coordinates)
        return type(self)(
            features,
            self.displacement[:, columns],
            self.nuisance,
            ridge=self.ridge,
            squared_norm=self.squared_norm * share,
            inactive_slope=self._inactive_slope,
            fixed=None if self.fixed is None else self.fixed[:, columns],
        )

    def with_features(self, features: FeatureMap, nuisance: Nuisance | None = None) -> Span:
        """The equation for another feature map over the same coordinates; losses keep their scale."""
        return Span(
            features,
            self.displacement,
            nuisance or self.nuisance,
            ridge=self.ridge,
            squared_norm=self.squared_norm,
            inactive_slope=self._inactive_slope,
            fixed=self.fixed,
        )

    def first_linear(self) -> torch.Tensor:
        """A first W (k, d): least squares of Theta on V, with V^T V at its mean (p/d) I."""
        assert isinstance(self.features, OneLayerFeatures)
        return self.features.rmatvec(self.displacement) * (self.features.input_dim / self.features.num_features)

    def without_nuisance(self) -> torch.Tensor:
        """Theta (k, p) with its nuisance part removed."""
        rest = self.displacement
        if self.num_linear:
            assert isinstance(self.features, OneLayerFeatures)
            rest = rest - self.features.matvec(self.first_linear())
        if self.basis is not None:
            rest = rest - self.basis.combine(self.basis.solve(self.basis.moments(rest)))
        return rest

    def at(self, rows: torch.Tensor) -> SpanPoint:
        """Solves min over A and the nuisance of ||Theta - A^T Phi(X) - nuisance||^2 at the rows. One pass."""
        rows = self.coordinates.broadcast(rows)
        count = rows.shape[0] - self.num_linear
        at = self.features.linearise(rows, self._inactive_slope, self.num_linear)
        features = at.features[:count]
        gram = self.coordinates.sum((features @ features.T).double())  # (n, n)
        of_features = None
        if self.basis is not None:
            moments = self.basis.moments(features)  # (n, q)
            of_features = self.basis.solve(moments)
            gram -= of_features.double() @ moments.double().T
        factor = cholesky(gram, self.ridge)
        rhs = self.displacement - at.features[count:] if self.num_linear else self.displacement
        residual, coefficients, nuisance = self.decompose(features, of_features, factor, rhs)
        # Once more: the normal equations lose half the digits, a second sweep gives them back.
        residual, more, nuisance_more = self.decompose(features, of_features, factor, residual)
        coefficients = (coefficients + more).T
        loss = self.squared_size(residual) / self.squared_norm
        if nuisance is not None and nuisance_more is not None:
            nuisance = nuisance + nuisance_more
        return SpanPoint(rows, count, coefficients, residual, loss, at, factor, of_features, nuisance)

    def gradient(self, point: SpanPoint) -> torch.Tensor:
        """J^T P Theta, (n + j, d): minus half the gradient of ||P Theta||^2. One pass.

        The dependence of A on X drops out because A is optimal.
        """
        return self.adjoint(point, point.residual)

    def jacobian(self, point: SpanPoint, directions: torch.Tensor) -> torch.Tensor:
        """J D = sum_i a_i J_i D_i: (n + j, d) -> (k, p). One pass."""
        return point.linearised.weighted_jvp(self.weights_of(point), directions)

    def dependence(self, point: SpanPoint, directions: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        """J D, and how many equations the sample with the fewest has for itself; None with one output. One pass.

        They are the features that depend on it, or its share of them where features depend on more samples than there
        are outputs.
        """
        outputs = point.coefficients.shape[1]
        if outputs == 1 or point.num_samples != len(directions):
            return self.jacobian(point, directions), None
        moved = point.linearised.jvp(directions)  # (n, p)
        active = (moved != 0).to(moved.dtype)
        shared = self.squared_size(active.sum(0).clamp_max(outputs).sqrt())  # min(j, k) for a feature of j samples
        fewest = min(self.squared_size(each) for each in active)
        return point.coefficients.T @ moved, round(min(fewest, math.ceil(round(shared) / len(active))))

    def adjoint(self, point: SpanPoint, change: torch.Tensor) -> torch.Tensor:
        """The adjoint of `jacobian`: (k, p) -> (n + j, d). One pass."""
        return point.linearised.weighted_vjp(self.weights_of(point), change)

    def prefers_joint_form(self, point: SpanPoint) -> bool:
        """Whether J^T J in one read of V pays: V is generated for every read, and no nuisance is projected out."""
        # All processes must choose the same form, and V may fit the memory budget of some of them only.
        return self.basis is None and self.coordinates.broadcast_decision(point.linearised.generates_matrix)

    def project(self, point: SpanPoint, change: torch.Tensor) -> torch.Tensor:
        """P change, (k, p): what the features at the point do not span."""
        return self.decompose(point.features, point.nuisance_of_features, point.gram_factor, change)[0]

    def normal_system(self, point: SpanPoint, damping: float, norms: Norms) -> SpanNormalSystem:
        """The linear system of a Gauss-Newton step."""
        return SpanNormalSystem(self, point, damping, norms, self.mean_normal(point))

    def cancellation(self, point: SpanPoint) -> float:
        """How much larger the terms a_i phi(x_i), or Theta, are than what losses are relative to."""
        sizes = self.coordinates.sum(point.features.square().sum(1))  # (n,)
        terms = float((point.coefficients.square().sum(1) * sizes).sum(dtype=torch.float64))
        return max(1.0, math.sqrt(max(terms, self.squared_size(self.displacement)) / self.squared_norm))

    def contributions(self, point: SpanPoint) -> torch.Tensor:
        """For every sample the increase of the loss when it is removed: a_i^2 / [(Phi Phi^T)^-1]_ii, (n,) float64."""
        inverse = torch.cholesky_inverse(point.gram_factor)
        return point.coefficients.double().square().sum(1) / (inverse.diagonal() * self.squared_norm)

    def squared_size(self, change: torch.Tensor) -> float:
        """||change||^2 over all coordinates, of a change (k, p)."""
        return float(self.coordinates.sum(change.square().sum(dtype=torch.float64)))

    def mean_normal(self, point: SpanPoint) -> torch.Tensor:
        """What the Gauss-Newton matrix concentrates on: H with J^T P J ~ H ⊗ I (Kronecker), (n, n) float64.

        H = A A^T ∘ K (elementwise) with K_ij = tr(J_i^T J_j) / d: for random features (p/d) E[act'(z_i) act'(z_j)] in
        closed form, less E[act']^2 if the linear part is free; for other maps estimated.
        """
        kernel = point.linearised.mean_kernel(point.num_samples)
        if self.nuisance.linear:
            mean_slope = float(cast(OneLayerFeatures, self.features).activation.hermite(1)[1])
            kernel = kernel - mean_slope**2 * (self.features.num_features / self.features.input_dim)
        weights = point.coefficients.double()
        return (weights @ weights.T) * kernel

    def weights_of(self, point: SpanPoint) -> torch.Tensor:
        """The factor of each row's change in each output, (n + j, k): A for samples, 1 for row i of W in output i."""
        if not self.num_linear:
            return point.coefficients
        return torch.cat([point.coefficients, torch.eye(self.num_linear).to(point.coefficients)])

    def decompose(
        self, features: torch.Tensor, of_features: torch.Tensor | None, factor: torch.Tensor, change: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """P change, and coefficients (k, n) of the features and (k, q) of the nuisance in what P takes away."""
        moments = self.coordinates.sum(change @ features.T)
        if self.basis is None or of_features is None:
            weights = torch.cholesky_solve(moments.double().T, factor).T.to(change.dtype)
            return torch.addmm(change, weights, features, alpha=-1), weights, None
        free = self.basis.moments(change)
        moments = moments - free @ of_features.T
        weights = torch.cholesky_solve(moments.double().T, factor).T.to(change.dtype)
        nuisance = self.basis.solve(free) - weights @ of_features
        return change - weights @ features - self.basis.combine(nuisance), weights, nuisance
