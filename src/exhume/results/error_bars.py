"""Error bars: how far the samples of a solved equation may be off, from the equation alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import torch

from exhume.equation.norms import FixedNorm, Norms
from exhume.equation.protocol import AnyPoint, Equation, Point
from exhume.solvers import CGOptions, conjugate_gradient
from exhume.support.tuning import tuned

_BARS = {"problem": "random features and two-layer networks of docs/reference/results.md", "suite": "network"}
_FLOOR = {"problem": "random features with exact and with rounded weights", "suite": "rounded"}
_DRIFTING = {
    "problem": "calibration families of `benches.drifting_networks`, 8 x 8 pixels, 0 to 89",
    "suite": "network",
}
_SINGULAR = "separates a singular Jacobian from a regular one by orders of magnitude on each side"


@dataclass(frozen=True)
class Limits:
    """The numbers behind a verdict: decisions of trust, and how precisely error bars are computed.

    Attributes:
        floor_factor: a residual within this factor of the rounding of Theta is at the floor.
        solver_precision: relative rounding at which the solvers themselves stop.
        probe_coordinates: coordinates of random probes of the inverse; enough to average their noise out.
        solve_steps, solve_tolerance: of conjugate gradients with each probe.
        dense: unknowns up to which J^T P J is written out.
        dependent: share of the largest eigenvalue below which directions are combinations of the others.
        flat: share of a typical singular value below which one is zero.
        parallel, alike: two samples with cosine above `alike` and coefficients with cosine above `parallel` cannot be
            told apart above the noise floor; the fit may return mixtures of them.
        told_apart: half the distance of twins in units of their other error bars, beyond which they are not mixed.
        parts: of the equations, each left out once.
        max_excess: times the residual that the estimated drift leaves, up to which drift explains the residual.
        spurious: error bar from which a row of a drifted network is taken for a row of a spurious minimum.
        guess: an error bar beyond this is no better than a guess.
    """

    floor_factor: float = tuned(8.0, "x rounding", **_FLOOR)
    solver_precision: float = tuned(1e-13, "relative rounding", **_FLOOR, rare="float64 victims")
    probe_coordinates: int = tuned(256, "coordinates", **_BARS)
    solve_steps: int = tuned(60, "steps", **_BARS)
    solve_tolerance: float = tuned(0.03, "relative residual", **_BARS)
    dense: int = tuned(64, "unknowns", **_BARS, rare="fewer than 128 unknowns")
    dependent: float = tuned(1e-10, "x largest eigenvalue", **_BARS, rare=_SINGULAR)
    flat: float = tuned(1e-5, "x typical singular value", **_BARS, rare=_SINGULAR)
    parallel: float = tuned(
        0.98, "share", problem="conv nets on 12 digits, seeds 0 to 2 (`benches twins`)", suite="twins"
    )
    alike: float = tuned(0.5, "cosine", problem="conv nets on 12 digits, seeds 0 to 2 (`benches twins`)", suite="twins")
    told_apart: float = tuned(
        20.0, "x error bar", problem="conv nets on 12 digits, seeds 0 and 1 (`benches twins`)", suite="twins"
    )
    parts: int = tuned(5, "parts", **_DRIFTING)
    max_excess: float = tuned(1.5, "x residual of the drift", **_DRIFTING)
    spurious: float = tuned(0.5, "relative error", **_DRIFTING)
    guess: float = tuned(math.sqrt(2), "relative error", **_BARS, rare="caps bars, decides nothing")


DEFAULT_LIMITS = Limits()


class Sensitivity(NamedTuple):
    """What depends on the samples.

    Attributes:
        seen: how many equations, of all outputs.
        typical: a typical singular value of J.
        active: equations of the sample with the fewest; None if they are not told apart.
    """

    seen: int
    typical: float
    active: int | None


def sensitivity(equation: Equation[AnyPoint], point: AnyPoint, seed: int) -> Sensitivity:
    """How many equations depend on the samples, and a typical singular value of J. One pass.

    A coordinate at which no unknown sample is active (half of them, for a single one under relu) does not depend on
    small changes. The coefficients of known samples are fitted to such coordinates first.
    """
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(point.rows.shape, generator=generator).to(point.rows)
    change, active = equation.dependence(point, directions)
    seen = round(equation.squared_size((change != 0).to(change.dtype)))
    typical = math.sqrt(equation.squared_size(equation.project(point, change)) / float(directions.square().sum()))
    return Sensitivity(seen, typical, active)


def mixing_errors(
    point: Point, limits: Limits = DEFAULT_LIMITS, errors: Sequence[float] | None = None
) -> tuple[float, ...]:
    """For every sample its error if the fit mixed it with a twin: half their distance; 0 if it has none.

    Twins are similar samples with nearly parallel coefficients. With one output all coefficients are parallel, and the
    search steps on subsets of coordinates, at which such minima are not stationary.

    Args:
        point: the samples in their equation.
        limits: what makes two samples twins.
        errors: other bounds of the samples' errors. A mixture leaves a residual, which these bounds grow with: two
            samples whose bounds are far below half their distance are told apart.
    """
    samples = point.samples.double()
    if point.coefficients.shape[1] < 2:
        return (0.0,) * len(samples)
    alike = torch.nn.functional.normalize(samples, dim=1)
    parallel = torch.nn.functional.normalize(point.coefficients.double(), dim=1)
    twins = ((parallel @ parallel.T).abs() > limits.parallel) & (alike @ alike.T > limits.alike)  # (n, n)
    halves = torch.cdist(samples, samples) / (2 * samples.norm(dim=1, keepdim=True))
    if errors is not None:
        bounds = torch.tensor(errors).to(halves)
        twins &= halves <= limits.told_apart * torch.maximum(bounds, bounds[:, None])
    return tuple(torch.where(twins.fill_diagonal_(False), halves, 0.0).amax(1).tolist())


class NormalOperator(Generic[AnyPoint]):
    """J^T P J on the tangent space. It keeps the directions it was applied to: they approximate its spectrum.

    Args:
        equation, point: the equation and where it is linearised.
        norms: fixed where only directions are compared.
        limits: how precisely it is inverted.
    """

    def __init__(
        self, equation: Equation[AnyPoint], point: AnyPoint, norms: Norms, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.equation, self.point, self.norms, self.limits = equation, point, norms, limits
        self._system = equation.normal_system(point, 0.0, norms)
        self._applied: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])  # unknowns, and their images

    @property
    def gradient(self) -> torch.Tensor:
        """J^T P Theta, projected: what a minimum makes zero."""
        return self._system.to_rows(self._system.rhs)

    def project_tangent(self, rows: torch.Tensor) -> torch.Tensor:
        """The part of directions (n, d) that the norms allow."""
        return self.norms.project_tangent(self.point.rows, rows, self.point.num_samples)

    def solve(self, rhs: torch.Tensor) -> torch.Tensor:
        """(J^T P J)^-1 rhs, nearly."""
        options = CGOptions(self.limits.solve_steps, self.limits.solve_tolerance)
        right, precondition = self._system.from_rows(rhs), self._system.precondition
        solution, _ = conjugate_gradient(self._apply, right, precondition, options, self._system.agree)
        return self._system.to_rows(solution)

    def smallest_singular_value(self) -> float:
        """sigma_min of J: exact for few unknowns, else from above, without any pass.

        Solves for random right sides are inverse iterations: the directions they went along nearly hold the flattest
        one, and the smallest eigenvalue of J^T P J on their span (Rayleigh and Ritz) is close to its smallest.
        """
        size = self.point.rows.numel()
        if size <= self.limits.dense:
            units = torch.eye(size).to(self.point.rows).reshape(-1, *self.point.rows.shape)
            dense = torch.stack([self._normal(unit).reshape(-1) for unit in units]).double()
            # Directions along the samples themselves are not moved: as many zeros come first.
            zeros = self.point.num_samples if isinstance(self.norms, FixedNorm) else 0
            return math.sqrt(max(float(torch.linalg.eigvalsh(0.5 * (dense + dense.T))[zeros]), 0.0))
        # Where coefficients are unknowns too, the least over them for given samples is what P leaves: in the norm only
        # samples count.
        unknowns, images = (torch.stack([one.reshape(-1) for one in ones]).double() for ones in self._applied)  # (m, .)
        norms = torch.linalg.vector_norm(unknowns[:, :size], dim=1, keepdim=True)
        moved = norms[:, 0] > 0  # a right side of zero moves nothing
        unknowns, images, norms = unknowns[moved], images[moved], norms[moved]
        directions = unknowns[:, :size] / norms
        sizes, vectors = torch.linalg.eigh(directions @ directions.T)
        independent = sizes > self.limits.dependent * sizes[-1]
        orthonormal = vectors[:, independent] / sizes[independent].sqrt()
        small = orthonormal.T @ (unknowns @ images.T / (norms * norms.T)) @ orthonormal
        return math.sqrt(max(float(torch.linalg.eigvalsh(0.5 * (small + small.T))[0]), 0.0))

    def _apply(self, unknowns: torch.Tensor) -> torch.Tensor:
        image = self._system.apply(unknowns)
        for kept, one in zip(self._applied, (unknowns, image), strict=True):
            kept.append(one)
        return image

    def _normal(self, rows: torch.Tensor) -> torch.Tensor:
        """J^T P J D between projections onto the tangent space."""
        change = self.equation.jacobian(self.point, self.project_tangent(rows))
        return self.project_tangent(self.equation.adjoint(self.point, self.equation.project(self.point, change)))


def predict_errors(operator: NormalOperator[AnyPoint], surplus: int, seed: int) -> tuple[float, ...]:
    """For every sample the root of ||D_i||^2 + s^2 tr[(J^T P J)^-1]_ii, over its norm.

    D is the Gauss-Newton step that is left to go (zero at a minimum), the trace is estimated from random signs
    (Hutchinson 1990), and s^2 is the residual's variance for each surplus equation.
    """
    point = operator.point
    generator = torch.Generator().manual_seed(seed)
    variance = point.loss * operator.equation.squared_norm / surplus
    shape = point.samples.shape
    left = operator.solve(operator.gradient).double().square().sum(1)  # (n,)
    traces = torch.zeros(shape[0], dtype=torch.float64, device=left.device)
    probes = max(1, -(-operator.limits.probe_coordinates // shape[1]))
    for _ in range(probes):
        signs = torch.randint(0, 2, shape, generator=generator).to(point.samples) * 2 - 1
        probe = operator.project_tangent(signs)
        traces += (probe * operator.solve(probe)).double().sum(1).clamp_min(0) / probes
    norms = torch.linalg.vector_norm(point.samples.double(), dim=1)
    errors = (left + variance * traces).sqrt() / norms
    return tuple(errors.clamp_max(operator.limits.guess).tolist())


def leave_out_errors(
    equation: Equation[AnyPoint], point: AnyPoint, norms: Norms, limits: Limits = DEFAULT_LIMITS
) -> tuple[float, ...]:
    """For every sample the error that disagreement between parts of the equations shows; 0 if they are not divided.

    Each of m parts is left out once, and the Gauss-Newton step D_g of the others is how far their solution lies from
    the samples. The variance (m - 1) / m sum_g ||D_g - mean||^2 (the jackknife of Quenouille and Tukey) is that of the
    solution whatever the errors of the equations are, as long as parts err independently: unlike `predict_errors` it
    does not take a residual that drift leaves for white noise.
    """
    steps = []
    for part in range(limits.parts):
        others = equation.without_part(part, limits.parts)
        if others is None:
            return (0.0,) * point.num_samples
        operator = NormalOperator(others, others.at(point.rows), norms, limits)
        steps.append(operator.solve(operator.gradient).double())
    spread = torch.stack(steps)  # (m, n, d)
    squares = (spread - spread.mean(0)).square().sum((0, 2)) * (limits.parts - 1) / limits.parts
    errors = squares.sqrt() / torch.linalg.vector_norm(point.samples.double(), dim=1)
    return tuple(errors.nan_to_num(limits.guess).clamp_max(limits.guess).tolist())
