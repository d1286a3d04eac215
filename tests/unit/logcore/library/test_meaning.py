"""Batches, transactions, ledger, validation and look-ups by time of an opened log."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import logcore
from logcore import OffsetAnswer, OffsetState, TransactionState
from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.conftest import Sample
from tests.unit.logcore.library.conftest import Findings, T, segment

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0}


@pytest.fixture
def transactional(logdir: LogDirectory) -> Partition:
    """Producer 1 commits 0 to 4 and aborts 6 to 10; 12 to 14 are plain; producer 2 has 15 and 16 open; 17 to 19 are
    plain."""
    partition = logdir.partition("orders-0")
    partition.append(5, producer_id=1, base_sequence=0, **TRANSACTIONAL)
    partition.marker(1, handmade.COMMIT)
    partition.append(5, producer_id=1, base_sequence=5, **TRANSACTIONAL)
    partition.marker(1, handmade.ABORT)
    partition.append(3)
    partition.append(2, producer_id=2, base_sequence=0, **TRANSACTIONAL)
    partition.append(3)
    logdir.high_watermarks(orders_0=20)
    return partition


def test_transactions_and_where_readers_stop(transactional: Partition) -> None:
    found = logcore.open_partition(transactional.path).transactions()
    assert [
        (each.producer_id, each.first_offset, each.last_offset, each.marker_offset, each.state)
        for each in found.transactions
    ] == [
        (1, 0, 4, 5, TransactionState.COMMITTED),
        (1, 6, 10, 11, TransactionState.ABORTED),
        (2, 15, 16, None, TransactionState.OPEN),
    ]
    assert (found.high_watermark, found.last_stable_offset, found.log_end_offset) == (20, 15, 20)


def test_transactions_that_ended_below_the_log_start_are_left_out(
    logdir: LogDirectory, transactional: Partition
) -> None:
    logdir.checkpoint("log-start", orders_0=8)
    found = logcore.open_partition(transactional.path).transactions()
    assert [each.first_offset for each in found.transactions] == [6, 15]


def test_the_ledger_covers_every_offset(transactional: Partition) -> None:
    ranges = list(logcore.open_partition(transactional.path).ledger())
    assert [(each.start_offset, each.end_offset, each.state, each.records) for each in ranges] == [
        (0, 6, OffsetState.PRESENT, 5),
        (6, 11, OffsetState.ABORTED, 5),
        (11, 12, OffsetState.CONTROL, 1),
        (12, 15, OffsetState.PRESENT, 3),
        (15, 20, OffsetState.OPEN, 5),
    ]


def test_the_ledger_of_the_damaged_sample_is_what_was_stated_by_hand(
    sample: Callable[[str], Sample], expected_of_damaged: dict[str, dict[str, Any]]
) -> None:
    for log in logcore.open_log_directory(sample("damaged").logdir).logs:
        expected = expected_of_damaged[f"{log.topic}-{log.partition}"]["ledger"]
        found = Findings()
        ranges = [
            {"start_offset": each.start_offset, "end_offset": each.end_offset, "state": str(each.state)}
            for each in log.ledger(on_finding=found)
            if each.end_offset <= expected[-1]["end_offset"]
        ]
        stored = [row | ({"state": "present"} if row.get("marker") == "COMMIT" else {}) for row in expected]
        assert merged(ranges) == merged(stored), log


def merged(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Neighbours in one state as one range."""
    found: list[tuple[int, int, str]] = []
    for row in rows:
        start, end, state = row["start_offset"], row["end_offset"], row["state"]
        if found and found[-1][1:] == (start, state):
            start = found.pop()[0]
        found.append((start, end, state))
    return found


def test_missing_offsets_end_a_ledger_unless_findings_are_taken(orders: Partition, findings: Findings) -> None:
    orders.segments()[1].unlink()
    log = logcore.open_partition(orders.path)
    with pytest.raises(logcore.DamageFound, match="20 offsets from 20 on are missing"):
        list(log.ledger())
    assert [each.state for each in log.ledger(on_finding=findings)] == ["present", "missing", "present"]
    assert findings.rules == ["missing-offsets"]
    assert [each.state for each in log.ledger(compacted=True)] == ["present", "compacted", "present"]


@pytest.mark.parametrize("name", ["transactions-4.4.0", "damaged", "codecs-v2-4.3.1", "internal-topics-4.4.0"])
def test_transactions_and_ledgers_are_those_of_the_commands(
    sample: Callable[[str], Sample], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logdir = str(sample(name).logdir)
    main(["ledger", "--format", "jsonl", logdir])
    ledger = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    main(["transactions", "--format", "jsonl", logdir])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ranges, transactions = [], []
    for log in logcore.open_log_directory(logdir).logs:
        place = (log.topic, log.partition)
        ranges += [(*place, r.start_offset, r.end_offset, str(r.state)) for r in log.ledger(on_finding=print)]
        found = log.transactions(on_finding=print)
        transactions += [(*place, t.producer_id, t.first_offset, str(t.state)) for t in found.transactions]
        transactions.append((*place, found.high_watermark, found.last_stable_offset, found.log_end_offset))
    assert ranges == [
        tuple(line[k] for k in ("topic", "partition", "start_offset", "end_offset", "state")) for line in ledger
    ]
    said = []
    for line in lines:
        ends, names = line.get("summary"), ("producer_id", "first_offset", "state")
        values = (
            [ends[k] for k in ("high_watermark", "last_stable_offset", "log_end_offset")]
            if ends
            else [line[k] for k in names]
        )
        said.append((line["topic"], line["partition"], *values))
    assert transactions == said


# Batches.


def test_batches_are_those_in_the_files_control_batches_included(transactional: Partition) -> None:
    log = logcore.open_partition(transactional.path, high_watermark=3)
    batches = list(log.batches())
    assert [(b.header.base_offset, b.header.record_count, b.control_type and str(b.control_type)) for b in batches] == [
        (0, 5, None),
        (5, 1, "COMMIT"),
        (6, 5, None),
        (11, 1, "ABORT"),
        (12, 3, None),
        (15, 2, None),
        (17, 3, None),
    ]
    content = transactional.segments()[0].read_bytes()
    positions = [batch.position for batch in batches]
    assert positions == [0, *(at + handmade.size_of(content, at) for at in positions[:-1])]
    assert {batch.path for batch in batches} == {str(transactional.segments()[0])}
    assert [record.value for record in batches[4].records()] == [b"v12", b"v13", b"v14"]
    assert [record.key for record in batches[1].records()] == [struct.pack(">hh", 0, handmade.COMMIT)]


def test_batches_of_some_offsets(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    assert [batch.header.base_offset for batch in log.batches(start_offset=24, end_offset=31)] == [20, 25, 30]
    assert [batch.header.base_offset for batch in log.batches(end_offset=1)] == [0]
    assert list(log.batches(start_offset=5, end_offset=5)) == []
    assert list(log.batches(start_offset=60)) == []


def test_records_of_a_compressed_message_of_an_old_format(tmp_path: Path) -> None:
    log = logcore.open_segment(segment(tmp_path / "orders-0", 3, handmade.wrapper_v1([3, 5, 6])))
    (batch,) = log.batches()
    assert (batch.header.base_offset, batch.header.last_offset, batch.header.record_count) == (3, 6, 3)
    assert [record.offset for record in batch.records()] == [3, 5, 6]


def test_records_of_a_batch_whose_bytes_changed_are_refused(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    second = list(log.batches())[1]
    path = orders.segments()[0]
    path.write_bytes(handmade.flip(path.read_bytes(), second.position + 65))
    with pytest.raises(logcore.CorruptRecordError, match="the file has other bytes there now") as caught:
        list(second.records())
    assert (caught.value.position, caught.value.offset) == (second.position, 5)
    path.unlink()
    with pytest.raises(logcore.SourceUnreadable):
        list(second.records())


# Validation.


def test_a_sound_log_is_sound(orders: Partition) -> None:
    report = logcore.open_partition(orders.path).validate()
    assert report.is_sound
    assert report.totals.records == 60
    assert report.totals.bytes == report.totals.valid_bytes == sum(p.stat().st_size for p in orders.segments())


@pytest.mark.parametrize("name", ["damaged", "transactions-4.4.0", "internal-topics-4.4.0", "codecs-v2-4.3.1"])
def test_a_validation_finds_what_verify_finds(
    sample: Callable[[str], Sample], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logdir = sample(name).logdir
    report = logcore.open_log_directory(logdir).validate()
    main(["verify", "--format", "jsonl", str(logdir)])
    *findings, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(finding.rule, finding.message) for finding in report.findings] == [
        (line["rule"], line["message"]) for line in findings
    ]
    totals = {name: getattr(report.totals, name) for name in summary["summary"] if hasattr(report.totals, name)}
    assert totals == {name: summary["summary"][name] for name in totals}
    assert len(totals) == 9


def test_a_validation_prints_nothing(orders: Partition, capfd: pytest.CaptureFixture[str]) -> None:
    logcore.open_partition(orders.path).validate()
    assert capfd.readouterr() == ("", "")


# Look-ups by time.


def test_the_first_record_at_a_time_or_later(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    assert log.offset_for_time(T + 2350) == OffsetAnswer(24, T + 2400, 0)
    assert log.offset_for_time(datetime.fromtimestamp(T / 1000 + 2.4, UTC)) == OffsetAnswer(24, T + 2400, 0)
    assert log.offset_for_time(0) == OffsetAnswer(0, T, 0)
    assert log.offset_for_time(T + 5901) is None
    after = log.offset_for_time(T + 5600)
    assert after is not None
    assert [record.offset for record in log.records(start_offset=after.offset)] == [56, 57, 58, 59]


def test_answers_lie_below_the_high_watermark(logdir: LogDirectory, orders: Partition) -> None:
    logdir.high_watermarks(orders_0=24)
    log = logcore.open_partition(orders.path)
    assert log.offset_for_time(T + 2350) is None
    assert log.end_offset() == 24
    assert logcore.open_partition(orders.path, high_watermark="log-end").end_offset() == 60


def test_a_time_before_1970_is_refused(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    for moment in (-1, datetime(1969, 12, 31, tzinfo=UTC)):
        with pytest.raises(ValueError, match="no time from 1970 on"):
            log.offset_for_time(moment)


def test_damage_is_passed_over_in_a_look_up(orders: Partition) -> None:
    """As in `loglake offsets`: the next good record answers, and the damage is reported."""
    path = orders.segments()[0]
    path.write_bytes(handmade.flip(path.read_bytes(), 70))
    found: list[logcore.Finding] = []
    log = logcore.open_partition(orders.path)
    assert log.offset_for_time(0, on_finding=found.append) == OffsetAnswer(5, T + 500, 0)
    assert [each.rule for each in found] == ["corrupt-bytes"]
    with pytest.raises(logcore.DamageFound):
        log.offset_for_time(0)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_ends_are_those_that_a_real_consumer_saw(sample: Callable[[str], Sample], isolation_level: Any) -> None:
    case = sample("transactions-4.4.0")
    directory = logcore.open_log_directory(case.logdir, isolation_level=isolation_level)
    seen = case.summary(isolation_level)
    compared = {f"{log.topic}-{log.partition}": log.end_offset() for log in directory.logs}
    assert {name: seen[name]["end"] for name in seen if name in compared} == {
        name: end for name, end in compared.items() if name in seen
    }
    assert len(seen) > 2
