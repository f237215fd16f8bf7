"""Every tuned number of the attacks: its unit, the problem on which it was set, and the suite that shows its effect.

`python -m benches sensitivity` halves and doubles each of them. An attack carries its `Tuning` as a class attribute and
passes it on in `Problem.tuning`.
"""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks._base.count_tuning import CountTuning, LastSampleTuning, ScheduleTuning
from exhume.attacks._base.greedy_tuning import GreedyTuning
from exhume.attacks._base.layers_tuning import LayersTuning
from exhume.attacks._base.output_tuning import AnnealingTuning, FeatureTuning, IndependentTuning
from exhume.attacks._base.search_tuning import (
    BasisTuning,
    DirectTuning,
    EquationTuning,
    NoiseFloorTuning,
    SpectralTuning,
    SubsetTuning,
)
from exhume.attacks._base.tuning_suites import DRIFTING, INSIDE, LARGE, NETWORK, NORMS, ROUNDED, SPHERE
from exhume.attacks._base.unmix_tuning import SmoothTuning, UnmixTuning
from exhume.solvers import CGOptions, Damping, StoppingRule
from exhume.support.tuning import tuned


@dataclass(frozen=True)
class PolishTuning:
    """Solving the model's own equation to the floor of the precision.

    Attributes:
        cheap_in_double: entries of V up to which samples of a float32 victim are polished in float64.
        steps: at most, in each precision.
        cg, cg_double, cg_large: conjugate gradients in float32, float64, and where float64 is not cheap.
        damping, damping_double: of the first step and the least, in float32 and float64.
        ridge, ridge_double: added to the diagonal of Phi Phi^T.
        tolerance, tolerance_double: residual at which it ends.
        max_left, max_left_large: a step that leaves more than this share of the loss has reached noise.
        norms, norms_double: when the fit with free norms ends, in float32 and float64.
        norms_cg: of that fit.
        refine, refine_cg: of rows that were not found, before their signs are decided.
    """

    cheap_in_double: int = tuned(2**24, "entries of V", **LARGE, rare="more than 2^24 entries of V")
    steps: int = tuned(12, "steps", **SPHERE)
    cg: CGOptions = tuned(CGOptions(20, 0.03), "steps and tolerance", **SPHERE)
    cg_double: CGOptions = tuned(CGOptions(40, 0.01), "steps and tolerance", **SPHERE)
    cg_large: CGOptions = tuned(CGOptions(10, 0.1), "steps and tolerance", **LARGE, rare="more than 2^24 entries of V")
    damping: Damping = tuned(Damping(1e-4, least=1e-7), "x diagonal", **SPHERE)
    damping_double: Damping = tuned(Damping(1e-6, least=1e-12), "x diagonal", **SPHERE)
    ridge: float = tuned(1e-7, "x mean diagonal", **SPHERE, rare="nearly equal samples")
    ridge_double: float = tuned(1e-13, "x mean diagonal", **SPHERE, rare="nearly equal samples")
    tolerance: float = tuned(1e-7, "relative residual", **SPHERE)
    tolerance_double: float = tuned(1e-13, "relative residual", **SPHERE)
    max_left: float = tuned(0.5, "x loss", **ROUNDED)
    max_left_large: float = tuned(0.25, "x loss", **LARGE, rare="more than 2^24 entries of V")
    norms: StoppingRule = tuned(
        StoppingRule(30, 1e-7, window=6, max_left=0.5), "steps and residual", **NORMS, rare="large V, free norms"
    )
    norms_double: StoppingRule = tuned(StoppingRule(30, 1e-11, window=6, max_left=0.5), "steps and residual", **NORMS)
    norms_cg: CGOptions = tuned(CGOptions(40, 0.03), "steps and tolerance", **NORMS)
    refine: StoppingRule = tuned(StoppingRule(8, window=3), "steps and residual", **ROUNDED)
    refine_cg: CGOptions = tuned(CGOptions(20, 0.03), "steps and tolerance", **ROUNDED)


@dataclass(frozen=True)
class TrustTuning:
    """Decisions about samples that were found.

    Attributes:
        structure_margin: factor by which the residual's eigenvalues must exceed those of noise to be structure.
        blind_residual: residual up to which a minimum is trusted where structure in it could not be seen.
        patterns_at_a_time: patterns of signs that are compared at once.
        better: how many times better than any other a pattern of signs must fit.
        clear: distance to -1 or +1 up to which a sign solved for is decided.
        misfit: relative misfit of the outputs up to which norms and labels are read off them.
    """

    structure_margin: float = tuned(1.15, "x eigenvalue of noise", **ROUNDED)
    blind_residual: float = tuned(0.05, "relative residual", **ROUNDED, rare="odd activations with rounded weights")
    patterns_at_a_time: int = tuned(2**17, "patterns", **SPHERE, rare="limits memory, not results")
    better: float = tuned(30.0, "x misfit", **SPHERE, rare="more samples than inputs times outputs")
    clear: float = tuned(0.25, "distance to +-1", **SPHERE)
    misfit: float = tuned(0.05, "x outputs", **NETWORK)


@dataclass(frozen=True)
class DriftTuning:
    """First-order drift correction.

    Attributes:
        rounds: corrections at most.
        ridge: added to the diagonal of Phi Phi^T.
        max_left: share of the loss that a correction may leave, or the body did not move like that.
        first_order: relative change of a sample at which later terms of the drift may leave as much as the first one.
        rule, cg, damping: of the solves.
    """

    rounds: int = tuned(3, "rounds", **NETWORK)
    ridge: float = tuned(1e-7, "x mean diagonal", **NETWORK, rare="nearly equal samples")
    first_order: float = tuned(0.05, "relative change", **DRIFTING)
    max_left: float = tuned(0.8, "share", **NETWORK)
    rule: StoppingRule = tuned(StoppingRule(8, 1e-7, window=2, max_left=0.9), "steps and residual", **NETWORK)
    cg: CGOptions = tuned(CGOptions(20, 0.03), "steps and tolerance", **NETWORK)
    damping: Damping = tuned(Damping(1e-3), "x diagonal", **NETWORK)


@dataclass(frozen=True)
class RetraceTuning:
    """Retracing the training of a two-layer network.

    Attributes:
        near: residual below which retracing begins.
        rounds: simulated trainings at most.
        max_left: share of the residual that a round may leave, or the retracing ends.
        max_left_in_all: share that all rounds may leave, or the training was not like that.
        rule, cg, damping: of the solves.
        ridge: added to the diagonal of Phi Phi^T.
        least_steps, most_steps: of a simulated training.
        finer: factor between the step sizes that are tried, three of them.
        caution: safety factor of the drift error estimate: error = factor x (residual after / before the endpoint
            average) x (change of the sample).
        ends, ends_cg, ends_ridge: of the solve with the mean of initial and trained features.
        polish: of the solve in all dimensions that may follow.
    """

    near: float = tuned(0.3, "relative residual", **INSIDE)
    rounds: int = tuned(16, "rounds", **INSIDE)
    max_left: float = tuned(0.9, "share", **INSIDE)
    max_left_in_all: float = tuned(0.8, "share", **INSIDE)
    rule: StoppingRule = tuned(StoppingRule(10, 1e-11, window=2, max_left=0.9), "steps and residual", **INSIDE)
    cg: CGOptions = tuned(CGOptions(40, 0.01), "steps and tolerance", **INSIDE)
    damping: Damping = tuned(Damping(1e-3, least=1e-10), "x diagonal", **INSIDE)
    ridge: float = tuned(1e-11, "x mean diagonal", **INSIDE, rare="nearly equal samples")
    least_steps: int = tuned(100, "steps", **INSIDE)
    most_steps: int = tuned(100_000, "steps", **INSIDE, rare="trainings of more than 50,000 steps")
    finer: float = tuned(0.2, "x step size", **INSIDE)
    caution: float = tuned(2.0, "x estimated error", **INSIDE)
    ends: StoppingRule = tuned(StoppingRule(40, 1e-10, window=4, max_left=0.97), "steps and residual", **INSIDE)
    ends_cg: CGOptions = tuned(CGOptions(30, 0.03), "steps and tolerance", **INSIDE)
    ends_ridge: float = tuned(1e-10, "x mean diagonal", **INSIDE, rare="nearly equal samples")
    polish: StoppingRule = tuned(
        StoppingRule(60, 1e-6, window=6, max_left=0.9), "steps and residual", **INSIDE, rare="`polish=True`"
    )


@dataclass(frozen=True)
class Tuning:
    """All tuned numbers of an attack; `found` is the relative residual at which samples are found."""

    found: float = tuned(3e-5, "relative residual", **SPHERE)
    equation: EquationTuning = EquationTuning()
    spectral: SpectralTuning = SpectralTuning()
    noise_floor: NoiseFloorTuning = NoiseFloorTuning()
    subsets: SubsetTuning = SubsetTuning()
    basis: BasisTuning = BasisTuning()
    direct: DirectTuning = DirectTuning()
    count: CountTuning = CountTuning()
    schedule: ScheduleTuning = ScheduleTuning()
    last_sample: LastSampleTuning = LastSampleTuning()
    polish: PolishTuning = PolishTuning()
    trust: TrustTuning = TrustTuning()
    drift: DriftTuning = DriftTuning()
    retrace: RetraceTuning = RetraceTuning()
    unmix: UnmixTuning = UnmixTuning()
    smooth: SmoothTuning = SmoothTuning()
    features: FeatureTuning = FeatureTuning()
    independent: IndependentTuning = IndependentTuning()
    annealing: AnnealingTuning = AnnealingTuning()
    greedy: GreedyTuning = GreedyTuning()
    layers: LayersTuning = LayersTuning()


DEFAULT_TUNING = Tuning()
