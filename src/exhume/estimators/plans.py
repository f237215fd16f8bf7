"""Which attack fits which step of a pipeline: its target, what remains to be undone on its rows, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from exhume import attacks
from exhume.attacks import Unmix
from exhume.estimators.kinds import MLP
from exhume.estimators.mlp import network_target
from exhume.estimators.mlp_polish import polish
from exhume.estimators.walk import Passed, Step, family
from exhume.results.certificate import EXACT, EXACT_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.target.dense_displacement import dense_displacement
from exhume.target.target import Target

_POLISHED = (
    "Every zero of the first layer's columns is explained to rounding, and every column of the rows has the mean and "
    "the variance that the scaler before them states."
)


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
    """Whether there is an attack on estimators of this class."""
    return MLP in family(step.estimator)


def plan_of(step: Step, count: int | None) -> Plan:
    """The attack on a step; an error says why there is none.

    Args:
        step: one that can be attacked.
        count: the number of training rows, if a step states it.
    """
    return _network(step, count)


def _network(step: Step, count: int | None) -> Plan:
    target, note = network_target(step.estimator, count)
    relu = step.estimator.activation == "relu"

    def finish(result: Reconstruction) -> Reconstruction:
        """To the last digit behind a StandardScaler."""
        scaler = step.before[-1] if step.before else None
        scaled = type(scaler).__name__ == "StandardScaler" and scaler.with_mean and scaler.with_std
        if not (scaled and relu and result.method == Unmix.name and result.norms_determined):
            return result
        model = target.known_model
        assert model is not None
        polished = polish(dense_displacement(model, target.input_shape, count), result.samples.double())
        if polished is None:
            return result
        errors = (polished.error,) * len(polished.rows)
        certificate = replace(result.certificate, predicted_errors=errors, residual=polished.error, reason=_POLISHED)
        if polished.error < EXACT_BELOW:
            certificate = replace(certificate, verdict=EXACT)
        return replace(result, samples=polished.rows, certificate=certificate)

    return Plan(target, Unmix.name if relu else attacks.AUTO, step.before, note, finish)
