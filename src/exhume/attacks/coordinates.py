"""How many of the coordinates the exact attack reads: any subset satisfies the same equation, and a few dn suffice.

Conjugate gradients on p of them fall by sqrt(dn/p) a step, and a step costs p: log(p/dn)/p is largest at e dn, and flat
from 2 to 4dn. More than that buys nothing but a landscape that is a little easier. What was not read is a witness: it
is read once, at the end, and the samples must explain it too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from exhume.attacks.base import Problem, counted

# Equations per unknown that are read first: in a small basis, and by the search that reads subsets of them again.
IN_A_BASIS, BY_SUBSETS = 3.0, 5.0
# The next try reads so many times as many. A saving smaller than this is none.
_WIDER, _WORTH_IT = 2.0, 1.3
# The residual of what was not read may be so many times that of what was.
_WITNESS = 10.0


@dataclass(frozen=True)
class Witness:
    """What the unread coordinates say of samples: the relative residual there, and whether it confirms the others."""

    coordinates: int
    residual: float
    confirms: bool
    outputs: torch.Tensor  # (n, k) of the model at the samples


def readings(problem: Problem, per_unknown: float) -> Iterator[Problem]:
    """The problem on a few of its coordinates, then on more, at last on all.

    Features that drifted in training, and weights of several outputs, are read whole: there more equations are less
    noise.
    """
    width, target = problem.features.num_features, problem.target
    if problem.num_samples is not None and target.trained_head is None and target.num_outputs == 1:
        read = per_unknown * counted(target, problem.num_samples)[1]
        while width > _WORTH_IT * read:
            yield _first(problem, math.ceil(read))
            read *= _WIDER
    yield problem


def witness(problem: Problem, read: Problem, samples: torch.Tensor) -> Witness:
    """What the coordinates that were not read say of samples that explain the others. One pass over all of them."""
    features = problem.features.with_dtype(samples.dtype)
    here, count = features.coordinates, read.features.num_features
    phi, theta = features.forward(samples), problem.target.displacement.to(samples.dtype)
    seen, unseen = here.local(slice(0, count)), here.local(slice(count, features.num_features))
    gram = here.sum((phi[:, seen] @ phi[:, seen].T).double())
    moments = here.sum((phi[:, seen] @ theta[:, seen].T).double())
    weights = torch.linalg.solve(gram, moments).to(phi)  # (n, k)

    def left(columns: slice | torch.Tensor) -> float:
        rest = theta[:, columns] - weights.T @ phi[:, columns]
        parts = torch.stack(
            [rest.square().sum(dtype=torch.float64), theta[:, columns].square().sum(dtype=torch.float64)]
        )
        of_rest, of_theta = here.sum(parts).tolist()
        return math.sqrt(of_rest / of_theta) if of_theta else 0.0

    residual = left(unseen)
    limit = _WITNESS * max(left(seen), torch.finfo(problem.target.displacement.dtype).eps)
    outputs = problem.target.outputs(phi)
    return Witness(features.num_features - count, residual, residual <= limit, outputs)


def _first(problem: Problem, count: int) -> Problem:
    """The problem on its first coordinates."""
    target = problem.target.subset(slice(0, count))
    return replace(problem, features=problem.features.instead(target.features), target=target)
