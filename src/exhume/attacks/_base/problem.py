"""What an attack works on (`Problem`) and what it returns to be certified (`Proposal`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from exhume.attacks._base.tuning import DEFAULT_TUNING, Tuning
from exhume.equation.norms import FixedNorm, FreeNorm, Norms
from exhume.equation.protocol import Point
from exhume.equation.span import Span, independent_outputs
from exhume.errors import InputError
from exhume.features import FeatureMap, OneLayerFeatures
from exhume.features.in_subspace import reduced
from exhume.law import count
from exhume.results.certificate import Certificate
from exhume.results.stop import Stop
from exhume.target.data_subspace import DataSubspace
from exhume.target.target import Target

# Share of a known sample's norm that may lie outside the subspace.
_OUTSIDE = 0.1


class EquationCount(NamedTuple):
    """How many equations there are, and how many unknowns."""

    equations: int
    unknowns: int

    @property
    def determined(self) -> bool:
        """Whether there are more equations than unknowns."""
        return self.equations > self.unknowns


def equation_count(target: Target, num_samples: int, dim: int | None = None) -> EquationCount:
    """Equations of the last layer, and unknowns: samples that are not known, in `dim` dimensions, and coefficients.

    Outputs whose displacements depend on each other count as often as there are independent ones.
    """
    known, features = target.knowledge, target.features
    outputs = independent_outputs(target.displacement, features.coordinates, num_samples + known.known_samples)
    return EquationCount(
        *count(
            outputs * features.num_features,
            dim or features.input_dim,
            num_samples + known.known_samples,
            outputs,
            norms_open=features.symmetry.identifies_norm and known.norm is None,
            known_samples=known.known_samples,
        )
    )


@dataclass(frozen=True)
class Problem:
    """What an attack's `run` works on: the public part of the model and nothing else.

    Attributes:
        target: weights and what is known of the data.
        features: of the equation, counted.
        num_samples: how many to look for, besides known ones; None if that is unknown.
        trained: features of the trained model, where those of the equation are others.
        tuning: the attack's tuned numbers.
    """

    target: Target
    features: FeatureMap
    num_samples: int | None
    trained: FeatureMap | None = None
    tuning: Tuning = DEFAULT_TUNING

    @property
    def norms_open(self) -> bool:
        """Whether the samples' norms are unknowns of the equation."""
        return self.features.symmetry.identifies_norm and self.target.knowledge.norm is None

    @property
    def sphere(self) -> FixedNorm:
        """The norm of samples where it is not solved for: the known one, else sqrt(d)."""
        return FixedNorm(self.target.knowledge.norm or math.sqrt(self.features.input_dim))

    @property
    def norms(self) -> Norms:
        """The constraint on the samples' norms."""
        return FreeNorm(self.sphere.radius) if self.norms_open else self.sphere

    @property
    def one_layer(self) -> OneLayerFeatures:
        """The features, which must be act(V x + b)."""
        assert isinstance(self.features, OneLayerFeatures)
        return self.features

    @property
    def is_one_layer_without_bias(self) -> bool:
        """Whether the features are act(V x), without a bias: then searches may read subsets of the coordinates."""
        return isinstance(self.features, OneLayerFeatures) and not self.features.has_offset

    def equation(
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

    def is_found(self, point: Point) -> bool:
        """Whether the relative residual is small enough for the samples to be found."""
        return math.sqrt(point.loss) < self.tuning.found

    def outputs(self, samples: torch.Tensor) -> torch.Tensor:
        """Outputs (n, k) of the trained model."""
        features = (self.trained or self.features).with_dtype(samples.dtype)
        return self.target.outputs(features.forward(samples))

    def equation_count(self, num_samples: int) -> EquationCount:
        """Equations and unknowns of so many samples."""
        return equation_count(self.target, num_samples)

    def first(self, coordinates: int) -> Problem:
        """The problem on its first coordinates."""
        target = self.target.subset(slice(0, coordinates))
        return replace(self, features=target.features.with_counter(self.features.counter), target=target)

    def inside(self, space: DataSubspace) -> Problem:
        """The problem in coordinates z with x = sqrt(d/r) z B, so that norms of sqrt(d) become sqrt(r)."""
        target, features, known = self.target, self.features, self.target.knowledge
        share = space.dim / target.features.input_dim
        if known.samples is not None:
            _check_inside(space, known.samples)
        knowledge = known.knowing(
            subspace=None,
            samples=None if known.samples is None else space.lower(known.samples),
            norm=None if known.norm is None else known.norm * math.sqrt(share),
        )
        body = reduced(features, space.basis.to(features.device))
        within = Target(body, target.displacement, knowledge, (space.dim,), trained_head=target.trained_head)
        return replace(self, target=within, features=body)


def _check_inside(space: DataSubspace, samples: torch.Tensor) -> None:
    """Refuses known samples that are not in the subspace."""
    basis = space.basis.to(samples)
    outside = samples - samples @ basis.T @ basis
    share = float((outside.norm(dim=1) / samples.norm(dim=1)).max())
    if share > _OUTSIDE:
        raise InputError(
            f"a known sample lies outside the subspace ({space.source}) by {100 * share:.2g} % of its norm; valid: "
            f"at most {100 * _OUTSIDE:g} %"
        )


@dataclass(frozen=True)
class Drift:
    """An estimate of how far the features moved in training, and samples that were corrected for it.

    Attributes:
        samples: (n, d), corrected, or as they were if no correction fits better.
        displacement: Theta without the estimated drift; None if it was not corrected.
        floor: relative residual that the estimated drift alone would leave.
        errors: for every sample the relative error that may be left; empty if it is not known.
        note: a sentence for the result.
    """

    samples: torch.Tensor
    displacement: torch.Tensor | None
    floor: float
    errors: tuple[float, ...]
    note: str


@dataclass(frozen=True)
class Proposal:
    """Samples that an attack proposes; `Attack.__call__` certifies them.

    Attributes:
        samples: (n, d), or (n, r) if they are coordinates in a subspace.
        stop: why the attack ended.
        signs_determined, norms_determined: whether the samples' signs and norms are claimed to be right.
        labels: of the samples.
        solved: the problem that the samples solve, if it is another than the attack was given: on some of the
            coordinates, inside a subspace, or with other features.
        drift: what was found of the features' drift.
        to_input_space: the subspace that samples are coordinates in.
        coefficients, residual: fitted to all coordinates, where `solved` has some of them.
        certificate: of attacks that solve another equation than that of the last layer.
        evidence: numbers behind the choices that were made, such as the number of samples.
        notes: sentences for the result, by topic.
    """

    samples: torch.Tensor
    stop: Stop
    signs_determined: bool
    norms_determined: bool
    labels: torch.Tensor | None = None
    solved: Problem | None = None
    drift: Drift | None = None
    to_input_space: DataSubspace | None = None
    coefficients: torch.Tensor | None = None
    residual: float | None = None
    certificate: Certificate | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
