"""Several attacks on one victim, side by side, and the flat row of numbers that every table of results uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from exhume.attacks import Attack
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.scoring.against_truth import Score
from exhume.support import text
from exhume.target.target import Target

# The similarity above which a recovered image counts as good.
GOOD_SSIM = 0.4
_NOTHING = "-"
_ERRORS = ("error", "error_up_to_sign")

# The columns of `row`: numbers of the score, counts of its lists, fields of the result and of its certificate.
_LISTS = {"duplicates": "duplicates", "strays": "strays", "known_samples": "known"}
_OF_SCORE = (
    "claimed_error",
    "claimed_recovered",
    *(each.name for each in fields(Score) if each.name not in ("matches", "num_rows", "baseline", *_LISTS.values())),
)
_OF_RESULT = ("method", "signs_determined", "steps", "passes", "seconds", "options", "target")
_OF_CERTIFICATE = ("verdict", "residual", "predicted_error", "equations", "unknowns")


@dataclass(frozen=True)
class Entry:
    """One attack of a comparison.

    Attributes:
        method: its name.
        result: what it recovered; None if it did not run.
        reused: whether that is an earlier result.
        score: of the result against the truth; None if it was not scored.
        reason: why there is no result, or no score.
    """

    method: str
    result: Reconstruction | None = None
    reused: bool = False
    score: Score | None = None
    reason: str = ""

    @property
    def good_pictures(self) -> int | None:
        """How many samples have an SSIM above GOOD_SSIM; None if the samples are not images."""
        if self.score is None or self.score.ssim is None:
            return None
        return sum(match.ssim is not None and match.ssim > GOOD_SSIM for match in self.score.matches)

    def to_json(self) -> dict[str, Any]:
        """The entry's `row` and how it came about, as plain JSON; null where there is nothing."""
        return row(self.result, self.score) | {
            "method": self.method,
            "ran": self.result is not None,
            "reused": self.reused,
            "reason": self.reason or None,
            "good_pictures": self.good_pictures,
        }


def row(result: Reconstruction | None, score: Score | None) -> dict[str, Any]:
    """The numbers of a result and of its score as one flat row of plain values; None where there is nothing.

    Every table takes its columns from here: comparisons, sweeps, defences and the JSON of audits.
    """
    names = (*_OF_SCORE, *_LISTS, *_OF_RESULT, *_OF_CERTIFICATE, "num_rows", "stop", "knowledge")
    flat: dict[str, Any] = dict.fromkeys(names)
    if score is not None:
        flat |= {name: getattr(score, name) for name in _OF_SCORE}
        flat |= {name: len(getattr(score, field)) for name, field in _LISTS.items()}
    if result is not None:
        flat |= {name: getattr(result, name) for name in _OF_RESULT}
        flat |= {name: getattr(result.certificate, name) for name in _OF_CERTIFICATE}
        flat |= {"num_rows": len(result.samples), "stop": result.stop.value, "knowledge": result.knowledge.to_json()}
    return flat


def same_run(result: Reconstruction, attack: Attack, target: Target, *, seed: int, max_passes: float) -> bool:
    """Whether a result is what this attack would compute now, so that it need not run again.

    Target, options, seed and knowledge must be the same, and so must the budget of passes, unless the attack stopped by
    itself within the budget that is given now. A result that ran out of time is not kept.
    """
    now = (target.fingerprint, asdict(attack), seed, target.knowledge)
    if (result.target, result.options, result.seed, result.knowledge) != now or result.stop is Stop.TIME_LIMIT:
        return False
    stopped_by_itself = result.stop is not Stop.PASS_LIMIT and result.passes <= max_passes
    budget = math.inf if result.max_passes is None else result.max_passes
    return stopped_by_itself or budget == max_passes


def table(entries: Sequence[Entry]) -> str:
    """The attacks that ran as aligned text, a line each, and notes below: also why the others did not run."""
    ran = [entry for entry in entries if entry.result is not None]
    pictures = any(entry.good_pictures is not None for entry in entries)
    header = ["method", "error", "up to sign", "recovered", *(["SSIM", f"above {GOOD_SSIM}"] if pictures else [])]
    header += ["passes", "seconds", "verdict", "equations", "unknowns"]
    drawn = [text.table(header, [_cells(entry, pictures) for entry in ran])] if ran else []
    return "\n".join(drawn + [note for entry in entries for note in _notes(entry)])


def _cells(entry: Entry, pictures: bool) -> list[str]:
    """A line of the table, of an attack that ran."""
    numbers = row(entry.result, entry.score) | {"good": entry.good_pictures}
    cells = [entry.method, *(_NOTHING if numbers[name] is None else f"{numbers[name]:.2g}" for name in _ERRORS)]
    cells.append(_NOTHING if entry.score is None else f"{entry.score.recovered} of {entry.score.num_samples}")
    if pictures:
        cells += [_NOTHING, _NOTHING] if numbers["ssim"] is None else [f"{numbers['ssim']:.3f}", str(numbers["good"])]
    cells += [f"{numbers['passes']:,.0f}", f"{numbers['seconds']:.1f}", numbers["verdict"]]
    return [*cells, f"{numbers['equations']:,}", f"{numbers['unknowns']:,}"]


def _notes(entry: Entry) -> list[str]:
    """Sentences below the table on one attack: reuse, rows too many or too few, signs."""
    score, result = entry.score, entry.result
    notes = []
    if entry.reason:
        notes.append(f"not {'run' if result is None else 'scored'}: {entry.reason}")
    if entry.reused:
        notes.append("an earlier result, not run again")
    if score is not None and score.num_rows != score.num_samples:
        extras = f"{len(score.duplicates)} repeat a sample, {len(score.strays)} resemble none"
        notes.append(f"{score.num_rows} rows for {score.num_samples} samples: {score.missing} missing, {extras}")
    if score is not None and score.recovered_up_to_sign > score.recovered:
        notes.append(f"{score.recovered_up_to_sign} of {score.num_samples} recovered up to sign")
    return [f"  {entry.method}: {note}" for note in notes]
