"""Nodes on the path that training took, from training again on estimated samples.

The path is not straight: with nodes on the line from the initial to the trained weights the true samples of a network
with two hidden layers leave a residual of 0.1 to 0.15, with as many on a path that is simulated with samples that are
off by 0.1 it is 0.01 to 0.06. Batches, momentum and schedules hardly matter: the path is that of the gradient flow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks._base.unmix_tuning import SmoothTuning
from exhume.equation.trained_network import TrainedNetwork, Weights

# Steps for which a simulated training goes on behind the point that is next to the trained weights.
_PAST = 15


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
    path, share = _simulate(network, samples, outputs, 0.0, math.inf, tuning), network.share
    if share < 1 - 1e-6:  # the time of training is not known: the decay that belongs to it is the one that misses least
        slower = [path.time * factor for factor in tuning.times]
        trials = [_simulate(network, samples, outputs, -math.log(share) / time, time, tuning) for time in slower]
        path = min(trials, key=lambda trial: trial.miss)
    points = path.points
    lengths = torch.cat([torch.zeros(1).to(points), (points[1:] - points[:-1]).norm(dim=1).cumsum(0)])
    rest = torch.cat([network.after[name].flatten() for name in network.after]) - points[-1].double()
    nodes: list[Weights] = []
    for at in range(count):
        nearest = int((lengths - at / (count - 1) * lengths[-1]).abs().argmin())
        done = float(lengths[nearest] / lengths[-1].clamp_min(1e-30))
        nodes.append(_named(network, points[nearest].double() + done * rest))
    return nodes, path.miss


def _named(network: TrainedNetwork, flat: torch.Tensor) -> dict[str, torch.Tensor]:
    parts = flat.split([weight.numel() for weight in network.after.values()])
    return {name: part.reshape(weight.shape) for (name, weight), part in zip(network.after.items(), parts, strict=True)}


def _simulate(
    network: TrainedNetwork,
    samples: torch.Tensor,
    outputs: torch.Tensor,
    decay: float,
    until: float,
    tuning: SmoothTuning,
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
            found = network.outputs(_named(network, leaf), samples)
            if network.errors_sum_to_zero:
                loss = torch.nn.functional.cross_entropy(found, outputs.argmax(1))
            else:
                loss = 0.5 * (found - outputs).square().sum(1).mean()
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
