"""The cheap checks name what other programs did to tables and archive since the last run, and open no data file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.delta.state.counted_findings import FINDINGS_A_TABLE
from spark_jobs.lake.delta.state.foreign_commits import foreign_commits
from spark_jobs.lake.delta.state.tables_file import read_state, record_state
from spark_jobs.lake.delta.tables.delta_log import newest_version
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import LOGS, SEGMENTS, TABLES
from spark_jobs.lake.view.harm import cheap_check

pytestmark = pytest.mark.slow


def _rows(*offsets: int) -> pa.Table:
    rows = [{"topic": "t", "partition": 0, "offset": o, "timestamp_ms": 0, "log_id": "l"} for o in offsets]
    return pa.Table.from_pylist(rows, schema=TABLES["records"].schema)


def _publish(lake: str, *offsets: int) -> None:
    written = write_file(table_uri(lake, "records"), TABLES["records"], _rows(*offsets).to_batches(), {"topic": "t"})
    assert written is not None
    commits.add_files(lake, "records", [written], "run")


def _archive(lake: str, base: int, content: bytes) -> str:
    path = f"archive/l/0/{base:020d}-x.log"
    segment = dict.fromkeys(SEGMENTS.names) | {
        "segment_id": f"s{base}",
        "log": "l/0",
        "topic": "t",
        "log_id": "l",
        "partition": 0,
        "path": path,
        "base_offset": base,
        "next_offset": base + 3,
        "start": 0,
        "size": len(content),
        "sealed": True,
        "digest": "d",
        "modified_ms": 1_700_000_000_000 + base,
        "generation": 0,
        "origin_file": "o",
        "origin_position": 0,
        "origin_base_offset": base,
    }
    storage.put(storage.join(lake, path), content, modified_ms=segment["modified_ms"])
    commits.append(lake, "segments", pa.Table.from_pylist([segment], schema=SEGMENTS), "run")
    return path


@pytest.fixture
def lake(tmp_path: Path) -> str:
    lake = str(tmp_path / "lake")
    for base in (0, 3):
        _archive(lake, base, b"abc" * (base + 1))
        _publish(lake, base, base + 1, base + 2)
    commits.append(lake, "logs", pa.Table.from_pylist([dict.fromkeys(LOGS.names) | {"log": "l/0"}], LOGS), "run")
    record_state(lake, "run", 1)
    return lake


def _rules(lake: str) -> list[str]:
    return [finding.rule for finding in cheap_check(lake)]


def _files(lake: str, name: str = "records") -> list[Path]:
    return [Path(table_uri(lake, name), file.path) for file in newest_files(lake, name)]


def test_an_unharmed_lake_has_no_finding_also_after_runs_of_ours_and_without_a_memory(lake):
    assert cheap_check(lake) == ()
    _publish(lake, 6)
    commits.replace(lake, "logs", ("log", ["l/0"]), pa.Table.from_pylist([{"log": "l/1"}], LOGS), "run")
    assert cheap_check(lake) == ()
    os.unlink(storage.join(lake, tables_file.STATE_FILE))
    assert cheap_check(lake) == ()


def test_the_state_names_version_rows_files_and_bytes_of_each_table(lake):
    state = read_state(lake)
    assert set(state.tables) == {"records", "segments", "logs"}
    records = state.tables["records"]
    assert (records.version, records.rows, records.files) == (2, 6, 2)
    assert records.bytes == sum(path.stat().st_size for path in _files(lake))
    assert (state.run_id, state.as_of_ms, state.since("records"), state.since("batches")) == ("run", 1, 2, -1)


def test_the_state_is_written_only_when_something_has_changed(lake):
    path = Path(lake, tables_file.STATE_FILE)
    before = path.stat().st_mtime_ns, path.read_bytes()
    record_state(lake, "next", 2)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    _publish(lake, 6)
    record_state(lake, "next", 2)
    assert read_state(lake).run_id == "next"
    assert read_state(lake).tables["records"].rows == 7


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"1", b'{"version": 9}', b'{"version": 1, "tables": 3}'])
def test_a_state_that_cannot_be_understood_counts_as_not_there(lake, content):
    Path(lake, tables_file.STATE_FILE).write_bytes(content)
    assert read_state(lake).tables == {}
    assert cheap_check(lake) == ()
    assert record_state(lake, "next", 2).tables["records"].rows == 6


def test_answers_on_files_of_others_are_kept_while_the_files_live(lake):
    one, two = (str(path.relative_to(table_uri(lake, "records"))) for path in _files(lake))
    record_state(lake, "next", 2, {"records": {one: "equal", "gone": "equal"}})
    record_state(lake, "third", 3, {"records": {two: [[3, 4, "value"]]}})
    assert read_state(lake).foreign == {"records": {one: "equal", two: [[3, 4, "value"]]}}


def _delete(lake: str) -> None:
    DeltaTable(table_uri(lake, "records")).delete("offset = 1")


def _update(lake: str) -> None:
    DeltaTable(table_uri(lake, "records")).update({"timestamp_ms": "7"}, predicate="offset = 1")


def _append(lake: str) -> None:
    write_deltalake(table_uri(lake, "records"), _rows(1), mode="append")


def _compact(lake: str) -> None:
    DeltaTable(table_uri(lake, "records")).optimize.compact()


def _restore(lake: str) -> None:
    DeltaTable(table_uri(lake, "records")).restore(0)


@pytest.mark.parametrize(
    ("change", "operation", "rows"),
    [
        (_delete, "DELETE", True),
        (_update, "UPDATE", True),
        (_append, "WRITE", True),
        (_compact, "OPTIMIZE", False),
        (_restore, "RESTORE", True),
    ],
)
def test_a_commit_of_another_program_is_named_once_with_operation_engine_and_version(lake, change, operation, rows):
    change(lake)
    _publish(lake, 9)
    (finding,) = cheap_check(lake)
    assert finding.rule == "foreign-commit"
    assert f"table records: version 3 is a commit {operation} of delta-rs" in finding.message
    assert ("rows may have changed" in finding.message) == rows
    (commit,) = foreign_commits(lake, "records", 2)
    assert (commit.version, commit.operation, commit.data_change) == (3, operation, rows)
    assert foreign_commits(lake, "records", 3) == []
    record_state(lake, "next", 2)
    assert cheap_check(lake) == ()


def test_commits_of_others_are_counted_where_they_are_many(lake):
    for _ in range(FINDINGS_A_TABLE + 2):
        _append(lake)
    findings = cheap_check(lake)
    assert len(findings) == FINDINGS_A_TABLE + 1
    assert "2 more commits" in findings[-1].message


def test_logs_whose_registered_files_are_gone_are_counted_where_they_are_many(lake: str, tmp_path: Path) -> None:
    """With a reference archive a lost disk of a broker takes files of all its logs."""
    registered = read_rows(lake, "segments").to_pylist()[0]
    rows = [
        registered
        | {"segment_id": f"at-source-{n}", "partition": n, "path": str(tmp_path / f"t-{n}" / f"{0:020d}.log")}
        for n in range(FINDINGS_A_TABLE + 2)
    ]
    for row in rows:
        os.makedirs(os.path.dirname(row["path"]))
    commits.append(lake, "segments", pa.Table.from_pylist(rows, schema=SEGMENTS), "run")
    findings = cheap_check(lake)
    assert [finding.rule for finding in findings] == ["archive-file-missing"] * (FINDINGS_A_TABLE + 1)
    assert "2 more logs have" in findings[-1].message
    assert findings[-1].file == rows[-2]["path"], "the advice about the next one is printed"


def test_commits_that_are_gone_before_a_run_saw_them_are_reported(lake):
    record_state(lake, "run", 1)
    before = newest_version(lake, "records")
    _append(lake)
    _publish(lake, 9)
    DeltaTable(table_uri(lake, "records")).create_checkpoint()
    _commit_file(lake, before + 1).unlink()
    (finding,) = cheap_check(lake)
    assert finding.rule == "commits-not-kept"
    assert f"versions {before + 1} to {before + 1}" in finding.message
    record_state(lake, "next", 2)
    assert cheap_check(lake) == ()


def _commit_file(lake: str, version: int) -> Path:
    return Path(table_uri(lake, "records"), "_delta_log", f"{version:020d}.json")


def test_a_lost_commit_is_an_error_also_when_another_has_taken_its_number(lake):
    _commit_file(lake, 2).unlink()
    assert "table-went-back" in _rules(lake)
    _publish(lake, 8)
    assert "table-went-back" in _rules(lake)
    record_state(lake, "next", 2)
    assert _rules(lake) == []


def test_a_commit_that_was_emptied_or_is_damaged_is_an_error(lake):
    _commit_file(lake, 2).write_bytes(b"")
    assert "table-went-back" in _rules(lake)
    _commit_file(lake, 2).write_bytes(b"{")
    (finding,) = cheap_check(lake)
    assert finding.rule == "table-went-back"
    assert f"loglake repair {lake} --rebuild records --apply" in finding.message


def test_a_table_that_is_gone_is_an_error(lake):
    shutil.rmtree(table_uri(lake, "records"))
    (finding,) = cheap_check(lake)
    assert (finding.rule, finding.severity) == ("table-missing", "error")
    assert "6 rows" in finding.message


def test_a_table_file_that_is_gone_or_cut_is_named_with_its_offsets(lake):
    gone, cut = _files(lake)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-5])
    for _ in range(2):
        first, second = sorted(cheap_check(lake), key=lambda finding: finding.rule)
        assert (first.rule, second.rule) == ("table-file-missing", "table-file-size")
        assert {(f.start_offset, f.end_offset) for f in (first, second)} == {(0, 3), (3, 6)}
        assert first.file == str(gone)
        record_state(lake, "next", 2)  # nothing is forgotten by looking


def test_a_file_that_only_lies_in_the_folder_of_a_table_is_no_matter(lake):
    Path(table_uri(lake, "records"), "topic=t", "part-of-nobody.parquet").write_bytes(b"x")
    assert cheap_check(lake) == ()


def test_an_archive_file_that_is_gone_cut_or_written_again_is_named(lake):
    first, second = (Path(lake, f"archive/l/0/{base:020d}-x.log") for base in (0, 3))
    first.unlink()
    second.write_bytes(bytes(second.stat().st_size))  # zeros of the same size
    missing, changed = cheap_check(lake)
    assert (missing.rule, missing.start_offset, missing.end_offset) == ("archive-file-missing", 0, 3)
    assert (changed.rule, changed.start_offset, changed.end_offset) == ("archive-file-changed", 3, 6)
    second.write_bytes(b"a")
    os.utime(second, ns=((1_700_000_000_003) * 1_000_000,) * 2)
    assert "has 1 bytes" in cheap_check(lake)[1].message


def test_zeros_with_the_old_size_and_time_are_left_to_verify(lake):
    """What a listing can't see: the documentation says so."""
    path = Path(lake, f"archive/l/0/{3:020d}-x.log")
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cheap_check(lake) == ()


def test_a_retired_segment_whose_file_went_is_no_finding(lake):
    row = next(s for s in archive.read_segments(lake) if s.base_offset == 0)
    planned = archive.planned_versions(lake, ["l/0"])
    archive.swap_segments(lake, [row], [], planned, "run", 5, archive.RETENTION)
    os.unlink(Path(lake, row.path))
    assert cheap_check(lake) == ()
    assert isinstance(row, Segment)


def test_the_state_file_is_plain_json(lake):
    content = json.loads(Path(lake, "tables.json").read_text())
    assert content["version"] == 1
    assert content["tables"]["records"]["rows"] == 6


def test_a_table_that_was_lost_and_made_again_is_named_as_missing(lake):
    shutil.rmtree(table_uri(lake, "logs"))
    for name in ("a", "b", "c"):  # it comes further than the lost one had come
        commits.append(lake, "logs", pa.Table.from_pylist([dict.fromkeys(LOGS.names) | {"log": name}], LOGS), "run")
    assert read_state(lake).tables["logs"].version < newest_version(lake, "logs")
    assert _rules(lake) == ["table-missing"]
    tables_file.forget(lake, ["logs"])
    assert _rules(lake) == []
