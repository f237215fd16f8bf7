"""Exit codes of audits: the whole table of outcomes and thresholds."""

import pytest

from exhume.auditing.exit_code import exit_code, worst
from exhume.scoring.outcome import Outcome

# Without a threshold; reached; measured and not reached; not measurable.
TABLE = {
    Outcome.RECOVERED: (0, 1, 0, 3),
    Outcome.NOT_RECOVERED: (3, 1, 3, 3),
    Outcome.INCONCLUSIVE: (3, 1, 3, 3),
    Outcome.NOT_RECOVERABLE: (0, 1, 0, 0),
}
STATES = ([], [True], [False], [None])


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_the_exit_codes_of_the_table(outcome):
    assert tuple(exit_code(outcome, state) for state in STATES) == TABLE[outcome]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_inconclusive_audits_can_be_allowed_and_reached_thresholds_cannot(outcome):
    codes = tuple(exit_code(outcome, state, allow_inconclusive=True) for state in STATES)
    assert codes == tuple(0 if code == 3 else code for code in TABLE[outcome])


def test_a_reached_threshold_counts_before_one_that_could_not_be_measured():
    assert exit_code(Outcome.INCONCLUSIVE, [None, True, False]) == 1
    assert exit_code(Outcome.RECOVERED, [None, False]) == 3


def test_of_several_models_bad_input_comes_first_then_a_threshold_then_what_is_open():
    assert [worst(codes) for codes in ([0, 3, 1, 2], [0, 3, 1], [0, 3], [0, 0], [])] == [2, 1, 3, 0, 0]
