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
# Entries of V below which all are read: there the calls cost more than the products.
_SMALL = 2**20
# The residual of what was not read may be so many times that of what was.
_WITNESS = 3.0


@dataclass(frozen=True)
class Witness:
    """What the unread coordinates say of samples.

    Attributes:
        unread: relative residual there, with the coefficients that fit what was read.
        confirms: whether that is no more than rounding, or than what was left of the others.
        residual, coefficients: relative residual and coefficients (n, k) fitted to all coordinates.
        outputs: of the model at the samples, (n, k).
    """

    unread: float
    confirms: bool
    residual: float
    coefficients: torch.Tensor
    outputs: torch.Tensor


def readings(problem: Problem, per_unknown: float) -> Iterator[Problem]:
    """The problem on a few of its coordinates, then on more, at last on all.

    Features that drifted in training, and weights of several outputs, are read whole: there more equations are less
    noise.
    """
    width, target = problem.features.num_features, problem.target
    large = width * problem.features.input_dim > _SMALL
    if large and problem.num_samples is not None and target.trained_head is None and target.num_outputs == 1:
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
    everywhere = slice(0, phi.shape[1])

    def fitted(columns: slice | torch.Tensor) -> torch.Tensor:
        """Coefficients (n, k), in two sweeps: the normal equations lose half the digits."""
        part, goal = phi[:, columns], theta[:, columns]
        gram = here.sum((part @ part.T).double())
        weights = torch.zeros((len(samples), len(theta)), dtype=gram.dtype, device=gram.device)
        for _ in range(2):
            moments = here.sum((part @ (goal - weights.to(goal).T @ part).T).double())
            weights = weights + torch.linalg.solve(gram, moments)
        return weights.to(phi)

    def left(weights: torch.Tensor, columns: slice | torch.Tensor) -> float:
        rest = theta[:, columns] - weights.T @ phi[:, columns]
        sizes = [part.square().sum(dtype=torch.float64) for part in (rest, theta[:, columns])]
        of_rest, of_theta = here.sum(torch.stack(sizes)).tolist()
        return math.sqrt(of_rest / of_theta) if of_theta else 0.0

    weights, whole = fitted(seen), fitted(everywhere)
    unread = left(weights, unseen)
    limit = _WITNESS * max(left(weights, seen), torch.finfo(problem.target.displacement.dtype).eps)
    outputs = problem.target.outputs(phi)
    return Witness(unread, unread <= limit, left(whole, everywhere), whole, outputs)


def _first(problem: Problem, count: int) -> Problem:
    """The problem on its first coordinates."""
    target = problem.target.subset(slice(0, count))
    return replace(problem, features=problem.features.instead(target.features), target=target)
