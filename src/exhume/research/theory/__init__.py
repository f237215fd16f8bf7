"""All checks in one run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from exhume.theory import hermite, kernel, recovery, uniform, wall
from exhume.theory.check import Check

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
    partial(recovery.residual_follows_error, "relu"),
    partial(recovery.residual_follows_error, "waves"),
    lambda seed: recovery.signs(seed=seed),
    partial(wall.open_directions, "waves"),
    partial(wall.other_solutions, "waves"),
    partial(uniform.deviation_in_width, "18", "waves"),
    partial(uniform.deviation_in_dim, "18", "waves"),
    partial(uniform.deviation_in_width, "20", "waves"),
    partial(uniform.deviation_in_dim, "20", "waves"),
    partial(uniform.deviation_in_width, "21", "waves"),
    partial(uniform.deviation_in_dim, "21", "waves"),
    partial(uniform.deviation_in_width, "22", "waves"),
    partial(uniform.deviation_in_dim, "22", "waves"),
)


def verify(seed: int = 0, progress: Progress | None = None) -> list[Check]:
    """Test numerically what Theorem 1 rests on, and what it says.

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
