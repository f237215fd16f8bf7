"""Times are told in the unit that suits them."""

import pytest

from exhume.sweep.duration import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (3.44, "3.4 s"),
        (42, "42 s"),
        (119, "119 s"),
        (120, "2 min"),
        (5400, "90 min"),
        (9000, "2.5 h"),
        (172_800, "2 days"),
        (1_000_000_000, "11,574 days"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(seconds, words):
    assert duration(seconds) == words
