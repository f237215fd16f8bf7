"""How many of the coordinates are read: any subset satisfies the same equation, and a few dn of them suffice.

On p coordinates the residual of conjugate gradients falls by sqrt(dn/p) a step, and a step costs p: log(p/dn)/p is
largest at e dn, and nearly constant from 2 to 4dn. More coordinates than 4dn only make the search slightly easier. The
unused ones are a hold-out set: at the end the samples must fit them as well (`_finish.unread`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from exhume.attacks._base.problem import Problem
from exhume.features import FeatureMap


def schedule(problem: Problem, per_unknown: float) -> Iterator[Problem]:
    """The problem on a few of its coordinates, then on more, at last on all.

    Features that drifted in training, and weights of several outputs, are read whole: there more equations are less
    noise.
    """
    width, target, tuning = problem.features.num_features, problem.target, problem.tuning.schedule
    large = width * problem.features.input_dim > tuning.small_matrix
    if large and problem.num_samples is not None and target.trained_head is None and target.num_outputs == 1:
        read = per_unknown * problem.equation_count(problem.num_samples).unknowns
        while width > tuning.least_saving * read:
            yield problem.first(math.ceil(read))
            read *= tuning.wider
    yield problem


def random_coordinates(
    features: FeatureMap, size: int, gathered_dim: int, generator: torch.Generator
) -> slice | torch.Tensor:
    """So many random coordinates of a feature map.

    Args:
        gathered_dim: inputs up to which gathering is cheap, and indices are drawn; with more inputs a window, which is
            read in place.
    """
    width = features.num_features
    if features.input_dim <= gathered_dim:
        return torch.randperm(width, generator=generator)[:size]
    # Windows may extend beyond either end by half and are moved back inside, so that no coordinate is rare.
    first = int(torch.randint(-size // 2, width - size // 2, (1,), generator=generator))
    first = max(0, min(width - size, first))
    return slice(first, first + size)
