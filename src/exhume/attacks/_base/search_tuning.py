"""Tuned numbers of the searches: the equation, spectra, rounds, each search, the count of samples, coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks._base.tuning_suites import (
    ALIKE,
    BASIS,
    COLUMNS,
    COUNT,
    LARGE,
    LARGE_ONLY,
    LAST,
    NETWORK,
    NORMS,
    OUTPUTS,
    ROUNDED,
    ROUNDING,
    SCARCE,
    SMOOTH,
    SPHERE,
)
from exhume.solvers import CGOptions, Damping, StoppingRule
from exhume.support.tuning import tuned


@dataclass(frozen=True)
class EquationTuning:
    """The equation that is searched.

    Attributes:
        joint_from: inputs per sample from which a free linear part is solved for jointly; below, it is projected out.
            Its d x d matrix costs d/n passes a step, where the step itself costs about 20.
        equations_left: a linear part is freed where this many times the unknowns are left in equations.
        most_patterns: samples up to which all patterns of signs are tried, where few equations decide them.
        ridge, ridge_double: added to the diagonal of Phi Phi^T, in float32 and float64.
        hermite_zero: a Hermite coefficient below this is zero.
    """

    joint_from: int = tuned(10, "inputs per sample", **BASIS, rare="10 to 20 inputs per sample")
    equations_left: float = tuned(1.05, "x unknowns", **SCARCE)
    most_patterns: int = tuned(22, "samples", **SPHERE, rare="more samples than inputs times outputs")
    ridge: float = tuned(1e-6, "x mean diagonal", **SPHERE)
    ridge_double: float = tuned(1e-13, "x mean diagonal", **NORMS, rare="nearly equal samples in float64")
    hermite_zero: float = tuned(1e-6, "coefficient", **NORMS, rare=ROUNDING)


@dataclass(frozen=True)
class SpectralTuning:
    """Directions from second moments.

    Attributes:
        dense_dim: inputs up to which the d x d moment is formed; above, randomised subspace iteration.
        sweeps: of that iteration.
        spare: vectors that it carries beyond those that are wanted.
    """

    dense_dim: int = tuned(128, "inputs", **BASIS, rare="128 to 256 inputs")
    sweeps: int = tuned(2, "sweeps", **BASIS, rare="searches by subsets with more than 128 inputs")
    spare: int = tuned(4, "vectors", **BASIS, rare="searches by subsets with more than 128 inputs")


@dataclass(frozen=True)
class Rounds:
    """Rounds that exchange rows: add some, solve, drop as many, solve again.

    Attributes:
        tries: rounds at most.
        least_extra, samples_per_extra: a round adds one row per `samples_per_extra` samples, and at least
            `least_extra`.
        wide, narrow: stopping rules of the solve with the added rows and of the one after dropping them.
        wide_share: the wide solve also stops at this share of the residual it began with.
        max_left: a round must leave at most this share of the loss, or it was the last.
        cg, damping: of both solves; by default the solver's.
    """

    tries: int
    least_extra: int
    samples_per_extra: int
    wide: StoppingRule
    narrow: StoppingRule
    wide_share: float = 0.03
    max_left: float = 0.9
    cg: CGOptions | None = None
    damping: Damping | None = None


@dataclass(frozen=True)
class NoiseFloorTuning:
    """When a residual above rounding is a noise floor; a decision of trust.

    Attributes:
        max_residual: that a noise floor has.
        max_share: of the least contribution that the loss may be.
    """

    max_residual: float = tuned(0.3, "relative residual", **NETWORK)
    max_share: float = tuned(0.25, "x least contribution", **NETWORK)


@dataclass(frozen=True)
class MomentumTuning:
    """The cheap first phase of a start: heavy-ball steps on subsets.

    Attributes:
        remembered: steps over which the fall of the residual is measured.
        collapsed: residual of subsets at which nothing is left to find.
        window: steps whose median residual is compared.
        max_left: the residual is at rest if it is above this share of what it was `remembered` steps ago.
        replacements, most_replaced: how often rows are replaced in a start, and which share of them at most.
    """

    remembered: int = tuned(100, "steps", **SPHERE)
    collapsed: float = tuned(3e-6, "relative residual", **SPHERE)
    window: int = tuned(25, "steps", **SPHERE)
    max_left: float = tuned(0.9, "share", **SPHERE)
    replacements: int = tuned(4, "times", **SCARCE)
    most_replaced: float = tuned(0.125, "x rows", **SCARCE)


_FULL_SOLVE = StoppingRule(15, 1e-5, window=5)


@dataclass(frozen=True)
class SubsetTuning:
    """The search by subsets of coordinates.

    Attributes:
        momentum: its first phase.
        steps_per_start: on subsets, half of them with momentum at most.
        damping: of steps on subsets.
        more_damping: of starts whose rows resemble each other or that are slow.
        alike_above: mean |cosine| of rows that resemble each other (raw images have 0.7 to 0.95).
        slow_after, slow_above: a start is slow if after so many steps its residual is above this.
        cycle: steps after which the full equation is solved in any case.
        wait: steps between a full solve that failed and the next.
        recent: subset residuals whose median is compared.
        most_share: of all coordinates that a subset has at most.
        plenty_below: share of the coordinates in a subset below which there are plenty of equations.
        check_every, try_below: with plenty of equations, steps between checks, and the residual below which the full
            equation is solved.
        scarce_check_every, scarce_try_below: the same where equations are scarce.
        settled: relative change of the loss below which two full solves reached the same minimum.
        agreement: median |cosine| from which two sets of rows are the same.
        full_solve, freed: when full solves end, on the sphere and with free norms.
        rounds: that follow a full solve.
        least_norm, most_norm: between which free norms stay in steps on subsets.
        cg_steps: of a Gauss-Newton step on a subset.
        cg_tolerance, cg_tolerance_wide, wide_from: its tolerance, the one for many inputs, and how many those are.
        starts_on_part: starts on some of the coordinates before more of them are read.
    """

    momentum: MomentumTuning = MomentumTuning()
    steps_per_start: int = tuned(1800, "steps", **SCARCE)
    damping: float = tuned(0.015, "x mean Gauss-Newton matrix", **SPHERE)
    more_damping: float = tuned(0.1, "x mean Gauss-Newton matrix", **ALIKE)
    alike_above: float = tuned(0.4, "mean |cosine|", **ALIKE)
    slow_after: int = tuned(100, "steps", **SCARCE)
    slow_above: float = tuned(0.3, "relative residual", **SCARCE)
    cycle: int = tuned(300, "steps", **SCARCE)
    wait: int = tuned(60, "steps", **SCARCE)
    recent: int = tuned(5, "steps", **SCARCE)
    most_share: float = tuned(0.5, "x coordinates", **SCARCE)
    plenty_below: float = tuned(0.45, "x coordinates", **SCARCE)
    check_every: int = tuned(10, "steps", **SPHERE)
    try_below: float = tuned(0.06, "relative residual", **SPHERE)
    scarce_check_every: int = tuned(25, "steps", **SCARCE)
    scarce_try_below: float = tuned(0.03, "relative residual", **SCARCE)
    settled: float = tuned(1e-3, "x loss", **ROUNDED)
    agreement: float = tuned(0.99, "share", **ROUNDED)
    full_solve: StoppingRule = tuned(_FULL_SOLVE, "steps and residual", **SPHERE)
    freed: StoppingRule = tuned(StoppingRule(40, 1e-5, window=5), "steps and residual", **NORMS)
    rounds: Rounds = tuned(
        Rounds(4, 3, 8, wide=StoppingRule(12, 3e-4, window=5), narrow=_FULL_SOLVE), "rounds of a full solve", **SCARCE
    )
    least_norm: float = tuned(0.2, "x radius", **NORMS)
    most_norm: float = tuned(4.0, "x radius", **NORMS)
    cg_steps: int = tuned(10, "steps", **SCARCE)
    cg_tolerance: float = tuned(0.1, "relative residual", **SCARCE)
    cg_tolerance_wide: float = tuned(0.3, "relative residual", **LARGE, rare="more than 500 inputs, search by subsets")
    wide_from: int = tuned(500, "inputs", **LARGE, rare="more than 500 inputs, search by subsets")
    starts_on_part: int = tuned(2, "starts", **LARGE, rare=LARGE_ONLY)


@dataclass(frozen=True)
class BasisTuning:
    """The search in a basis that grows.

    Attributes:
        dims_per_sample, least_dims: inputs per sample, and inputs, from which it is used.
        steps: at most.
        first_directions: spectral directions of the first basis.
        spectral: how those are computed.
        extra_share, least_extra: extra rows: share of the samples, and at least.
        extra_above: residual below which extra rows are dropped in the first phase.
        extra_fall: the same in later phases, relative to the best residual before.
        equations, fewest_equations, most_equations: equations per unknown of a solve inside the basis: `equations`
            (d/n)^2, which makes it as cheap as a full pass, between two limits.
        stalled: a step that leaves more than this share of the least residual has stalled.
        stalls, phases: stalled steps that end a phase, and phases that end the search.
        solve, wide: when solves inside the basis end, without and with extra rows.
        cg: of those solves.
        half_above: residual above which V may be kept in half precision.
    """

    dims_per_sample: int = tuned(10, "inputs per sample", **BASIS)
    least_dims: int = tuned(256, "inputs", **BASIS)
    steps: int = tuned(150, "steps", **BASIS)
    first_directions: float = tuned(1.5, "x samples", **BASIS)
    spectral: SpectralTuning = SpectralTuning(sweeps=1, spare=0)
    extra_share: float = tuned(0.12, "x samples", **BASIS)
    least_extra: int = tuned(3, "rows", **BASIS)
    extra_above: float = tuned(5e-4, "relative residual", **BASIS)
    extra_fall: float = tuned(0.2, "x best residual", **BASIS, rare="searches that need a third phase")
    equations: float = tuned(0.004, "equations per unknown", **BASIS)
    fewest_equations: float = tuned(3.0, "equations per unknown", **BASIS)
    most_equations: float = tuned(15.0, "equations per unknown", **BASIS)
    stalled: float = tuned(0.93, "share", **BASIS)
    stalls: int = tuned(3, "steps", **BASIS)
    phases: int = tuned(6, "phases", **BASIS)
    solve: StoppingRule = tuned(StoppingRule(2, 1e-7, window=2, max_left=0.9), "steps and residual", **BASIS)
    wide: StoppingRule = tuned(StoppingRule(3, 1e-7, window=3, max_left=0.95), "steps and residual", **BASIS)
    cg: CGOptions = tuned(CGOptions(5, 0.1), "steps and tolerance", **BASIS)
    half_above: float = tuned(1e-2, "relative residual", **LARGE, rare="V beyond the memory budget")


_DIRECT = StoppingRule(150, 1e-6, window=4, max_left=0.995)
_DIRECT_CG = CGOptions(15, 0.1)


@dataclass(frozen=True)
class DirectTuning:
    """The search on all coordinates from random rows.

    Attributes:
        rule, on_sphere: when a start ends, and its part on the sphere if norms are free.
        cg: of its steps.
        near: residual below which rounds follow.
        rounds: that bring up samples still missing.
        starts_before_subsets: starts before the search by subsets takes over.
        starts, starts_within_budget: at most, of every search: by default, and with several outputs and a budget.
    """

    rule: StoppingRule = tuned(_DIRECT, "steps and residual", **OUTPUTS)
    on_sphere: StoppingRule = tuned(
        StoppingRule(75, 1e-6, window=3, max_left=0.97), "steps and residual", **OUTPUTS, rare="free norms"
    )
    cg: CGOptions = tuned(_DIRECT_CG, "steps and tolerance", **OUTPUTS)
    near: float = tuned(0.15, "relative residual", **OUTPUTS)
    rounds: Rounds = tuned(
        Rounds(
            4,
            2,
            20,
            wide=StoppingRule(15, 1e-6, window=4, max_left=0.97),
            narrow=_DIRECT,
            cg=_DIRECT_CG,
            damping=Damping(1e-3),
        ),
        "rounds at the end of a start",
        **OUTPUTS,
    )
    starts_before_subsets: int = tuned(1, "starts", **OUTPUTS)
    starts: int = tuned(8, "starts", **SCARCE)
    starts_within_budget: int = tuned(10_000, "starts", **OUTPUTS, rare="the budget ends searches first")


@dataclass(frozen=True)
class CountTuning:
    """How many samples; decisions of trust.

    Attributes:
        most_visible: eigenvalues that are compared with chance.
        null_draws: shuffled copies of the weights that give chance.
        rank_rounding, rank_gap: singular values of Theta: the least relative one, and the ratio that shows the rank.
        first_share, first_more: rows of the first search: so many times those visible, and so many more.
        growth: rows of the next search, relative to the last.
        least_ratio: equations per unknown below which no search for more rows begins.
        steps_per_start: of these searches.
        idle_share, times_loss: a row is examined if the root of its share of all contributions is below the first, and
            its contribution below the second times the loss.
        above_floor: a row is idle if its contribution is below this times the loss at the noise floor and the other
            rows alone reach that floor.
        twin_cosine: |cosine| from which two rows may share one sample.
        floor, drop: when the solves before and after dropping a row end.
        damping: of those solves.
        drop_tries: rounds after dropping a row.
        drop_starts, drop_steps: of the search that decides where rows may share samples.
    """

    most_visible: int = tuned(32, "eigenvalues", **COUNT)
    null_draws: int = tuned(3, "draws", **COUNT)
    rank_rounding: float = tuned(1e-6, "x largest singular value", **OUTPUTS, rare=ROUNDING)
    rank_gap: float = tuned(10.0, "ratio of singular values", **OUTPUTS, rare=ROUNDING)
    first_share: float = tuned(1.5, "x visible directions", **COUNT)
    first_more: int = tuned(2, "rows", **COUNT)
    growth: float = tuned(1.4, "x rows", **COUNT)
    least_ratio: float = tuned(1.25, "equations per unknown", **COUNT)
    steps_per_start: int = tuned(500, "steps", **COUNT)
    idle_share: float = tuned(1e-3, "root of the share of contributions", **COUNT)
    times_loss: float = tuned(100.0, "x loss", **COUNT)
    above_floor: float = tuned(10.0, "x loss", **COUNT)
    twin_cosine: float = tuned(0.98, "share", **COUNT)
    floor: StoppingRule = tuned(StoppingRule(8, 2e-6, window=2), "steps and residual", **COUNT)
    drop: StoppingRule = tuned(StoppingRule(25, 2e-6, window=5), "steps and residual", **COUNT)
    damping: Damping = tuned(Damping(1e-3), "x diagonal", **COUNT)
    drop_tries: int = tuned(2, "rounds", **COUNT)
    drop_starts: int = tuned(2, "starts", **COUNT)
    drop_steps: int = tuned(300, "steps", **COUNT)


@dataclass(frozen=True)
class ScheduleTuning:
    """How many coordinates are read.

    Attributes:
        in_basis, by_subsets: equations per unknown that are read first, by the search in a basis and by subsets.
        wider: how many times as many the next search reads.
        least_saving: all coordinates are read where a part saves less than this factor.
        small_matrix: entries of V below which all are read: calls cost more than products there.
        unread_margin: the residual on unread coordinates may be this many times that on the others.
    """

    in_basis: float = tuned(3.0, "equations per unknown", **LARGE, rare=LARGE_ONLY)
    by_subsets: float = tuned(5.0, "equations per unknown", **LARGE, rare=LARGE_ONLY)
    wider: float = tuned(2.0, "x coordinates", **LARGE, rare=LARGE_ONLY)
    least_saving: float = tuned(1.3, "x coordinates", **LARGE, rare=LARGE_ONLY)
    small_matrix: int = tuned(2**20, "entries of V", **LARGE, rare=LARGE_ONLY)
    unread_margin: float = tuned(3.0, "x residual", **LARGE, rare=LARGE_ONLY)


@dataclass(frozen=True)
class LastSampleTuning:
    """The last unknown sample by linear programming.

    Attributes:
        most_numbers, most_inputs: size up to which the program takes seconds.
        inactive: share of the largest rest below which a coordinate is inactive.
    """

    most_numbers: int = tuned(2_000_000, "numbers", **LAST, rare="programs of more than a million numbers")
    most_inputs: int = tuned(4096, "inputs", **LAST, rare="more than 2,048 inputs")
    inactive: float = tuned(1e-5, "x largest rest", **LAST, rare=ROUNDING)


@dataclass(frozen=True)
class UnmixTuning:
    """The search for columns of a ReLU layer's displacement.

    Attributes:
        zero: an entry below this many standard deviations of its rounding is zero.
        spare: zeros that a column must have beyond the rank, which any vector can be given.
        evidence: that a column's zeros are not chance, at least: -log p.
        leverage: that no zero may have in the equations for a column: without any one of them it must stay determined.
        batch: starts at a time.
        steps: alternations of a start.
        exponents: range of the power of inactivity in the weights, drawn for each start.
        uneven: most slack, in standard deviations, and largest power of a random factor, in these weights.
        levels: range of the size from which an entry counts as active, in mean sizes, drawn for each start.
        softness: of inactivity at the first step, in standard deviations of pre-activations; it falls to 0.
        reweightings: of the minimisation of the sum of powers of absolute values.
        coarse: size of entries, over the mean, that are smoothed at its first step.
        kept: weight of active neurons in it, over the largest.
        draws: subsets of neurons that are tried for each start.
        most_drawn: samples up to which they are.
        agrees: share of zeros and of other entries that an input must fit for a column to be kept.
        contradiction: share of its input's activation that may lie on a column's zeros, at both ends, but for one.
        hidden: what may lie there besides, over the share of entries that rounding hides.
        inactive: share of a column's zeros that its input must leave inactive, at one end at least.
        most_hidden: share of a column's entries that rounding may hide.
        repairs, ratios: mixtures that are repaired in a round, and neurons that are tried for each.
        mended: part of a contradiction that a repair may leave.
        refits: rounds that compute all columns again from their inputs.
        stalled: batches without a new column after which a found one, perhaps wrong, is dropped.
        starts, starts_per_sample: at most.
        distinct: part of a vector outside the span of others for which it counts as independent.
        bars: safety factor of the error bars.
        perturbations: repeated computations with noise for the error bars.
    """

    zero: float = tuned(6.0, "standard deviations", **COLUMNS)
    spare: int = tuned(4, "zeros", **COLUMNS)
    evidence: float = tuned(20.0, "nats", **COLUMNS)
    leverage: float = tuned(0.995, "share", **COLUMNS)
    batch: int = tuned(16, "starts", **COLUMNS, rare="limits memory; results change by chance")
    steps: int = tuned(30, "steps", **COLUMNS)
    exponents: tuple[float, float] = (0.5, 1.5)
    uneven: tuple[float, float] = (0.5, 2.0)
    levels: tuple[float, float] = (0.3, 0.8)
    softness: float = tuned(0.5, "standard deviations", **COLUMNS)
    reweightings: int = tuned(36, "steps", **COLUMNS)
    coarse: float = tuned(0.1, "x mean entry", **COLUMNS)
    kept: float = tuned(0.02, "x largest weight", **COLUMNS)
    draws: int = tuned(6, "subsets", **COLUMNS)
    most_drawn: int = tuned(40, "samples", **COLUMNS, rare="more than 20 samples")
    agrees: float = tuned(0.7, "share", **COLUMNS)
    contradiction: float = tuned(2e-3, "share", **COLUMNS)
    hidden: float = tuned(4.0, "x hidden share", **COLUMNS, rare="weights rounded to 16 bits")
    inactive: float = tuned(0.9, "share", **COLUMNS)
    most_hidden: float = tuned(0.5, "share", **COLUMNS, rare="weights rounded to 16 bits")
    mended: float = tuned(0.8, "share", **COLUMNS, rare="mixtures of two columns")
    repairs: int = tuned(40, "columns", **COLUMNS)
    ratios: int = tuned(24, "neurons", **COLUMNS)
    refits: int = tuned(6, "rounds", **COLUMNS)
    stalled: int = tuned(40, "batches", **COLUMNS)
    starts: int = tuned(2000, "starts", **COLUMNS)
    starts_per_sample: int = tuned(50, "starts per sample", **COLUMNS, rare="more than 20 samples")
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
