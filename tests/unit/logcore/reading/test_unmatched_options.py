"""Findings about options that match nothing."""

import pytest

from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import beyond_offsets, nothing_chosen
from logcore.reading.read_options import OffsetRange, ReadOptions, ReadRules
from logcore.storage.discovery import discover
from tests.broker_directory import LogDirectory


@pytest.fixture
def found(logs: LogDirectory) -> tuple[SourceLog, ...]:
    return tuple(sorted(discover([str(logs.path)]).logs, key=lambda log: log.topic_partition))


@pytest.mark.parametrize(
    ("selection", "messages"),
    [
        (LogSelection(), []),
        (LogSelection(("ord*",), (1,)), []),
        (LogSelection(("oders", "payments")), ["--topic 'oders' matches no topic; the nearest names are orders."]),
        (LogSelection(("zzz",), (7,)), ["--topic 'zzz' matches no topic; there are orders, payments."]),
        (LogSelection(("payments",), (7,)), ["--partition 7 matches nothing; there are payments-0."]),
    ],
)
def test_a_topic_is_reported_with_its_nearest_names_and_a_partition_with_those_of_the_topics(
    found: tuple[SourceLog, ...], selection: LogSelection, messages: list[str]
) -> None:
    names = [log.topic_partition for log in found]
    assert [finding.message for finding in nothing_chosen(selection, names)] == messages
    assert list(nothing_chosen(selection, ())) == []


@pytest.mark.parametrize(
    ("offsets", "rules", "everything", "message"),
    [
        (OffsetRange(), ReadRules(), False, None),
        (OffsetRange(7), ReadRules(), False, None),
        (OffsetRange(8), ReadRules(), True, None),
        (OffsetRange(8), ReadRules(high_watermark="log-end"), False, None),
        (OffsetRange(8), ReadRules(), False,
         "--offsets 8.. matches nothing: orders-0 shows offsets [0, 8) of [0, 10) (log start 0, high watermark 8)."),
        (OffsetRange(6, 9), ReadRules(high_watermark=6), False,
         "--offsets 6..9 matches nothing: orders-0 shows offsets [0, 6) of [0, 10) (log start 0, high watermark 6)."),
        (OffsetRange(10, 12), ReadRules(), True,
         "--offsets 10..12 matches nothing: orders-0 contains offsets [0, 10)."),
        (OffsetRange(), ReadRules(high_watermark=0), False,
         "No record is shown: orders-0 shows offsets none of [0, 10) (log start 0, high watermark 0). "
         "--all shows every record."),
        (OffsetRange(), ReadRules(high_watermark=0), True, None),
    ],
)  # fmt: skip
def test_offsets_that_no_log_shows_are_reported_with_those_that_exist(
    found: tuple[SourceLog, ...], offsets: OffsetRange, rules: ReadRules, everything: bool, message: str | None
) -> None:
    finding = beyond_offsets(ReadOptions(offsets=offsets, rules=rules), found[:1], everything=everything)
    assert (finding.message if finding else None) == message
