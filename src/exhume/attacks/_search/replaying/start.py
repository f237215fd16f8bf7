"""Where `replay` starts: samples that other equations found, in the order of the labels that the training is given."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from exhume.equation.replay import ReplayEquation
from exhume.training.losses import Loss

# Rounds at most in which all pairs of one class are exchanged, and pairs at most: each is a simulation.
_ROUNDS, _MOST_PAIRS = 4, 100


def placed(rows: Tensor, outputs: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """Rows (n, d) in the order of the targets (n, k): the one whose losses at the trained outputs are least in all."""
    costs = torch.stack(
        [torch.stack([loss.value(output[None], target[None]) for target in targets]) for output in outputs.to(targets)]
    )
    found, places = (torch.from_numpy(each) for each in linear_sum_assignment(costs.cpu().double().numpy()))
    return rows[found[places.argsort()]]


def exchanged(equation: ReplayEquation, rows: Tensor, targets: Tensor) -> Tensor:
    """Rows, pairs of one class exchanged while that lowers the residual: batches of known order tell them apart."""
    pairs = [pair for pair in torch.combinations(torch.arange(len(targets))) if torch.equal(*targets[pair])]
    if equation.simulation.recipe.order_seed is None or len(pairs) > _MOST_PAIRS:
        return rows
    loss = equation.at(rows).loss
    for _ in range(_ROUNDS):
        before = loss
        for pair in pairs:
            tried = rows.clone()
            tried[pair] = rows[pair.flip(0)]
            found = equation.at(tried).loss
            if found < loss:
                rows, loss = tried, found
        if loss == before:
            break
    return rows
