"""Nodes on the path that training took, from training again on estimated samples.

The path is not straight: with nodes on the line from the initial to the trained weights the true samples of a network
with two hidden layers leave a residual of 0.1 to 0.15, with as many on a path that is simulated with samples that are
off by 0.1 it is 0.01 to 0.06. Batches, momentum and schedules hardly matter: the path is that of the gradient flow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from exhume.attacks._base.unmix_tuning import SmoothTuning
from exhume.equation.trained_network import TrainedNetwork, Weights

# The loss of outputs (n, k).
LossOf = Callable[[torch.Tensor], torch.Tensor]
# Steps for which a simulated training goes on behind the point that is next to the trained weights.
_PAST = 15
# Share of the initial weights that decay took away, below which the path is simulated without decay: what is missed at
# its end is spread over it anyway.
_SLIGHT = 1e-3


@dataclass(frozen=True)
class _Path:
    """Flat weights (steps, P) of a simulated training, how far its end misses the trained ones, and its time."""

    points: torch.Tensor
    miss: float
    time: float


def curved_nodes(
    network: TrainedNetwork, samples: torch.Tensor, count: int, tuning: SmoothTuning
) -> tuple[list[Weights], float]:
    """Weights at equal arc lengths of the path that training on the samples (n, d) takes, corrected for its miss.

    Returns the nodes, and the distance of the path's end from the trained weights relative to the displacement.
    """
    samples = samples.float()
    outputs = network.outputs(network.after, samples).detach()
    loss_of = _square_loss(outputs)
    if network.errors_sum_to_zero:
        loss_of = partial(torch.nn.functional.cross_entropy, target=outputs.argmax(1))
    path = _simulate(network, samples, loss_of, 0.0, math.inf, tuning)
    if outputs.shape[1] == 1:  # a square or a logistic loss: which one misses less
        logistic = partial(torch.nn.functional.soft_margin_loss, target=outputs.sign())
        other = _simulate(network, samples, logistic, 0.0, math.inf, tuning)
        path, loss_of = (other, logistic) if other.miss < path.miss else (path, loss_of)
    if network.share < 1 - _SLIGHT:  # the time of training is not known
        path = _with_decay(network, samples, loss_of, [path.time * factor for factor in tuning.times], tuning)
    points = path.points
    lengths = torch.cat([torch.zeros(1).to(points), (points[1:] - points[:-1]).norm(dim=1).cumsum(0)])
    rest = torch.cat([network.after[name].flatten() for name in network.after]) - points[-1].double()
    nodes: list[Weights] = []
    for at in range(count):
        nearest = int((lengths - at / (count - 1) * lengths[-1]).abs().argmin())
        done = float(lengths[nearest] / lengths[-1].clamp_min(1e-30))
        nodes.append(_named(network, points[nearest].double() + done * rest))
    return nodes, path.miss


def _with_decay(
    network: TrainedNetwork, samples: torch.Tensor, loss_of: LossOf, times: list[float], tuning: SmoothTuning
) -> _Path:
    """The path that misses least. Times of training are tried in rising order, until a longer one misses more."""
    paths: list[_Path] = []
    for time in times:
        paths.append(_simulate(network, samples, loss_of, -math.log(network.share) / time, time, tuning))
        if len(paths) > 1 and paths[-1].miss > paths[-2].miss:
            break
    return min(paths, key=lambda path: path.miss)


def _square_loss(outputs: torch.Tensor) -> LossOf:
    return lambda found: 0.5 * (found - outputs).square().sum(1).mean()


def _named(network: TrainedNetwork, flat: torch.Tensor) -> dict[str, torch.Tensor]:
    parts = flat.split([weight.numel() for weight in network.after.values()])
    return {name: part.reshape(weight.shape) for (name, weight), part in zip(network.after.items(), parts, strict=True)}


def _simulate(
    network: TrainedNetwork, samples: torch.Tensor, loss_of: LossOf, decay: float, until: float, tuning: SmoothTuning
) -> _Path:
    """Gradient descent in short steps from the initial weights: until a time, or to where it is next to the trained."""
    now, end = (
        torch.cat([each.flatten() for each in side.values()]).float() for side in (network.before, network.after)
    )
    length = float((end - now).norm())
    kept, time, rate, last = [now], 0.0, tuning.rate, math.inf
    nearest, before, since = _Path(now[None], 1.0, 1e-30), 1, 0  # the nearest point, and how many were kept before it
    for _ in range(tuning.simulated if math.isinf(until) else 4 * tuning.simulated):
        with torch.enable_grad():
            leaf = now.clone().requires_grad_()
            loss = loss_of(network.outputs(_named(network, leaf), samples))
            (slope,) = torch.autograd.grad(loss, leaf)
        longest = tuning.stride * length / max(float(slope.norm()), 1e-30)
        rate = 0.5 * rate if loss.item() > last and not decay else min(1.1 * rate, longest)
        rate, last = min(rate, until - time), loss.item()
        now, time = now - rate * (slope + decay * now), time + rate
        point = _Path(now[None], float((now - end).norm()) / max(length, 1e-30), max(time, 1e-30))
        if point.miss < nearest.miss or math.isfinite(until):
            nearest, before, since = point, len(kept), 0
        elif point.miss > 1.02 * nearest.miss and since >= _PAST:
            break
        if time >= until:
            break
        since += 1
        if float((now - kept[-1]).norm()) >= 0.5 * tuning.stride * length:
            kept.append(now)
    return _Path(torch.cat([torch.stack(kept[:before]), nearest.points]), nearest.miss, nearest.time)
