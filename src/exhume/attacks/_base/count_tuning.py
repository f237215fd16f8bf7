"""Tuned numbers of the count of samples, of the coordinates that are read, and of the last unknown sample."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks._base.tuning_suites import COUNT, LARGE, LARGE_ONLY, LAST, OUTPUTS, ROUNDING
from exhume.solvers import Damping, StoppingRule
from exhume.support.tuning import tuned


@dataclass(frozen=True)
class CountTuning:
    """How many samples; decisions of trust.

    Attributes:
        most_visible: eigenvalues that are compared with chance.
        null_draws: shuffled copies of the weights that give chance.
        rank_rounding, rank_gap: singular values of Theta: the least relative one, and the ratio that shows the rank.
        mean_cosine: |cosine| from which the direction that Theta lacks is the mean of the outputs.
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
    mean_cosine: float = tuned(0.99, "|cosine|", **OUTPUTS, rare="heads trained with cross-entropy, n unknown")
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
