"""Outcome and exit code of audits that find, miss or do not test, with and without the truth: a part of a bench."""

import pytest
from benches.audits import CASES, codes, run

from exhume.report import Level
from exhume.scoring.outcome import Outcome

CHEAP = [case for case in CASES if case.cheap]


@pytest.mark.parametrize("with_truth", [True, False], ids=["truth", "no truth"])
@pytest.mark.parametrize("case", CHEAP, ids=lambda case: case.name)
def test_an_audit_ends_with_the_outcome_that_was_shown(case, with_truth):
    audited = run(case, with_truth)
    assert audited.outcome is case.expected[not with_truth]
    without, with_threshold = codes(audited, with_truth)
    if audited.outcome in (Outcome.NOT_RECOVERED, Outcome.INCONCLUSIVE):
        assert (without, with_threshold) == (3, 3)
    green = audited.report.verdict.level is Level.OUT_OF_REACH
    assert green == (audited.outcome is Outcome.NOT_RECOVERABLE)
    assert not green or audited.count.shows_too_few
