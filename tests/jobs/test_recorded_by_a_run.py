"""What tables say of a run: which one archived a segment and when, and how far each log was after it."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig, IngestConfig, JobReport
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.runs.run_rows import append_run, newest_runs
from spark_jobs.lake.view.unfinished_run import UnfinishedRun
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.spark.cycle import AS_OF_MS, Lake

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0}
COMPACTED = "topics:\n  orders:\n    cleanup.policy: compact\n    min.cleanable.dirty.ratio: 0\n"


def archived(lake: Lake) -> list[tuple[int, int, int, str]]:
    """Base offset, generation, clock and run of each segment."""
    rows = lake.rows("segments")
    return sorted((row["base_offset"], row["generation"], row["archived_ms"], row["archived_by"]) for row in rows)


def test_a_segment_says_which_run_archived_it_and_when(source, lake) -> None:
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    assert archived(lake) == [(0, 0, AS_OF_MS, "run-1")]
    orders.append(10)
    launch.run(IngestConfig(str(lake.path), (str(source.path),), "later", AS_OF_MS + 5))
    assert archived(lake) == [(0, 0, AS_OF_MS, "run-1"), (10, 0, AS_OF_MS + 5, "later")]
    launch.run(IngestConfig(str(lake.path), (str(source.path),), "again", AS_OF_MS + 9))
    assert len(archived(lake)) == 2, "a run without new bytes changes nothing"


def test_a_cleaned_segment_names_the_compaction_and_the_retired_one_keeps_what_it_said(source, lake, tmp_path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(COMPACTED)
    orders = source.partition("orders-0")
    orders.append(20)
    orders.roll()
    orders.append(1)
    source.high_watermarks(orders_0=21)
    lake.turn(source.path)
    before = archived(lake)
    launch.run(
        CompactionConfig(str(lake.path), "clean", AS_OF_MS + 7, policies=read_policies(str(policies)), apply=True)
    )
    after = archived(lake)
    assert {*before} <= {*after}
    assert {(clock, run) for _, generation, clock, run in after if generation} == {(AS_OF_MS + 7, "clean")}


@pytest.fixture
def two_logs(source, lake) -> dict[str, JobReport]:
    """A log with an open transaction from offset 10 on, and one that the checkpoint of high watermarks leaves out."""
    orders, other = source.partition("orders-0"), source.partition("other-0")
    orders.append(10)
    orders.append(5, producer_id=7, **TRANSACTIONAL)
    orders.append(5)
    orders.append(5)
    other.append(3)
    source.high_watermarks(orders_0=20)
    source.checkpoint("log-start", orders_0=5)
    reports: dict[str, JobReport] = lake.turn(source.path)
    return reports


def offsets(lake: Lake) -> list[dict[str, Any]]:
    [row] = lake.rows("runs")
    return sorted(row["logs"], key=lambda log: log["log"])


def run_of(lake: Lake, *reports: JobReport) -> UnfinishedRun:
    made = UnfinishedRun("run-1", "intake", "run", AS_OF_MS, AS_OF_MS)
    for report in reports:
        made.add(report, 1)
    made.saw(read_state(str(lake.path)))
    return made


def test_a_run_says_of_each_log_it_changed_log_start_last_stable_offset_high_watermark_and_end(lake, two_logs) -> None:
    append_run(str(lake.path), run_of(lake, *two_logs.values()).row("succeeded", AS_OF_MS))
    [orders, other] = offsets(lake)
    assert {key: value for key, value in orders.items() if key != "log"} == {
        "log_start_offset": 5,
        "last_stable_offset": 10,
        "high_watermark": 20,
        "log_end_offset": 25,
    }
    assert {key: value for key, value in other.items() if key != "log"} == {
        "log_start_offset": 0,
        "last_stable_offset": 0,
        "high_watermark": 0,
        "log_end_offset": 3,
    }
    assert {orders["log"], other["log"]} == {row["log"] for row in lake.rows("logs")}


def test_an_unknown_high_watermark_is_null_and_the_log_end_takes_its_place(source, lake) -> None:
    source.partition("orders-0").append(3)
    append_run(str(lake.path), run_of(lake, *lake.turn(source.path).values()).row("succeeded", AS_OF_MS))
    [log] = offsets(lake)
    assert (log["high_watermark"], log["last_stable_offset"], log["log_end_offset"]) == (None, 3, 3)


def test_logs_that_a_run_did_not_change_are_not_in_its_row(lake, two_logs) -> None:
    made = run_of(lake)
    made.wrote = True
    append_run(str(lake.path), made.row("succeeded", AS_OF_MS))
    assert offsets(lake) == []


def test_what_a_run_kept_for_another_process_has_the_offsets_of_its_logs(lake, two_logs, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    made = run_of(lake, *two_logs.values())
    made.keep()
    kept = UnfinishedRun.kept("run-1")
    assert kept is not None
    assert kept.row("succeeded", AS_OF_MS) == made.row("succeeded", AS_OF_MS)


def test_a_row_without_a_look_at_the_lake_says_nothing_of_its_logs_and_reads_leave_them_out(lake, two_logs) -> None:
    made = UnfinishedRun("run-1", "decode", "decode", AS_OF_MS, AS_OF_MS, wrote=True)
    append_run(str(lake.path), made.row("succeeded", AS_OF_MS))
    assert lake.rows("runs")[0]["logs"] is None
    assert [row.logs for row in newest_runs(str(lake.path))] == [None]
