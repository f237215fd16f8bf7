"""A problem inside a subspace: the same equation in r coordinates a sample instead of d."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from exhume.attacks.base import Problem
from exhume.errors import InputError
from exhume.features.reduced import reduced
from exhume.subspaces import DataSubspace
from exhume.target import Target

# Share of a known sample's norm that may lie outside the subspace.
_OUTSIDE = 0.1


def inside(problem: Problem, space: DataSubspace) -> Problem:
    """The problem in coordinates z with x = sqrt(d/r) z B, so that norms of sqrt(d) become sqrt(r)."""
    target, features = problem.target, problem.features
    basis = space.basis.to(features.device)
    share = space.dim / target.features.input_dim
    features.ledger.add(space.dim, features.num_features)  # to project the rows of V
    known = target.knowledge
    if known.samples is not None:
        _check_inside(space, known.samples)
    knowledge = known.knowing(
        subspace=None,
        samples=None if known.samples is None else lower(space, known.samples),
        norm=None if known.norm is None else known.norm * math.sqrt(share),
    )
    body = reduced(target.features, basis)
    within = Target(body, target.displacement, knowledge, (space.dim,), trained_head=target.trained_head)
    return replace(problem, target=within, features=features.instead(body, share))


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


def lower(space: DataSubspace, samples: torch.Tensor) -> torch.Tensor:
    """Coordinates (m, r) of samples (m, d), scaled as in `inside`."""
    coordinates = samples @ space.basis.to(samples).T
    return coordinates * math.sqrt(space.dim / samples.shape[1])


def lift(space: DataSubspace, coordinates: torch.Tensor) -> torch.Tensor:
    """Samples (m, d) from their coordinates (m, r)."""
    basis = space.basis.to(coordinates)
    return coordinates @ basis * math.sqrt(basis.shape[1] / space.dim)
