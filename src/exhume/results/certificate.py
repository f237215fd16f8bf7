"""The certificate: how far a reconstruction can be trusted, judged without the truth.

With more equations than unknowns and a Jacobian of full rank, samples whose residual is at the floating-point floor
are (generically) the right ones. Above it the residual is noise: if Theta carries noise of variance s^2, the samples
carry s^2 (J^T P J)^-1, and the residual itself measures s^2 = ||P Theta||^2 / (equations - unknowns).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, NamedTuple

import torch

from exhume.equation.norms import FixedNorm, Norms
from exhume.equation.protocol import AnyPoint, Equation, Point
from exhume.results.stop import Stop
from exhume.solvers import CGOptions, conjugate_gradient
from exhume.support.tuning import tuned

EXACT, APPROXIMATE, FAILED = "exact", "approximate", "failed"
# A sample is exact below the first relative error and recovered below the second. Two random directions are about
# sqrt(2) apart; an image with an error of 0.1 is visibly the same image.
EXACT_BELOW, RECOVERED_BELOW = 1e-3, 0.1
_BARS = {"problem": "random features and two-layer networks of docs/results.md", "suite": "network"}
_FLOOR = {"problem": "random features with exact and with rounded weights", "suite": "rounded"}
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
    guess: float = tuned(math.sqrt(2), "relative error", **_BARS, rare="caps bars, decides nothing")


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Certificate:
    """What can be said of a reconstruction without the truth.

    Attributes:
        equations: k p, what the weights give, less the k that the coefficients of every known sample take.
        unknowns: what the samples that are not known and their coefficients ask.
        residual: ||P Theta|| / ||Theta||.
        floor: the residual that rounding alone would leave.
        smallest_singular_value: of the Jacobian J of the residual in the samples; None if not computed.
        drift_floor: the residual that the estimated drift of the features alone would leave; None if not estimated.
        predicted_errors: for every sample the expected ||x - x_hat|| / ||x||; empty if the fit cannot be trusted.
        verdict: "exact", "approximate" or "failed".
        reason: the verdict's reason in words.
        equations_per_sample: of the sample with the fewest, from the features that it is active on; None with one
            output, where it is never what is lacking, and for other equations than the span equation.
        unknowns_per_sample: what these must determine: a direction, a norm if it is open, and one coefficient.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> certificate = exhume.reconstruct(victim.target(), num_samples=4).certificate
        >>> certificate.equations, certificate.unknowns, certificate.verdict
        (200, 32, 'exact')
        >>> max(certificate.predicted_errors) < 1e-5
        True
    """

    equations: int
    unknowns: int
    residual: float
    floor: float
    smallest_singular_value: float | None
    predicted_errors: tuple[float, ...]
    verdict: str
    reason: str
    drift_floor: float | None = None
    equations_per_sample: int | None = None
    unknowns_per_sample: int | None = None

    @property
    def determined(self) -> bool:
        """Whether there are more equations than unknowns, in all and for each sample."""
        each = (self.equations_per_sample or 0) > (self.unknowns_per_sample or 0) or self.equations_per_sample is None
        return self.equations > self.unknowns and each

    @property
    def predicted_error(self) -> float | None:
        """The mean of the predicted errors."""
        return sum(self.predicted_errors) / len(self.predicted_errors) if self.predicted_errors else None


@dataclass(frozen=True)
class Trust:
    """What a certificate needs to know besides the equation.

    Attributes:
        stop: why the attack ended, and so whether the minimum is trusted and up to which error it is credible.
        unknowns: of samples and coefficients together.
        norms: fixed where only directions are compared, because the norm is given or undetermined.
        precision: relative rounding of the weights as they were handed over.
        drift_floor: relative residual that the estimated drift of the features alone would leave.
        drift_errors: for every sample the error that drift may have left in it.
        limits: of the verdict.
    """

    stop: Stop
    unknowns: int
    norms: Norms
    precision: float
    drift_floor: float | None = None
    drift_errors: tuple[float, ...] = ()
    limits: Limits = DEFAULT_LIMITS


def certify(equation: Equation[AnyPoint], point: AnyPoint, trust: Trust, seed: int) -> Certificate:
    """Judges samples by the equation alone.

    Args:
        equation: the model's own, without a nuisance.
        point: the samples in it.
        trust: what is known of the attack.
        seed: of the random probes.
    """
    equations, unknowns, limits = equation.num_equations, trust.unknowns, trust.limits
    residual = math.sqrt(point.loss)
    floor = max(trust.precision, limits.solver_precision) * equation.cancellation(point)

    def verdict(
        verdict: str, reason: str, smallest: float | None = None, errors: tuple[float, ...] = ()
    ) -> Certificate:
        base = (equations, unknowns, residual, floor, smallest, errors, verdict, reason, trust.drift_floor)
        return Certificate(*base, *per_sample)

    per_sample: tuple[int, int] | tuple[()] = ()
    if equations <= unknowns:
        return verdict(FAILED, "Fewer equations than unknowns: many different data sets explain these weights.")
    outputs = point.coefficients.shape[1]
    if outputs == 1 and not trust.stop.trusted:
        return verdict(FAILED, trust.stop.sentence)
    seen, typical, active = sensitivity(equation, point, seed)
    if active is not None:
        per_sample = active, unknowns // point.num_samples - outputs + 1
        if active <= per_sample[1]:
            return verdict(
                FAILED,
                f"The features that a sample is active on give it {active} equations only, for its {per_sample[1]} "
                "unknowns, whatever the number of outputs. Other samples may explain the weights as well.",
            )
    if not trust.stop.trusted:
        return verdict(FAILED, trust.stop.sentence)
    if seen <= unknowns:
        return verdict(
            FAILED,
            f"Only {seen} equations depend on the samples, for {unknowns} unknowns: at the others no sample is active. "
            "Other samples may explain the weights as well.",
        )
    operator = NormalOperator(equation, point, trust.norms, limits)
    at_floor = residual <= limits.floor_factor * floor
    bounds = [predict_errors(operator, equations - unknowns, seed)]
    bounds += [trust.drift_errors] if trust.drift_errors else []
    bounds += [] if at_floor else [mixing_errors(point, limits)]
    errors = tuple(max(each) for each in zip(*bounds, strict=True))
    smallest = operator.smallest_singular_value()
    if smallest <= limits.flat * typical:
        reason = "The equations leave some directions of the samples open: the Jacobian is singular."
        return verdict(FAILED, reason, smallest, errors)
    if at_floor and max(errors) < EXACT_BELOW:
        reason = "The residual is at the floating-point floor, with more equations than unknowns."
        return verdict(EXACT, reason, smallest, errors)
    if sorted(errors)[len(errors) // 2] < trust.stop.credible_error:
        good = sum(error < RECOVERED_BELOW for error in errors)
        what = "at the floor, but the Jacobian is too flat" if at_floor else "above the floor: noise or drift"
        reason = f"The residual is {what}; {good} of {len(errors)} samples have an error bar below {RECOVERED_BELOW}."
        return verdict(APPROXIMATE, reason, smallest, errors)
    reason = "The noise in the weights, or the drift of the features, drowns most samples."
    return verdict(FAILED, reason, smallest, errors)


class Sensitivity(NamedTuple):
    """What depends on the samples.

    Attributes:
        seen: how many equations.
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
    return Sensitivity(min(seen, equation.num_equations), typical, active)


def mixing_errors(point: Point, limits: Limits = DEFAULT_LIMITS) -> tuple[float, ...]:
    """For every sample its error if the fit mixed it with a twin: half their distance; 0 if it has none.

    Twins are similar samples with nearly parallel coefficients. With one output all coefficients are parallel, and the
    search steps on subsets of coordinates, at which such minima are not stationary.
    """
    samples = point.samples.double()
    if point.coefficients.shape[1] < 2:
        return (0.0,) * len(samples)
    alike = torch.nn.functional.normalize(samples, dim=1)
    parallel = torch.nn.functional.normalize(point.coefficients.double(), dim=1)
    twins = ((parallel @ parallel.T).abs() > limits.parallel) & (alike @ alike.T > limits.alike)  # (n, n)
    halves = torch.cdist(samples, samples) / (2 * samples.norm(dim=1, keepdim=True))
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
