"""Rows of a candidate: which contribute least, dropping them, and rounds that exchange them for better ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from exhume.attacks._base.search_tuning import Rounds, SpectralTuning
from exhume.attacks._search.spectral import is_one_layer, random_rows, spectral_rows
from exhume.equation.span import Span, SpanPoint
from exhume.solvers import FixedNorm, Norms, levenberg_marquardt


def drop_rows(point: SpanPoint, count: int) -> torch.Tensor:
    """Rows left after dropping samples, one by one, until `count` are left.

    Each time the one goes that adds least to the loss when removed: a_i^2 / [(Phi Phi^T)^-1]_ii.
    """
    inverse = torch.cholesky_inverse(point.gram_factor)
    weights = point.coefficients.double()
    kept = list(range(point.num_samples))
    while len(kept) > count:
        out = int((weights.square().sum(1) / inverse.diagonal()).argmin())
        rest = [index for index in range(len(kept)) if index != out]
        pivot = inverse[:, out : out + 1] / inverse[out, out]
        weights = (weights - pivot * weights[out])[rest]
        inverse = (inverse - pivot * inverse[out])[rest][:, rest]
        kept = [kept[index] for index in rest]
    return torch.cat([point.samples[kept], point.rows[point.num_samples :]])


def exchange_rows(
    equation: Span,
    point: SpanPoint,
    norms: Norms,
    options: Rounds,
    new_rows: Callable[[SpanPoint, int], torch.Tensor],
    *,
    is_done: Callable[[SpanPoint], bool],
    should_stop: Callable[[SpanPoint], bool] = lambda point: False,
) -> SpanPoint:
    """Lowers the loss by rounds: adds rows, solves, drops as many, solves again. It brings up small samples.

    Args:
        point: where to begin; the number of its samples stays.
        options: of the rounds.
        new_rows: makes so many rows to add at a point, as `residual_rows` does.
        is_done: asked before every round; True ends the rounds.
        should_stop: asked after every accepted step of a solve; True ends that solve.
    """
    count, sphere = point.num_samples, FixedNorm(norms.radius)
    extra = max(options.least_extra, count // options.samples_per_extra)
    solve = partial(
        levenberg_marquardt, equation, norms=norms, cg=options.cg, damping=options.damping, should_stop=should_stop
    )
    for _ in range(options.tries):
        if is_done(point):
            break
        more = sphere.retract(new_rows(point, extra))
        rows = torch.cat([point.samples, more, point.rows[count:]])
        rule = replace(options.wide, tolerance=min(options.wide.tolerance, options.wide_share * math.sqrt(point.loss)))
        wide = solve(rows, rule=rule).point
        solved = solve(drop_rows(wide, count), rule=options.narrow).point
        if not solved.loss < options.max_left * point.loss:
            break
        point = solved
    return point


def turn_rows(
    equation: Span,
    point: SpanPoint,
    norms: Norms,
    options: Rounds,
    should_stop: Callable[[SpanPoint], bool] = lambda point: False,
) -> SpanPoint:
    """Turns rows to their negatives, one after the other, where that lowers the loss.

    Where features are nearly odd, as those of tanh with small biases, a row may end at the negative of a sample.
    """
    for index in range(point.num_samples):
        rows = point.rows.clone()
        rows[index] *= -1
        if equation.at(rows).loss < options.turned * point.loss:
            turned = levenberg_marquardt(
                equation, rows, norms, options.narrow, cg=options.cg, damping=options.damping, should_stop=should_stop
            ).point
            point = turned if turned.loss < options.max_left * point.loss else point
    return point


def residual_rows(
    equation: Span, tuning: SpectralTuning, generator: torch.Generator, point: SpanPoint, count: int
) -> torch.Tensor:
    """Rows along the spectrum of the residual where features are act(V x), else random ones."""
    features = equation.features
    if is_one_layer(features):
        return spectral_rows(features, point.residual, count, generator, tuning)
    return random_rows(count, features.input_dim, generator, features)
