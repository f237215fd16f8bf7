"""Measures defences: the same attack on every altered copy of a release, scored only afterwards."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exhume.attacks import Attack
from exhume.defences.base import Defence, Release, Variant
from exhume.defences.on_the_head import Coordinates, Noise, Pruning, Rounding
from exhume.defences.private import PrivateTraining
from exhume.defences.retrained import MoreSamples, Ridge
from exhume.errors import ExhumeError, FileError, InputError
from exhume.results.certificate import FAILED, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import score, score_samples
from exhume.scoring.comparison import row
from exhume.support import files, serialise
from exhume.support.checkpoint import fingerprint
from exhume.support.validation import one_of

# The families by name, in the order in which they are measured.
DEFENCES: dict[str, type[Defence]] = {
    family.name: family for family in (Rounding, Noise, Pruning, Coordinates, Ridge, MoreSamples, PrivateTraining)
}
NONE = "none"
_NUMBERS = ("num_samples", "predicted_error", "verdict", "passes", "seconds", "equations", "unknowns")
# What an attack raises on weights that it cannot work with; the second comes from degenerate systems.
_FAILURES = (ExhumeError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Utility:
    """How good a model still is.

    Attributes:
        training_error, held_out_error: mean squared error, or the share of wrong classes where labels are classes.
        output_change: relative change of the outputs on the same inputs; None if there are none to compare.
    """

    training_error: float | None = None
    held_out_error: float | None = None
    output_change: float | None = None


@dataclass(frozen=True)
class Outcome:
    """One altered copy, attacked.

    Attributes:
        defence: the family, such as "rounding"; "none" is the undefended model.
        setting: which of the family, such as "float16" or "noise 1%".
        strength: a number that orders the settings of a family.
        recovered: samples with an error below RECOVERED_BELOW; of the truth if it was given, else of the samples that
            are certified for the undefended model. None if there is nothing to compare with.
        num_samples: out of how many.
        error: mean error of those; None likewise.
        predicted_error: what the certificate expects.
        verdict: "exact", "approximate" or "failed"; None if the attack could not be run.
        utility: how good the altered model is.
        reason: why it could not be run.
        note: what else a reader should know, such as the epsilon of a private training.
        passes, seconds: what the attack cost.
        equations, unknowns: numbers in the released weights, and numbers that describe the samples; with fewer
            equations than unknowns the weights do not determine the samples. None if the attack could not be run.
    """

    defence: str
    setting: str
    strength: float
    recovered: int | None = None
    num_samples: int | None = None
    error: float | None = None
    predicted_error: float | None = None
    verdict: str | None = None
    utility: Utility = Utility()
    reason: str = ""
    note: str = ""
    passes: float = 0.0
    seconds: float = 0.0
    equations: int | None = None
    unknowns: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Outcome:
        """Reads what `to_json` wrote."""
        return serialise.load(cls, {}, value)


@dataclass(frozen=True)
class Reference:
    """What recovered samples are compared with where the truth is not given.

    Attributes:
        certified: (m, d) the samples that are certified for the undefended model; None if there are none.
        norms_known, signs_known: whether that attack claims them.
    """

    certified: torch.Tensor | None
    signs_known: bool
    norms_known: bool

    @classmethod
    def of(cls, result: Reconstruction | None) -> Reference:
        """From the reconstruction of the undefended model; its error bars say which samples are certified."""
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

    def on(self, release: Release, more: int = 0) -> tuple[Reconstruction | None, str]:
        """The reconstruction of a release, or the reason why there is none.

        Copies with fewer weights than unknowns are attacked too, so that failure is measured, not assumed.
        """
        try:
            result = self.attack(
                release.target,
                num_samples=None if self.num_samples is None else self.num_samples + more,
                seed=self.seed,
                max_passes=self.max_passes,
                max_seconds=max(self.ends_at - time.monotonic(), 1e-3),
                allow_underdetermined=True,
            )
        except _FAILURES as error:
            return None, str(error)
        return result, ""

    def describe(self) -> list[Any]:
        return [self.attack.name, asdict(self.attack), self.num_samples, repr(self.max_passes), self.seed]


class OutcomeCache:
    """Outcomes in a folder, by a hash of all that they depend on; without a folder nothing is kept.

    A measurement that was interrupted continues from them.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else Path(folder) / "outcomes.json"
        self._values: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            self._values = files.read_json(self._path)

    def get(self, key: str) -> Outcome | None:
        """The outcome, if it was kept."""
        try:
            return Outcome.from_json(self._values[key]) if key in self._values else None
        except InputError as error:
            raise FileError(f"{self._path} does not hold outcomes of defences: {error}") from error

    def put(self, key: str, outcome: Outcome) -> None:
        """Keeps one more."""
        if self._path is not None:
            self._values[key] = outcome.to_json()
            files.write_json(self._path, self._values)


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
    """What the attack finds on the undefended model and on every altered copy, and what each alteration costs.

    The attack sees targets only. Its results are scored afterwards: against the training inputs of `release.dataset` if
    they are given, else against the samples that are certified for the undefended model. What an attack refuses is a
    reason in the outcome, not an error.

    Args:
        release: the model, and the data that its owner holds.
        attack: an attack with its settings, `exhume.attacks.build("exact")`.
        families: names of defences, or defences with settings of their own, in this order; by default all.
        num_samples: for the attack, as in any attack; it grows where samples are added.
        max_passes: budget of each attack.
        max_seconds: budget of all attacks together; copies that are left then have a reason instead of a result.
        seed: of the attacks.
        undefended: a reconstruction of the undefended model, if there is one already.
        progress: called with every outcome as soon as it is measured.
        folder: where outcomes are kept; those that it holds already are not measured again.
    """
    defences = chosen(families)
    run = _Run(attack, num_samples, max_passes, time.monotonic() + max_seconds, seed)
    if undefended is not None and undefended.target != release.target.fingerprint:
        raise InputError("the reconstruction given as undefended is of another model than the release")
    report = progress or (lambda _: None)
    result, reason = run.on(release) if undefended is None else (undefended, "")
    reference = Reference.of(result)
    outcomes = [_judged(Variant(NONE, "as it is", 0.0, release, reason), result, release, reference)]
    report(outcomes[0])
    cache = OutcomeCache(folder)
    for variant in itertools.chain.from_iterable(defence.variants(release) for defence in defences):
        key = _key(variant, run, reference)
        outcome = cache.get(key)
        if outcome is None and time.monotonic() >= run.ends_at:
            outcome = _unmeasured(replace(variant, reason="the time was spent before"))
        elif outcome is None:
            outcome = _attacked(variant, run, release, reference)
            if time.monotonic() < run.ends_at:  # an attack that ran out of time is measured again
                cache.put(key, outcome)
        outcomes.append(outcome)
        report(outcome)
    return outcomes


def chosen(families: Iterable[str | Defence] | None) -> list[Defence]:
    """Defences by name, with their own settings, or as they are given; all of them for None."""
    named = DEFENCES if families is None else families
    return [DEFENCES[one_of("defence", each, DEFENCES)]() if isinstance(each, str) else each for each in named]


def _attacked(variant: Variant, run: _Run, plain: Release, reference: Reference) -> Outcome:
    """The outcome on one altered copy."""
    if variant.release is None:
        return _unmeasured(variant)
    result, reason = run.on(variant.release, variant.release.dataset.num_samples - plain.dataset.num_samples)
    return _judged(replace(variant, reason=reason), result, plain, reference)


def _unmeasured(variant: Variant) -> Outcome:
    return Outcome(variant.defence, variant.setting, variant.strength, reason=variant.reason, note=variant.note)


def _judged(variant: Variant, result: Reconstruction | None, plain: Release, reference: Reference) -> Outcome:
    """The outcome of an attack on a release: its score, the release's errors, and how far its outputs moved."""
    release = variant.release
    assert release is not None
    change = None
    inputs = plain.dataset.inputs if plain.dataset.num_samples else reference.certified
    if inputs is not None:
        before, after = plain.outputs(inputs).double(), release.outputs(inputs).double()
        change = float((after - before).norm() / before.norm()) if bool(before.any()) else None
    utility = Utility(release.training_error, release.held_out_error, change)
    numbers: dict[str, Any] = {}
    if result is not None:
        try:
            numbers = _numbers(result, release, reference)
        except _FAILURES as error:  # a result that diverged cannot be scored
            numbers = {"reason": str(error)}
    return replace(_unmeasured(variant), utility=utility, **numbers)


def _numbers(result: Reconstruction, release: Release, reference: Reference) -> dict[str, Any]:
    """The numbers of a reconstruction, by the truth, else by the samples certified for the undefended model."""
    judged = None
    if release.dataset.num_samples:
        judged = score(result, release.dataset.inputs)
    elif reference.certified is not None:
        judged = score_samples(
            result.samples,
            reference.certified,
            signs_known=result.signs_determined and reference.signs_known,
            norms_known=result.norms_determined and reference.norms_known,
        )
    found = row(result, judged)
    scored = {"recovered": found["claimed_recovered"], "error": found["claimed_error"]}
    return scored | {name: found[name] for name in _NUMBERS}


def _key(variant: Variant, run: _Run, reference: Reference) -> str:
    """A hash of all that an outcome depends on."""
    settings: dict[str, Any] = {"variant": [variant.defence, variant.setting, variant.reason], "run": run.describe()}
    tensors = [] if reference.certified is None else [reference.certified]
    if variant.release is not None:
        target, data = variant.release.target, variant.release.dataset
        settings |= {"target": target.fingerprint, "knowledge": target.knowledge.to_json()}
        tensors += [data.inputs, data.labels, data.non_members, data.non_member_labels]
    return fingerprint(settings, tensors)
