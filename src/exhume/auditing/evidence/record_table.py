"""Recovered samples as a table, one row each: how sure the attack is, and what the truth says."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from exhume.auditing.batch import Audited
from exhume.auditing.result import Audit
from exhume.results.certificate import RECOVERED_BELOW
from exhume.scoring.findings import NOT_TRUSTED, certainties

COLUMNS = (
    "model",
    "method",
    "row",
    "certified",
    "certainty",
    "error_bar",
    "matched_index",
    "error",
    "error_up_to_sign",
    "recovered",
    "p_value",
    "rank",
    "rank_of",
)


def record_table(audits: Sequence[Audited]) -> str:
    """A CSV text with a row for each sample that an attack returned; it holds no values of samples.

    What was not measured is empty: `error_bar` without a certificate, the columns from `matched_index` on without the
    truth or for a row that matches no true sample, and `p_value`, `rank` and `rank_of` without held-out data.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for each in audits:
        if each.audit is not None:
            writer.writerows(_rows(each.audit))
    return text.getvalue()


def _rows(audited: Audit) -> Iterator[dict[str, Any]]:
    result, score = audited.result, audited.score
    if result is None:
        return
    bars = result.certificate.predicted_errors
    matches = {} if score is None else {match.row: place for place, match in enumerate(score.matches)}
    for row, certainty in enumerate(certainties(result)):
        values: dict[str, Any] = {
            "model": audited.settings.title,
            "method": result.method,
            "row": row,
            "certified": _word(certainty != NOT_TRUSTED),
            "certainty": certainty,
            "error_bar": f"{bars[row]:.6g}" if len(bars) == len(result.samples) else "",
        }
        if score is not None and row in matches:
            place = matches[row]
            match, error = score.matches[place], score.claimed_errors[place]
            values |= {
                "matched_index": match.truth_index,
                "error": f"{match.error:.6g}",
                "error_up_to_sign": f"{match.error_up_to_sign:.6g}",
                "recovered": _word(error < RECOVERED_BELOW),
            }
            if score.baseline is not None and score.baseline.ranks:
                values |= {
                    "p_value": f"{score.baseline.p_values[place]:.6g}",
                    "rank": score.baseline.ranks[place],
                    "rank_of": score.baseline.non_members + 1,
                }
        yield values


def _word(value: bool) -> str:
    return "yes" if value else "no"
