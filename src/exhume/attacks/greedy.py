"""The greedy attack: samples one after the other, for features that oscillate, as random Fourier features do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._finish.norms_and_labels import norms_and_labels
from exhume.attacks._search.greedy import GreedySearch
from exhume.errors import InputError
from exhume.features.one_layer import OneLayerMap
from exhume.features.pipeline.fourier import COSINE
from exhume.features.pipeline.function_map import FunctionMap
from exhume.results.certificate import Trust, certify
from exhume.target.target import Target


@dataclass(frozen=True)
class Greedy(Attack):
    """Adds the points that the weights show best, one or a few at a time, and refines all of them jointly.

    For features of a kernel, as cos(W x + b), the weights are a sum of bumps around the training samples. The attack
    climbs these from many starts, adds the best points, solves for all points by Gauss-Newton with the coefficients
    projected out, and goes on with what is left of the weights. The number of samples need not be known: it adds
    points until the residual is at the rounding floor. The Jacobian is written out: at most about 100 samples of 30
    columns.

    Attributes:
        max_rounds: rounds at most; 0 allows as many as six for each sample.
        starts: points from which every round climbs.

    Examples:
        >>> import torch
        >>> import exhume
        >>> from exhume.features.pipeline.fourier import fourier_map
        >>> generator = torch.Generator().manual_seed(0)
        >>> samples = torch.randn(3, 4, generator=generator, dtype=torch.float64)
        >>> features = fourier_map(torch.randn(80, 4, generator=generator).double(), torch.rand(80).double())
        >>> weights = torch.ones(3, dtype=torch.float64) @ features.forward(samples)
        >>> result = exhume.Greedy(starts=100)(exhume.Target(features, weights))  # the number is not given
        >>> result.certificate.verdict, exhume.score(result, samples).recovered
        ('exact', 3)
    """

    name: ClassVar[str] = "greedy"
    estimates_samples: ClassVar[bool] = True
    reads_head_only: ClassVar[bool] = True

    max_rounds: int = 0
    starts: int = 500

    def __post_init__(self) -> None:
        if self.max_rounds < 0 or self.starts < 1:
            raise InputError(
                f"max_rounds must be at least 0 and starts at least 1, got {self.max_rounds} and {self.starts}"
            )

    @staticmethod
    def applies_to(target: Target) -> bool:
        """Whether the features are those of a data pipeline rather than of a network."""
        features = target.features
        cosine = isinstance(features, OneLayerMap) and features.activation is COSINE
        return cosine or isinstance(features, FunctionMap)

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Searches, polishes and certifies with the Jacobian written out."""
        count = problem.num_samples or _most_samples(problem)
        features, outputs = problem.features.num_features, problem.target.num_outputs
        entries = features * outputs * count * problem.features.input_dim
        if entries > problem.tuning.greedy.most_entries:
            raise InputError(
                f"greedy would write out a Jacobian of {entries:,} numbers; valid: at most "
                f"{problem.tuning.greedy.most_entries:,}; exact needs none"
            )
        if count >= features:
            raise InputError(f"{count} samples span all {features} features; valid: fewer samples than features")
        search = GreedySearch(problem, count, self.max_rounds or 6 * count + 10, self.starts)
        found = session.run_stage(search)
        samples = found.rows
        outputs_there = problem.outputs(samples)
        credible = found.stop.trusted and problem.equation_count(len(samples)).determined
        labelled = norms_and_labels(
            samples,
            outputs_there,
            problem.features.symmetry,
            problem.target.knowledge,
            problem.tuning.trust,
            credible,
        )
        point = search.equation.at(labelled.samples)
        trust = Trust(
            stop=found.stop,
            unknowns=problem.equation_count(len(samples)).unknowns,
            norms=problem.norms,
            precision=torch.finfo(problem.target.displacement.dtype).eps,
            limits=self.limits,
        )
        parity = problem.features.symmetry.parity
        notes = {"norms": labelled.note}
        if problem.num_samples is not None and len(samples) < problem.num_samples:
            counts = f"{len(samples)} of the {problem.num_samples} looked for"
            notes["samples"] = f"Samples: {counts} explain the weights."
        return Proposal(
            samples=labelled.samples,
            stop=found.stop,
            signs_determined=parity == "none",
            norms_determined=labelled.norms_determined,
            labels=labelled.labels if parity != "odd" else None,
            coefficients=point.coefficients,
            certificate=certify(search.equation, point, trust, 0),
            evidence={"rounds": found.steps},
            notes=notes,
        )


def _most_samples(problem: Problem) -> int:
    """How many samples the equations can determine with some to spare."""
    most = 1
    while True:
        counted = problem.equation_count(most + 1)
        if counted.equations < problem.tuning.greedy.equations_left * counted.unknowns:
            return most
        most += 1
