"""The base of all attacks: it checks the input, lets the attack propose samples, and certifies them."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import torch

from exhume.attacks._base.problem import EquationCount, Problem, Proposal, equation_count
from exhume.attacks._base.progress import Progress
from exhume.attacks._base.session import Budget, Session
from exhume.attacks._base.tuning import DEFAULT_TUNING, Tuning
from exhume.errors import InputError, TooFewEquations, UnknownCount
from exhume.features import PassCounter
from exhume.features.sharded import CAN_BE_SHARDED, division, division_notes
from exhume.results.certificate import Certificate, Trust, certify
from exhume.results.error_bars import DEFAULT_LIMITS, Limits
from exhume.results.reconstruction import Reconstruction
from exhume.support.checkpoint import Checkpoint, fingerprint
from exhume.support.distributed import Processes
from exhume.support.randomness import generator_for, seed_for
from exhume.support.threads import threads_for
from exhume.target.target import Target

_UNKNOWN_HEAD = (
    "Initial head: unknown. The trained head replaces its displacement; the initial weights in it act as noise."
)


@dataclass(frozen=True)
class Attack(ABC):
    """An attack: its fields are its settings, and calling it with a target gives a reconstruction.

    A subclass has a `name` and implements `run`.
    """

    name: ClassVar[str]
    estimates_samples: ClassVar[bool] = False
    can_be_sharded: ClassVar[bool] = False  # several processes can each hold some of the coordinates
    # It reads the last layer only and solves for whole samples: the law's wall p = dn applies to it.
    reads_head_only: ClassVar[bool] = False
    tuning: ClassVar[Tuning] = DEFAULT_TUNING
    limits: ClassVar[Limits] = DEFAULT_LIMITS

    @abstractmethod
    def run(self, problem: Problem, session: Session) -> Proposal:
        """Proposes samples for the problem; the session has budget, progress, randomness and resumable stages."""

    @final
    def __call__(
        self,
        target: Target,
        *,
        num_samples: int | None = None,
        seed: int = 0,
        max_passes: float = float("inf"),
        max_seconds: float = float("inf"),
        allow_underdetermined: bool = False,
        checkpoint: Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> Reconstruction:
        """Reconstructs the training inputs of `target`.

        Args:
            target: the model's public part.
            num_samples: how many samples there are, known ones included; by default what the target's knowledge says,
                else estimated.
            seed: of the attack's own randomness.
            max_passes: budget in feature passes for the search; finishing and certifying what it found come on top.
            max_seconds: likewise in seconds; with it, results depend on the machine.
            allow_underdetermined: go on although there are fewer equations than unknowns; the verdict is "failed".
            checkpoint: file to keep the running state in.
            resume: continue from `checkpoint` if it exists.
            progress: called now and then with a ProgressEvent.
        """
        for name, given in (("passes", max_passes), ("seconds", max_seconds)):
            if not given > 0:
                raise InputError(f"the budget of {name} must be positive, got {given}")
        count = self._num_sought(target, num_samples)
        if count is not None:
            self._check_equations(target, count, allow_underdetermined)
        features = target.features.with_counter(PassCounter())
        problem = Problem(target, features, count, tuning=self.tuning)
        budget = Budget(max_passes, time.monotonic() + max_seconds)
        states = self._checkpoint_of(problem, seed, (max_passes, max_seconds), checkpoint, resume=resume)
        session = Session(problem.features, generator_for(seed, f"{self.name} attack"), states, budget, progress)
        started = time.perf_counter()
        width = target.features.coordinates.width(target.features.num_features)
        with threads_for(width * target.features.input_dim * (count or 1)):
            proposal = self.run(problem, session)
            coefficients, certificate = _certified(problem, proposal, self.limits, seed)
        space, found, divided = proposal.to_input_space, len(proposal.samples), division(target.features)
        head = (_UNKNOWN_HEAD,) if target.knowledge.initial_head == "unknown" else ()
        return Reconstruction(
            samples=proposal.samples if space is None else space.lift(proposal.samples),
            labels=proposal.labels,
            coefficients=coefficients,
            certificate=certificate,
            target=target.fingerprint,
            method=self.name,
            seed=seed,
            options=asdict(self),
            knowledge=target.knowledge,
            stop=proposal.stop,
            max_passes=max_passes if math.isfinite(max_passes) else None,
            steps=session.steps,
            passes=session.passes(found),
            seconds=time.perf_counter() - started,
            signs_determined=proposal.signs_determined,
            norms_determined=proposal.norms_determined,
            evidence=proposal.evidence | divided,
            history=session.history(found),
            input_shape=target.input_shape,
            notes=(*proposal.notes.values(), *head, *division_notes(divided)),
        )

    def _checkpoint_of(
        self, problem: Problem, seed: int, budget: tuple[float, float], path: Path | None, *, resume: bool
    ) -> Checkpoint:
        """Where the run saves its state; it is resumed only with the same target and settings.

        Several processes must have been given the same settings and budget (passes, seconds).
        """
        target = problem.target
        settings = {
            "method": self.name,
            "options": asdict(self),
            "num_samples": problem.num_samples,
            "seed": seed,
            "knowledge": target.knowledge.to_json(),
        }
        processes = self._processes_of(target, [settings, *budget, resume])
        identity = fingerprint({"target": target.fingerprint, **settings}) if path or processes.ranks > 1 else ""
        return Checkpoint(path, identity, resume=resume, processes=processes)

    def _processes_of(self, target: Target, settings: list[Any]) -> Processes:
        """The processes that attack the target together, with the same settings; an error if this attack needs one."""
        processes = target.features.coordinates.processes
        if processes.ranks > 1:
            if not self.can_be_sharded:
                able = " and ".join(sorted(each.name for each in Attack.__subclasses__() if each.can_be_sharded))
                raise InputError(
                    f"{self.name} runs in one process; several processes can run {able}, on {CAN_BE_SHARDED}"
                )
            processes.require_same("target, method or option", json.dumps([target.fingerprint, settings]))
        return processes

    def equation_count(self, target: Target, num_samples: int) -> EquationCount:
        """Equations and unknowns of so many samples: of the last layer, unless the attack solves another equation."""
        return equation_count(target, num_samples)

    def _check_equations(self, target: Target, count: int, allow_underdetermined: bool) -> None:
        counted = self.equation_count(target, count)
        if not counted.determined and not allow_underdetermined:
            raise TooFewEquations(
                f"{max(counted.equations, 0)} equations cannot determine {counted.unknowns} unknowns "
                f"({count} samples of dimension {target.features.input_dim})"
            )
        features, outputs = target.features.num_features - target.knowledge.known_samples, target.num_outputs
        # See (3) of `exhume.wall.Wall`: certain, whatever the activation.
        own = counted.unknowns // count - counted.equations // max(features, 1) + count
        if self.reads_head_only and count < outputs and features <= own and not allow_underdetermined:
            raise TooFewEquations(
                f"{max(features, 0)} features cannot determine the {own} unknowns of each sample: {count} samples show "
                f"in {count} combinations of the {outputs} outputs only"
            )

    def _num_sought(self, target: Target, num_samples: int | None) -> int | None:
        count = num_samples if num_samples is not None else target.knowledge.count
        if count is None and not self.estimates_samples:
            raise UnknownCount(
                f"{self.name} needs the number of samples: pass num_samples (--num-samples), "
                "or put it into the target's knowledge"
            )
        if count is None:
            return None
        if count < 1:
            raise InputError(f"num_samples must be at least 1, got {count}")
        known = target.knowledge.known_samples
        if count <= known:
            raise InputError(f"num_samples is {count} and {known} samples are known; nothing is left to look for")
        return count - known


def _certified(problem: Problem, proposal: Proposal, limits: Limits, seed: int) -> tuple[torch.Tensor, Certificate]:
    """Coefficients and certificate of the samples, by the span equation of the last layer unless the attack has one."""
    coefficients, certificate = proposal.coefficients, proposal.certificate
    if certificate is None:
        solved, drift = proposal.solved or problem, proposal.drift
        features = solved.features.kept_as_it_fits().with_dtype(proposal.samples.dtype)
        equation = solved.equation(features, None if drift is None else drift.displacement)
        point = equation.at(proposal.samples)
        norms_solved = solved.norms_open and proposal.norms_determined
        trust = Trust(
            stop=proposal.stop,
            unknowns=solved.equation_count(len(proposal.samples)).unknowns,
            norms=solved.norms if norms_solved else solved.sphere,
            precision=torch.finfo(problem.target.displacement.dtype).eps,
            drift_floor=None if drift is None else drift.floor,
            drift_errors=() if drift is None else drift.errors,
            drifting=problem.target.trained_head is not None,
            limits=limits,
        )
        certificate = certify(equation, point, trust, seed_for(seed, "certificate"))
        coefficients = point.coefficients if coefficients is None else coefficients
    if proposal.residual is not None:
        certificate = replace(certificate, residual=proposal.residual)
    assert coefficients is not None
    return coefficients, certificate
