"""The last sample of an informed adversary under relu, by linear programming.

If all samples but one are known, Theta = sum_j c_j phi(x_j) + a relu(V x) is one-sided beyond the known part: the rest
has the sign of a wherever the sample is active, and is zero elsewhere. The c with the smallest one-sided rest solve a
linear program; the rest is linear in x on the coordinates where it is not zero.
"""

from __future__ import annotations

import torch
from scipy.optimize import linprog

from exhume.attacks._base.count_tuning import LastSampleTuning
from exhume.attacks._search.spectral import is_one_layer
from exhume.equation.span import Span


def applies(span: Span, tuning: LastSampleTuning) -> bool:
    """Whether there is one output, a known sample at least, relu, and a size that a linear program takes."""
    features, fixed = span.features, span.fixed
    if fixed is None or span.num_outputs != 1 or not is_one_layer(features):
        return False
    plain = features.activation.name == "relu" and not features.has_offset
    few = fixed.shape[0] * features.num_features <= tuning.most_numbers
    return plain and few and features.input_dim <= tuning.most_inputs


def last_sample(span: Span, side: int, inactive: float) -> torch.Tensor | None:
    """The sample (1, d) whose coefficient has the sign `side`, up to its norm; None if there is none.

    Args:
        inactive: share of the largest rest below which a coordinate counts as inactive.
    """
    features, fixed = span.features, span.fixed
    assert fixed is not None
    assert is_one_layer(features)
    theta = side * span.coordinates.gather(span.displacement[0].double())
    known = span.coordinates.gather(fixed.double())
    scale = float(theta.abs().max()) or 1.0
    answer = linprog(
        -known.sum(1).cpu().numpy(), A_ub=known.T.cpu().numpy(), b_ub=(theta / scale).cpu().numpy(), bounds=(None, None)
    )
    if answer.status != 0:
        return None
    rest = theta / scale - torch.from_numpy(answer.x).to(known) @ known
    active = (rest > inactive * float(rest.abs().max())).nonzero().squeeze(1)
    if not len(active):
        return None
    rows = features.with_dtype(torch.float64).subset(active)
    moment = rows.second_moment()
    moment.diagonal().add_(1e-12 * moment.diagonal().mean())
    here = rows.coordinates.local_indices
    return torch.linalg.solve(moment, rows.rmatvec(rest[active][here][None]).T).T.to(features.dtype)
