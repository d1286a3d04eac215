"""The log pass takes rows of `batches` as Spark hands them over: in any order, with nulls for what cannot be told."""

import pyarrow as pa
import pytest

from spark_jobs.log_pass import LogFacts, pass_over_log

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
    ]
)


def data(first: int, last: int, producer: int = -1, *, transactional: bool = False) -> tuple:
    return first, last, last - first + 1, producer, 0, transactional, False, None, "ok", "s", first * 70, 70, 0, "l"


def marker(offset: int, producer: int, kind: str) -> tuple:
    return offset, offset, 1, producer, 0, True, True, kind, "ok", "s", offset * 70, 78, 0, "l"


def stretch(expected: int, reason: str = "CRC") -> tuple:
    return expected, None, None, None, None, None, None, None, reason, "s", expected * 70, 70, None, "l"


def judged(*rows: tuple, end: int, resume: int = 0, **given) -> dict:
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
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
    return pass_over_log(LogFacts(**facts | given), table, {})


def states(result: dict) -> list[tuple]:
    return [(row["start_offset"], row["end_offset"], str(row["state"]), row["records"]) for row in result["ledger"]]


def test_batches_come_in_any_order() -> None:
    rows = [data(0, 3), data(4, 5, 1, transactional=True), marker(6, 1, "ABORT"), data(7, 9)]
    expected = [(0, 4, "present", 4), (4, 6, "aborted", 2), (6, 7, "control", 1), (7, 10, "present", 3)]
    assert states(judged(*rows, end=10)) == states(judged(*reversed(rows), end=10)) == expected


def test_a_stretch_stands_before_the_batch_that_is_expected_at_its_place() -> None:
    result = judged(data(2, 3), stretch(2), data(0, 1), stretch(4), data(6, 6), end=7)
    assert states(result) == [(0, 4, "present", 4), (4, 6, "corrupt", 0), (6, 7, "present", 1)]
    assert [finding["rule"] for finding in result["findings"]] == ["corrupt-offsets"]


def test_an_outcome_that_was_lost_is_a_state_of_the_ledger_and_of_the_transaction() -> None:
    lost = [data(0, 0, 1, transactional=True), stretch(1), marker(5, 1, "COMMIT"), data(6, 6)]
    result = judged(*lost, end=7)
    expected = [(0, 1, "unknown", 1), (1, 5, "corrupt", 0), (5, 6, "control", 1), (6, 7, "present", 1)]
    assert states(result) == expected
    assert [str(row["state"]) for row in result["transactions"]] == ["unknown"]
    assert {finding["rule"] for finding in result["findings"]} == {"transaction-outcome-lost", "corrupt-offsets"}


def test_a_log_of_single_messages_is_counted_on_both_sides_of_where_it_goes_on() -> None:
    rows = [data(offset, offset) for offset in range(100)]
    assert states(judged(*rows, end=100, resume=40, high_watermark=70)) == [
        (40, 70, "present", 30),
        (70, 100, "open", 30),
    ]


@pytest.mark.parametrize("end", [0, 5])
def test_a_log_without_batches_is_a_gap_or_nothing(end: int) -> None:
    result = pass_over_log(
        LogFacts("orders-0", 0, end, end, end, None, False, ()), pa.table({"log": pa.array([], pa.string())}), {}
    )
    assert states(result) == ([(0, 5, "trimmed", 0)] if end else [])


def test_batches_that_contradict_each_other_leave_the_log_unjudged() -> None:
    result = judged(data(0, 3), data(2, 5), end=6)
    assert result["failed"]["rule"] == "log-not-judged"
