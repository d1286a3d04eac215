"""A table that looks share stays readable when another program removes files of its log."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, read_rows, table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.table_specs import LOGS


def _lake_with_commits(lake: Path, count: int) -> DeltaTable:
    ensure_table(str(lake), "logs")
    for number in range(count):
        commits.append(str(lake), "logs", _no_rows(), f"run{number}", [Guard(f"logs/{number}", None, number + 1)])
    return DeltaTable(table_uri(str(lake), "logs"))


def _no_rows() -> pa.Table:
    return LOGS.empty_table()


def _remove_old_commits(table: DeltaTable, uri: str) -> list[str]:
    """What any Delta writer may do after a checkpoint."""
    log = Path(uri, "_delta_log")
    for path in log.glob("*.json"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    table.create_checkpoint()
    table.cleanup_metadata()
    return sorted(path.name for path in log.glob("*.json"))


def test_a_shared_table_answers_after_its_log_was_checkpointed_and_cleaned_up(tmp_path):
    table = _lake_with_commits(tmp_path, 12)
    uri = table_uri(str(tmp_path), "logs")
    assert latest_snapshot(str(tmp_path), "logs") is latest_snapshot(str(tmp_path), "logs"), "nothing is shared"
    ids = ["logs/0", "logs/11", "logs/12"]
    recorded = commits.versions(str(tmp_path), "logs", ids)
    assert recorded == {"logs/0": 1, "logs/11": 12, "logs/12": None}
    last = table.version()
    kept = _remove_old_commits(table, uri)
    assert len(kept) < 3, "nothing was cleaned up: this test looks at nothing"
    assert latest_snapshot(str(tmp_path), "logs").version() == last
    assert commits.versions(str(tmp_path), "logs", ids) == recorded
    assert read_rows(str(tmp_path), "logs").num_rows == 0


@pytest.mark.parametrize("change", ["commit", "checkpoint", "same version, other content"])
def test_a_shared_table_is_opened_again_after(tmp_path, change):
    table = _lake_with_commits(tmp_path, 3)
    uri = table_uri(str(tmp_path), "logs")
    shared = latest_snapshot(str(tmp_path), "logs")
    if change == "commit":
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    elif change == "checkpoint":
        table.create_checkpoint()
    else:
        last = Path(uri, "_delta_log", f"{table.version():020d}.json")
        other = last.with_suffix(".other")
        other.write_text(last.read_text() + json.dumps({"txn": {"appId": "elsewhere", "version": 7}}) + "\n")
        other.replace(last)
    again = latest_snapshot(str(tmp_path), "logs")
    assert again is not shared
    if change == "same version, other content":
        assert commits.versions(str(tmp_path), "logs", ["elsewhere"]) == {"elsewhere": 7}


def test_the_newest_commit_is_known_without_a_listing_until_its_file_is_gone(tmp_path, monkeypatch):
    lake, listings, listdir = str(tmp_path), [], os.listdir
    table = _lake_with_commits(tmp_path, 5)
    monkeypatch.setattr(delta_log.os, "listdir", lambda folder: listings.append(folder) or listdir(folder))
    assert delta_log.newest_commit_name(lake, "logs") == f"{table.version():020d}.json"
    for number in range(2):
        commits.append(lake, "logs", _no_rows(), "run", [Guard(f"later/{number}", None, 1)])
    assert delta_log.newest_commit_name(lake, "logs") == f"{table.version() + 2:020d}.json"
    assert len(listings) == 1
    shutil.rmtree(table_uri(lake, "logs"))
    assert delta_log.newest_commit_name(lake, "logs") == ""
    again = _lake_with_commits(tmp_path, 1)
    assert again.version() < table.version()
    assert delta_log.newest_commit_name(lake, "logs") == f"{again.version():020d}.json"
