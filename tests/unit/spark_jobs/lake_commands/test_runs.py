"""The table `runs`: its newest rows are found in few files, and `loglake runs` shows them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logcore.cli.main import main
from spark_jobs.contracts import JobReport, LogChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.setup.identity import claim
from spark_jobs.lake.table_specs import RUNS, TABLES
from spark_jobs.lake.view.runs import run_rows
from spark_jobs.lake.view.runs.run_rows import RunRow, append_run, newest_run_of_each_job, newest_runs
from spark_jobs.lake.view.unfinished_run import UnfinishedRun, had_work
from spark_jobs.outlines import IngestOutline, MergeOutline, OptimizeOutline, Outline

Captured = pytest.CaptureFixture[str]
BEGAN_MS = 1_772_323_200_000
"""2026-03-01T00:00:00Z."""


def intake(number: int) -> RunRow:
    """A run that began so many minutes after midnight."""
    made = UnfinishedRun(f"run-{number}", "intake", "run", BEGAN_MS, BEGAN_MS + number * 60_000)
    changed = (LogChange("a.0/0", "a", 0, {"segments": 1, "bytes": 700}), LogChange("a.0/1", "a", 1, {"bytes": 300}))
    made.add(
        JobReport("ingest", made.run_id, "lake", changed, engine="local: no cluster", plan=IngestOutline(None)), 1200
    )
    made.add(
        JobReport("publish", made.run_id, "lake", (LogChange("a.0/0", "a", 0, {"records": 40}),), plan=Outline()), 300
    )
    return made.row("succeeded", made.started_ms + 2000)


def night() -> RunRow:
    """A maintenance that failed at 03:00."""
    made = UnfinishedRun("night", "maintenance", "schedule", BEGAN_MS, BEGAN_MS + 180 * 60_000)
    made.took("retention", 50)
    return made.row("failed", made.started_ms + 100, "retention", "StorageError")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake with runs at each of ten minutes, the night, and one run after it; each in a file of its own."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    claim(str(tmp_path / "shop"), "test")
    for row in (*map(intake, range(10)), night(), intake(200)):
        append_run(str(tmp_path / "shop"), row)
    return str(tmp_path / "shop")


def shown(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["runs", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_row_has_what_the_jobs_reported(lake: str) -> None:
    (row, *_) = read_rows(lake, "runs", None, [("run_id", "==", "run-3")]).to_pylist()
    assert (row["changed_logs"], row["segments"], row["bytes"], row["records"]) == (2, 1, 1000, 40)
    assert (row["engine"], row["outcome"], row["error"]) == ("local", "succeeded", None)
    assert (row["ingest_ms"], row["publish_ms"], row["validate_ms"]) == (1200, 300, None)
    assert row["ended_ms"] - row["started_ms"] == 2000
    assert row["lag_offsets"] is None, "no step has read the lake"


def test_a_lake_without_the_table_has_no_runs_yet(tmp_path: Path, capsys: Captured) -> None:
    claim(str(tmp_path / "old"), "test")
    before = sorted(os.listdir(tmp_path / "old"))
    assert shown(capsys, str(tmp_path / "old")) == (0, "no run of this kind did work or failed\n", "")
    assert newest_run_of_each_job(str(tmp_path / "old"), run_rows.JOBS) == {}
    assert sorted(os.listdir(tmp_path / "old")) == before, "reading creates nothing"


def test_a_failed_first_run_makes_no_lake(tmp_path: Path) -> None:
    append_run(str(tmp_path / "new"), night())
    assert not (tmp_path / "new").exists()


def test_the_newest_runs_are_first_and_jsonl_has_the_columns_of_the_table_but_logs(lake: str, capsys: Captured) -> None:
    code, out, _ = shown(capsys, lake, "--last", "3", "--format", "jsonl")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["run_id"] for line in lines] == ["run-200", "night", "run-9"]
    assert list(lines[0]) == [name for name in TABLES["runs"].schema.names if name != "logs"]
    assert lines[1]["retention_ms"] == 50


def test_runs_can_be_chosen_by_time_job_and_outcome(lake: str, capsys: Captured) -> None:
    def chosen(*arguments: str) -> list[str]:
        out = shown(capsys, lake, "--format", "jsonl", *arguments)[1]
        return [json.loads(line)["run_id"] for line in out.splitlines()]

    assert chosen("--since", "2026-03-01T00:08:00Z") == ["run-200", "night", "run-9", "run-8"]
    assert chosen("--job", "maintenance") == ["night"]
    assert chosen("--failed") == ["night"]
    assert chosen("--failed", "--job", "intake") == []
    assert len(chosen()) == 12


def test_the_text_names_step_and_class_of_an_error_and_the_time_of_each_phase(lake: str, capsys: Captured) -> None:
    _, out, _ = shown(capsys, lake)
    lines = out.splitlines()
    assert lines[0].split() == [
        "started",
        "job",
        "by",
        "outcome",
        "took",
        "logs",
        "segments",
        "bytes",
        "records",
        "lag",
    ]
    assert lines[1].split()[:4] == ["2026-03-01T03:20:00Z", "intake", "run", "succeeded"]
    assert lines[2] == "  ingest 1.2 s, publish 0.3 s"
    assert "  failed in the step retention: StorageError; run night" in lines


def test_the_newest_runs_are_found_in_the_newest_files(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    whole = run_rows.read_rows

    def read(*arguments: object) -> object:
        asked.append(arguments)
        return whole(*arguments)

    monkeypatch.setattr(run_rows, "read_rows", read)
    assert [row.run_id for row in newest_runs(lake, 2)] == ["run-200", "night"]
    assert len(asked) == 2, "one file for each of them"
    asked.clear()
    assert [row.run_id for row in newest_run_of_each_job(lake, run_rows.JOBS).values()] == ["run-200", "night"]
    assert len(asked) == 2


def test_rows_come_once_and_in_order_from_files_whose_times_overlap(lake: str) -> None:
    late = [replace(intake(number), run_id=f"late-{number}") for number in (4, 150)]
    commits.append(lake, "runs", pa.Table.from_pylist([row.columns for row in late], RUNS), "late")
    found = [row.run_id for row in newest_runs(lake)]
    assert len(found) == len(set(found)) == 14
    times = [row.started_ms for row in newest_runs(lake)]
    assert times == sorted(times, reverse=True)


def test_a_plan_and_upkeep_of_the_table_alone_are_no_work() -> None:
    def report(**known: Any) -> JobReport[Outline]:
        return JobReport(**{"job": "optimize", "run_id": "r", "lake": "l", "plan": OptimizeOutline(), **known})

    merge = MergeOutline(table="runs", files=2, into=1, bytes=7, rows=2)
    merges = OptimizeOutline((merge,), checkpoints={"runs": 12})
    assert not had_work(report())
    assert not had_work(report(metrics={"applied": False, "due_segments": 3}))
    assert not had_work(report(metrics={"applied": 1, "merged_files": 2}, plan=merges))
    both = replace(merges, checkpoints={"runs": 12, "logs": 10})
    assert had_work(report(metrics={"applied": 1, "merged_files": 2}, plan=both))
    assert had_work(report(metrics={"applied": True, "deleted_files": 1}, job="tidy_archive"))


def test_what_a_run_did_so_far_is_kept_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path))
    made = UnfinishedRun("run-1", "intake", "sensor", 1, 2)
    made.add(JobReport("validate", "run-1", "lake", metrics={"segments": 2}, plan=Outline()), 7)
    made.keep()
    assert UnfinishedRun.kept("run-1") == made
    assert UnfinishedRun.kept("run-2") is None
    (tmp_path / "unfinished_runs" / "run-1.json").write_text('{"run_id": "run-1"')
    assert UnfinishedRun.kept("run-1") is None, "a file that is not whole counts as none"
    killed = tmp_path / "unfinished_runs" / "killed.json"
    killed.write_text("{}")
    os.utime(killed, (0, 0))
    made.keep()
    made.forget(BEGAN_MS)
    assert os.listdir(tmp_path / "unfinished_runs") == []
