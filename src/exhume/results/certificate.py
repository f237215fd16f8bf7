"""The certificate: how far a reconstruction can be trusted, judged without the truth.

With more equations than unknowns and a Jacobian of full rank, samples whose residual is at the floating-point floor
are (generically) the right ones. Above it the residual is noise: if Theta carries noise of variance s^2, the samples
carry s^2 (J^T P J)^-1, and the residual itself measures s^2 = ||P Theta||^2 / (equations - unknowns).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from exhume.equation.norms import Norms
from exhume.equation.protocol import AnyPoint, Equation
from exhume.results.error_bars import (
    DEFAULT_LIMITS,
    Limits,
    NormalOperator,
    leave_out_errors,
    mixing_errors,
    predict_errors,
    sensitivity,
)
from exhume.results.stop import Stop

EXACT, APPROXIMATE, FAILED = "exact", "approximate", "failed"
# A sample is exact below the first relative error and recovered below the second. Two random directions are about
# sqrt(2) apart; an image with an error of 0.1 is visibly the same image.
EXACT_BELOW, RECOVERED_BELOW = 1e-3, 0.1


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
        drifting: whether the features are those of a trained body: a residual above rounding is then no white noise.
        limits: of the verdict.
    """

    stop: Stop
    unknowns: int
    norms: Norms
    precision: float
    drift_floor: float | None = None
    drift_errors: tuple[float, ...] = ()
    drifting: bool = False
    limits: Limits = DEFAULT_LIMITS


def certify(equation: Equation[AnyPoint], point: AnyPoint, trust: Trust, seed: int) -> Certificate:
    """Judges samples by the equation alone.

    Args:
        equation: the model's own, without a nuisance.
        point: the samples in it.
        trust: what is known of the attack.
        seed: of the random probes.
    """
    limits = trust.limits
    outputs, (independent, clear) = point.coefficients.shape[1], equation.independent_outputs(point)
    if not trust.stop.trusted:
        clear = independent  # the residual of rows that solve nothing is no noise
    # Every output has as many equations, and asks one coefficient of every sample.
    equations = equation.num_equations * clear // outputs
    unknowns = trust.unknowns - point.num_samples * (independent - clear)
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
    if outputs == 1 and not trust.stop.trusted:
        return verdict(FAILED, trust.stop.sentence)
    seen, typical, active = sensitivity(equation, point, seed)
    seen = min(seen * clear // outputs, equations)
    if active is not None:
        per_sample = active, unknowns // point.num_samples - clear + 1
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
    noise = predict_errors(operator, equations - unknowns, seed)
    if trust.drifting and not at_floor and max(noise) >= limits.spurious:
        reason = "The equations determine some sample badly: at a spurious minimum a row matches no sample."
        return verdict(FAILED, reason, operator.smallest_singular_value(), noise)
    errors = noise if at_floor else _error_bars(operator, trust, noise, clear)
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


def _error_bars(
    operator: NormalOperator[AnyPoint], trust: Trust, noise: tuple[float, ...], clear: int
) -> tuple[float, ...]:
    """For every sample, above rounding, the largest of what noise, drift, parts of the equations and twins show.

    Where drift does not explain the residual the minimum may be a spurious one: bars grow with the excess.

    Args:
        operator: of the equation at the samples.
        trust: what is known of the attack.
        noise: the errors that white noise of the residual's size leaves.
        clear: outputs that count.
    """
    point, limits = operator.point, trust.limits
    bounds, excess = [noise, *([trust.drift_errors] if trust.drift_errors else [])], 1.0
    if trust.drifting:
        bounds.append(leave_out_errors(operator.equation, point, trust.norms, limits))
        excess = math.sqrt(point.loss) / (trust.drift_floor * limits.max_excess) if trust.drift_floor else 1.0
    errors = [min(max(each) * max(excess, 1.0), limits.guess) for each in zip(*bounds, strict=True)]
    if clear > 1:
        mixed = mixing_errors(point, limits, errors if trust.drifting else None)
        errors = [max(each) for each in zip(errors, mixed, strict=True)]
    return tuple(errors)
