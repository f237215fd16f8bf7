"""Tuned numbers of the attack on all layers."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.solvers import CGOptions, StoppingRule
from exhume.support.tuning import tuned

CONV = {
    "problem": "conv nets 32-32 at 8 x 8 with ReLU on ten digits and ten CIFAR-10 images, SGD with and without batches",
    "suite": "layers",
}

RESNET = {
    "problem": "ResNet-18 of width 64 and 32, pre-trained on CIFAR-10 images, 20 steps of SGD on ten others",
    "suite": "layers",
    "rare": "networks for which the path equation does not fit into memory",
}


POOLED = {
    "problem": "conv nets 64-128 at 8 x 8 with ReLU and a pooled head on ten digits and ten CIFAR-10 images, SGD",
    "suite": "layers",
    "rare": "networks with a pooled head",
}


@dataclass(frozen=True)
class SpanTuning:
    """The search for samples one by one in feature spans.

    Attributes:
        steps, rate, weak_prior: of the solve of a round, in the prior's white coordinates.
        settle, polish, last_rate, prior: of joint solves of the accepted rows: after a round, and at the end.
        rounds: at most.
        least_rows: of a round, unless fewer samples are sought.
        reference: samples of the prior that f is compared with.
        accepted: square root of f of a row that is accepted, at most, over the median of these.
        covered: what a row covers at least, over the mean share of a sample.
        floor, coverage_floor: of the square roots of f, over the median, and of the coverage.
        label: weight of cross-entropy.
    """

    steps: int = tuned(60, "steps", **RESNET)
    rate: float = tuned(0.3, "prior deviations", **RESNET)
    weak_prior: float = tuned(1e-5, "x squared coordinates", **RESNET)
    settle: int = tuned(25, "steps", **RESNET)
    polish: int = tuned(60, "steps", **RESNET)
    last_rate: float = tuned(0.1, "prior deviations", **RESNET)
    prior: float = tuned(2e-4, "x squared coordinates", **RESNET)
    rounds: int = tuned(12, "rounds", **RESNET)
    least_rows: int = tuned(4, "rows", **RESNET)
    reference: int = tuned(20, "rows", **RESNET)
    accepted: float = tuned(0.35, "x median", **RESNET)
    covered: float = tuned(0.2, "x share of a sample", **RESNET)
    floor: float = tuned(0.08, "x median", **RESNET)
    coverage_floor: float = tuned(0.1, "share", **RESNET)
    label: float = tuned(0.05, "x cross-entropy", **RESNET)


@dataclass(frozen=True)
class PooledTuning:
    """The search for all samples of a network with a pooled head by the channel equation.

    Attributes:
        drawn: rows of noise that are solved by themselves, over the samples sought.
        wide, usual, last: sharpness of ReLUs in units of the standard deviation of the convolution's outputs: of the
            first solve of noise, of all others, and of the last fits in turn.
        draw, fit, joint, prune: when the solves end: of noise, of n rows, of the rows of two draws together, and after
            some of them are dropped.
        cg: of all solves.
        dropped: share of the rows that is dropped at once, down to n.
        gained: share of the loss that a draw leaves at most if it is a success.
        patience: draws in a row without one after which the path is simulated.
        nodes, last_nodes: on simulated paths, and on those of the last fits.
        settled: share of the miss that a simulated path leaves at most if another follows.
    """

    drawn: float = tuned(1.4, "x samples", **POOLED)
    wide: float = tuned(1.5, "1 / deviation", **POOLED)
    usual: float = tuned(3.5, "1 / deviation", **POOLED)
    last: tuple[float, ...] = tuned((3.5, 5.0, 7.0, 10.0), "1 / deviation", **POOLED)
    draw: StoppingRule = tuned(StoppingRule(15, 1e-6, window=4, max_left=0.94), "steps and loss", **POOLED)
    fit: StoppingRule = tuned(StoppingRule(10, 1e-6, window=4, max_left=0.94), "steps and loss", **POOLED)
    joint: StoppingRule = tuned(StoppingRule(6, 1e-6), "steps", **POOLED)
    prune: StoppingRule = tuned(StoppingRule(2, 1e-6), "steps", **POOLED)
    cg: CGOptions = tuned(CGOptions(8, 0.1), "steps and tolerance", **POOLED)
    dropped: float = tuned(0.2, "share", **POOLED)
    gained: float = tuned(0.97, "share", **POOLED)
    patience: int = tuned(5, "draws", **POOLED)
    nodes: int = tuned(3, "nodes", **POOLED)
    last_nodes: int = tuned(5, "nodes", **POOLED)
    settled: float = tuned(0.95, "share", **POOLED)


@dataclass(frozen=True)
class LayersTuning:
    """The search for all samples of a network by the path equation.

    Attributes:
        wide: rows that a start has, over the samples sought.
        ends: nodes on the straight line, as shares of it.
        nodes, last_nodes: nodes on simulated paths, and on those of the last fit.
        start, settle, prune: when the solves end: from noise, of n rows on a path, and after each row that is dropped.
        start_solves: solves in a row from noise.
        cg, least_damping: of all solves but the last.
        polish, last_cg, last_damping: of the last fit: what samples of one class exchange shows only in a precise step.
        largest: norm of a row at most, over the usual one.
        settled, still: share of the miss that a simulated path leaves at most if another follows, and relative move of
            a row in its fit from which another follows all the same.
        paths: simulated paths in a row at most.
        collapsed: miss below which no round follows.
        dropped, added: rows that a round drops and adds, over the samples sought.
        gained: share of the loss that a round leaves at most if its rows are kept.
        agree: relative distance up to which rows of two starts are the same sample.
        missed: error bar at least, over the miss of the simulated path.
        exchanged: error of samples that exchanged parts, at most, over what their residual explains if all of it comes
            from a uniform exchange.
        pooled: of the search by the channel equation, where the head is pooled.
        spans: of the search in feature spans, where the path equation does not fit into memory.
    """

    wide: float = tuned(1.6, "x samples", **CONV)
    ends: tuple[float, ...] = (0.0, 1.0)
    nodes: int = tuned(5, "nodes", **CONV)
    last_nodes: int = tuned(17, "nodes", **CONV)
    start: StoppingRule = tuned(StoppingRule(5, 1e-6), "steps", **CONV)
    start_solves: int = tuned(3, "solves", **CONV)
    settle: StoppingRule = tuned(StoppingRule(5, 1e-6, window=3, max_left=0.98), "steps and loss", **CONV)
    prune: StoppingRule = tuned(StoppingRule(2, 1e-6), "steps", **CONV)
    cg: CGOptions = tuned(CGOptions(15, 0.05), "steps and tolerance", **CONV)
    least_damping: float = tuned(1e-5, "x diagonal", **CONV)
    polish: StoppingRule = tuned(StoppingRule(3, 1e-6), "steps", **CONV)
    last_cg: CGOptions = tuned(CGOptions(40, 0.01), "steps and tolerance", **CONV)
    last_damping: float = tuned(1e-4, "x diagonal", **CONV)
    largest: float = tuned(2.0, "x norm", **CONV)
    settled: float = tuned(0.9, "share", **CONV)
    still: float = tuned(0.03, "relative move", **CONV, rare="transformers, where samples of small errors come late")
    paths: int = tuned(10, "paths", **CONV)
    collapsed: float = tuned(0.03, "x displacement", **CONV)
    dropped: float = tuned(0.3, "x samples", **CONV)
    added: float = tuned(0.6, "x samples", **CONV)
    gained: float = tuned(0.96, "share", **CONV)
    agree: float = tuned(0.2, "relative distance", **CONV)
    missed: float = tuned(0.3, "x miss", **CONV)
    exchanged: float = tuned(5.0, "x error of a uniform exchange", **CONV)
    pooled: PooledTuning = PooledTuning()
    spans: SpanTuning = SpanTuning()
