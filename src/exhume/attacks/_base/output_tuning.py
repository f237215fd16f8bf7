"""Tuned numbers of searches in heads of several outputs."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks._base.tuning_suites import ANNEALED, SPANNED
from exhume.solvers import CGOptions
from exhume.support.tuning import tuned


@dataclass(frozen=True)
class FeatureTuning:
    """The search for single samples' features in the head's rows.

    Attributes:
        batch, starts: starts at a time and at most, per sample.
        steps: alternations of a start.
        levels: range of the size from which an entry counts as active, in mean sizes, drawn for each start.
        exponents: range of the power of inactivity in the weights, drawn for each start.
        softness: of inactivity at the first step, in standard deviations of V x; it falls to 0.
        rough, precise: solves for inputs, in alternations and at their end.
        rounds: of those at the end, each with the coordinates that the last one left active.
        accepted: misfit below which a vector is taken for the features of a sample.
        distinct: part of a vector outside the span of others for which it counts as another sample's.
    """

    batch: int = tuned(2, "starts per sample", **SPANNED)
    starts: int = tuned(32, "starts per sample", **SPANNED)
    steps: int = tuned(24, "steps", **SPANNED)
    levels: tuple[float, float] = (0.3, 0.8)
    exponents: tuple[float, float] = (0.5, 1.5)
    softness: float = tuned(0.5, "standard deviations", **SPANNED)
    rough: CGOptions = tuned(CGOptions(3, 0.05), "steps and tolerance", **SPANNED)
    precise: CGOptions = tuned(CGOptions(30, 1e-3), "steps and tolerance", **SPANNED)
    rounds: int = tuned(3, "rounds", **SPANNED)
    accepted: float = tuned(0.03, "share of energy", **SPANNED)
    distinct: float = tuned(0.1, "relative norm", **SPANNED)


@dataclass(frozen=True)
class IndependentTuning:
    """Independent component analysis of the head's rows.

    Attributes:
        least_coordinates: coordinates per sample below which kurtosis is too noisy.
        steps, still: iterations at most, and the change of a direction's cosine at which they end.
        cg: of the solve for samples.
    """

    least_coordinates: int = tuned(20, "coordinates per sample", **SPANNED)
    steps: int = tuned(200, "steps", **SPANNED)
    still: float = tuned(1e-8, "1 - cosine", **SPANNED, rare="iterations end by their number or converge fast")
    cg: CGOptions = tuned(CGOptions(60, 1e-3), "steps and tolerance", **SPANNED)


@dataclass(frozen=True)
class AnnealingTuning:
    """The annealed phase of a start, with several outputs.

    Attributes:
        steps, most_steps: of the first phases, and of any: those after other random rows have twice as many.
        hot, warm, cold: rates of the first step from random rows and from kept ones, and of the last step.
        agree, same: cosines above which two runs agree on a row, and two rows of one run are the same sample's.
        taken_over: probability that a run takes over a row that others agree on.
        equations: in a subset of coordinates, for each unknown of the samples' directions.
        damping: of the steps.
        near: residual on subsets at which the rows are near the samples.
        most_runs: side by side.
        small_product: numbers n d s, s coordinates in a subset, up to which all runs together are as cheap as one.
    """

    steps: int = tuned(1000, "steps", **ANNEALED)
    most_steps: int = tuned(8000, "steps", **ANNEALED)
    hot: float = tuned(1.3, "x preconditioned gradient", **ANNEALED)
    warm: float = tuned(1.0, "x preconditioned gradient", **ANNEALED)
    cold: float = tuned(0.6, "x preconditioned gradient", **ANNEALED)
    agree: float = tuned(0.9, "cosine", **ANNEALED)
    same: float = tuned(0.7, "cosine", **ANNEALED)
    taken_over: float = tuned(0.5, "probability", **ANNEALED)
    equations: float = tuned(1.2, "equations per unknown", **ANNEALED)
    damping: float = tuned(0.015, "x mean Gauss-Newton matrix", **ANNEALED)
    near: float = tuned(0.03, "relative residual", **ANNEALED)
    most_runs: int = tuned(16, "runs", **ANNEALED)
    small_product: int = tuned(2**21, "multiplications", **ANNEALED)
