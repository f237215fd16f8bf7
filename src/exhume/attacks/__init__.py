"""Attacks: one file each, all called alike.

A new attack is a subclass of `Attack` in a file with its name, and one entry of `ATTACKS`.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import Problem, Proposal
from exhume.attacks._base.progress import Pace, Progress, ProgressEvent
from exhume.attacks._base.session import Session
from exhume.attacks.descent import Descent
from exhume.attacks.exact import Exact
from exhume.attacks.greedy import Greedy
from exhume.attacks.kkt import KKT
from exhume.attacks.layers import Layers
from exhume.attacks.ntk import NTK
from exhume.attacks.replay import Replay
from exhume.attacks.subspace import Subspace
from exhume.attacks.unmix import Unmix
from exhume.errors import InputError, unknown_name
from exhume.results.certificate import APPROXIMATE, EXACT, FAILED, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.support.validation_errors import invalid
from exhume.target.target import Target

ATTACKS: dict[str, type[Attack]] = {
    attack.name: attack for attack in (Exact, Unmix, Layers, Replay, Greedy, Descent, Subspace, KKT, NTK)
}
AUTO = "auto"  # the attacks that fit a target, until one is good enough
DEFAULT = AUTO
# Part of what is left of a budget that an attack may use while others wait.
SHARE = 0.5
_RANK = {EXACT: 0, APPROXIMATE: 1, FAILED: 2}


def build(method: str, options: dict[str, Any] | None = None) -> Attack:
    """An attack by its name, with its own options; unknown names and options are listed."""
    if method not in ATTACKS:
        raise unknown_name("method", method, ATTACKS)
    attack, options = ATTACKS[method], options or {}
    names = {field.name for field in fields(attack)}
    unknown = sorted(set(options) - names)
    if unknown:
        valid = ", ".join(sorted(names)) or "none"
        raise InputError(f"{method} has no option {', '.join(unknown)}; valid: {valid}")
    try:
        return _validator(attack).validate_python(options)
    except ValidationError as error:
        raise invalid(f"options of {method}", error, options) from error


@cache
def _validator(attack: type[Attack]) -> TypeAdapter[Attack]:
    # Made once: it takes longer than checking a thousand sets of options.
    return TypeAdapter(attack)


def fitting(target: Target) -> tuple[str, ...]:
    """The attacks to try on a target, the cheapest first.

    Where initial weights are known, a dense first layer may give the samples away without a search over them, and its
    displacement shows their span; then comes the last layer, and all layers where the first one is not dense. Where the
    recipe is known too the training is replayed, first of all if it was by Adam, which breaks the other equations.
    Features of data pipelines oscillate: they are attacked greedily.
    """
    known = target.knowledge
    if Greedy.applies_to(target):
        return (Greedy.name,)
    if target.known_model is None or known.initial_body != "known":
        return (Exact.name,) if known.subspace is None else (Subspace.name, Exact.name)
    dense = Unmix.applies_to(target)
    others: tuple[str, ...] = (Subspace.name, Exact.name)
    if not dense and Layers.applies_to(target):
        others = (*others, Layers.name)
    # Unmixing finds all samples alike: it does not use those that are known.
    first = (Unmix.name,) if dense and not known.known_samples else ()
    if known.recipe is not None and Replay.applies_to(target):
        first = (Replay.name,) if known.recipe.adaptive else (*first, Replay.name)
    return (*first, *others)


def is_good(result: Reconstruction) -> bool:
    """Whether the mean predicted error is small enough not to try another attack."""
    expected = result.certificate.predicted_error
    return result.certificate.verdict != FAILED and expected is not None and expected < RECOVERED_BELOW


def total_samples(result: Reconstruction) -> int:
    """Training samples in all: `unmix` finds those that were known too, other attacks only the others."""
    return len(result.samples) + (0 if result.method == Unmix.name else result.knowledge.known_samples)


def order(result: Reconstruction) -> tuple[float, ...]:
    """Sorts results by their certificates alone: the surest verdict, the smallest predicted error, the residual."""
    certificate = result.certificate
    expected = math.inf if certificate.predicted_error is None else certificate.predicted_error
    return _RANK[certificate.verdict], expected, certificate.residual


def reconstruct(
    target: Target, num_samples: int | None = None, method: str = DEFAULT, seed: int = 0, **settings: Any
) -> Reconstruction:
    """Recovers the training inputs behind a target.

    Args:
        target: the model's public part, from `victim.target()` or `Target(...)`.
        num_samples: how many samples to look for; None takes the target's knowledge, or estimates it (exact,
            greedy, unmix).
        method: an attack's name. "auto" tries those that fit the target, until one is certified with a small error, and
            returns the result with the best certificate; an attack may use half of what is left of a budget while
            others wait. Options of a method and a checkpoint need the method's name if several attacks fit.
        seed: of the attack's own randomness.
        settings: `max_passes`, `max_seconds`, `allow_underdetermined`, `checkpoint`, `resume`, `progress`, or the
            method's options.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> target = victim.target()  # what an adversary holds: weights, no data
        >>> exhume.reconstruct(target, num_samples=4).certificate.verdict
        'exact'
        >>> exhume.reconstruct(target, num_samples=4, method="descent", max_passes=100).certificate.verdict
        'failed'
    """
    common = ("max_passes", "max_seconds", "allow_underdetermined", "checkpoint", "resume", "progress")
    shared = {name: settings.pop(name) for name in common if name in settings}
    names = fitting(target) if method == AUTO else (method,)
    if len(names) == 1:
        return build(names[0], settings)(target, num_samples=num_samples, seed=seed, **shared)
    if settings or shared.get("checkpoint") is not None:
        raise InputError(
            f"method {AUTO!r} takes no options of a method and no checkpoint where several attacks fit the target: "
            f"name one of {', '.join(names)}"
        )
    return _best_of(names, target, num_samples, seed, shared)


def _best_of(
    names: Sequence[str], target: Target, num_samples: int | None, seed: int, shared: dict[str, Any]
) -> Reconstruction:
    """The result with the best certificate of attacks in turn; the first good one ends it."""
    results: list[Reconstruction] = []
    refusals: list[str] = []
    passes, ends_at = shared.pop("max_passes", math.inf), time.monotonic() + shared.pop("max_seconds", math.inf)
    for place, name in enumerate(names):
        share = 1.0 if place == len(names) - 1 else SHARE
        left = {"max_passes": passes - sum(each.passes for each in results), "max_seconds": ends_at - time.monotonic()}
        if results and (is_good(results[-1]) or min(left.values()) <= 0):
            break
        budget = {limit: share * value for limit, value in left.items()}
        try:
            results.append(build(name)(target, num_samples=num_samples, seed=seed, **shared, **budget))
        except InputError as error:
            refusals.append(f"{name}: {error}")
    if not results:
        raise InputError("no attack fits the target. " + "; ".join(refusals))
    best = min(results, key=order)
    tried = [f"{each.method} ({each.certificate.verdict})" for each in results]
    if len(tried) + len(refusals) == 1:
        return best
    declined = f" Declined: {'; '.join(refusals)}." if refusals else ""
    return replace(best, notes=(*best.notes, f"Attacks tried: {', '.join(tried)}.{declined}"))


__all__ = [
    "ATTACKS",
    "AUTO",
    "DEFAULT",
    "KKT",
    "NTK",
    "Attack",
    "Descent",
    "Exact",
    "Greedy",
    "Layers",
    "Pace",
    "Problem",
    "Progress",
    "ProgressEvent",
    "Proposal",
    "Replay",
    "Session",
    "Subspace",
    "Unmix",
    "build",
    "fitting",
    "is_good",
    "order",
    "reconstruct",
]
