"""Which attack fits which step of a pipeline: its target, what remains to be undone on its rows, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from exhume import attacks
from exhume.attacks import Unmix
from exhume.estimators.kinds import MLP
from exhume.estimators.linear import DECLINED, KEEPS_SPAN, WRAPPERS, span_target
from exhume.estimators.mlp import network_target
from exhume.estimators.mlp_polish import polish
from exhume.estimators.walk import Passed, Step, family
from exhume.results.certificate import APPROXIMATE, EXACT, EXACT_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.target.dense_displacement import dense_displacement
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target

# Transformers behind which coefficients show rows; scalers before them are undone on the rows that are found.
_FEATURES = frozenset({
    "AdditiveChi2Sampler", "GaussianRandomProjection", "PolynomialCountSketch", "PolynomialFeatures", "RBFSampler",
    "SkewedChi2Sampler", "SparseRandomProjection", "SplineTransformer",
})  # fmt: skip
_LINEAR = frozenset({*KEEPS_SPAN, *WRAPPERS, *DECLINED})
_POLISHED = (
    "Every zero of the first layer's columns is explained to rounding, and every column of the rows has the mean and "
    "the variance that the scaler before them states."
)
_BIAS = "Norms follow from the bias, which has no weight decay: up to {least:.1g} of a row, not to rounding."


def _as_it_is(result: Reconstruction) -> Reconstruction:
    return result


@dataclass(frozen=True)
class Plan:
    """The attack on a step.

    Attributes:
        target: what is attacked.
        method: name of the attack.
        before: what the rows of the target passed, to be undone.
        note: on the target, in a sentence.
        finish: improves the result by what is known of the pipeline.
    """

    target: Target
    method: str
    before: tuple[Passed, ...]
    note: str = ""
    finish: Callable[[Reconstruction], Reconstruction] = _as_it_is


def can_be_attacked(step: Step) -> bool:
    """Whether there is an attack on estimators of this class, at this place."""
    return MLP in family(step.estimator) or (step.name in _LINEAR and _first_feature(step) is not None)


def plan_of(step: Step, count: int | None) -> Plan:
    """The attack on a step; an error says why there is none.

    Args:
        step: one that can be attacked.
        count: the number of training rows, if a step states it.
    """
    return _network(step, count) if MLP in family(step.estimator) else _linear(step, count)


def _first_feature(step: Step) -> int | None:
    """The place before a step from which on transformers make features that are not linear."""
    names = [type(each).__name__ for each in step.before]
    return next((place for place, name in enumerate(names) if name in _FEATURES), None)


def _linear(step: Step, count: int | None) -> Plan:
    """The span equation of coefficients, in the units of what enters the first feature step."""
    first = _first_feature(step)
    assert first is not None
    knowledge = Knowledge() if count is None else Knowledge(num_samples=count)
    target = span_target(step.before[first:], step.estimator, knowledge)
    return Plan(target, attacks.AUTO, step.before[:first])


def _network(step: Step, count: int | None) -> Plan:
    target, note = network_target(step.estimator, count)
    relu = step.estimator.activation == "relu"

    def finish(result: Reconstruction) -> Reconstruction:
        """To the last digit behind a StandardScaler; else with error bars that count what the bias leaves open."""
        if result.method != Unmix.name or not relu:
            return result
        model = target.known_model
        assert model is not None
        moved = dense_displacement(model, target.input_shape, count)
        polished = polish(moved, result.samples.double()) if _standardised(step) else None
        if polished is None:
            return _with_bias_errors(result)
        errors = (polished.error,) * len(polished.rows)
        certificate = replace(result.certificate, predicted_errors=errors, residual=polished.error, reason=_POLISHED)
        if polished.error < EXACT_BELOW:
            certificate = replace(certificate, verdict=EXACT)
        return replace(
            result, samples=polished.rows, certificate=certificate, norms_determined=True, signs_determined=True
        )

    return Plan(target, Unmix.name if relu else attacks.AUTO, step.before, note, finish)


def _with_bias_errors(result: Reconstruction) -> Reconstruction:
    """Error bars of at least 1 - s: the bias, which does not decay, gives norms up to that relative error only."""
    certificate = result.certificate
    least = abs(1 - float(result.evidence.get("share_of_initial_weights", 1.0)))
    errors = tuple(max(error, least) for error in certificate.predicted_errors)
    if certificate.verdict == EXACT and max(errors, default=0.0) >= EXACT_BELOW:
        certificate = replace(certificate, verdict=APPROXIMATE, reason=_BIAS.format(least=least))
    return replace(result, certificate=replace(certificate, predicted_errors=errors))


def _standardised(step: Step) -> bool:
    """Whether rows reach a step straight from a StandardScaler, with mean 0 and variance 1."""
    scaler: Any = step.before[-1] if step.before else None
    return type(scaler).__name__ == "StandardScaler" and bool(scaler.with_mean and scaler.with_std)
