"""A file gets a row digest only if all its rows are known to be ours: a digest is a proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.state import foreign_commits, tables_file
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.optimize.file_runs import Merge
from spark_jobs.optimize.merged_file import FileMergeTask, merge_files

LOG_ID = "AAAAAAAAAAAAAAAAAAAAAA.0"


def record(offset: int) -> dict[str, Any]:
    """A row of ``records``."""
    return {"topic": "orders", "partition": 0, "offset": offset, "log_id": LOG_ID, "segment_id": "s", "value": b"v"}


def published(lake: str, *offsets: int) -> str:
    """A file of records that Loglake wrote; its path."""
    before = {file.path for file in newest_files(lake, "records")}
    rows = pa.Table.from_pylist([record(offset) for offset in offsets], schema=TABLES["records"].schema)
    commits.append(lake, "records", rows, "run")
    (path,) = {file.path for file in newest_files(lake, "records")} - before
    return path


def written_again_by_another(lake: str, name: str, path: str) -> None:
    """The same rows as another engine writes them: its footer knows no digest."""
    full = Path(table_uri(lake, name), path)
    with pq.ParquetFile(full) as file:
        rows = file.read().replace_schema_metadata({})
    pq.write_table(rows, full, store_schema=False)


def merge(lake: str, *paths: str) -> WriteResult:
    """The result of merging files of one log."""
    there = {file.path: file for file in newest_files(lake, "records")}
    files = tuple(there[path] for path in paths)
    return merge_files(FileMergeTask(lake, Merge("records", {"topic": "orders"}, files, 1, "orders", LOG_ID, 0)))


def test_merged_rows_of_our_own_files_have_a_digest(tmp_path):
    lake = str(tmp_path)
    result = merge(lake, published(lake, 0, 1), published(lake, 2, 3))
    assert result.error is None
    (file,) = result.files
    full = f"{table_uri(lake, 'records')}/{file.path}"
    assert file.digest is not None
    assert row_digest.of_file(full) == file.digest


def test_rows_of_another_engine_have_no_digest_after_a_merge(tmp_path):
    lake = str(tmp_path)
    ours, theirs = published(lake, 0, 1), published(lake, 2, 3)
    written_again_by_another(lake, "records", theirs)
    result = merge(lake, ours, theirs)
    assert result.error is None
    (file,) = result.files
    assert file.digest is None
    assert row_digest.of_file(f"{table_uri(lake, 'records')}/{file.path}") is None


@pytest.mark.parametrize("by_another", [False, True])
def test_rows_that_a_change_carries_over_keep_what_is_known_of_them(tmp_path, by_another):
    lake = str(tmp_path)
    schema = TABLES["findings"].schema
    rows = [{"finding_id": name, "run_id": "r", "rule": "torn-tail", "severity": "info"} for name in ("a", "b")]
    commits.append(lake, "findings", pa.Table.from_pylist(rows, schema=schema), "run")
    (before,) = newest_files(lake, "findings")
    if by_another:
        written_again_by_another(lake, "findings", before.path)
    commits.delete(lake, "findings", ("finding_id", ["a"]), "run-2")
    (after,) = newest_files(lake, "findings")
    assert after.rows == 1
    assert (row_digest.of_file(f"{table_uri(lake, 'findings')}/{after.path}") is None) == by_another


def test_rows_that_were_not_compared_stay_unproven_when_our_optimize_carries_them_on(tmp_path):
    lake = str(tmp_path)
    ours, theirs = published(lake, 0, 1), published(lake, 2, 3)
    tables_file.record_state(lake, "run", 0)
    assert foreign_commits.unchecked_files(lake, "records") == []
    written_again_by_another(lake, "records", theirs)
    result = merge(lake, ours, theirs)
    files = result.files
    commits.rewrite_files(lake, "records", [ours, theirs], files, "run-2", data_change=False)
    assert [file.path for file in foreign_commits.unchecked_files(lake, "records")] == [files[0].path]
    tables_file.record_state(lake, "run-2", 0, {"records": {files[0].path: "equal"}})
    assert foreign_commits.unchecked_files(lake, "records") == []


def test_deltalake_s_own_compaction_keeps_neither_digests_nor_application_versions(tmp_path):
    """Why `optimize` merges files itself. If this fails, deltalake has learned it: look again."""
    lake = str(tmp_path)
    for name in ("a", "b"):
        row = {"finding_id": name, "run_id": "r", "rule": "torn-tail", "severity": "info"}
        commits.append(lake, "findings", pa.Table.from_pylist([row], schema=TABLES["findings"].schema), "run")
    table = open_table(lake, "findings")
    guarded = CommitProperties(app_transactions=[Transaction("optimized/findings", 7)])
    assert table.optimize.compact(commit_properties=guarded)["numFilesAdded"] == 1
    (merged,) = newest_files(lake, "findings")
    assert row_digest.of_file(f"{table_uri(lake, 'findings')}/{merged.path}") is None
    assert commits.versions(lake, "findings", ["optimized/findings"]) == {"optimized/findings": None}
