"""Numerical tests of the statements that the theorems rest on: measured exponents beside the predicted ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from exhume.research.theory import hermite, kernel, span_recovery, uniform, wall, wall_of_outputs
from exhume.research.theory.setting import Check, fit_exponent

__all__ = ["Check", "fit_exponent", "verify"]

Progress = Callable[[int, int], None]

# In the order of the argument: the activation, the kernel, the span, the wall, and the lemma that bounds deviations.
CHECKS: tuple[Callable[[int], Check], ...] = (
    lambda seed: hermite.coefficients(),
    lambda seed: hermite.parities(),
    partial(kernel.concentration, "relu"),
    partial(kernel.concentration, "waves"),
    partial(kernel.smallest_eigenvalue, "relu"),
    partial(kernel.smallest_eigenvalue, "waves"),
    partial(kernel.smallest_eigenvalue_jointly, "waves"),
    partial(span_recovery.residual_follows_error, "relu"),
    partial(span_recovery.residual_follows_error, "waves"),
    lambda seed: span_recovery.signs(seed=seed),
    partial(wall.open_directions, "waves"),
    partial(wall.other_solutions, "waves"),
    partial(wall_of_outputs.fewest_features, "relu"),
    partial(wall_of_outputs.fewest_features, "gelu"),
    *(
        partial(deviation, equation, "waves")
        for equation in uniform.EQUATIONS
        for deviation in (uniform.deviation_in_width, uniform.deviation_in_dim)
    ),
)


def verify(seed: int = 0, progress: Progress | None = None) -> list[Check]:
    """Tests numerically the statements that Theorem 1 rests on, and the theorem itself.

    Args:
        seed: of all samples, features and starts; the Hermite coefficients have none.
        progress: called with the number of checks done and of all, after each.

    Returns:
        The checks, passed or not; the same for the same seed.
    """
    done = []
    for check in CHECKS:
        done.append(check(seed))
        if progress is not None:
            progress(len(done), len(CHECKS))
    return done
