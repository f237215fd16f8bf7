"""A ladder of sample counts, for a model of which nobody knows how many samples it was trained on.

Counts rise by half until the equations no longer suffice. Where the loss of one count converges and that of the count
before does not, the smallest count that converges is searched for between them. Certificates alone decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from exhume import attacks
from exhume.results.certificate import EXACT
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.scoring.findings import NOT_TRUSTED, certainties

# A count is this factor times the one before.
_FACTOR = 1.5
# Rungs that may fail above one that converged before the ladder ends.
_FAILURES_ABOVE = 1

# Attacks with so many samples, passes and seconds; None if the attack cannot be run.
RunWith = Callable[[int, float, float], Reconstruction | None]


@dataclass(frozen=True)
class Rung:
    """What an attack found when it looked for so many samples.

    Attributes:
        num_samples: how many it looked for.
        verdict: of the certificate.
        certified: certified samples.
        residual: share of the displacement that was left unexplained.
        stop: why it ended.
    """

    num_samples: int
    verdict: str
    certified: int
    residual: float
    stop: str


def climb(
    run_with: RunWith, most: int, max_passes: float, max_seconds: float
) -> tuple[Reconstruction | None, tuple[Rung, ...]]:
    """Tries counts up to `most` within a budget, and returns the result with the best certificate and all rungs."""
    ends_at, results = time.monotonic() + max_seconds, dict[int, Reconstruction]()

    def tried(count: int, left: int) -> Reconstruction | None:
        """Attacks with a count; it gets an equal part of what is left of the budget, with `left` more to come."""
        seconds = ends_at - time.monotonic()
        passes = max_passes - sum(result.passes for result in results.values())
        if seconds <= 0 or passes <= 0:
            return None
        result = run_with(count, passes / left, seconds / left)
        if result is not None:
            results[count] = result
        return result

    counts = list(rungs(most))
    for place, count in enumerate(counts):
        result = tried(count, len(counts) - place)
        if result is not None and result.certificate.verdict == EXACT:
            break
        if _failures_above(results) > _FAILURES_ABOVE:
            break
    gap = _gap(results)
    while gap is not None:
        low, high = gap
        result = tried((low + high) // 2, max((high - low).bit_length() - 1, 1))
        if result is None:
            break
        gap = _gap(results)
    found = min(results.values(), key=attacks.order, default=None)
    return found, tuple(_rung(count, results[count]) for count in sorted(results))


def rungs(most: int) -> Iterator[int]:
    """1, 2, 3, 5, 8, ... up to `most`, which is the last."""
    count = 1
    while count < most:
        yield count
        count = max(count + 1, round(_FACTOR * count))
    yield most


def dependence(ladder: tuple[Rung, ...]) -> str:
    """How the verdict depends on the number of samples, in a sentence."""
    told = "; ".join(
        f"{each.num_samples}: {each.verdict}, {each.certified} certified, residual {each.residual:.1e}"
        for each in ladder
    )
    return f"The number of samples was not known. By the number that was looked for: {told}."


def _converged(result: Reconstruction) -> bool:
    return result.stop is Stop.CONVERGED


def _failures_above(results: dict[int, Reconstruction]) -> int:
    """Counts tried above the smallest one that converged; 0 if none did."""
    least = min((count for count, result in results.items() if _converged(result)), default=None)
    return 0 if least is None else sum(count > least for count in results)


def _gap(results: dict[int, Reconstruction]) -> tuple[int, int] | None:
    """Neighbouring counts with others between them, the upper of which is the smallest that converged."""
    for low, high in pairwise([0, *sorted(results)]):
        if _converged(results[high]):
            return (low, high) if high - low > 1 and low else None
    return None


def _rung(count: int, result: Reconstruction) -> Rung:
    certified = sum(word != NOT_TRUSTED for word in certainties(result))
    return Rung(count, result.certificate.verdict, certified, result.certificate.residual, result.stop.value)
