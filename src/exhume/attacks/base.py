"""The base of all attacks: it checks the input, lets the attack propose, and judges the proposal."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import torch

from exhume.attacks.checkpoint import Checkpoint, fingerprint
from exhume.certificate import Certificate, certify
from exhume.errors import InputError, TooFewEquations
from exhume.features import CountedFeatures, FeatureMap
from exhume.features.sharded import CAN_BE_SHARDED, division, told
from exhume.law import count
from exhume.randomness import generator_for, seed_for
from exhume.reconstruction import Reconstruction, Stop
from exhume.sharding import Processes, coordinates_of
from exhume.span import Span
from exhume.target import Target
from exhume.threads import threads_for


@dataclass(frozen=True)
class ProgressEvent:
    """Where a running attack stands; `total` steps is an upper limit."""

    step: int
    total: int
    loss: float
    passes: float


Progress = Callable[[ProgressEvent], None]

_UNKNOWN_HEAD = (
    "Initial head: unknown. The trained one stands for its displacement; what is left of the initial weights is noise.",
)


@dataclass(frozen=True)
class Problem:
    """What an attack's `run` works on: the public part of the model and nothing else."""

    features: CountedFeatures
    target: Target
    num_samples: int | None  # to look for, known ones apart
    generator: torch.Generator
    checkpoint: Checkpoint
    progress: Progress
    max_passes: float
    ends_at: float = math.inf  # on the monotonic clock

    @property
    def norms_open(self) -> bool:
        """Whether the samples' norms are unknowns of the equation."""
        return self.features.symmetry.identifies_norm and self.target.knowledge.norm is None

    @property
    def radius(self) -> float:
        """The norm that samples keep where it is not solved for: the known one, else sqrt(d)."""
        return self.target.knowledge.norm or math.sqrt(self.features.input_dim)

    def span(
        self, features: FeatureMap | None = None, displacement: torch.Tensor | None = None, **options: Any
    ) -> Span:
        """The span equation, the features of known samples in it; `options` are those of `Span`."""
        features = features or self.features
        theta = self.target.displacement if displacement is None else displacement
        return Span(features, theta, fixed=self.known_features(features), **options)

    def known_features(self, features: FeatureMap) -> torch.Tensor | None:
        """Features (m, p) of the known samples; None if there are none."""
        known = self.target.knowledge.samples
        return None if known is None else features.forward(known.to(features.device, features.dtype))

    def spent(self) -> Stop | None:
        """Which budget is spent, of passes or of time; None while there is some of both."""
        if self.features.ledger.passes >= self.max_passes:
            return Stop.PASS_LIMIT
        if math.isinf(self.ends_at):
            return None
        late = self.features.coordinates.agree(time.monotonic() >= self.ends_at)
        return Stop.TIME_LIMIT if late else None


@dataclass(frozen=True)
class Proposal:
    """What an attack hands back to be judged.

    Attributes:
        norms_determined: whether the samples' norms mean anything.
        norms_solved: whether the equation itself was solved for them, so that they have error bars too.
        judged: the problem that the samples solve, if it is another than the attack was given: inside a subspace.
        lift: makes samples of that problem samples of the one that was given.
        displacement: the displacement that the samples solve for, if it is a corrected one.
        coefficients, certificate: from attacks that solve another equation than that of the last layer; others leave
            them to the judge.
        residual: of all coordinates, with coefficients fitted to them, where the judge is given a part of them.
        drift_floor: relative residual that the estimated drift of the features alone would leave.
        drift_errors: for every sample the error that drift may have left in it.
        evidence: numbers behind the choices that were made, such as the number of samples.
    """

    samples: torch.Tensor
    stop: Stop
    steps: int
    signs_determined: bool
    norms_determined: bool
    norms_solved: bool = False
    labels: torch.Tensor | None = None
    judged: Problem | None = None
    lift: Callable[[torch.Tensor], torch.Tensor] = lambda samples: samples
    displacement: torch.Tensor | None = None
    coefficients: torch.Tensor | None = None
    certificate: Certificate | None = None
    residual: float | None = None
    drift_floor: float | None = None
    drift_errors: tuple[float, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack(ABC):
    """An attack: settings in its fields, one call a reconstruction. A new one writes `run` and a `name`."""

    name: ClassVar[str]
    estimates_samples: ClassVar[bool] = False
    can_be_sharded: ClassVar[bool] = False  # over processes, by coordinates

    @abstractmethod
    def run(self, problem: Problem) -> Proposal:
        """Proposes samples for the problem."""

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
            max_passes: budget in feature passes for the search; finishing and judging what it found come on top.
            max_seconds: likewise in seconds; with it, results depend on the machine.
            allow_underdetermined: go on although there are fewer equations than unknowns; the verdict is "failed".
            checkpoint: file to keep the running state in.
            resume: continue from `checkpoint` if it exists.
            progress: called now and then with a ProgressEvent.
        """
        for name, budget in (("passes", max_passes), ("seconds", max_seconds)):
            if not budget > 0:
                raise InputError(f"the budget of {name} must be positive, got {budget}")
        count = self._number_sought(target, num_samples)
        if count is not None:
            self._check_equations(target, count, allow_underdetermined)
        settings = {
            "method": self.name,
            "options": asdict(self),
            "num_samples": count,
            "seed": seed,
            "knowledge": target.knowledge.to_json(),
        }
        processes = self._processes_of(target, [settings, max_passes, max_seconds, resume])
        identity = fingerprint(target, settings) if checkpoint or processes.ranks > 1 else ""
        problem = Problem(
            features=CountedFeatures.open(target.features, count or 1),
            target=target,
            num_samples=count,
            generator=generator_for(seed, f"{self.name} attack"),
            checkpoint=Checkpoint(checkpoint, identity, resume=resume, processes=processes),
            progress=progress or (lambda event: None),
            max_passes=max_passes,
            ends_at=time.monotonic() + max_seconds,
        )
        features = target.features
        width = coordinates_of(features).width(features.num_features)
        with threads_for(width * features.input_dim * (count or 1)):
            return self._solve_and_judge(problem, seed)

    def _processes_of(self, target: Target, settings: list[Any]) -> Processes:
        """The processes that attack the target together, all told the same; an error if this attack is for one."""
        processes = coordinates_of(target.features).processes
        if processes.ranks > 1:
            if not self.can_be_sharded:
                raise InputError(
                    f"{self.name} runs in one process; several can share out the attacks exact and descent on "
                    f"{CAN_BE_SHARDED}"
                )
            processes.require_same("target, method or option", json.dumps([target.fingerprint, settings]))
        return processes

    def _solve_and_judge(self, problem: Problem, seed: int) -> Reconstruction:
        target = problem.target
        started = time.perf_counter()
        proposal = self.run(problem)
        problem.features.ledger.unit_rows = proposal.samples.shape[0]
        coefficients, certificate = proposal.coefficients, proposal.certificate
        if certificate is None:
            judged, certificate = self._judge(proposal.judged or problem, proposal, seed)
            coefficients = judged if coefficients is None else coefficients
        if proposal.residual is not None:
            certificate = replace(certificate, residual=proposal.residual)
        assert coefficients is not None
        divided = division(target.features)
        unknown_head = _UNKNOWN_HEAD if target.knowledge.initial_head == "unknown" else ()
        return Reconstruction(
            samples=proposal.lift(proposal.samples),
            labels=proposal.labels,
            coefficients=coefficients,
            certificate=certificate,
            target=target.fingerprint,
            method=self.name,
            seed=seed,
            options=asdict(self),
            knowledge=target.knowledge,
            stop=proposal.stop,
            max_passes=problem.max_passes if math.isfinite(problem.max_passes) else None,
            steps=proposal.steps,
            passes=problem.features.ledger.passes,
            seconds=time.perf_counter() - started,
            signs_determined=proposal.signs_determined,
            norms_determined=proposal.norms_determined,
            evidence=proposal.evidence | divided,
            history=proposal.history,
            input_shape=target.input_shape,
            notes=(*proposal.notes, *unknown_head, *told(divided)),
        )

    def _judge(self, problem: Problem, proposal: Proposal, seed: int) -> tuple[torch.Tensor, Certificate]:
        """Coefficients and certificate of samples by the span equation of the last layer."""
        target = problem.target
        theta = target.displacement if proposal.displacement is None else proposal.displacement
        span = problem.span(problem.features.kept_as_it_fits().with_dtype(proposal.samples.dtype), theta)
        point = span.at(proposal.samples)
        certificate = certify(
            span,
            point,
            unknowns=counted(target, proposal.samples.shape[0])[1],
            trusted=proposal.stop.trusted,
            why_not=proposal.stop.sentence,
            norm_is_open=not proposal.norms_solved,
            credible_error=proposal.stop.credible_error,
            drift_floor=proposal.drift_floor,
            drift_errors=proposal.drift_errors,
            precision=torch.finfo(target.displacement.dtype).eps,
            seed=seed_for(seed, "certificate"),
        )
        return point.coefficients, certificate

    def counts(self, target: Target, num_samples: int) -> tuple[int, int]:
        """Equations and unknowns of so many samples: of the last layer, unless the attack solves another equation."""
        return counted(target, num_samples)

    def _check_equations(self, target: Target, count: int, allow_underdetermined: bool) -> None:
        equations, unknowns = self.counts(target, count)
        if equations <= unknowns and not allow_underdetermined:
            raise TooFewEquations(
                f"{max(equations, 0)} equations cannot determine {unknowns} unknowns "
                f"({count} samples of dimension {target.features.input_dim})"
            )

    def _number_sought(self, target: Target, num_samples: int | None) -> int | None:
        count = num_samples if num_samples is not None else target.knowledge.count
        if count is None and not self.estimates_samples:
            raise InputError(
                f"{self.name} must be told how many samples to look for: pass num_samples (--num-samples), "
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


def counted(target: Target, num_samples: int, dim: int | None = None) -> tuple[int, int]:
    """Equations and unknowns of so many samples that are not known, in `dim` dimensions, and their coefficients."""
    known = target.knowledge
    return count(
        target.num_parameters,
        dim or target.features.input_dim,
        num_samples + known.known_samples,
        target.num_outputs,
        norms_open=target.features.symmetry.identifies_norm and known.norm is None,
        known_samples=known.known_samples,
    )
