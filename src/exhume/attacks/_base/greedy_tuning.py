"""Tuned numbers of the greedy search."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.solvers import CGOptions, Damping, StoppingRule
from exhume.support.tuning import tuned

RECORDS = {
    "problem": "RBFSampler + Ridge on 12 standardised diabetes records, seeds 0 and 1, gamma 0.01, 0.1 and 1, p = 4dn",
    "suite": "records",
}


@dataclass(frozen=True)
class AscentTuning:
    """Ascents on the correlation with the residual.

    Attributes:
        steps: of every stage; the first is made from all starts.
        kept: share of the points that go on to the next stage, the best ones.
        probes: points at which the width of bumps is measured.
        longest: a step at most, in units of the typical norm of a start.
        damping: of a step towards the top of a bump.
        least_share: of the best value that further points of a round have.
        most_alike: cosine up to which two points count as different.
    """

    steps: tuple[int, ...] = (6, 10, 24)
    kept: float = tuned(0.25, "share", **RECORDS)
    probes: int = tuned(64, "points", **RECORDS, rare="measures a mean")
    longest: float = tuned(0.3, "x norm", **RECORDS)
    damping: float = tuned(0.7, "x step", **RECORDS)
    least_share: float = tuned(0.5, "share", **RECORDS)
    most_alike: float = tuned(0.7, "cosine", **RECORDS)


@dataclass(frozen=True)
class GreedyTuning:
    """The greedy search.

    Attributes:
        ascent: how points are found.
        joined: a round adds one point, and one more for this many samples that are missing.
        restart_after: rounds without a clear fall of the loss after which half of the rows are dropped.
        most_starts: times the starts that rounds without a fall climb from at most.
        refine: when the joint solve of a round ends.
        polish: when a solve to the floor ends; repeated while it helps.
        polishes, polish_left: of those at most, and the share of the loss that one leaves if another follows.
        fall: share of the best loss that a round leaves at most if it made progress.
        near: relative residual below which rows are polished.
        above_floor: times the rounding floor up to which a residual is at it.
        idle: times the rounding floor up to which a row's contribution to the residual is nothing.
        cg, damping, damping_polish: of the solves; the matrix is factorised, so that few steps suffice.
        equations_left: equations per unknown that the number of rows must leave where it is unknown.
        most_entries: of the Jacobian, which is written out; it bounds memory.
    """

    ascent: AscentTuning = AscentTuning()
    joined: int = tuned(4, "samples per further point", **RECORDS)
    restart_after: int = tuned(6, "rounds", **RECORDS)
    most_starts: int = tuned(8, "x starts", **RECORDS)
    refine: StoppingRule = tuned(StoppingRule(12, 1e-9, window=4, max_left=0.7), "steps and residual", **RECORDS)
    polish: StoppingRule = tuned(StoppingRule(40, 1e-15, window=6, max_left=0.9), "steps and residual", **RECORDS)
    polishes: int = tuned(4, "solves", **RECORDS)
    polish_left: float = tuned(0.5, "x loss", **RECORDS)
    fall: float = tuned(0.9, "share", **RECORDS)
    near: float = tuned(1e-4, "relative residual", **RECORDS)
    above_floor: float = tuned(8.0, "x rounding", **RECORDS)
    idle: float = tuned(100.0, "x rounding", **RECORDS)
    cg: CGOptions = tuned(CGOptions(3, 1e-6), "steps and tolerance", **RECORDS)
    damping: Damping = tuned(Damping(1e-2, least=1e-12), "x diagonal", **RECORDS)
    damping_polish: Damping = tuned(Damping(1e-4, least=1e-14), "x diagonal", **RECORDS)
    equations_left: float = tuned(1.3, "x unknowns", **RECORDS)
    most_entries: int = tuned(2**27, "numbers", **RECORDS, rare="bounds memory")
