"""The values of options, and the read options that they mean."""

import argparse

import pytest

from logcore.cli.main import main
from logcore.cli.reading.arguments import (
    add_choice,
    add_meaning,
    add_paths,
    clock_ms,
    offset_range,
    read_options,
    time_ms,
)
from logcore.logs.model.log_selection import LogSelection
from logcore.reading.read_options import OffsetRange, ReadOptions, ReadRules

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


@pytest.mark.parametrize(
    ("first", "last", "at", "rest"),
    [(-62_135_596_800_000, 253_402_300_799_999, ["0001", "9999-12-31T23:59:59.999"], ["9" * 18, f"-{'9' * 18}ms"])],
)
def test_a_clock_is_a_date_from_year_1_to_9999(first: int, last: int, at: list[str], rest: list[str]) -> None:
    assert [clock_ms(text) for text in (f"{first}ms", f"{last}ms", *at)] == [first, last, first, last]
    for text in (f"{first - 1}ms", f"{last + 1}ms", str(last + 1), *rest):
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is outside of the years 1 to 9999"):
            clock_ms(text)


@pytest.mark.parametrize("command", ["run", "recover", "transactions", "retain", "compact", "reindex"])
def test_no_command_takes_a_clock_beyond_the_year_9999(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "logs", "--as-of", "253402300800000ms"]) == 64
    assert "'253402300800000ms' is outside of the years 1 to 9999" in capsys.readouterr().err


def parsed(*arguments: str) -> ReadOptions:
    """The options of a read, by a parser with all options that such commands share."""
    parser = argparse.ArgumentParser()
    add_paths(parser)
    add_choice(parser)
    add_meaning(parser)
    parser.add_argument("--offsets", type=offset_range, default=OffsetRange())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--isolation.level", dest="isolation_level", default="read_uncommitted")
    return read_options(parser.parse_args(arguments))


def test_options_that_are_not_given_are_the_defaults_of_a_read() -> None:
    assert parsed("logs") == ReadOptions(paths=("logs",))


def test_options_become_the_options_of_a_read() -> None:
    options = parsed(
        "logs", "more", "--topic", "orders", "--topic", "pay*", "--partition", "3", "--high-watermark", "7", "--all",
        "--isolation.level", "read_committed", "--offsets", "2..5", "--config", "cleanup.policy=compact",
    )  # fmt: skip
    assert options == ReadOptions(
        paths=("logs", "more"),
        selection=LogSelection(("orders", "pay*"), (3,)),
        offsets=OffsetRange(2, 5),
        rules=ReadRules("read_committed", 7, show_all=True),
        is_compacted=True,
    )


def test_options_that_a_command_does_not_have_keep_their_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_paths(parser)
    add_choice(parser)
    assert read_options(parser.parse_args(["logs"])) == ReadOptions(paths=("logs",))


@pytest.mark.parametrize(
    ("policies", "is_compacted"),
    [
        ([], None),
        (["compact"], True),
        (["delete"], False),
        (["delete,compact"], True),
        (["compact", "delete"], False),
        (["delete", "compact"], True),
    ],
)
def test_the_last_cleanup_policy_decides_about_compaction(policies: list[str], is_compacted: bool | None) -> None:
    settings = [part for policy in policies for part in ("--config", f"cleanup.policy={policy}")]
    assert parsed("logs", *settings).is_compacted is is_compacted
