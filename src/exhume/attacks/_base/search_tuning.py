"""Tuned numbers of the searches for samples: the equation, spectra, rounds, and each search."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks._base.tuning_suites import (
    ALIKE,
    BASIS,
    DRIFTING,
    LARGE,
    LARGE_ONLY,
    NETWORK,
    NORMS,
    OUTPUTS,
    ROUNDED,
    ROUNDING,
    SCARCE,
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
        turned: times the loss, up to which the negative of a row is tried in its place.
        cg, damping: of both solves; by default the solver's.
    """

    tries: int
    least_extra: int
    samples_per_extra: int
    wide: StoppingRule
    narrow: StoppingRule
    wide_share: float = 0.03
    max_left: float = 0.9
    turned: float = 10.0
    cg: CGOptions | None = None
    damping: Damping | None = None


@dataclass(frozen=True)
class NoiseFloorTuning:
    """When a residual above rounding is a noise floor; a decision of trust.

    Attributes:
        max_residual: that a noise floor has.
        max_share: of the least contribution that the loss may be.
        max_excess: times the residual that the estimated drift leaves, up to which drift explains a residual.
        same: relative difference of the losses of two starts that reached the same minimum.
    """

    max_residual: float = tuned(0.3, "relative residual", **NETWORK)
    max_share: float = tuned(0.25, "x least contribution", **NETWORK)
    max_excess: float = tuned(1.5, "x residual of the drift", **DRIFTING)
    same: float = tuned(0.02, "relative difference", **DRIFTING)


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
        starts_before_basis: starts before the search in a basis takes over.
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
    starts_before_basis: int = tuned(1, "starts", **OUTPUTS)
    starts: int = tuned(8, "starts", **SCARCE)
    starts_within_budget: int = tuned(10_000, "starts", **OUTPUTS, rare="the budget ends searches first")
