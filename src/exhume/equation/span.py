"""The span equation Theta = A^T Phi(X) + nuisance: projected residual, gradient, Gauss-Newton operator, preconditioner.

Notation of the paper: Phi (n, p) features of the candidate X, theta the displacement (here Theta, k rows), P the
projector onto the complement of the rows of Phi (and of the nuisance), alpha the coefficients (here A, (n, k)).
L(X) = ||P Theta||^2, Eq. (11), is a separable least-squares problem: A is optimal for every X (Golub & Pereyra 1973),
and J D = P sum_i a_i J_i D_i is the Jacobian of the residual in Kaufman's form (1975).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from exhume.features import FeatureMap, Linearisation, RowFeatureMap
from exhume.features.weighted import generates_anew, sweep, weighted_jvp, weighted_vjp
from exhume.nuisance import Nuisance, NuisanceBasis, cholesky
from exhume.sharding import coordinates_of


@dataclass(frozen=True)
class Point:
    """A candidate and all that the span equation says of it.

    Attributes:
        rows: the unknowns (n + j, d): the samples, and below them W if the linear part is solved for jointly.
        num_samples: n.
        at: features and derivative at the rows.
        gram_factor: Cholesky factor of Phi Phi^T, the nuisance projected out (float64).
        nuisance_of_features: coefficients (n, q) of the nuisance part of Phi; None without one.
        coefficients: A (n, k).
        nuisance: coefficients (k, q) of the nuisance part of Theta; None without one.
        residual: P Theta (k, p); where processes share the coordinates, the columns of this one.
        loss: ||P Theta||^2 over the squared norm that the Span measures by.
    """

    rows: torch.Tensor
    num_samples: int
    at: Linearisation
    gram_factor: torch.Tensor
    nuisance_of_features: torch.Tensor | None
    coefficients: torch.Tensor
    nuisance: torch.Tensor | None
    residual: torch.Tensor
    loss: float

    @property
    def samples(self) -> torch.Tensor:
        """X (n, d)."""
        return self.rows[: self.num_samples]

    @property
    def features(self) -> torch.Tensor:
        """Phi (n, p)."""
        return self.at.features[: self.num_samples]


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
        self.features, self.fixed, self.coordinates = features, fixed, coordinates_of(features)
        self.displacement = displacement.to(features.dtype)
        self.nuisance = nuisance or Nuisance()
        self.ridge = ridge
        self._inactive_slope = inactive_slope
        projected_linear = self.nuisance.linear and not self.nuisance.joint
        self.basis: NuisanceBasis | None = None
        if projected_linear or self.nuisance.constant or fixed is not None:
            self.basis = NuisanceBasis(features, projected_linear, self.nuisance.constant, fixed)
        self.squared_norm = squared_norm if squared_norm is not None else self._reference()

    @property
    def num_outputs(self) -> int:
        """k."""
        return int(self.displacement.shape[0])

    @property
    def num_equations(self) -> int:
        """k p."""
        return self.num_outputs * self.features.num_features

    @property
    def num_linear(self) -> int:
        """Rows of W among the unknowns: k if the linear part is solved for jointly, else 0."""
        return self.num_outputs if self.nuisance.linear and self.nuisance.joint else 0

    def subset(self, rows: slice | torch.Tensor) -> Span:
        """The same equation on some of the coordinates; losses keep their scale."""
        features = self.features.subset(rows)
        share = features.num_features / self.features.num_features
        columns = self.coordinates.local(rows)
        return Span(
            features,
            self.displacement[:, columns],
            self.nuisance,
            ridge=self.ridge,
            squared_norm=self.squared_norm * share,
            inactive_slope=self._inactive_slope,
            fixed=None if self.fixed is None else self.fixed[:, columns],
        )

    def over(self, features: FeatureMap, nuisance: Nuisance | None = None) -> Span:
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
        assert isinstance(self.features, RowFeatureMap)
        return self.features.pull_back(self.displacement) * (self.features.input_dim / self.features.num_features)

    def without_nuisance(self) -> torch.Tensor:
        """Theta (k, p) with its nuisance part removed."""
        rest = self.displacement
        if self.num_linear:
            assert isinstance(self.features, RowFeatureMap)
            rest = rest - self.features.preactivate(self.first_linear())
        if self.basis is not None:
            rest = rest - self.basis.combine(self.basis.solve(self.basis.moments(rest)))
        return rest

    def at(self, rows: torch.Tensor) -> Point:
        """Solves min over A and the nuisance of ||Theta - A^T Phi(X) - nuisance||^2 at the rows. One pass."""
        rows = self.coordinates.lead(rows)
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
        goal = self.displacement - at.features[count:] if self.num_linear else self.displacement
        residual, coefficients, nuisance = self._project(features, of_features, factor, goal)
        # Once more: the normal equations lose half the digits, a second sweep gives them back.
        residual, more, nuisance_more = self._project(features, of_features, factor, residual)
        coefficients = (coefficients + more).T
        loss = self.squared_size(residual) / self.squared_norm
        if nuisance is not None and nuisance_more is not None:
            nuisance = nuisance + nuisance_more
        return Point(rows, count, at, factor, of_features, coefficients, nuisance, residual, loss)

    def gradient(self, point: Point) -> torch.Tensor:
        """J^T P Theta, (n + j, d): minus half the gradient of ||P Theta||^2. One pass.

        The dependence of A on X drops out because A is optimal.
        """
        return self.adjoint(point, point.residual)

    def jacobian(self, point: Point, directions: torch.Tensor) -> torch.Tensor:
        """sum_i a_i J_i D_i before projection: (n + j, d) -> (k, p). One pass."""
        return weighted_jvp(point.at, self._weights(point), directions)

    def adjoint(self, point: Point, change: torch.Tensor) -> torch.Tensor:
        """The adjoint of `jacobian`: (k, p) -> (n + j, d). One pass."""
        return weighted_vjp(point.at, self._weights(point), change)

    def normal(self, point: Point, directions: torch.Tensor) -> torch.Tensor:
        """The Gauss-Newton operator J^T P J D. Two passes."""
        change = self.jacobian(point, directions)
        projected, _, _ = self._project(point.features, point.nuisance_of_features, point.gram_factor, change)
        return self.adjoint(point, projected)

    def can_sweep(self, point: Point) -> bool:
        """Whether `sweep` pays, as V is generated for every read, and is enough, as no nuisance is projected out."""
        # Processes sum other things in a sweep, and V may fit the budget of some of them only.
        return self.basis is None and self.coordinates.agree(generates_anew(point.at))

    def sweep(self, point: Point, directions: torch.Tensor, change: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """J^T r (n + j, d) and Phi r^T (n, k) of r = sum_i a_i J_i D_i + C^T Phi. Two passes, one read of V."""
        return sweep(point.at, self._weights(point), directions, change)

    def project(self, point: Point, rows: torch.Tensor) -> torch.Tensor:
        """P rows, (m, p): what the features at the point do not span."""
        return self._project(point.features, point.nuisance_of_features, point.gram_factor, rows)[0]

    def squared_size(self, rows: torch.Tensor) -> float:
        """||rows||^2 over all coordinates, of rows (m, p)."""
        return float(self.coordinates.sum(rows.square().sum(dtype=torch.float64)))

    def mean_normal(self, point: Point) -> torch.Tensor:
        """What the Gauss-Newton matrix concentrates on: H with J^T P J ~ H (x) I, (n, n) float64.

        H = A A^T o K with K_ij = tr(J_i^T J_j) / d: for random features (p/d) E[act'(z_i) act'(z_j)] in closed form,
        less E[act']^2 if the linear part is free; for other maps estimated.
        """
        kernel = point.at.mean_kernel(point.num_samples)
        if self.nuisance.linear:
            mean_slope = float(cast(RowFeatureMap, self.features).activation.hermite(1)[1])
            kernel = kernel - mean_slope**2 * (self.features.num_features / self.features.input_dim)
        weights = point.coefficients.double()
        return (weights @ weights.T) * kernel

    def _weights(self, point: Point) -> torch.Tensor:
        """What every row's change counts with in the outputs, (n + j, k): A, and 1 for each row of W in its own."""
        if not self.num_linear:
            return point.coefficients
        return torch.cat([point.coefficients, torch.eye(self.num_linear).to(point.coefficients)])

    def _reference(self) -> float:
        return self.squared_size(self.without_nuisance())

    def _project(
        self, features: torch.Tensor, of_features: torch.Tensor | None, factor: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """P rows, and the coefficients (m, n) and (m, q) of what was taken away."""
        moments = self.coordinates.sum(rows @ features.T)
        if self.basis is None or of_features is None:
            weights = torch.cholesky_solve(moments.double().T, factor).T.to(rows.dtype)
            return torch.addmm(rows, weights, features, alpha=-1), weights, None
        free = self.basis.moments(rows)
        moments = moments - free @ of_features.T
        weights = torch.cholesky_solve(moments.double().T, factor).T.to(rows.dtype)
        nuisance = self.basis.solve(free) - weights @ of_features
        return rows - weights @ features - self.basis.combine(nuisance), weights, nuisance
