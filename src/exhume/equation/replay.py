"""The whole training as the equation: theta_T(X) = theta_T, the training simulated from theta_0 by its recipe.

The residual r = w (theta_T - theta_T(X)) has one entry for every trained weight, and P = I: there are no coefficients
to project out. Under Adam a weight whose gradients nearly cancel moves by their sign, however small they are; it says
little and is hard to fit. Each weight therefore counts by w = s / (s + delta rms(s)), s the size of its gradients and
the mean over its layer. ReLUs make theta_T(X) only piecewise smooth: the residual is that of the network itself, and
its Jacobian may be that of a network with smooth activations in their place. What it cannot predict are the jumps at
kinks. An unstable training makes them large, but along few directions, which count less: see `Jumps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from exhume.equation.norms import Norms
from exhume.equation.protocol import Point
from exhume.training.simulation import End, Linearisation, Simulation, Unknowns

# Keeps the root mean square of a layer without gradients from dividing by zero.
_TINY = 1e-30


@dataclass(frozen=True)
class ReplayPoint(Point):
    """The equation at a candidate; its residual is (P,).

    Attributes:
        end: of the simulated training.
    """

    end: End


@dataclass(frozen=True)
class Jumps:
    """Directions in which the end of a training jumps when its samples change slightly.

    The residual is noise there and says little about the samples. As in generalised least squares it is divided by the
    noise, relative to that of all other directions: (I - U diag(f) U^T) r.

    Attributes:
        directions: U (P, q), orthonormal.
        shares: f (q,), from 0 to 1.
    """

    directions: Tensor
    shares: Tensor

    @classmethod
    def between(cls, ends: Tensor) -> Jumps:
        """From ends of trainings (q + 2, P); noise of all other directions is that of the least jump."""
        _, sizes, directions = torch.linalg.svd(ends - ends.mean(0), full_matrices=False)
        sizes, directions = sizes[:-1], directions[:-1]  # the mean was taken off: the last is zero
        return cls(directions.T, 1 - sizes[-1] / sizes.clamp_min(_TINY))

    def reduce(self, change: Tensor) -> Tensor:
        """(I - U diag(f) U^T) applied to a change (P,)."""
        return change - self.directions @ (self.shares * (self.directions.T @ change))


@dataclass(frozen=True)
class ReplayEquation:
    """w (theta_T - theta_T(X)) over rows (n, d), and one more row if numbers of the recipe are fitted.

    That row begins with the logarithms of the factors by which learning rate and weight decay differ from those of the
    simulation's recipe.

    Attributes:
        simulation: of the training.
        trained: theta_T (P,).
        num_samples: n.
        fitted: for learning rate and weight decay whether they are unknowns.
        basis: (r, d), if rows (n, r) are coordinates of samples in a subspace; None if they are samples.
        weights: w (P,); None for 1.
        jumps: directions in which the residual counts less; None for none.
        sharpness: of what takes the place of ReLU (see `scaled_gelu`) in the simulation, and in its Jacobian; None for
            ReLU itself.
        count: is told how many rows went through the network: a gradient is two passes, a product four.
    """

    simulation: Simulation
    trained: Tensor
    num_samples: int
    fitted: tuple[bool, bool] = (False, False)
    basis: Tensor | None = None
    weights: Tensor | None = None
    jumps: Jumps | None = None
    sharpness: tuple[float | None, float | None] = (None, None)
    count: Callable[[float], None] = lambda rows: None

    @property
    def num_equations(self) -> int:
        """P."""
        return self.trained.numel()

    @property
    def squared_norm(self) -> float:
        """||w (theta_T - theta_0)||^2."""
        return self.squared_size(self._weighted(self.trained - self.simulation.start))

    def unknowns(self, rows: Tensor) -> Unknowns:
        """Samples and scalars that rows stand for."""
        samples = rows[: self.num_samples]
        samples = samples if self.basis is None else samples @ self.basis
        if not any(self.fitted):
            return Unknowns.of(samples)
        return Unknowns(samples, torch.where(torch.tensor(self.fitted, device=rows.device), rows[-1, :2], 0.0))

    def weighted_by(self, point: ReplayPoint, delta: float) -> tuple[ReplayEquation, ReplayPoint]:
        """The equation with weights for the gradients at a point, and the point in it; as it is without Adam."""
        size = point.end.gradient_size
        if size is None:
            return self, point
        parts = [part / (part + delta * part.square().mean().sqrt() + _TINY) for part in self._layers(size)]
        equation = replace(self, weights=torch.cat(parts))
        return equation, equation.at_end(point.rows, point.end)

    def robust(self, point: ReplayPoint) -> tuple[ReplayEquation, ReplayPoint]:
        """The equation with less weight on outliers, and the point in it: iteration for a Cauchy loss.

        A neuron that crosses a kink spoils all its weights: the size of what a weight misses is taken from its row and
        its column, m^2 = (mean square of the row) (of the column) / (of the layer), and compared with the median.
        """
        parts = []
        for part, rows in zip(self._layers(point.residual), self.simulation.loss.rows, strict=True):
            squares = part.reshape(rows, -1).square()
            size = (squares.mean(1, True) * squares.mean(0, True) / (squares.mean() + _TINY)).flatten()
            moving = size[size > 0]  # weights of neurons that no sample activates miss nothing
            usual = moving.median() if len(moving) else 0.0
            parts.append((1 + size / (usual + _TINY)).rsqrt())
        found = torch.cat(parts)
        equation = replace(self, weights=found if self.weights is None else self.weights * found)
        return equation, equation.at_end(point.rows, point.end)

    def without_jumps(
        self, point: ReplayPoint, count: int, distance: float, generator: torch.Generator
    ) -> tuple[ReplayEquation, ReplayPoint]:
        """The equation with less weight on directions in which training jumps, and the point in it.

        They are those between so many trainings on samples at a relative distance from the point's.
        """
        rows, ends = point.rows, []
        for _ in range(count):
            drawn = torch.randn(rows.shape, generator=generator).to(rows)
            drawn = drawn * (rows.norm(dim=1) / drawn.norm(dim=1))[:, None]
            ends.append(self.at(rows + distance * drawn).residual)
        equation = replace(self, jumps=Jumps.between(torch.stack(ends)))
        return equation, equation.at_end(rows, point.end)

    def at(self, rows: Tensor) -> ReplayPoint:
        """Simulates the training; one simulation."""
        self._count(2)
        return self.at_end(rows, self.simulation.run(self.unknowns(rows), self.sharpness[0]))

    def at_end(self, rows: Tensor, end: End) -> ReplayPoint:
        """The point of rows whose simulation ended here."""
        residual = self._weighted(self.trained - end.weights)
        loss = self.squared_size(residual) / self.squared_norm
        loss = loss if math.isfinite(loss) else math.inf
        return ReplayPoint(rows, self.num_samples, rows.new_zeros((self.num_samples, 1)), residual, loss, end)

    def linearise(self, point: ReplayPoint) -> Linearisation:
        """The Jacobian of the simulation at a point."""
        self._count(4)
        return self.simulation.linearise(self.unknowns(point.rows), self.sharpness[1])

    def jacobian(self, point: ReplayPoint, directions: Tensor) -> Tensor:
        """w dtheta_T(X) along directions (n + j, d): (P,)."""
        return self.jvp(self.linearise(point), directions)

    def adjoint(self, point: ReplayPoint, change: Tensor) -> Tensor:
        """The adjoint of `jacobian`: (P,) -> (n + j, d)."""
        return self.vjp(self.linearise(point), change, point.rows)

    def jvp(self, at: Linearisation, directions: Tensor) -> Tensor:
        """`jacobian` where the equation is linearised already."""
        self._count(4)
        return self._weighted(at.jvp(self.unknowns(directions)))

    def vjp(self, at: Linearisation, change: Tensor, rows: Tensor) -> Tensor:
        """`adjoint` where the equation is linearised already."""
        self._count(4)
        reduced = change if self.jumps is None else self.jumps.reduce(change)
        found = at.vjp(reduced if self.weights is None else self.weights * reduced)
        samples = found.samples if self.basis is None else found.samples @ self.basis.T
        if not any(self.fitted):
            return samples
        last = torch.zeros_like(rows[-1:])
        last[0, :2] = torch.where(torch.tensor(self.fitted, device=rows.device), found.scalars, 0.0)
        return torch.cat([samples, last])

    def dependence(self, point: ReplayPoint, directions: Tensor) -> tuple[Tensor, int | None]:
        """`jacobian`; equations are not told apart by sample."""
        return self.jacobian(point, directions), None

    def project(self, point: ReplayPoint, change: Tensor) -> Tensor:
        """The change: there are no coefficients that could explain it."""
        return change

    def squared_size(self, change: Tensor) -> float:
        """||change||^2."""
        return float(change.square().sum(dtype=torch.float64))

    def independent_outputs(self, point: ReplayPoint) -> tuple[int, int]:
        """One: equations are not told apart by outputs."""
        return 1, 1

    def without_part(self, part: int, parts: int) -> None:
        """None: it is not divided."""

    def normal_system(self, point: ReplayPoint, damping: float, norms: Norms) -> ReplayNormalSystem:
        """The linear system of a Gauss-Newton step."""
        return ReplayNormalSystem(self, point, damping, norms)

    def contributions(self, point: ReplayPoint) -> Tensor:
        """For every sample the increase of the loss when it is set to zero, (n,); a simulation each."""
        without = []
        for place in range(self.num_samples):
            rows = point.rows.clone()
            rows[place] = 0.0
            without.append(self.at(rows).loss - point.loss)
        return torch.tensor(without, dtype=torch.float64)

    def cancellation(self, point: ReplayPoint) -> float:
        """What rounding leaves of the equation, in units of the rounding of weights relative to the displacement.

        Rounding errors grow in training, most under Adam, where gradients cancel: the training is simulated in single
        and in double precision, and their ends are compared.
        """
        rows = point.rows
        ends = [self.simulation.with_dtype(each).run(self.unknowns(rows)) for each in (torch.float32, torch.float64)]
        self._count(4)
        grown = self.squared_size(self._weighted((ends[0].weights.double() - ends[1].weights).to(rows)))
        stored = self.squared_size(self._weighted(self.trained) * torch.finfo(torch.float32).eps)
        return max(1.0, math.sqrt((grown + stored) / self.squared_norm) / torch.finfo(torch.float32).eps)

    def _count(self, passes: int) -> None:
        self.count(passes * self.simulation.num_rows)

    def _weighted(self, change: Tensor) -> Tensor:
        weighted = change if self.weights is None else self.weights * change
        return weighted if self.jumps is None else self.jumps.reduce(weighted)

    def _layers(self, change: Tensor) -> tuple[Tensor, ...]:
        return change.split(self.simulation.loss.sizes)


class ReplayNormalSystem:
    """(J^T J + damping diag(H)) D = J^T r with J applied only; H has the mean diagonal of J^T J for the samples.

    The mean is estimated from one random direction; that of each fitted number is its own.
    """

    def __init__(self, equation: ReplayEquation, point: ReplayPoint, damping: float, norms: Norms) -> None:
        self._equation, self._point, self._norms = equation, point, norms
        self._at = equation.linearise(point)
        rows, count = point.rows, point.num_samples
        signs = torch.randint(0, 2, rows.shape, generator=torch.Generator().manual_seed(0)).to(rows) * 2 - 1
        signs[count:] = 0
        mean = equation.squared_size(equation.jvp(self._at, signs)) / rows[:count].numel()
        self._scale = torch.full_like(rows, mean)
        for place, fitted in enumerate(equation.fitted):
            if fitted:
                unit = torch.zeros_like(rows)
                unit[-1, place] = 1.0
                self._scale[-1, place] = equation.squared_size(equation.jvp(self._at, unit))
        self.ridge = damping * self._scale
        self.rhs = self._project_tangent(equation.vjp(self._at, point.residual, rows))

    def from_rows(self, rows: Tensor) -> Tensor:
        """The rows themselves."""
        return rows

    def to_rows(self, unknowns: Tensor) -> Tensor:
        """The unknowns themselves."""
        return unknowns

    def apply(self, unknowns: Tensor) -> Tensor:
        """The left side: two products."""
        change = self._equation.jvp(self._at, unknowns)
        image = self._equation.vjp(self._at, change, self._point.rows)
        return self._project_tangent(image) + self.ridge * unknowns

    def precondition(self, unknowns: Tensor) -> Tensor:
        """The unknowns over the mean diagonal."""
        return self._project_tangent(unknowns / (self._scale + self.ridge))

    def agree(self, decision: bool) -> bool:
        """The decision: one process holds all of the equation."""
        return decision

    def _project_tangent(self, rows: Tensor) -> Tensor:
        return self._norms.project_tangent(self._point.rows, rows, self._point.num_samples)
