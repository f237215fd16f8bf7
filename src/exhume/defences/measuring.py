"""Measuring defences: the same attack on every altered copy of a release, judged only afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exhume.attacks import Attack
from exhume.certificate import FAILED
from exhume.defences.base import Defence, Variant
from exhume.defences.kept import Kept, key_of
from exhume.defences.outcome import Outcome, Utility
from exhume.defences.registry import chosen
from exhume.defences.release import Release
from exhume.errors import ExhumeError, InputError
from exhume.reconstruction import Reconstruction
from exhume.scoring import RECOVERED_BELOW, score, score_samples

NONE = "none"
# What an attack raises on weights that it cannot work with; the second comes from degenerate systems.
_FAILURES = (ExhumeError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Reference:
    """What recovered samples are compared with.

    Attributes:
        vouched: (m, d) the samples that the attack on the model as it is vouches for; None if there are none.
        norms_known, signs_known: whether that attack claims them.
    """

    vouched: torch.Tensor | None
    signs_known: bool
    norms_known: bool

    @classmethod
    def of(cls, result: Reconstruction | None) -> Reference:
        """From the reconstruction of the model as it is; its error bars say which samples it vouches for."""
        if result is None or result.certificate.verdict == FAILED:
            return cls(None, False, False)
        good = torch.tensor([error < RECOVERED_BELOW for error in result.certificate.predicted_errors])
        rows = result.samples.detach().cpu()[: len(good)][good]
        return cls(rows if len(rows) else None, result.signs_determined, result.norms_determined)


@dataclass(frozen=True)
class _Run:
    """One attack for all copies."""

    attack: Attack
    num_samples: int | None
    max_passes: float
    ends_at: float  # on the monotonic clock, for all copies together
    seed: int

    def on(self, release: Release, more: int = 0) -> Reconstruction:
        """Attacks a release; copies with fewer weights than unknowns too, so that failure is measured, not assumed."""
        count = None if self.num_samples is None else self.num_samples + more
        return self.attack(
            release.target,
            num_samples=count,
            seed=self.seed,
            max_passes=self.max_passes,
            max_seconds=max(self.ends_at - time.monotonic(), 1e-3),
            allow_underdetermined=True,
        )

    def describe(self) -> list[Any]:
        return [self.attack.name, asdict(self.attack), self.num_samples, repr(self.max_passes), self.seed]


def measure(
    release: Release,
    attack: Attack,
    *,
    families: Iterable[str | Defence] | None = None,
    num_samples: int | None = None,
    max_passes: float = float("inf"),
    max_seconds: float = float("inf"),
    seed: int = 0,
    undefended: Reconstruction | None = None,
    progress: Callable[[Outcome], None] | None = None,
    folder: Path | None = None,
) -> list[Outcome]:
    """What the attack finds on the model as it is and on every altered copy, and what each alteration costs.

    The attack sees targets only. What came back is judged afterwards: against `release.inputs` if they are given, else
    against the samples that the attack on the model as it is vouches for. What an attack refuses is a reason in the
    outcome, not an error.

    Args:
        release: the model, and what its owner holds.
        attack: an attack with its settings, `exhume.attacks.build("exact")`.
        families: names of defences, or defences with settings of their own, in this order; by default all.
        num_samples: told to the attack, as for any attack; it grows where samples are added.
        max_passes: budget of each attack.
        max_seconds: budget of all attacks together; copies that are left then have a reason instead of a result.
        seed: of the attacks.
        undefended: a reconstruction of the model as it is, if there is one already.
        progress: called with every outcome as it is there.
        folder: where outcomes are kept as they come; those that are there already are not measured again.
    """
    defences = chosen(families)
    run = _Run(attack, num_samples, max_passes, time.monotonic() + max_seconds, seed)
    if undefended is not None and undefended.target != release.target.fingerprint:
        raise InputError("the reconstruction given as undefended is of another model than the release")
    plain = Variant(NONE, "as it is", 0.0, release)
    first, result = _undefended(plain, run, undefended)
    reference = Reference.of(result)
    outcomes = [_with_utility(first, plain, release, reference)]
    if progress:
        progress(outcomes[0])
    kept = Kept(folder)
    for variant in _all_variants(release, defences):
        key = _key(variant, run, reference)
        outcome = kept.get(key)
        if outcome is None and time.monotonic() >= run.ends_at:
            outcome = _without_result(variant, "the time was spent before")
        elif outcome is None:
            outcome = _with_utility(_attacked(variant, run, release, reference), variant, release, reference)
            if time.monotonic() < run.ends_at:  # what time cut short is worth another try
                kept.put(key, outcome)
        outcomes.append(outcome)
        if progress:
            progress(outcome)
    return outcomes


def _all_variants(release: Release, defences: Iterable[Defence]) -> Iterator[Variant]:
    for defence in defences:
        yield from defence.variants(release)


def _undefended(plain: Variant, run: _Run, given: Reconstruction | None) -> tuple[Outcome, Reconstruction | None]:
    """The outcome on the model as it is, and the reconstruction behind it."""
    release = plain.release
    assert release is not None
    try:
        result = given if given is not None else run.on(release)
    except _FAILURES as error:
        return _without_result(plain, str(error)), None
    reference = Reference.of(result)
    return _judged(plain, result, release, reference), result


def _attacked(variant: Variant, run: _Run, plain: Release, reference: Reference) -> Outcome:
    """The outcome on one altered copy, its utility apart."""
    release = variant.release
    if release is None:
        return _without_result(variant, variant.reason)
    more = 0
    if release.inputs is not None and plain.inputs is not None:
        more = len(release.inputs) - len(plain.inputs)
    try:
        result = run.on(release, more)
    except _FAILURES as error:
        return _without_result(variant, str(error))
    return _judged(variant, result, release, reference)


def _without_result(variant: Variant, reason: str) -> Outcome:
    return Outcome(
        variant.defence,
        variant.setting,
        variant.strength,
        None,
        None,
        None,
        None,
        None,
        Utility(),
        reason=reason,
        note=variant.note,
    )


def _judged(variant: Variant, result: Reconstruction, release: Release, reference: Reference) -> Outcome:
    """What of a reconstruction is right: by the truth, else by what the undefended attack vouches for."""
    recovered = num_samples = error = None
    if release.inputs is not None:
        judged = score(result, release.inputs)
        signed = result.signs_determined
    elif reference.vouched is not None:
        signed = result.signs_determined and reference.signs_known
        judged = score_samples(
            result.samples,
            reference.vouched,
            signs_known=signed,
            norms_known=result.norms_determined and reference.norms_known,
        )
    else:
        judged = None
    if judged is not None:
        recovered = judged.recovered if signed else judged.recovered_up_to_sign
        error = judged.error if signed else judged.error_up_to_sign
        num_samples = judged.num_samples
    return Outcome(
        defence=variant.defence,
        setting=variant.setting,
        strength=variant.strength,
        recovered=recovered,
        num_samples=num_samples,
        error=error,
        predicted_error=result.certificate.predicted_error,
        verdict=result.certificate.verdict,
        utility=Utility(),
        note=variant.note,
        passes=result.passes,
        seconds=result.seconds,
        equations=result.certificate.equations,
        unknowns=result.certificate.unknowns,
    )


def _with_utility(outcome: Outcome, variant: Variant, plain: Release, reference: Reference) -> Outcome:
    """The outcome with the errors of its model, and how far its outputs are from those of the model as it is."""
    release = variant.release
    if release is None:
        return outcome
    change = None
    inputs = plain.inputs if plain.inputs is not None else reference.vouched
    if inputs is not None:
        before, after = plain.outputs(inputs).double(), release.outputs(inputs).double()
        change = float((after - before).norm() / before.norm()) if bool(before.any()) else None
    return replace(outcome, utility=Utility(release.training_error, release.held_out_error, change))


def _key(variant: Variant, run: _Run, reference: Reference) -> str:
    """A hash of all that an outcome depends on."""
    parts: list[Any] = [variant.defence, variant.setting, variant.reason, *run.describe()]
    tensors: list[torch.Tensor | None] = [reference.vouched]
    release = variant.release
    if release is not None:
        parts += [release.target.fingerprint, release.target.knowledge.to_json()]
        tensors += [release.inputs, release.labels, release.held_out_inputs, release.held_out_labels]
    return key_of(parts, tensors)
