"""Attacks within a budget: those that fit a model, one after the other, until a result is certified.

Which result is reported is decided by certificates alone, without the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exhume import attacks
from exhume.attacks import Progress
from exhume.auditing.ladder import Rung, climb
from exhume.auditing.settings import Settings
from exhume.errors import InputError, TooFewEquations, UnknownCount, brief
from exhume.results.reconstruction import Reconstruction
from exhume.support.checkpoint import fingerprint
from exhume.target.target import Target

ProgressOf = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True)
class Attempt:
    """An attack that was tried.

    Attributes:
        method: its name.
        result: what it found; None if it could not be run.
        reason: why it could not.
        too_few_equations: whether that is why.
        unknown_count: whether it could not because the number of samples is not known.
        ladder: the numbers of samples that were tried, if it is not known.
    """

    method: str
    result: Reconstruction | None = None
    reason: str = ""
    too_few_equations: bool = False
    unknown_count: bool = False
    ladder: tuple[Rung, ...] = ()

    @property
    def sentence(self) -> str:
        """Verdict, cost and why it ended, in words."""
        if self.result is None:
            return f"{self.method} could not be run: {self.reason}"
        result = self.result
        return f"{self.method}: {result.certificate.verdict}, {result.passes:,.0f} passes. {result.ending}"


def attempt(
    target: Target, settings: Settings, progress_of: ProgressOf | None = None, workplace: Path | None = None
) -> list[Attempt]:
    """Runs the attack that the settings name, or those that fit, each with what is left of the budget.

    Args:
        target: what is attacked.
        settings: methods, seed and budget.
        progress_of: makes a context of progress for an attack's name.
        workplace: folder for checkpoints, from which an interrupted attack continues.
    """
    ends_at, passes_left = time.monotonic() + settings.budget_seconds, settings.max_passes
    attempts: list[Attempt] = []
    progress_of = progress_of or (lambda _: nullcontext())
    methods = attacks.fitting(target) if settings.method == attacks.AUTO else (settings.method,)
    for place, method in enumerate(methods):
        # `layers` is slow: what comes before it must leave it its part.
        share = attacks.SHARE if attacks.Layers.name in methods[place + 1 :] else 1.0
        seconds_left = ends_at - time.monotonic()
        if attempts and (passes_left <= 0 or seconds_left <= 0):
            attempts.append(Attempt(method, reason="the budget was spent before"))
            continue
        with progress_of(method) as report:
            tried = _tried(
                target,
                method,
                seed=settings.seed,
                max_passes=share * passes_left,
                max_seconds=max(share * seconds_left, 1e-3),
                progress=report,
                checkpoint=_checkpoint(workplace, target, method, settings.seed),
            )
        attempts.append(tried)
        if tried.result is not None:
            passes_left -= tried.result.passes
            if attacks.is_good(tried.result):
                return attempts
    return [_on_ladder(target, each, settings, ends_at, passes_left, progress_of) for each in attempts]


def _on_ladder(
    target: Target, refused: Attempt, settings: Settings, ends_at: float, passes_left: float, progress_of: ProgressOf
) -> Attempt:
    """The attack on a ladder of sample counts, if it was refused for want of their number; else the attempt as it is.

    Only `exact` climbs: what other attacks need beside the number of samples, they find with it or not at all.
    """
    seconds_left = ends_at - time.monotonic()
    if not refused.unknown_count or refused.method != attacks.Exact.name or passes_left <= 0 or seconds_left <= 0:
        return refused
    with progress_of(refused.method) as report:

        def run_with(count: int, max_passes: float, max_seconds: float) -> Reconstruction | None:
            known = target.assuming(num_samples=count)
            budget = {"max_passes": max_passes, "max_seconds": max_seconds}
            return _tried(known, refused.method, seed=settings.seed, progress=report, **budget).result

        found, ladder = climb(run_with, target.forecast(1).largest_samples, passes_left, seconds_left)
    if found is None:
        return replace(refused, ladder=ladder)
    return Attempt(refused.method, found, ladder=ladder)


def best(attempts: Sequence[Attempt]) -> Reconstruction | None:
    """The result with the best certificate: the surest verdict, then the smallest predicted error, then residual."""
    results = [each.result for each in attempts if each.result is not None]
    return min(results, key=attacks.order, default=None)


def _tried(target: Target, method: str, **settings: Any) -> Attempt:
    try:
        return Attempt(method, attacks.build(method)(target, resume=True, **settings))
    except TooFewEquations as error:
        return Attempt(method, reason=error.counted, too_few_equations=True)
    except UnknownCount as error:
        return Attempt(method, reason=brief(error), unknown_count=True)
    except (InputError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        return Attempt(method, reason=brief(error))


def _checkpoint(workplace: Path | None, target: Target, method: str, seed: int) -> Path | None:
    """A file of its own for every target, method, seed and knowledge, so that no run reads the file of another."""
    if workplace is None:
        return None
    run = fingerprint({"target": target.fingerprint, "seed": seed, "knowledge": target.knowledge.to_json()})
    return workplace / f"{method}-{run[:16]}.safetensors"
