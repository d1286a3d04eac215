"""A table's log keeps its latest commits, and every version from there on, whenever the cleanup is interrupted."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.state import foreign_commits, tables_file
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store import deletion, object_store, storage
from spark_jobs.lake.table_specs import FINDINGS
from spark_jobs.optimize import optimize_job
from spark_jobs.optimize.optimize_job import CHECKPOINT_EVERY_MS, CHECKPOINTS_MS, drop_commits

NAME = "findings"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lake that each test gets a copy of."""
    lake = str(tmp_path_factory.mktemp("made-once"))
    for number in range(1, 31):
        row = dict.fromkeys(FINDINGS.names) | {"finding_id": str(number), "rule": "r", "severity": "info"}
        commits.append(lake, NAME, pa.Table.from_pylist([row], schema=FINDINGS), "run")
        if number % 10 == 0:
            DeltaTable(table_uri(lake, NAME)).create_checkpoint()
    assert DeltaTable(table_uri(lake, NAME)).version() == 30
    return lake


@pytest.fixture
def lake(made_once: str, tmp_path: Path) -> str:
    """A table with versions 0 to 30, and a checkpoint at 10, 20 and 30."""
    return shutil.copytree(made_once, str(tmp_path), dirs_exist_ok=True)


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
    # Checkpoint 20 is of an earlier hour. It is needed now, and needless when CHECKPOINTS_MS have passed.
    checkpoints = delta_log.log_files(lake, NAME).checkpoints
    placed = {20: now_ms - 3 * CHECKPOINT_EVERY_MS, 30: now_ms}
    monkey = {v: file.__class__(file.path, file.size, file.modified_ms, placed[v]) for v, file in checkpoints.items()}
    assert not list(optimize_job._needless(monkey, 30, now_ms))
    assert [file.path for file in optimize_job._needless(monkey, 30, now_ms + CHECKPOINTS_MS)] == [checkpoints[20].path]
    for version in range(20, 30):  # what is left of version 20 is its checkpoint alone
        os.unlink(delta_log.commit_file(lake, NAME, version))
    assert rows_at(lake, 20) == 20


def record_at(lake: str, version: int) -> None:
    """As if a run had last looked at the table at this version."""
    path = Path(lake, tables_file.STATE_FILE)
    tables_file.record_state(lake, "run", 1)
    content = json.loads(path.read_bytes())
    content["tables"][NAME]["version"] = version
    path.write_text(json.dumps(content))


def change_info(lake: str, version: int, **changes: object) -> None:
    """Change fields of the actions `commitInfo` and `add` of a commit."""
    path = Path(delta_log.commit_file(lake, NAME, version))
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        for kind in action.keys() & {"commitInfo", "add"}:
            action[kind] |= {name: value for name, value in changes.items() if name in action[kind]}
    path.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize(("foreign", "first_kept"), [(5, 0), (12, 10), (25, 20)])
def test_a_commit_of_another_program_stays_where_no_run_is_recorded(lake, foreign, first_kept):
    change_info(lake, foreign, userMetadata="")
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(first_kept, 31))
    assert [commit.version for commit in foreign_commits.foreign_commits(lake, NAME, -1)] == [foreign]


def test_commits_that_no_run_has_seen_stay(lake):
    record_at(lake, 14)
    change_info(lake, 15, userMetadata="")
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(10, 31))
    assert [commit.version for commit in foreign_commits.foreign_commits(lake, NAME, 14)] == [15]
    record_at(lake, 30)
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(20, 31))


def test_our_own_commits_stay_too_until_a_run_has_seen_them(lake):
    record_at(lake, 14)
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(10, 31))


def test_a_commit_of_a_file_that_waited_for_days_stays_as_it_dates_the_removal_of_others(lake):
    commit = delta_log.read_commit(lake, NAME, 12)
    change_info(lake, 12, modificationTime=commit.timestamp_ms - 4 * 86_400_000)
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(10, 31))
    assert delta_log.read_history(lake, NAME).longest_wait_ms >= 4 * 86_400_000


def test_a_damaged_commit_stays(lake):
    Path(delta_log.commit_file(lake, NAME, 12)).write_text("{")
    drop_commits(lake, NAME, storage.clock_ms(lake), kept=5)
    assert kept(lake)[0] == list(range(10, 31))


@pytest.mark.parametrize(("vacuum", "after_days", "goes"), [(False, 7, True), (True, 7, True), (True, 14, False)])
def test_files_that_are_kept_longer_than_checkpoints_date_their_removal_keep_the_commits(
    lake, monkeypatch, vacuum, after_days, goes
):
    monkeypatch.setattr(optimize_job, "KEPT_COMMITS", 5)
    monkeypatch.setattr(optimize_job, "CHECKPOINT_COMMITS", 0)
    config = OptimizeConfig(
        lake, "run", storage.clock_ms(lake), apply=True, vacuum=vacuum, vacuum_after_ms=after_days * 86_400_000
    )
    optimize_job.apply(optimize_job.plan(config), config, None)
    assert (0 not in kept(lake)[0]) == goes


def test_commits_go_where_the_library_has_just_written_a_checkpoint_by_itself(lake, monkeypatch):
    monkeypatch.setattr(optimize_job, "KEPT_COMMITS", 5)
    config = OptimizeConfig(lake, "run", storage.clock_ms(lake), apply=True)
    plan = optimize_job.plan(config)
    assert NAME not in plan.checkpoints
    optimize_job.apply(plan, config, None)
    assert kept(lake)[0][0] == 20


@pytest.mark.parametrize(("vacuum", "age_days", "cleans"), [(True, 0, True), (True, 2, False), (False, 0, False)])
def test_delta_cleans_by_age_only_after_a_run_has_seen_the_commits_and_the_longest_wait_is_known(
    lake, monkeypatch, vacuum, age_days, cleans
):
    cleaned = []
    monkeypatch.setattr(optimize_job, "CHECKPOINT_COMMITS", 0)
    monkeypatch.setattr(optimize_job, "drop_commits", lambda *_: 0)
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", lambda table: cleaned.append(table))
    clock = storage.clock_ms(lake)
    monkeypatch.setattr(storage, "clock_ms", lambda root: clock + age_days * 86_400_000)
    config = OptimizeConfig(lake, "run", clock, apply=True, vacuum=vacuum)
    optimize_job.apply(optimize_job.plan(config), config, None)
    assert bool(cleaned) == cleans


def test_an_object_store_deletes_many_commits_with_one_request(monkeypatch):
    requests: list[list[str]] = []
    monkeypatch.setattr(object_store, "delete_many", requests.append)
    paths = [f"s3://bucket/lake/{number}.json" for number in range(2500)]
    deletion.delete_files(paths)
    assert [len(each) for each in requests] == [1000, 1000, 500]
    assert [path for each in requests for path in each] == paths
