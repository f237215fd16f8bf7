"""Attacks: one file each, all called alike."""

from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from exhume.attacks.base import Attack, Progress, ProgressEvent
from exhume.attacks.descent import Descent
from exhume.attacks.exact import Exact
from exhume.attacks.kkt import KKT
from exhume.attacks.ntk import NTK
from exhume.attacks.subspace import Subspace
from exhume.errors import InputError, unknown_name
from exhume.reconstruction import Reconstruction
from exhume.target import Target

ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in (Exact, Descent, Subspace, KKT, NTK)}
DEFAULT = "exact"


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
        problems = (
            " ".join((*map(str, each["loc"]), each["msg"] + f", got {each['input']!r}")) for each in error.errors()
        )
        raise InputError(f"{method} cannot take these options: {'; '.join(problems)}") from error


@cache
def _validator(attack: type[Attack]) -> TypeAdapter[Attack]:
    # Made once: it takes longer than checking a thousand sets of options.
    return TypeAdapter(attack)


def reconstruct(
    target: Target, num_samples: int | None = None, method: str = DEFAULT, seed: int = 0, **settings: Any
) -> Reconstruction:
    """Recovers the training inputs behind a target.

    Args:
        target: the model's public part, from `victim.target()` or `Target(...)`.
        num_samples: how many samples to look for; None takes the target's knowledge, or estimates it (exact).
        method: an attack's name.
        seed: of the attack's own randomness.
        settings: `max_passes`, `max_seconds`, `allow_underdetermined`, `checkpoint`, `resume`, `progress`, or the
            method's options.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> target = victim.target()  # what a thief holds: weights, no data
        >>> exhume.reconstruct(target, num_samples=4).certificate.verdict
        'exact'
        >>> exhume.reconstruct(target, num_samples=4, method="descent", max_passes=100).certificate.verdict
        'failed'
    """
    common = ("max_passes", "max_seconds", "allow_underdetermined", "checkpoint", "resume", "progress")
    shared = {name: settings.pop(name) for name in common if name in settings}
    return build(method, settings)(target, num_samples=num_samples, seed=seed, **shared)


__all__ = [
    "ATTACKS",
    "DEFAULT",
    "KKT",
    "NTK",
    "Attack",
    "Descent",
    "Exact",
    "Progress",
    "ProgressEvent",
    "Subspace",
    "build",
    "reconstruct",
]
