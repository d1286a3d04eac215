"""One pass over a log: what its gaps mean, and where its ends are."""

import pytest

from logcore.logs.model.gaps import is_compacted
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import TransactionState
from logcore.reading.log_reading import read_log
from logcore.reading.read_options import Notes, ReadOptions, ReadRules
from logcore.storage.discovery import discover
from tests.broker_directory import LogDirectory


def opened(logs: LogDirectory, name: str) -> SourceLog:
    (log,) = discover([str(logs.path / name)]).logs
    return log


@pytest.mark.parametrize(
    ("topic", "stated", "expected"),
    [
        ("orders", None, False),
        ("orders", True, True),
        ("orders", False, False),
        ("__consumer_offsets", None, True),
        ("__consumer_offsets", False, False),
    ],
)
def test_a_stated_policy_decides_about_compaction_and_else_the_name_of_the_topic(
    logs: LogDirectory, topic: str, stated: bool | None, expected: bool
) -> None:
    logs.partition(f"{topic}-3").append(1)
    assert is_compacted(opened(logs, f"{topic}-3"), stated) is expected


def test_a_pass_has_the_transactions_and_the_ends_of_the_log(logs: LogDirectory) -> None:
    notes = Notes()
    reading = read_log(opened(logs, "orders-0"), ReadOptions(), notes)
    (transaction,) = reading.view.transactions
    assert (transaction.state, transaction.first_offset) == (TransactionState.ABORTED, 2)
    assert (reading.high_watermark, reading.view.last_stable_offset, reading.log_end_offset) == (8, 8, 10)
    assert notes.findings == []


def test_a_high_watermark_below_the_marker_leaves_the_transaction_open(logs: LogDirectory) -> None:
    reading = read_log(opened(logs, "orders-0"), ReadOptions(rules=ReadRules(high_watermark=3)), Notes())
    assert [each.state for each in reading.view.transactions] == [TransactionState.OPEN]
    assert (reading.high_watermark, reading.view.last_stable_offset) == (3, 2)


def test_a_high_watermark_after_the_log_end_is_reported_as_lost_offsets(logs: LogDirectory) -> None:
    notes = Notes()
    reading = read_log(opened(logs, "orders-0"), ReadOptions(rules=ReadRules(high_watermark=12)), notes)
    assert [finding.rule for finding in notes.findings] == ["high-watermark-beyond-log-end"]
    assert reading.lost is not None
    assert (reading.lost.start_offset, reading.lost.end_offset) == (10, 12)
