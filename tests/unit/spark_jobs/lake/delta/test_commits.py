"""Guards are in the commits: what another commit overtook is refused, whatever the lease said."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.errors import CommitUnanswered, ConcurrentChange, OutputMismatch, TableRefused
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import LOGS, QUARANTINE, TABLES


def _log_row(log: str, next_offset: int) -> pa.Table:
    row = dict.fromkeys(LOGS.names) | {"log": log, "next_offset": next_offset}
    return pa.Table.from_pylist([row], schema=LOGS)


def _quarantine_file(lake: Path, *positions: int) -> WrittenFile:
    rows = [{"segment_id": "s", "log": "a/0", "position": p, "size": 1, "bytes": b"x"} for p in positions]
    chunk = pa.RecordBatch.from_pylist(rows, schema=QUARANTINE)
    written = write_file(table_uri(str(lake), "quarantine"), TABLES["quarantine"], [chunk], {})
    assert written is not None
    return written


def test_a_plan_that_another_commit_overtook_is_refused_and_writes_nothing(tmp_path):
    lake = str(tmp_path)
    commits.append(lake, "logs", _log_row("a/0", 1), "run", [Guard("x", None, 5)])
    with pytest.raises(ConcurrentChange, match="is at 5"):
        commits.append(lake, "logs", _log_row("a/0", 2), "run", [Guard("x", None, 6)])
    with pytest.raises(ConcurrentChange):
        commits.replace(lake, "logs", ("log", ["a/0"]), _log_row("a/0", 2), "run", [Guard("x", 4, 6)])
    assert read_rows(lake, "logs", ["next_offset"])["next_offset"].to_pylist() == [1]
    commits.append(lake, "logs", _log_row("b/0", 2), "run", [Guard("x", 5, 6)])
    assert commits.versions(lake, "logs", ["x", "y"]) == {"x": 6, "y": None}


def test_files_and_their_transaction_version_land_in_one_commit(tmp_path):
    lake = str(tmp_path)
    written = _quarantine_file(tmp_path, 3, 9)
    commits.add_files(lake, "quarantine", [written], "run", [Guard("frontier", None, 10)])
    table = DeltaTable(table_uri(lake, "quarantine"))
    assert table.version() == 1
    assert table.transaction_version("frontier") == 10
    assert sorted(table.to_pyarrow_table()["position"].to_pylist()) == [3, 9]
    with pytest.raises(ConcurrentChange):
        commits.add_files(lake, "quarantine", [_quarantine_file(tmp_path, 3)], "run", [Guard("frontier", None, 10)])
    assert DeltaTable(table_uri(lake, "quarantine")).version() == 1


def test_a_guarded_commit_between_look_and_commit_is_seen(tmp_path, monkeypatch):
    """The other commit lands after the versions were compared: Delta itself must refuse."""
    lake = str(tmp_path)
    ensure_table(lake, "quarantine")
    overtaken = _quarantine_file(tmp_path, 1)
    winner = _quarantine_file(tmp_path, 2)
    compare = commits.check_guards

    def compare_then_lose_the_race(*args):
        compare(*args)
        monkeypatch.setattr(commits, "check_guards", compare)
        commits.add_files(lake, "quarantine", [winner], "other", [Guard("frontier", None, 10)])

    monkeypatch.setattr(commits, "check_guards", compare_then_lose_the_race)
    with pytest.raises(ConcurrentChange):
        commits.add_files(lake, "quarantine", [overtaken], "run", [Guard("frontier", None, 10)])
    assert read_rows(lake, "quarantine", ["position"])["position"].to_pylist() == [2]


def test_a_file_that_is_not_what_its_writer_reported_is_not_committed(tmp_path):
    lake = str(tmp_path)
    written = _quarantine_file(tmp_path, 1)
    lies = [
        replace(written, size=written.size - 1),
        replace(written, path="part-gone.parquet"),
        replace(written, rows=2),
        replace(written, partition_values={"topic": "orders"}),
    ]
    for lie in lies:
        with pytest.raises(OutputMismatch):
            commits.add_files(lake, "quarantine", [lie], "run")
    assert read_rows(lake, "quarantine").num_rows == 0


def test_a_commit_names_the_digests_of_the_files_that_it_adds(tmp_path):
    lake = str(tmp_path)
    one, two, merged = (_quarantine_file(tmp_path, *positions) for positions in ((3,), (5,), (3, 5)))
    commits.add_files(lake, "quarantine", [one, two], "run")
    commits.rewrite_files(lake, "quarantine", [one.path, two.path], [merged], "run", data_change=False)
    added, rewritten = (delta_log.read_commit(lake, "quarantine", version) for version in (1, 2))
    assert added is not None
    assert rewritten is not None
    assert added.digests == {one.path: one.digest, two.path: two.digest}
    assert rewritten.digests == {merged.path: merged.digest}
    assert len({one.digest, two.digest, merged.digest}) == 3


def _positions(lake: str) -> list[int]:
    return sorted(read_rows(lake, "quarantine", ["position"])["position"].to_pylist())


def test_files_written_in_the_place_of_others_take_their_rows_place(tmp_path):
    lake = str(tmp_path)
    old = [_quarantine_file(tmp_path, 3), _quarantine_file(tmp_path, 5)]
    commits.add_files(lake, "quarantine", [*old, _quarantine_file(tmp_path, 9)], "run", [Guard("frontier", None, 10)])
    merged = _quarantine_file(tmp_path, 3, 5)
    commits.rewrite_files(lake, "quarantine", [f.path for f in old], [merged], "run", data_change=False)
    assert _positions(lake) == [3, 5, 9]
    table = DeltaTable(table_uri(lake, "quarantine"))
    assert table.version() == 2
    assert table.transaction_version("frontier") == 10
    log = Path(table_uri(lake, "quarantine"), "_delta_log", f"{2:020}.json").read_text().splitlines()
    changes = [next(iter(json.loads(line).values())) for line in log if '"commitInfo"' not in line]
    assert [action["dataChange"] for action in changes] == [False] * 3


def test_a_file_whose_table_partition_needs_escaping_is_replaced_and_not_doubled(tmp_path):
    lake, topic = str(tmp_path), "a b%c"
    row = {"topic": topic, "partition": 0, "offset": 1, "log_id": "a"}
    chunk = pa.RecordBatch.from_pylist([row], schema=TABLES["records"].schema)
    old, new = (write_file(table_uri(lake, "records"), TABLES["records"], [chunk], {"topic": topic}) for _ in "ab")
    commits.add_files(lake, "records", [old], "run")
    commits.rewrite_files(lake, "records", [old.path], [new], "run", data_change=False)
    assert read_rows(lake, "records", ["offset"])["offset"].to_pylist() == [1]


def test_a_file_that_went_meanwhile_is_not_replaced_a_second_time(tmp_path):
    lake = str(tmp_path)
    old = _quarantine_file(tmp_path, 3)
    commits.add_files(lake, "quarantine", [old], "run")
    commits.rewrite_files(lake, "quarantine", [old.path], [_quarantine_file(tmp_path, 3)], "run", data_change=False)
    with pytest.raises(ConcurrentChange, match="no longer live"):
        commits.rewrite_files(lake, "quarantine", [old.path], [_quarantine_file(tmp_path, 3)], "run", data_change=False)
    assert _positions(lake) == [3]


@pytest.mark.parametrize("other", ["append", "rewrite"])
def test_a_commit_between_look_and_rewrite_refuses_it(tmp_path, monkeypatch, other):
    lake = str(tmp_path)
    old = _quarantine_file(tmp_path, 3)
    commits.add_files(lake, "quarantine", [old], "run")
    compare = commits.check_guards

    def compare_then_lose_the_race(*args):
        compare(*args)
        monkeypatch.setattr(commits, "check_guards", compare)
        if other == "append":
            commits.add_files(lake, "quarantine", [_quarantine_file(tmp_path, 7)], "other")
        else:
            mine = _quarantine_file(tmp_path, 3, 4)
            commits.rewrite_files(lake, "quarantine", [old.path], [mine], "other", data_change=True)

    monkeypatch.setattr(commits, "check_guards", compare_then_lose_the_race)
    with pytest.raises(ConcurrentChange, match="another commit came between"):
        commits.rewrite_files(lake, "quarantine", [old.path], [_quarantine_file(tmp_path, 3)], "run", data_change=False)
    assert _positions(lake) == ([3, 7] if other == "append" else [3, 4])


def test_statistics_come_from_the_file_and_never_exclude_a_row(tmp_path):
    import datetime

    from logcore.columns.records_columns import RECORDS_SCHEMA

    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    rows = [
        {"topic": "orders", "partition": 1, "offset": offset, "timestamp": moment, "timestamp_ms": 0, "log_id": "a"}
        for offset in (7, 9)
    ]
    rows.append(rows[0] | {"offset": 8, "timestamp": None})
    chunk = pa.RecordBatch.from_pylist(rows, schema=RECORDS_SCHEMA)
    written = write_file(str(tmp_path), TABLES["records"], [chunk], {"topic": "orders"})
    assert written is not None
    assert written.path.startswith("topic=orders/")
    told = json.loads(written.statistics)
    assert told["numRecords"] == 3
    assert (told["minValues"]["offset"], told["maxValues"]["offset"]) == (7, 9)
    assert (told["minValues"]["timestamp"], told["maxValues"]["timestamp"]) == (
        "2026-01-02T03:04:05.678Z",
        "2026-01-02T03:04:05.679Z",
    )
    assert told["nullCount"]["timestamp"] == 1


def test_a_writer_that_fails_leaves_no_file_that_looks_whole(tmp_path):
    def rows():
        yield pa.RecordBatch.from_pylist([{"segment_id": "s", "position": 1}], schema=QUARANTINE)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_file(str(tmp_path), TABLES["quarantine"], rows(), {})
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_commit_that_depends_on_a_whole_table_is_refused_after_a_foreign_commit_but_not_after_its_own(tmp_path):
    lake = str(tmp_path)
    early = TableVersions.of(lake, "logs", "quarantine")
    mine = TableVersions.of(lake, "logs", "quarantine")
    commits.append(lake, "logs", _log_row("a/0", 1), "run", expected=mine)
    commits.replace(lake, "logs", ("log", ["a/0"]), _log_row("a/0", 2), "run", expected=mine)
    commits.delete(lake, "logs", ("log", ["b/0"]), "run", mine)
    commits.add_files(lake, "quarantine", [_quarantine_file(tmp_path, 1)], "run", expected=mine)
    for late in (
        lambda: commits.append(lake, "logs", _log_row("b/0", 1), "late", expected=early),
        lambda: commits.replace(lake, "logs", ("log", ["a/0"]), _log_row("a/0", 3), "late", expected=early),
        lambda: commits.add_files(lake, "quarantine", [_quarantine_file(tmp_path, 1)], "late", expected=early),
    ):
        with pytest.raises(ConcurrentChange, match="the plan was made at None"):
            late()
    assert read_rows(lake, "logs", ["next_offset"])["next_offset"].to_pylist() == [2]
    commits.append(lake, "logs", _log_row("b/0", 4), "run", expected=mine)


def test_a_commit_that_depends_on_a_whole_table_is_refused_after_one_between_its_check_and_itself(
    tmp_path, monkeypatch
):
    lake = str(tmp_path)
    ensure_table(lake, "logs")
    expected = TableVersions.of(lake, "logs")
    compare = TableVersions.check

    def compare_then_lose_the_race(*args):
        compare(*args)
        monkeypatch.setattr(TableVersions, "check", compare)
        commits.append(lake, "logs", _log_row("b/0", 1), "other")

    monkeypatch.setattr(TableVersions, "check", compare_then_lose_the_race)
    with pytest.raises(ConcurrentChange):
        commits.append(lake, "logs", _log_row("a/0", 1), "run", expected=expected)
    assert read_rows(lake, "logs", ["log"])["log"].to_pylist() == ["b/0"]


def test_a_commit_without_an_answer_is_reported_as_unknown_with_what_to_do(tmp_path, monkeypatch):
    def cut_off(*_, **__):
        raise OSError("connection reset by peer")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", cut_off)
    with pytest.raises(CommitUnanswered, match=r"connection reset by peer.*run again"):
        commits.append(str(tmp_path), "logs", _log_row("a/0", 1), "run")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_what_the_message_begins_with(tmp_path, monkeypatch, code: int):
    def full(*_, **__):
        raise OSError(f"Generic LocalFileSystem error: Unable to copy data: {os.strerror(code)} (os error {code})")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", full)
    with pytest.raises(CommitUnanswered) as caught:
        commits.append(str(tmp_path), "logs", _log_row("a/0", 1), "run")
    assert str(caught.value).startswith(f"The disk of {tmp_path} is full. Table logs: a commit was not confirmed")


def test_a_table_that_another_program_made_append_only_since_the_plan_loses_no_file(tmp_path):
    lake = str(tmp_path)
    old = _quarantine_file(tmp_path, 3)
    commits.add_files(lake, "quarantine", [old], "run")
    DeltaTable(table_uri(lake, "quarantine")).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(TableRefused, match="append-only"):
        commits.rewrite_files(lake, "quarantine", [old.path], [_quarantine_file(tmp_path, 3)], "run", data_change=False)
    with pytest.raises(TableRefused, match="append-only"):
        commits.delete(lake, "quarantine", ("segment_id", ["s"]), "run")
    assert _positions(lake) == [3]
