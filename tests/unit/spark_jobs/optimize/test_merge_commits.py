"""A merge whose commit was not confirmed never takes files away that a version of the table names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.delta_log import newest_version, read_commit
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.optimize import optimize_job as optimize

SPEC = TABLES["records"]


def _publish(lake: str, start: int, end: int, topic: str = "t") -> str:
    rows = [{"topic": topic, "partition": 0, "offset": o, "log_id": f"{topic}.0"} for o in range(start, end)]
    chunk = pa.RecordBatch.from_pylist(rows, schema=SPEC.schema)
    file = write_file(table_uri(lake, "records"), SPEC, [chunk], {"topic": topic})
    assert file is not None
    log = f"records/{topic}.0/0"
    guard = Guard(log, commits.versions(lake, "records", [log])[log], end)
    commits.add_files(lake, "records", [file], "run", [guard])
    return file.path


def _offsets(lake: str) -> list[int]:
    return sorted(read_rows(lake, "records", ["offset"])["offset"].to_pylist())


def _optimize(lake: str) -> dict[str, object]:
    config = OptimizeConfig(lake, "run", 0, apply=True)
    return dict(optimize.apply(optimize.plan(config), config, None).metrics)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    for start in range(0, 20, 5):
        _publish(str(tmp_path), start, start + 5)
    return str(tmp_path)


def _lose_first_answer(monkeypatch: pytest.MonkeyPatch, then: object = None) -> None:
    """A store whose client repeats a conditional put that had succeeded. The store answers that another was first.

    ``then``: called after the commit, before the table is read again.
    """
    answer = commits.rewrite_files

    def lost(*args: object, **named: object) -> None:
        monkeypatch.setattr(commits, "rewrite_files", answer)
        answer(*args, **named)  # type: ignore[arg-type]
        if callable(then):
            then()
        raise ConcurrentChange("the version is there already")

    monkeypatch.setattr(commits, "rewrite_files", lost)


def test_a_merge_that_landed_despite_a_conflict_answer_is_counted_and_its_rows_stay(lake, monkeypatch):
    _lose_first_answer(monkeypatch)
    metrics = _optimize(lake)
    assert _offsets(lake) == list(range(20))
    assert (metrics["merged_files"], metrics["overtaken"]) == (4, 0)


def test_files_of_a_merge_that_landed_without_an_answer_stay_even_if_another_commit_follows_at_once(lake, monkeypatch):
    for start in range(0, 20, 5):
        _publish(lake, start, start + 5, topic="u")

    def follow() -> None:
        live = newest_files(lake, "records")
        merged = next(file for file in live if file.partition_values["topic"] == "t")
        row = read_rows(lake, "records", where=[("topic", "==", "t")]).to_batches()
        again = write_file(table_uri(lake, "records"), SPEC, row, {"topic": "t"})
        assert again is not None
        commits.rewrite_files(lake, "records", [merged.path], [again], "other", data_change=True)

    _lose_first_answer(monkeypatch, follow)
    before = {file.path for file in newest_files(lake, "records")}
    _optimize(lake)
    assert _offsets(lake) == sorted([*range(20), *range(20)])
    root = Path(table_uri(lake, "records"))
    assert all((root / path).exists() for path in before)
    newest = newest_version(lake, "records") or 0
    named = {path for version in range(newest + 1) for path in _added(lake, version)}
    assert all((root / path).exists() for path in named)


def _added(lake: str, version: int) -> list[str]:
    commit = read_commit(lake, "records", version)
    return [] if commit is None else [file.path for file in commit.added]
