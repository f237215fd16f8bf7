"""Tuned numbers of the searches for columns of a first layer's displacement: ReLU, and smooth activations."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks._base.tuning_suites import COLUMNS, MISSING, SMOOTH
from exhume.support.tuning import tuned


@dataclass(frozen=True)
class UnmixTuning:
    """The search for columns of a ReLU layer's displacement.

    Attributes:
        zero: an entry below this many standard deviations of its rounding is zero.
        spare: zeros that a column must have beyond the rank, which any vector can be given.
        evidence: that a column's zeros are not chance, at least: -log p.
        leverage, telling: what a zero's leverage in the equations for a column must leave of one, at least, and over
            the energy that rounding may hide: without any one of them the column must stay determined.
        batch: starts at a time.
        wide: times as many once these find nothing new, up to `most_drawn` samples.
        steps: alternations of a start.
        exponents: range of the power of inactivity in the weights, drawn for each start.
        uneven: largest power of a neuron's displacement that divides its inactivity, most slack, in standard
            deviations, and largest power of a random factor, in these weights; each drawn for half of the starts.
        levels: range of the size from which an entry counts as active, in mean sizes, drawn for each start.
        readout: range of the weight of active neurons, which the outputs' weights should explain, over the inactive
            ones; drawn for half of the starts.
        enough: neurons a sample above which they are not few, and the outputs' weights are not used.
        softness: of inactivity at the first step, in standard deviations of pre-activations; it falls to 0.
        reweightings: of the minimisation of the sum of powers of absolute values.
        coarse: size of entries, over the mean, that are smoothed at its first step.
        kept: weight of active neurons in it, over the largest.
        steered: share of its steps in which the input fixes the vector's size.
        explained: weight in it of what the outputs' weights do not explain, over `readout`.
        trims: steps of least trimmed squares, and `trimmed` its rows over the rank.
        narrowing, nearby: first and last size of entries, over the mean, below which a vector is made to vanish; and
            next to a column that was found, among neurons that its input leaves inactive.
        draws: subsets of neurons that are tried for each start.
        most_drawn: samples up to which they are, and up to which samples are estimated.
        agrees, agrees_well: share of zeros and of other entries that an input must fit for a column to be kept; and
            where estimates of the samples can lead to others and neurons are few.
        contradiction: share of its input's activation that may lie on a column's zeros, at both ends, but for one.
        hidden: what may lie there besides, over the share of entries that rounding hides.
        inactive: share of a column's zeros that its input must leave inactive, at one end at least.
        most_hidden: share of a column's entries that rounding may hide.
        repairs, ratios: mixtures that are repaired in a round, and neurons that are tried for each.
        mended: part of a contradiction that a repair may leave.
        refits: rounds that compute all columns again from their inputs.
        reopened: columns at most that are looked for again where zeros do not determine them.
        stalled, stalled_near, dropped: starts without a new column after which a found one, perhaps wrong, is dropped;
            the same where samples are estimated; and how often it is a random one.
        starts, starts_per_sample, starts_per_column: at most; the last where samples are estimated.
        starts_of_others: at most where another attack only wants estimates to begin from.
        known: share of columns that must be known before others are looked for near the space of the missing ones.
        missing_starts: made there at a time.
        missing_slack, nearness, missing_powers, small: ranges of a neuron's slack, of the power of ten that weighs what
            lies off the space, of the powers of absolute values, and of the size below which entries may be zero, over
            the mean; drawn for each start.
        missing_unevenness: of the random factor, over that of other starts.
        beside: weights of what lies off the space in three minimisations, over the energy.
        shrinking, slow: steps of each of the first two, and of the last with one that leaves the space, or of `nearby`.
        refitted: share of starts whose inputs are fitted again in between.
        blind: starts from random inputs without a new column after which samples are estimated.
        sharpness: range of that of smooth functions in the place of ReLUs, drawn for each estimation.
        rounds, estimated: of an estimation, at most, and starts that it counts as, over `batch`.
        weightings: drawn for all estimates in a round.
        votes: weightings that must lead to the same column, by the rounds since one was found. An estimation ends after
            these rounds, or, if it led to any column, after `rounds_after`.
        little_evidence: as `evidence`, for columns that several weightings lead to.
        least_leverage: as `leverage`, for columns that agree with their inputs.
        few, pool, choices: missing columns from which all choices of so many candidates are tried, and how many.
        distinct: part of a vector outside the span of others for which it counts as independent.
        bars: safety factor of the error bars.
        perturbations: repeated computations with noise for the error bars.
    """

    zero: float = tuned(6.0, "standard deviations", **COLUMNS)
    spare: int = tuned(4, "zeros", **COLUMNS)
    evidence: float = tuned(20.0, "nats", **COLUMNS)
    leverage: float = tuned(3e-3, "share", **COLUMNS)
    telling: float = tuned(0.03, "x hidden energy", **COLUMNS)
    batch: int = tuned(16, "starts", **COLUMNS, rare="limits memory; results change by chance")
    wide: int = tuned(6, "x batch", **COLUMNS)
    steps: int = tuned(30, "steps", **COLUMNS)
    exponents: tuple[float, float] = (0.5, 1.5)
    uneven: tuple[float, float, float] = (2.0, 0.5, 2.0)
    levels: tuple[float, float] = (0.3, 0.8)
    readout: tuple[float, float] = (0.03, 1.0)
    enough: float = tuned(16.0, "neurons a sample", **COLUMNS)
    softness: float = tuned(0.5, "standard deviations", **COLUMNS)
    reweightings: int = tuned(36, "steps", **COLUMNS)
    coarse: float = tuned(0.1, "x mean entry", **COLUMNS)
    kept: float = tuned(0.02, "x largest weight", **COLUMNS)
    steered: float = tuned(0.4, "share", **COLUMNS)
    explained: float = tuned(0.2, "x readout", **COLUMNS)
    trims: int = tuned(6, "steps", **COLUMNS)
    trimmed: float = tuned(1.2, "x rank", **COLUMNS)
    narrowing: tuple[float, float] = (0.03, 1e-4)
    nearby: tuple[float, float] = (0.01, 1e-4)
    draws: int = tuned(6, "subsets", **COLUMNS)
    most_drawn: int = tuned(40, "samples", **COLUMNS, rare="more than 20 samples")
    agrees: float = tuned(0.7, "share", **COLUMNS)
    agrees_well: float = tuned(0.95, "share", **COLUMNS)
    contradiction: float = tuned(2e-3, "share", **COLUMNS)
    hidden: float = tuned(4.0, "x hidden share", **COLUMNS, rare="weights rounded to 16 bits")
    inactive: float = tuned(0.9, "share", **COLUMNS)
    most_hidden: float = tuned(0.5, "share", **COLUMNS, rare="weights rounded to 16 bits")
    mended: float = tuned(0.8, "share", **COLUMNS, rare="mixtures of two columns")
    repairs: int = tuned(40, "columns", **COLUMNS)
    ratios: int = tuned(24, "neurons", **COLUMNS)
    refits: int = tuned(6, "rounds", **COLUMNS)
    stalled: int = tuned(600, "starts", **COLUMNS)
    stalled_near: int = tuned(1000, "starts", **COLUMNS)
    reopened: int = tuned(5, "columns", **COLUMNS)
    dropped: float = tuned(0.3, "share", **COLUMNS)
    starts: int = tuned(3000, "starts", **COLUMNS)
    starts_per_sample: int = tuned(50, "starts per sample", **COLUMNS, rare="more than 20 samples")
    starts_per_column: int = tuned(600, "starts per column found", **COLUMNS)
    starts_of_others: int = tuned(320, "starts", **COLUMNS, rare="only `subspace` makes them")
    known: float = tuned(0.15, "share", **MISSING)
    missing_starts: int = tuned(24, "starts", **MISSING)
    missing_slack: tuple[float, float] = (0.0, 1.0)
    missing_unevenness: float = tuned(0.5, "x unevenness", **MISSING)
    nearness: tuple[float, float] = (0.0, 1.3)
    missing_powers: tuple[float, float] = (0.1, 0.5)
    small: tuple[float, float] = (0.2, 0.5)
    beside: tuple[float, float, float] = (3.0, 0.5, 0.1)
    shrinking: int = tuned(20, "steps", **MISSING)
    slow: int = tuned(60, "steps", **MISSING)
    refitted: float = tuned(0.7, "share", **MISSING)
    blind: int = tuned(100, "starts", **COLUMNS)
    sharpness: tuple[float, float] = (2.0, 8.0)
    rounds: int = tuned(12, "rounds", **COLUMNS)
    estimated: int = tuned(10, "x batch", **COLUMNS)
    weightings: int = tuned(640, "weightings", **COLUMNS)
    votes: tuple[int, ...] = (5, 4, 3, 3)
    rounds_after: int = tuned(2, "rounds", **COLUMNS)
    little_evidence: float = tuned(10.0, "nats", **COLUMNS)
    least_leverage: float = tuned(1e-5, "share", **COLUMNS)
    few: int = tuned(4, "columns", **COLUMNS)
    pool: int = tuned(12, "columns", **COLUMNS)
    choices: int = tuned(500, "choices", **COLUMNS)
    distinct: float = tuned(1e-3, "relative norm", **COLUMNS, rare="nearly equal columns")
    bars: float = tuned(3.0, "x spread", **COLUMNS)
    perturbations: int = tuned(4, "computations", **COLUMNS)


@dataclass(frozen=True)
class SmoothTuning:
    """The search for columns of a first layer's displacement without exact zeros (GELU, tanh, SiLU).

    Attributes:
        batch: starts of the first round; later ones have at least half as many.
        rounds: at most.
        steps, damping: of the fit of one input alone.
        joint_steps, path_steps, joint_damping, trials: of the fit of all together, in a round and on a simulated path.
        free: damping of the coefficients, over that of the inputs.
        still: relative step at which the joint fit ends.
        straight: nodes on the straight line, as shares of it.
        path_nodes, last_nodes: nodes on simulated paths, in turn, and on the last.
        deflation: share of energy along directions known not to belong to a further column that counts as misfit.
        smallest: starts have pre-activations of 10^-smallest to 10^(1 - smallest) standard deviations.
        floor, accepted: a misfit below `accepted` times the larger of `floor` and the found samples' is accepted.
        independent: part of a new column outside the span of those found.
        apart: relative distance below which two inputs are one.
        idle, most: rounds without a new sample after which a set with this share of all samples is completed, and a
            smaller one loses those that fit worst.
        outlier, small: a residual beyond `outlier` times the median, and `small`, is that of a wrong sample.
        improved, fruitless: share to which a complete fit must lower the residual; fits in turn that may not.
        rate, stride, simulated, times: step size, longest step over the displacement, steps and, with decay, durations
            over that without it, of the simulated training.
        bars: error bar over the residual and the change from `path_nodes` to `last_nodes`, in quadrature.
    """

    batch: int = tuned(32, "starts", **SMOOTH)
    rounds: int = tuned(40, "rounds", **SMOOTH, rare="rarely more than twenty are needed")
    steps: int = tuned(15, "steps", **SMOOTH)
    damping: float = tuned(1e-2, "x mean curvature", **SMOOTH)
    joint_steps: int = tuned(5, "steps", **SMOOTH)
    path_steps: int = tuned(6, "steps", **SMOOTH)
    joint_damping: float = tuned(1e-3, "x mean curvature", **SMOOTH)
    trials: int = tuned(6, "trials", **SMOOTH, rare="a step is rarely refused twice")
    free: float = tuned(0.03, "x damping", **SMOOTH)
    still: float = tuned(1e-4, "relative step", **SMOOTH)
    straight: tuple[float, ...] = (0.0, 0.5, 1.0)
    path_nodes: tuple[int, ...] = (3, 4)
    last_nodes: int = tuned(5, "nodes", **SMOOTH)
    deflation: tuple[float, ...] = (0.8, 0.8, 0.3)
    smallest: float = tuned(0.7, "decades", **SMOOTH)
    floor: float = tuned(0.1, "relative residual", **SMOOTH)
    accepted: float = tuned(1.5, "x usual residual", **SMOOTH)
    independent: float = tuned(0.2, "relative norm", **SMOOTH)
    apart: float = tuned(0.15, "relative distance", **SMOOTH)
    idle: int = tuned(2, "rounds", **SMOOTH)
    most: float = tuned(0.7, "share", **SMOOTH)
    outlier: float = tuned(1.6, "x median residual", **SMOOTH)
    small: float = tuned(0.04, "relative residual", **SMOOTH)
    improved: float = tuned(0.8, "share", **SMOOTH)
    fruitless: int = tuned(2, "fits", **SMOOTH)
    rate: float = tuned(0.05, "step size", **SMOOTH)
    stride: float = tuned(0.02, "x displacement", **SMOOTH)
    simulated: int = tuned(400, "steps", **SMOOTH)
    times: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    bars: float = tuned(3.0, "x residual", **SMOOTH)
