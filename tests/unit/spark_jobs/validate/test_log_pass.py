"""The log pass takes rows of `batches` in the order of the log, with nulls for unknown values."""

from functools import partial

import pyarrow as pa
import pytest

from logcore.logs.model.findings import Finding
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.validate.log_pass import LogFacts, ValidatedLog, pass_over_log

SCHEMA = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("record_count", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("is_transactional", pa.bool_()),
        ("is_control", pa.bool_()),
        ("control_type", pa.string()),
        ("verdict", pa.string()),
        ("segment_id", pa.string()),
        ("position", pa.int64()),
        ("size", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("log", pa.string()),
        ("delete_horizon_ms", pa.int64()),
    ]
)


def data(first: int, last: int, producer: int = -1, *, transactional: bool = False) -> tuple:
    return first, last, last - first + 1, producer, 0, transactional, False, None, "ok", "s", first * 70, 70, 0, "l"


def marker(offset: int, producer: int, kind: str) -> tuple:
    return offset, offset, 1, producer, 0, True, True, kind, "ok", "s", offset * 70, 78, 0, "l"


def stretch(expected: int, reason: str = "CRC") -> tuple:
    return expected, None, None, None, None, None, None, None, reason, "s", expected * 70, 70, None, "l"


def validated(*rows: tuple, end: int, resume: int = 0, **given) -> ValidatedLog | Finding:
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, (*row, None), strict=True)) for row in rows], schema=SCHEMA)
    facts = {
        "topic_partition": "orders-0",
        "resume_offset": resume,
        "log_start_offset": 0,
        "high_watermark": end,
        "log_end_offset": end,
        "cleaner_checkpoint": None,
        "compacted_by_policy": False,
        "gap_evidence": (),
    }
    return pass_over_log(LogFacts(**facts | given), partial(table.to_batches, max_chunksize=2), [])


def states(result: ValidatedLog) -> list[tuple]:
    columns = [result.ledger[name] for name in ("start_offset", "end_offset", "state", "records")]
    return [(start, end, str(state), records) for start, end, state, records in zip(*columns, strict=True)]


def test_batches_become_ranges_of_one_state() -> None:
    rows = [data(0, 3), data(4, 5, 1, transactional=True), marker(6, 1, "ABORT"), data(7, 9)]
    expected = [(0, 4, "present", 4), (4, 6, "aborted", 2), (6, 7, "control", 1), (7, 10, "present", 3)]
    assert states(validated(*rows, end=10)) == expected


def test_a_corrupt_stretch_precedes_the_batch_of_the_same_offset() -> None:
    result = validated(data(0, 1), stretch(2), data(2, 3), stretch(4), data(6, 6), end=7)
    assert states(result) == [(0, 4, "present", 4), (4, 6, "corrupt", 0), (6, 7, "present", 1)]
    assert [finding.rule for finding in result.findings] == ["corrupt-offsets"]


def test_an_outcome_that_was_lost_is_a_state_of_the_ledger_and_of_the_transaction() -> None:
    lost = [data(0, 0, 1, transactional=True), stretch(1), marker(5, 1, "COMMIT"), data(6, 6)]
    result = validated(*lost, end=7)
    expected = [(0, 1, "unknown", 1), (1, 5, "corrupt", 0), (5, 7, "present", 1)]
    assert states(result) == expected
    assert [str(state) for state in result.transactions["state"]] == ["unknown"]
    assert {finding.rule for finding in result.findings} == {"transaction-outcome-lost", "corrupt-offsets"}


def test_a_log_of_single_messages_is_counted_on_both_sides_of_where_it_goes_on() -> None:
    rows = [data(offset, offset) for offset in range(100)]
    assert states(validated(*rows, end=100, resume=40, high_watermark=70)) == [
        (40, 70, "present", 30),
        (70, 100, "open", 30),
    ]


@pytest.mark.parametrize("end", [0, 5])
def test_a_log_without_batches_is_a_gap_or_nothing(end: int) -> None:
    result = pass_over_log(LogFacts("orders-0", 0, end, end, end, None, False, ()), list, [])
    assert states(result) == ([(0, 5, "trimmed", 0)] if end else [])


def test_batches_that_contradict_each_other_leave_the_log_unjudged() -> None:
    result = validated(data(0, 3), data(2, 5), end=6)
    assert result.rule == "log-not-judged"


def test_a_transaction_that_began_below_where_the_log_is_looked_at_again_keeps_its_beginning_and_its_outcome() -> None:
    rows = [data(10, 11, 2, transactional=True), data(12, 12, 1, transactional=True), marker(13, 1, "ABORT")]
    result = validated(*rows, end=14, resume=10, ongoing=((1, 0, 5, 6),))
    assert states(result) == [(10, 14, "open", 4)]
    transactions = result.transactions.to_pydict()
    assert list(zip(transactions["first_offset"], transactions["last_offset"], transactions["state"], strict=True)) == [
        (5, 12, "aborted"),
        (10, 11, "open"),
    ]


def test_a_gap_where_the_log_is_looked_at_again_hides_how_what_was_open_there_ended() -> None:
    result = validated(marker(12, 1, "COMMIT"), end=13, resume=10, ongoing=((1, 0, 5, 6),))
    assert [str(state) for state in result.transactions["state"]] == ["unknown"]
    assert "transaction-outcome-lost" in {finding.rule for finding in result.findings}


def test_ranges_are_cut_at_the_given_offsets() -> None:
    rows = [data(offset, offset + 4) for offset in range(0, 100, 5)]
    assert states(validated(*rows, end=100, cuts=(30, 62))) == [
        (0, 30, "present", 30),
        (30, 62, "present", 32),
        (62, 100, "present", 38),
    ]


@pytest.mark.parametrize(("stated", "expected"), [(None, 20), (3, 3), (15, 15), (99, 20)])
def test_the_high_watermark_ends_at_the_log_end_and_is_not_moved_up_to_the_log_start(
    stated: int | None, expected: int
) -> None:
    row = LogRow(
        log="t.0/0",
        topic="orders",
        log_id="t.0",
        partition=0,
        incarnation=0,
        topic_id="t",
        cluster=None,
        source="/source",
        next_offset=20,
        log_start_offset=10,
        source_log_start_offset=10,
        high_watermark=stated,
        leader_epochs="[]",
        cleaner_checkpoint=None,
        gaps="[]",
        as_of_ms=0,
        stopped=None,
        stopped_because=None,
        stopped_file=None,
    )
    assert row.readable_high_watermark() == expected
