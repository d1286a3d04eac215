"""Batches of small segments share files; what later runs read of them is what a file for each segment would give."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_jobs import launch
from spark_jobs.archived_rows import batch_rows
from spark_jobs.contracts import ValidateConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.validate import validate_job
from spark_jobs.validate import validate_job as validate
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.in_process import InProcessExecutor
from tests.spark.cycle import AS_OF_MS, Lake

LOGS = ("b-0", "a-0", "c-0")
OF_THE_JOB = ("batches", "offset_ledger", "transactions", "findings", "quarantine")
WRITTEN_ANEW = ("finding_id", "run_id", "first_run_id")


@pytest.fixture(autouse=True)
def without_a_jvm(monkeypatch) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())


def write(source: LogDirectory) -> dict[str, Partition]:
    """Three segments for each log; the first log has a transaction over two of them, the second has damage."""
    logs = {name: source.partition(name, f"{at:021d}Q") for at, name in enumerate(LOGS)}
    for log in logs.values():
        for _ in range(2):
            log.append(4)
            log.append(3)
            log.roll()
    fields = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
    logs["b-0"].append(5, **fields, base_sequence=0)
    file = logs["a-0"].segments()[1]
    file.write_bytes(handmade.flip(file.read_bytes(), 80))
    mark(source, logs)
    return logs


def grow(source: LogDirectory, logs: dict[str, Partition]) -> None:
    logs["b-0"].roll()
    logs["b-0"].marker(7, handmade.ABORT)
    logs["c-0"].append(2)
    mark(source, logs)


def mark(source: LogDirectory, logs: dict[str, Partition]) -> None:
    source.high_watermarks(**{name.replace("-", "_"): log.next_offset for name, log in logs.items()})


def content(lake: Lake) -> dict[str, list]:
    return {
        name: sorted(str({k: v for k, v in row.items() if k not in WRITTEN_ANEW}) for row in lake.rows(name))
        for name in OF_THE_JOB
    }


def files(lake: Lake) -> list[str]:
    return sorted(file.path for file in newest_files(str(lake.path), "batches"))


def test_the_rows_of_all_small_segments_of_a_run_are_in_one_file(tmp_path, source):
    write(source)
    lake = Lake(tmp_path / "lake")
    lake.turn(source.path)
    assert len(files(lake)) == 1
    assert len({row["segment_id"] for row in lake.rows("batches")}) > 6


@pytest.mark.long
@pytest.mark.parametrize("small_rows", [0, 1, 512])
@pytest.mark.parametrize("file_rows", [1, 5, 8192])
def test_tables_do_not_depend_on_how_rows_are_put_into_files(tmp_path, source, monkeypatch, small_rows, file_rows):
    logs = write(source)
    one_each, together = Lake(tmp_path / "one"), Lake(tmp_path / "together")
    for first in (True, False):
        if not first:
            grow(source, logs)
        monkeypatch.setattr(batch_rows, "SMALL_ROWS", 0)
        one_each.turn(source.path)
        monkeypatch.setattr(batch_rows, "SMALL_ROWS", small_rows)
        monkeypatch.setattr(validate_job, "FILE_ROWS", file_rows)
        together.turn(source.path)
        assert content(one_each) == content(together), first
    assert one_each.ledger("b") == together.ledger("b")
    assert "aborted" in {state for _, _, state in together.ledger("b")}


def test_a_run_that_died_after_its_rows_leaves_nothing_double(tmp_path, source, monkeypatch):
    logs = write(source)
    lake, expected = Lake(tmp_path / "lake"), Lake(tmp_path / "expected")
    expected.turn(source.path)

    def die(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(validate, "_log_passes", die)
        with pytest.raises(KeyboardInterrupt):
            lake.turn(source.path)
    left = {row["segment_id"] for row in lake.rows("batches")}
    plan = validate.plan(ValidateConfig(str(lake.path), "look", AS_OF_MS))
    assert set(plan.unfinished) == left
    lake.turn(source.path)
    assert content(lake) == content(expected)
    grow(source, logs)
    lake.turn(source.path)
    expected.turn(source.path)
    assert content(lake) == content(expected)


def test_growth_of_one_log_opens_only_files_with_its_segments(tmp_path, source, monkeypatch):
    logs = write(source)
    monkeypatch.setattr(validate_job, "FILE_ROWS", 2)
    lake = Lake(tmp_path / "lake")
    lake.turn(source.path)
    before = files(lake)
    assert len(before) > 3
    logs["c-0"].append(2)
    mark(source, logs)
    seen: list[set[str]] = []
    run = InProcessExecutor.run

    def watched(self, work, tasks, sizes=None):
        seen.extend({Path(f.path).name for f in t.files if hasattr(f, "path")} for t in tasks if hasattr(t, "facts"))
        return run(self, work, tasks, sizes)

    monkeypatch.setattr(InProcessExecutor, "run", watched)
    lake.turn(source.path)
    of_c = {row["segment_id"] for row in lake.rows("segments") if row["topic"] == "c"}
    table = lake.path / "tables" / "batches"
    with_c = {name for name in before if of_c & set(pq.read_table(table / name)["segment_id"].to_pylist())}
    assert len(seen) == 1
    assert seen[0] <= with_c
    assert len(with_c) < len(before)


def test_a_commit_that_is_refused_leaves_the_rows_for_the_next_run(tmp_path, source, monkeypatch):
    write(source)
    lake = Lake(tmp_path / "lake")
    refused = []
    original = commits.add_files

    def once(path, name, *args, **named):
        if name == "batches" and not refused:
            refused.append(name)
            raise OSError(28, "No space left on device")
        return original(path, name, *args, **named)

    monkeypatch.setattr(commits, "add_files", once)
    with pytest.raises(Exception, match="No space left"):
        lake.turn(source.path)
    lake.turn(source.path)
    assert refused == ["batches"]
    assert len(lake.rows("batches")) == len({(r["segment_id"], r["position"]) for r in lake.rows("batches")})
    assert lake.published("c")


def test_growth_of_one_log_replaces_only_files_with_rows_of_it(tmp_path):
    source = LogDirectory(tmp_path / "source")
    lake = Lake(tmp_path / "lake")
    logs: dict[str, Partition] = {}
    for turn in (("a-0", "c-0"), ("b-0",), ("b-0",)):
        before = {path: logs_of(path) for path in live(lake)}
        for name in turn:
            logs.setdefault(name, source.partition(name, f"{ord(name[0]):021d}Q")).append(3)
        source.high_watermarks(**{name.replace("-", "_"): log.next_offset for name, log in logs.items()})
        lake.turn(source.path)
    replaced = before.keys() - live(lake)
    assert {path.relative_to(lake.path / "tables").parts[0] for path in replaced} >= {"logs"}
    assert all(before[path] == {"b"} for path in replaced)
    assert {"a", "c"} <= set().union(*before.values())


def live(lake: Lake) -> set[Path]:
    tables = [path for path in (lake.path / "tables").iterdir() if path.name != "findings"] if lake.turns else []
    return {table / file.path for table in tables for file in newest_files(str(lake.path), table.name)}


def logs_of(path: Path) -> set[str]:
    """The topics of its rows."""
    if "topic=" in path.parent.name:
        return {path.parent.name.removeprefix("topic=")}
    columns = pq.ParquetFile(path).read().to_pydict()
    if "topic" in columns:
        return set(columns["topic"])
    return {chr(int(log.partition(".")[0][:21])) for log in columns["log"]}
