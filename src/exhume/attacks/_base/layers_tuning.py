"""Tuned numbers of the attack on all layers."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.solvers import CGOptions, StoppingRule
from exhume.support.tuning import tuned

CONV = {
    "problem": "conv nets 32-32 at 8 x 8 with ReLU on ten digits and ten CIFAR-10 images, SGD with and without batches",
    "suite": "layers",
}


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
