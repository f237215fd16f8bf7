"""Attacks within a budget: those that fit a model one after the other, until one vouches for what it found.

Which result counts is decided by certificates alone; the truth has no say.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from exhume import attacks
from exhume.attacks import Progress
from exhume.auditing.settings import AUTO, Settings
from exhume.certificate import APPROXIMATE, EXACT, FAILED
from exhume.errors import InputError, TooFewEquations, brief
from exhume.reconstruction import Reconstruction
from exhume.target import Target

ProgressOf = Callable[[str], AbstractContextManager[Progress | None]]
_RANK = {EXACT: 0, APPROXIMATE: 1, FAILED: 2}
# A typical predicted error up to which a result is good enough not to try another attack.
_GOOD = 0.1


@dataclass(frozen=True)
class Attempt:
    """An attack that was tried.

    Attributes:
        method: its name.
        result: what it found; None if it could not be run.
        reason: why it could not.
        too_few_equations: whether that is why.
    """

    method: str
    result: Reconstruction | None = None
    reason: str = ""
    too_few_equations: bool = False

    @property
    def sentence(self) -> str:
        """How it went, in words."""
        if self.result is None:
            return f"{self.method} could not be run: {self.reason}"
        result = self.result
        return f"{self.method}: {result.certificate.verdict}, {result.passes:,.0f} passes. {result.stop.sentence}"


def attempt(
    target: Target, settings: Settings, progress_of: ProgressOf | None = None, workplace: Path | None = None
) -> list[Attempt]:
    """Runs the attack that the settings name, or those that fit, each with what is left of the budget.

    Args:
        target: what is attacked.
        settings: methods, seed and budget.
        progress_of: makes a context of progress for an attack's name.
        workplace: folder for checkpoints; an attack that was killed goes on from its own.
    """
    ends_at, passes_left = time.monotonic() + settings.budget_seconds, settings.budget_passes
    attempts: list[Attempt] = []
    for method in fitting(target) if settings.method == AUTO else (settings.method,):
        seconds_left = ends_at - time.monotonic()
        if attempts and (passes_left <= 0 or seconds_left <= 0):
            attempts.append(Attempt(method, reason="the budget was spent before"))
            continue
        with (progress_of or _silent)(method) as report:
            tried = _tried(
                target,
                method,
                seed=settings.seed,
                max_passes=passes_left,
                max_seconds=max(seconds_left, 1e-3),
                progress=report,
                checkpoint=_checkpoint(workplace, target, method, settings.seed),
            )
        attempts.append(tried)
        if tried.result is not None:
            passes_left -= tried.result.passes
            if _good(tried.result):
                break
    return attempts


def best(attempts: Sequence[Attempt]) -> Reconstruction | None:
    """The result with the best certificate: the surest verdict, then the smallest predicted error, then residual."""
    results = [each.result for each in attempts if each.result is not None]
    return min(results, key=_order, default=None)


def fitting(target: Target) -> tuple[str, ...]:
    """The attacks worth trying: inside the first layer's subspace where its initial weights are known, then in full."""
    moved = target.known_model is not None and target.knowledge.initial_body == "known"
    return ("subspace", "exact") if moved or target.knowledge.subspace is not None else ("exact",)


def _tried(target: Target, method: str, **settings: Any) -> Attempt:
    try:
        return Attempt(method, attacks.build(method)(target, resume=True, **settings))
    except TooFewEquations as error:
        return Attempt(method, reason=error.counted, too_few_equations=True)
    except (InputError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        return Attempt(method, reason=brief(error))


def _checkpoint(workplace: Path | None, target: Target, method: str, seed: int) -> Path | None:
    """A file of its own for every target, method, seed and knowledge: no run finds another's."""
    if workplace is None:
        return None
    run = json.dumps([target.fingerprint, method, seed, target.knowledge.to_json()], sort_keys=True)
    return workplace / f"{method}-{hashlib.sha256(run.encode()).hexdigest()[:16]}.safetensors"


def _silent(_: str) -> AbstractContextManager[Progress | None]:
    return nullcontext(None)


def _good(result: Reconstruction) -> bool:
    expected = result.certificate.predicted_error
    return result.certificate.verdict != FAILED and expected is not None and expected < _GOOD


def _order(result: Reconstruction) -> tuple[float, ...]:
    certificate = result.certificate
    expected = math.inf if certificate.predicted_error is None else certificate.predicted_error
    return _RANK[certificate.verdict], expected, certificate.residual
