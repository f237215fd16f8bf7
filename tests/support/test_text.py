"""Numbers, sizes and times are written as people read them."""

import pytest

from exhume.errors import InputError
from exhume.support.text import (
    duration,
    estimated_duration,
    long_duration,
    number,
    parse_bytes,
    plural,
    rate,
    size,
    table,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500MB", 500_000_000),
        ("1.5 GiB", 1610612736),
        ("2tb", 2 * 10**12),
        ("1TiB", 2**40),
        (" 3 kB ", 3000),
        (12, 12),
        (1.5e3, 1500),
        ("0", 0),
        ("700", 700),
    ],
)
def test_sizes_are_parsed(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["much", "1.2.3GB", "5 parsecs", -1, "-1", "9" * 400, 10**400, float("nan"), "", "."])
def test_bad_sizes_are_refused(text):
    with pytest.raises(InputError, match="memory budget"):
        parse_bytes(text)


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


def test_long_times():
    words = [long_duration(seconds) for seconds in (0.2, 1, 40, 89, 91, 7200, 3e5, 1e10, 1e15)]
    assert words == [
        "less than a second",
        "1 second",
        "40 seconds",
        "89 seconds",
        "2 minutes",
        "2 hours",
        "3 days",
        "320 years",
        "3e+07 years",
    ]
    assert (estimated_duration(0.5), estimated_duration(90)) == ("less than a second", "about 2 minutes")


def test_sizes_rates_and_counts():
    assert [size(count) for count in (0, 999, 1000, 11.3e9, 2.7e17)] == [
        "0 bytes",
        "999 bytes",
        "1 kB",
        "11.3 GB",
        "270 PB",
    ]
    assert [rate(speed, "flop/s") for speed in (4.7e13, 8.5e10, 3.0)] == ["47 Tflop/s", "85 Gflop/s", "3 flop/s"]
    assert (number(921_600), number(4.52e11)) == ("921,600", "4.52e+11")
    assert [plural(count, "sample") for count in (0, 1, 1200)] == ["0 samples", "1 sample", "1,200 samples"]
    assert plural(2, "index", "indices") == "2 indices"


def test_tables_are_plain_text():
    assert table(("name", "loss"), [("exact", 1.5), ("a [bold]longer[/] name", 22)]).splitlines() == [
        "name                    loss",
        "────────────────────────────",
        "exact                    1.5",
        "a [bold]longer[/] name    22",
    ]
