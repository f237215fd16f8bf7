"""Several attacks on one victim, side by side: what each recovered, how good it is and what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from exhume.attacks import Attack
from exhume.errors import FileError
from exhume.reconstruction import Reconstruction, Stop
from exhume.runs import RunFolder
from exhume.scoring import Score
from exhume.target import Target

# The similarity above which a recovered picture counts as good.
GOOD_SSIM = 0.4
_NOTHING = "-"


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
        """How many samples have an SSIM above GOOD_SSIM; None without pictures."""
        if self.score is None or self.score.ssim is None:
            return None
        return sum(match.ssim is not None and match.ssim > GOOD_SSIM for match in self.score.matches)

    def to_json(self) -> dict[str, Any]:
        """Everything the table shows, as plain JSON; null where there is nothing."""
        score, result = self.score, self.result
        value: dict[str, Any] = {
            "method": self.method,
            "ran": result is not None,
            "reused": self.reused,
            "reason": self.reason or None,
            "error": score and score.error,
            "error_up_to_sign": score and score.error_up_to_sign,
            "recovered": score and score.recovered,
            "recovered_up_to_sign": score and score.recovered_up_to_sign,
            "num_samples": score and score.num_samples,
            "known_samples": score and len(score.known),
            "num_rows": result and len(result.samples),
            "ssim": score and score.ssim,
            "good_pictures": self.good_pictures,
        }
        certificate = result and result.certificate
        return value | {
            "passes": result and result.passes,
            "seconds": result and result.seconds,
            "verdict": certificate and certificate.verdict,
            "stop": result and result.stop.value,
            "equations": certificate and certificate.equations,
            "unknowns": certificate and certificate.unknowns,
            "predicted_error": certificate and certificate.predicted_error,
            "options": result and result.options,
            "knowledge": result and result.knowledge.to_json(),
        }


def earlier(
    folder: RunFolder, attack: Attack, target: Target, *, seed: int, max_passes: float
) -> Reconstruction | None:
    """The result that the folder holds already of this very run; None if there is none.

    Target, options, seed and knowledge must be the same, and so must the budget of passes, unless the attack ended by
    itself within the one that is asked for now. One that ran out of time is run again.
    """
    try:
        result = folder.load_result(attack.name)
    except FileError:
        return None
    now = (target.fingerprint, asdict(attack), seed, target.knowledge)
    if (result.target, result.options, result.seed, result.knowledge) != now:
        return None
    budget = math.inf if result.max_passes is None else result.max_passes
    if result.stop is Stop.TIME_LIMIT:
        return None
    ended = result.stop is not Stop.PASS_LIMIT and result.passes <= max_passes
    return result if ended or budget == max_passes else None


def table(entries: Sequence[Entry]) -> str:
    """The entries as aligned text, a line each; below it what else there is to say of some."""
    pictures = any(entry.good_pictures is not None for entry in entries)
    header = ["method", "error", "up to sign", "recovered", *(["SSIM", f"above {GOOD_SSIM}"] if pictures else [])]
    header += ["passes", "seconds", "verdict", "equations", "unknowns"]
    cells = {entry.method: _cells(entry, pictures) for entry in entries if entry.result is not None}
    widths = [max(map(len, column)) for column in zip(header, *cells.values(), strict=True)]
    widths[0] = max(len("method"), *(len(entry.method) for entry in entries))
    lines = [_line(header, widths)]
    for entry in entries:
        refused = f"{entry.method:<{widths[0]}}  not run: {entry.reason}"
        lines.append(_line(cells[entry.method], widths) if entry.method in cells else refused)
    return "\n".join(lines + [note for entry in entries for note in _notes(entry)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _cells(entry: Entry, pictures: bool) -> list[str]:
    """A line of the table, of an attack that ran."""
    score, result, good = entry.score, entry.result, entry.good_pictures
    assert result is not None
    cells = [entry.method, _NOTHING, _NOTHING, _NOTHING]
    if score is not None:
        recovered = f"{score.recovered} of {score.num_samples}"
        cells = [entry.method, f"{score.error:.2g}", f"{score.error_up_to_sign:.2g}", recovered]
    if pictures:
        shown = score is not None and score.ssim is not None
        cells += [f"{score.ssim:.3f}", str(good)] if score is not None and shown else [_NOTHING, _NOTHING]
    certificate = result.certificate
    cells += [f"{result.passes:,.0f}", f"{result.seconds:.1f}", certificate.verdict]
    return [*cells, f"{certificate.equations:,}", f"{certificate.unknowns:,}"]


def _notes(entry: Entry) -> list[str]:
    """What a line of the table has no room for."""
    score, result = entry.score, entry.result
    notes = []
    if result is not None and entry.reason:
        notes.append(f"not scored: {entry.reason}")
    if entry.reused:
        notes.append("an earlier result, not run again")
    if score is not None and score.num_rows != score.num_samples:
        extras = f"{len(score.duplicates)} repeat a sample, {len(score.strays)} resemble none"
        notes.append(f"{score.num_rows} rows for {score.num_samples} samples: {score.missing} missing, {extras}")
    if score is not None and score.recovered_up_to_sign > score.recovered:
        notes.append(f"{score.recovered_up_to_sign} of {score.num_samples} recovered up to sign")
    return [f"  {entry.method}: {note}" for note in notes]
