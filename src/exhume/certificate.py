"""The certificate: how far a reconstruction can be trusted, said without the truth.

With more equations than unknowns and a Jacobian of full rank, samples whose residual is at the floating-point floor
are (generically) the right ones. What is left is noise: if Theta carries noise of variance s^2, the samples carry
s^2 (J^T P J)^-1, and the residual itself measures s^2 = ||P Theta||^2 / (equations - unknowns).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.solvers import NormalEquations, conjugate_gradient, tangent
from exhume.span import Point, Span

EXACT, APPROXIMATE, FAILED = "exact", "approximate", "failed"
# "exact" promises this error at most, on average and for every sample.
EXACT_BELOW = 1e-3
# A residual within this factor of the rounding of Theta is at the floor; the solvers themselves stop at the second.
_FLOOR_FACTOR = 8.0
_SOLVER_PRECISION = 1e-13
# Random probes of the inverse: enough that probes x dimensions average the noise of the estimate out.
_PROBE_COORDINATES = 256
_SOLVE_STEPS, _SOLVE_TOLERANCE = 60, 0.03
_DENSE = 64  # unknowns up to which the matrix is written out
# Of the directions that solves went along, those that are combinations of the others up to rounding say nothing more.
_DEPENDENT = 1e-10
# A singular value below this share of a typical one is zero: moving the samples along it changes nothing.
_FLAT = 1e-5
# Samples so much alike, whose coefficients are so nearly parallel, are told apart by what drift or noise hides: a fit
# that leaves a residual may have mixed them. Set on conv nets trained on 12 digits by cross-entropy, seeds 0 to 2;
# `python -m benches twins` shows others.
_PARALLEL, _ALIKE = 0.98, 0.5
# An error bar beyond this is no better than a guess.
_GUESS = math.sqrt(2)


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

    @property
    def predicted_error(self) -> float | None:
        """The mean of the predicted errors."""
        return sum(self.predicted_errors) / len(self.predicted_errors) if self.predicted_errors else None


def certify(
    span: Span,
    point: Point,
    *,
    unknowns: int,
    trusted: bool,
    why_not: str,
    norm_is_open: bool,
    precision: float,
    seed: int,
    credible_error: float = 0.5,
    drift_floor: float | None = None,
    drift_errors: tuple[float, ...] = (),
) -> Certificate:
    """Judges samples by the equation alone.

    Args:
        span: the plain equation, no nuisance free.
        point: the samples in it.
        unknowns: of samples and coefficients together.
        trusted: whether the attack vouches for the minimum: converged, or reached from independent starts.
        why_not: the reason in words if it does not.
        norm_is_open: whether only directions are compared, because the norm is given or undetermined.
        precision: relative rounding of the weights as they were handed over.
        seed: of the random probes.
        credible_error: median predicted error up to which the minimum is believed.
        drift_floor: relative residual that the estimated drift of the features alone would leave.
        drift_errors: for every sample the error that drift may have left in it.
    """
    fixed = 0 if span.fixed is None else int(span.fixed.shape[0])
    equations = span.num_equations - fixed * span.num_outputs
    residual, floor = math.sqrt(point.loss), max(precision, _SOLVER_PRECISION) * cancellation(span, point)
    if equations <= unknowns:
        reason = "Fewer equations than unknowns: many different data sets explain these weights."
        return Certificate(equations, unknowns, residual, floor, None, (), FAILED, reason, drift_floor)
    if not trusted:
        return Certificate(equations, unknowns, residual, floor, None, (), FAILED, why_not, drift_floor)
    seen = equations_seen(span, point, seed)
    if seen <= unknowns:
        reason = (
            f"Only {seen} equations feel the samples, for {unknowns} unknowns (at the others no sample is active): "
            "other samples may explain the weights as well."
        )
        return Certificate(equations, unknowns, residual, floor, None, (), FAILED, reason, drift_floor)
    normal = Explored(span, point, norm_is_open)
    errors = predict_errors(normal, span, point, equations - unknowns, seed)
    if drift_errors:
        errors = tuple(max(pair) for pair in zip(errors, drift_errors, strict=True))
    smallest = normal.smallest_singular_value()
    at_floor = residual <= _FLOOR_FACTOR * floor
    if not at_floor:
        errors = tuple(max(pair) for pair in zip(errors, mixing_errors(point), strict=True))
    typical = math.sqrt(max(float(span.mean_normal(point).diagonal().mean()), 0.0))
    if smallest <= _FLAT * typical:
        verdict, reason = FAILED, "The equations leave some directions of the samples open: the Jacobian is singular."
    elif at_floor and max(errors) < EXACT_BELOW:
        verdict, reason = EXACT, "The residual is at the floating-point floor, with more equations than unknowns."
    elif sorted(errors)[len(errors) // 2] < credible_error:
        good = sum(error < 0.1 for error in errors)
        what = "at the floor, but the Jacobian is too flat" if at_floor else "above the floor: noise or drift"
        verdict = APPROXIMATE
        reason = f"The residual is {what}; {good} of {len(errors)} samples have an error bar below 0.1."
    else:
        verdict, reason = FAILED, "The noise in the weights, or the drift of the features, drowns most samples."
    return Certificate(equations, unknowns, residual, floor, smallest, errors, verdict, reason, drift_floor)


def equations_seen(span: Span, point: Point, seed: int) -> int:
    """Equations in which some sample's derivative is not zero; the coefficients of known samples use the others first.

    A coordinate at which no unknown sample is active (half of them, for a single one under relu) says nothing of small
    changes.
    """
    felt = getattr(point.at, "slopes", None)  # maps act(V x) have them at hand, others are moved at random
    if felt is None:
        generator = torch.Generator().manual_seed(seed)
        felt = point.at.jvp(torch.randn(point.samples.shape, generator=generator).to(point.samples))
    seen = int(span.coordinates.sum((felt != 0).any(0).sum()))
    fixed = 0 if span.fixed is None else int(span.fixed.shape[0])
    unseen = span.features.num_features - seen
    return span.num_outputs * (seen - max(0, fixed - unseen))


def mixing_errors(point: Point) -> tuple[float, ...]:
    """For every sample how far it is off if it was mixed with a twin, half their distance; 0 if it has none.

    Twins are alike and have nearly parallel coefficients. With one output all coefficients are parallel and the search
    reads subsets of coordinates, which shake such minima.
    """
    samples = point.samples.double()
    if point.coefficients.shape[1] < 2:
        return (0.0,) * len(samples)
    alike = torch.nn.functional.normalize(samples, dim=1)
    parallel = torch.nn.functional.normalize(point.coefficients.double(), dim=1)
    twins = ((parallel @ parallel.T).abs() > _PARALLEL) & (alike @ alike.T > _ALIKE)  # (n, n)
    halves = torch.cdist(samples, samples) / (2 * samples.norm(dim=1, keepdim=True))
    return tuple(torch.where(twins.fill_diagonal_(False), halves, 0.0).amax(1).tolist())


def cancellation(span: Span, point: Point) -> float:
    """How much larger the terms a_i phi(x_i), or Theta, are than what is to be explained: rounding grows by this."""
    terms = point.coefficients.square().sum(1) * span.coordinates.sum(point.features.square().sum(1))  # (n,)
    whole = span.squared_size(span.displacement)
    return max(1.0, math.sqrt(max(float(terms.sum(dtype=torch.float64)), whole) / span.squared_norm))


class Explored:
    """J^T P J on the tangent space, which remembers where it was applied and what that tells of its spectrum.

    Args:
        span, point: the equation and where it is linearised.
        norm_is_open: whether only directions are compared.
    """

    def __init__(self, span: Span, point: Point, norm_is_open: bool) -> None:
        self._span, self._point, self._norm_is_open = span, point, norm_is_open
        self._seen: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])  # unknowns, and their images
        mean = span.mean_normal(point)
        scale = torch.finfo(point.samples.dtype).eps * mean.diagonal()
        inverse = torch.linalg.inv(mean + torch.diag(scale + 1e-14 * mean.diagonal().mean())).to(point.samples)
        self._equations = NormalEquations(span, point, lambda rows: self.flat(inverse @ rows), self.flat)

    def __call__(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The left side of the normal equations. Two passes."""
        image = self._equations.operator(unknowns)
        self._seen[0].append(unknowns)
        self._seen[1].append(image)
        return image

    def flat(self, rows: torch.Tensor) -> torch.Tensor:
        """Projection onto the tangent space, if only directions are compared."""
        return tangent(self._point.samples, rows, self._point.num_samples) if self._norm_is_open else rows

    def solve(self, goal: torch.Tensor) -> torch.Tensor:
        """(J^T P J)^-1 goal, nearly."""
        solution = conjugate_gradient(
            self,
            self._equations.goal(goal),
            self._equations.precondition,
            max_steps=_SOLVE_STEPS,
            tolerance=_SOLVE_TOLERANCE,
            agree=self._span.coordinates.agree,
        )[0]
        return self._equations.rows(solution)

    def smallest_singular_value(self) -> float:
        """sigma_min of J: exact for few unknowns, else from above, without any pass.

        Solves for random goals are inverse iterations: the directions they went along nearly hold the flattest one, and
        the smallest eigenvalue of J^T P J on their span (Rayleigh and Ritz) is close to its smallest.
        """
        point = self._point
        if point.samples.numel() <= _DENSE:
            basis = torch.eye(point.samples.numel()).to(point.samples).reshape(-1, *point.samples.shape)
            images = [self.flat(self._span.normal(point, self.flat(rows))).reshape(-1) for rows in basis]
            dense = torch.stack(images).double()
            # Directions along the samples themselves are not moved: as many zeros come first.
            zeros = point.num_samples if self._norm_is_open else 0
            return math.sqrt(max(float(torch.linalg.eigvalsh(0.5 * (dense + dense.T))[zeros]), 0.0))
        # Where coefficients are unknowns too, the least over them for given samples is what P leaves: in the norm only
        # samples count.
        unknowns, theirs = (torch.stack([one.reshape(-1) for one in ones]).double() for ones in self._seen)  # (m, .)
        norms = torch.linalg.vector_norm(unknowns[:, : point.samples.numel()], dim=1, keepdim=True)
        moved = norms[:, 0] > 0  # a goal of zero moves nothing
        unknowns, theirs, norms = unknowns[moved], theirs[moved], norms[moved]
        directions = unknowns[:, : point.samples.numel()] / norms
        sizes, vectors = torch.linalg.eigh(directions @ directions.T)
        apart = sizes > _DEPENDENT * sizes[-1]
        orthonormal = vectors[:, apart] / sizes[apart].sqrt()
        small = orthonormal.T @ (unknowns @ theirs.T / (norms * norms.T)) @ orthonormal
        return math.sqrt(max(float(torch.linalg.eigvalsh(0.5 * (small + small.T))[0]), 0.0))


def predict_errors(normal: Explored, span: Span, point: Point, surplus: int, seed: int) -> tuple[float, ...]:
    """For every sample the root of ||D_i||^2 + s^2 tr[(J^T P J)^-1]_ii, over its norm.

    D is the Gauss-Newton step that is left to go (zero at a minimum), the trace is estimated from random signs
    (Hutchinson 1990), and s^2 is the residual's variance for each surplus equation.
    """
    generator = torch.Generator().manual_seed(seed)
    variance = point.loss * span.squared_norm / surplus
    shape = point.samples.shape
    left = normal.solve(normal.flat(span.gradient(point))).double().square().sum(1)  # (n,)
    traces = torch.zeros(shape[0], dtype=torch.float64, device=left.device)
    probes = max(1, -(-_PROBE_COORDINATES // shape[1]))
    for _ in range(probes):
        signs = torch.randint(0, 2, shape, generator=generator).to(point.samples) * 2 - 1
        probe = normal.flat(signs)
        traces += (probe * normal.solve(probe)).double().sum(1).clamp_min(0) / probes
    norms = torch.linalg.vector_norm(point.samples.double(), dim=1)
    errors = (left + variance * traces).sqrt() / norms
    return tuple(errors.clamp_max(_GUESS).tolist())
