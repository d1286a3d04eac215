"""A table's log keeps its latest commits, and every version from there on, whenever the cleanup is interrupted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.lake.delta import commits, delta_log
from spark_jobs.lake.delta.tables import FINDINGS, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.optimize import log_cleanup
from spark_jobs.optimize.log_cleanup import CHECKPOINT_EVERY_MS, CHECKPOINTS_MS, drop_commits

NAME = "findings"


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A table with versions 0 to 30, and a checkpoint at 10, 20 and 30."""
    lake = str(tmp_path)
    for number in range(1, 31):
        row = dict.fromkeys(FINDINGS.names) | {"finding_id": str(number), "rule": "r", "severity": "info"}
        commits.append(lake, NAME, pa.Table.from_pylist([row], schema=FINDINGS), "run")
        if number % 10 == 0:
            DeltaTable(table_uri(lake, NAME)).create_checkpoint()
    assert DeltaTable(table_uri(lake, NAME)).version() == 30
    return lake


def kept(lake: str) -> tuple[list[int], list[int]]:
    """Versions of the commits and of the checkpoints."""
    files = delta_log.log_files(lake, NAME)
    return sorted(files.commits), sorted(files.checkpoints)


def rows_at(lake: str, version: int | None = None) -> int:
    return DeltaTable(table_uri(lake, NAME), version=version).to_pyarrow_table().num_rows


def test_what_a_checkpoint_sums_up_goes_and_the_latest_commits_stay(lake):
    now_ms = storage.clock_ms(lake)
    assert drop_commits(lake, NAME, now_ms, kept=5) == 20
    assert kept(lake)[0] == list(range(20, 31))
    assert rows_at(lake) == 30
    assert [rows_at(lake, version) for version in range(20, 31)] == list(range(20, 31))
    assert drop_commits(lake, NAME, now_ms, kept=5) == 0


@pytest.mark.parametrize("few", [21, 30, 1000])
def test_nothing_goes_before_the_checkpoint_that_is_old_enough(lake, few):
    before = kept(lake)
    assert drop_commits(lake, NAME, storage.clock_ms(lake), kept=few) == 0
    assert kept(lake) == before


def test_a_table_whose_user_says_how_long_commits_stay_keeps_them_so_long(lake):
    DeltaTable(table_uri(lake, NAME)).alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
    assert drop_commits(lake, NAME, storage.clock_ms(lake), kept=1) == 0


def test_interrupted_anywhere_the_log_has_no_hole_and_the_next_cleanup_does_the_rest(lake, monkeypatch):
    delete, left = storage.delete, iter([*range(7)])

    def deleting(path: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        delete(path)

    monkeypatch.setattr(storage, "delete", deleting)
    with pytest.raises(KeyboardInterrupt):
        drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(7, 31))
    assert rows_at(lake) == 30
    monkeypatch.setattr(storage, "delete", delete)
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(20, 31))


def test_one_older_checkpoint_stays_in_each_hour_of_two_days_and_is_a_whole_version(lake, monkeypatch):
    # All in the middle of one hour, whatever the time is now.
    now_ms = storage.clock_ms(lake) // CHECKPOINT_EVERY_MS * CHECKPOINT_EVERY_MS + CHECKPOINT_EVERY_MS // 2
    listed = delta_log.log_files(lake, NAME)
    at_once = {version: replace(file, placed_ms=now_ms) for version, file in listed.checkpoints.items()}
    monkeypatch.setattr(delta_log, "log_files", lambda *_: replace(listed, checkpoints=at_once))
    # All three are of this hour: the latest of them stays beside the base.
    drop_commits(lake, NAME, now_ms, kept=5)
    monkeypatch.undo()
    assert kept(lake)[1] == [20, 30]
    # Placed in an earlier hour, one of two days ago: only the first of them tells something.
    checkpoints = delta_log.log_files(lake, NAME).checkpoints
    placed = {20: now_ms - 3 * CHECKPOINT_EVERY_MS, 30: now_ms}
    monkey = {v: file.__class__(file.path, file.size, file.modified_ms, placed[v]) for v, file in checkpoints.items()}
    assert not list(log_cleanup._needless(monkey, 30, now_ms))
    assert [file.path for file in log_cleanup._needless(monkey, 30, now_ms + CHECKPOINTS_MS)] == [checkpoints[20].path]
    for version in range(20, 30):  # what is left of version 20 is its checkpoint alone
        os.unlink(delta_log.commit_file(lake, NAME, version))
    assert rows_at(lake, 20) == 20
