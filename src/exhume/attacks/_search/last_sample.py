"""The last sample of an informed adversary under relu, by linear programming.

If all samples but one are known, Theta = sum_j c_j phi(x_j) + a relu(V x) is one-sided beyond the known part: the rest
has the sign of a wherever the sample is active, and is zero elsewhere. The c that leave least on one side are a linear
program; what they leave is linear in x on the coordinates where it is not zero.
"""

from __future__ import annotations

import torch
from scipy.optimize import linprog

from exhume.features import CountedFeatures
from exhume.span import Span

# Numbers in the linear program up to which it takes seconds.
_MOST_NUMBERS = 2_000_000
_MOST_INPUTS = 4096
# Share of the largest rest below which a coordinate counts as inactive.
_INACTIVE = 1e-5


def applies(span: Span) -> bool:
    """Whether there is one output, a known sample at least, relu, and a size that a linear program takes."""
    features, fixed = span.features, span.fixed
    if fixed is None or span.num_outputs != 1 or not isinstance(features, CountedFeatures) or not features.is_row_map:
        return False
    plain = features.activation.name == "relu" and not features.has_offset
    few = fixed.shape[0] * features.num_features <= _MOST_NUMBERS
    return plain and few and features.input_dim <= _MOST_INPUTS


def last_sample(span: Span, side: int) -> torch.Tensor | None:
    """The sample (1, d) whose coefficient has the sign `side`, up to its norm; None if there is none."""
    features, fixed = span.features, span.fixed
    assert fixed is not None
    assert isinstance(features, CountedFeatures)
    theta = side * span.coordinates.gather(span.displacement[0].double())
    known = span.coordinates.gather(fixed.double())
    scale = float(theta.abs().max()) or 1.0
    answer = linprog(
        -known.sum(1).cpu().numpy(), A_ub=known.T.cpu().numpy(), b_ub=(theta / scale).cpu().numpy(), bounds=(None, None)
    )
    if answer.status != 0:
        return None
    rest = theta / scale - torch.from_numpy(answer.x).to(known) @ known
    active = (rest > _INACTIVE * float(rest.abs().max())).nonzero().squeeze(1)
    if not len(active):
        return None
    rows = features.with_dtype(torch.float64).subset(active)
    moment = rows.second_moment()
    moment.diagonal().add_(1e-12 * moment.diagonal().mean())
    here = rows.coordinates.held
    return torch.linalg.solve(moment, rows.pull_back(rest[active][here][None]).T).T.to(features.dtype)
