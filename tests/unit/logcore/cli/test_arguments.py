"""What can be written behind an option."""

import argparse

import pytest

from logcore.cli.reading.arguments import time_ms

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", 19_723 * DAY),
        ("20240102", 19_724 * DAY),
        ("2024-01-02", 19_724 * DAY),
        ("2024-01-02T00:00:00.250", 19_724 * DAY + 250),
        ("2024-01-02T01:00+01:00", 19_724 * DAY),
        ("1704067200000", 19_723 * DAY),
        ("2024ms", 2024),
        ("0ms", 0),
        ("-1ms", -1),
        ("1704067200000ms", 19_723 * DAY),
    ],
)
def test_dates_and_years_are_times_and_long_numbers_or_those_with_a_unit_milliseconds(text: str, expected: int) -> None:
    assert time_ms(text) == expected


@pytest.mark.parametrize("text", ["0", "-1", "123", "170406720000", "20241301", "0000"])
def test_a_number_that_may_mean_two_things_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' .* ISO-8601 .* write {text}ms"):
        time_ms(text)


@pytest.mark.parametrize("text", ["2024-13-01", "yesterday", "", "1e3", "20240102T25", "5 ms", "ms", "1" * 20 + "ms"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="ISO-8601"):
        time_ms(text)
