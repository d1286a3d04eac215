"""Files of retired segments are deleted when nothing needs them, and nothing else is."""

from __future__ import annotations

import errno
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import (
    CompactionConfig,
    ReplaceConfig,
    TidyArchiveConfig,
)
from spark_jobs.errors import ConcurrentChange, UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store import deletion, storage
from spark_jobs.policies.policies_file import read_policies
from spark_jobs.tidy_archive import archive_removal
from spark_jobs.tidy_archive import tidy_archive_job as tidy_archive
from tests.jobs.tidy_archive.tidied_lake import DAY, POLICY, RETIRED_AT, keep_tidy, plant, retain
from tests.spark.archived import files, ledger
from tests.spark.cycle import AS_OF_MS


def test_a_dry_run_names_what_could_go_and_why_and_touches_nothing(lake):
    retain(lake)
    plant(lake, "archive/lost.0/0/0123/00000000000000000000.log")
    before, versions = files(lake.path), lake.versions()
    report = keep_tidy(lake, apply=False)
    assert not report.used_executor
    assert [file.path for file in report.plan.orphans.files] == ["archive/lost.0/0/0123/00000000000000000000.log"]
    [retired] = [row for row in lake.rows("segments") if row["retired_ms"] is not None]
    stem = retired["path"].removesuffix(".log")
    assert {file.path for file in report.plan.deletable.files} >= {
        stem + suffix for suffix in (".log", ".index", ".timeindex")
    }
    assert {file.age_ms for file in report.plan.deletable.files} == {AS_OF_MS - RETIRED_AT}
    delay_ms = 1000  # of the policy
    assert {file.waits_ms for file in report.plan.deletable.files} == {AS_OF_MS - RETIRED_AT - delay_ms}
    [slices] = report.plan.mergeable.logs
    assert slices.base_offsets == (10, 15, 20)
    assert lake.versions() == versions
    after = files(lake.path)
    assert {name: after[name] for name in after if name != "lease.json"} == {
        name: before[name] for name in before if name != "lease.json"
    }


def test_files_of_a_retired_segment_go_those_of_others_and_its_row_stay(lake):
    retain(lake)
    [retired] = [row for row in lake.rows("segments") if row["retired_ms"] is not None]
    others = {r["path"] for r in lake.rows("segments")} - {retired["path"]}
    beside = [path for path in (lake.path / retired["path"]).parent.iterdir() if path.suffix != ".writing"]
    report = keep_tidy(lake)
    assert not [path for path in (lake.path / "archive").rglob("*") if retired["segment_id"] in path.name]
    assert all((lake.path / path).exists() for path in others)
    assert [path for path in beside if not path.exists()] == [
        path for path in beside if retired["segment_id"] in path.name
    ]
    [row] = [row for row in lake.rows("segments") if row["segment_id"] == retired["segment_id"]]
    assert row == retired | {"deleted_ms": AS_OF_MS}
    assert report.metrics["deleted_segments"] == 1
    [action] = [row for row in lake.rows("log_actions") if row["action"] == "delete"]
    assert (action["segment_id"], action["bytes_before"], action["bytes_after"]) == (
        retired["segment_id"],
        retired["size"],
        0,
    )
    assert "retired by retention" in action["reason"]
    versions = lake.versions()
    assert keep_tidy(lake).changed == ()
    assert lake.versions() == versions


def test_a_segment_that_is_needed_keeps_its_files_and_the_plan_says_what_for(lake, monkeypatch):
    retain(lake)
    [retired] = [s for s in archive.read_segments(str(lake.path), live=False) if s.retired_ms is not None]
    frontiers = archive_removal.frontier.read_frontiers
    monkeypatch.setattr(
        archive_removal.frontier, "read_frontiers", lambda lake, logs: dict.fromkeys(frontiers(lake, logs), 4)
    )
    report = keep_tidy(lake)
    [kept] = report.plan.kept.segments
    assert kept.reason == "nothing is published from offset 4 on"
    assert (lake.path / retired.path).exists()


def test_what_was_retired_a_moment_ago_waits_for_readers_whatever_clock_a_run_was_given(lake):
    retain(lake)
    settings = {"force": False, "orphan_after_ms": 7 * DAY}
    report = keep_tidy(lake, as_of_ms=AS_OF_MS + 1000 * DAY, **settings)
    assert report.metrics["deleted_segments"] == 0
    [kept] = report.plan.kept.segments
    assert "may not have finished" in kept.reason


def test_what_was_retired_a_longest_run_ago_by_the_stores_clock_goes(lake, monkeypatch):
    retain(lake)
    clock = storage.clock_ms(str(lake.path))
    monkeypatch.setattr(storage, "clock_ms", lambda root: clock + DAY + 60_000)
    report = keep_tidy(lake, as_of_ms=AS_OF_MS, force=False, orphan_after_ms=7 * DAY)
    assert report.metrics["deleted_segments"] == 1
    assert report.metrics["deleted_files"] >= 3


def test_a_checkpoint_that_outlived_its_commit_dates_a_retirement_too(lake, monkeypatch):
    """A watch keeps few commits of `segments`, and a checkpoint for each hour."""
    retain(lake)
    segments, root = lake.path / "tables" / "segments", str(lake.path)
    retired = DeltaTable(str(segments))
    retired.create_checkpoint()
    clock = storage.clock_ms(root)
    time.sleep(0.05)
    for _ in range(2):  # later commits are too young to say anything
        known = commits.versions(root, "segments", ["test"])["test"]
        commits.append(
            root, "segments", archive.SEGMENTS.empty_table(), "later", [Guard("test", known, (known or 0) + 1)]
        )
    DeltaTable(str(segments)).create_checkpoint()
    for version in range(retired.version() + 1):
        (segments / "_delta_log" / f"{version:020d}.json").unlink()
    monkeypatch.setattr(storage, "clock_ms", lambda root: clock + DAY)
    report = keep_tidy(lake, as_of_ms=AS_OF_MS, force=False, orphan_after_ms=7 * DAY)
    assert report.metrics["deleted_segments"] == 1


def test_files_with_a_delay_of_three_days_go_from_a_lake_that_keeps_two_days_of_versions(lake, monkeypatch):
    (lake.path.parent / "policies.yaml").write_text(POLICY.replace("1000", str(3 * DAY)))
    retain(lake)
    segments, root = lake.path / "tables" / "segments", str(lake.path)
    DeltaTable(str(segments)).create_checkpoint()
    real, clock = delta_log.log_files, storage.clock_ms(root)

    def of_two_days(*args: Any) -> delta_log.LogFiles:
        """The checkpoint is of two days ago, and the commits are gone."""
        files = real(*args)
        placed = clock + 3 * DAY - delta_log.VERSIONS_KEPT_MS + 1000
        return replace(
            files, commits={}, checkpoints={v: replace(f, placed_ms=placed) for v, f in files.checkpoints.items()}
        )

    monkeypatch.setattr(delta_log, "log_files", of_two_days)
    monkeypatch.setattr(storage, "clock_ms", lambda root: clock + 3 * DAY + 3 * 3_600_000)
    settings = {"force": False, "orphan_after_ms": 7 * DAY}
    for as_of_ms, deleted in ((RETIRED_AT + 3 * DAY, 0), (RETIRED_AT + 3 * DAY + 1, 1)):
        assert keep_tidy(lake, as_of_ms=as_of_ms, **settings).metrics["deleted_segments"] == deleted


@pytest.mark.parametrize("where", ["file", "folder", "log"])
def test_a_link_planted_in_the_archive_leads_to_no_deletion_outside(lake, where):
    retain(lake)
    [retired] = [row for row in lake.rows("segments") if row["retired_ms"] is not None]
    path = lake.path / retired["path"]
    target = {"file": path, "folder": path.parent, "log": path.parent.parent.parent}[where]
    outside = lake.path.parent / "outside"
    shutil.move(target, outside)
    target.symlink_to(outside, target_is_directory=where != "file")
    before = files(outside) if where != "file" else {"": outside.read_bytes()}
    report = keep_tidy(lake)
    after = files(outside) if where != "file" else {"": outside.read_bytes()}
    assert before.items() <= after.items()
    assert target.is_symlink()
    assert report.metrics["deleted_files"] == (2 if where == "file" else 0)


def test_rows_whose_path_leads_out_of_the_archive_delete_nothing(lake, monkeypatch):
    retain(lake)
    outside = lake.path / "outside.log"
    outside.write_bytes(b"not ours")
    read = archive.read_segments

    def planted(*args: object, **more: object) -> list[archive.Segment]:
        rows = read(*args, **more)
        path = "archive/x/../../outside.log"
        return [s if s.retired_ms is None else archive.replace(s, path=path) for s in rows]

    monkeypatch.setattr(archive_removal.archive, "read_segments", planted)
    report = keep_tidy(lake)
    [kept] = report.plan.kept.segments
    assert "is not in the archive" in kept.reason
    assert outside.read_bytes() == b"not ours"
    with pytest.raises(UsageError):
        deletion.delete_below(str(lake.path), "archive/../outside.log", placed_before_ms=2**62)


def test_a_file_that_cannot_be_deleted_is_named_and_the_next_run_deletes_it(lake, monkeypatch):
    retain(lake)
    unlink = os.unlink

    def refuse(path: object, **more: object) -> None:
        if str(path).endswith(".timeindex"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        unlink(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        report = keep_tidy(lake)
    [placed] = report.findings
    assert placed.finding.rule == "archive-not-deleted"
    assert "Permission denied" in str(placed.finding.message)
    assert report.metrics["not_deleted"] == 1
    assert len(list((lake.path / "archive").rglob("*.timeindex"))) > 1
    again = keep_tidy(lake)
    assert (again.metrics["deleted_files"], again.findings) == (1, ())


def test_a_plan_that_another_commit_overtook_deletes_and_merges_nothing(lake):
    retain(lake)
    settings = {"policies": read_policies(str(lake.path.parent / "policies.yaml")), "apply": True, "force": True}
    config = TidyArchiveConfig(str(lake.path), "late", AS_OF_MS, orphan_after_ms=0, **settings)
    late = tidy_archive.plan(config)
    keep_tidy(lake)
    before, versions = files(lake.path / "archive"), lake.versions()
    with pytest.raises(ConcurrentChange):
        tidy_archive.apply(late, config)
    assert files(lake.path / "archive") == before
    assert lake.versions() == versions


def test_once_the_files_of_a_compacted_segment_are_gone_its_offsets_are_not_held(lake):
    policies = lake.path.parent / "policies.yaml"
    policies.write_text("topics: {orders: {cleanup.policy: compact, min.cleanable.dirty.ratio: 0}}")
    config = CompactionConfig(str(lake.path), "compact", AS_OF_MS - 10 * DAY, read_policies(str(policies)), apply=True)
    launch.run(config)
    retired = [row for row in lake.rows("segments") if row["retired_because"] == "compaction"]
    assert retired
    published = lake.published("orders")
    keep_tidy(lake)
    assert all(not (lake.path / row["path"]).exists() for row in retired)
    end = max(row["next_offset"] for row in retired)
    assert {row[5] for row in ledger(lake, "orders") if row[0] < end} == {"compacted-away"}
    report = launch.run(ReplaceConfig(str(lake.path), "again", AS_OF_MS, start_offset=0, end_offset=end))
    assert {placed.finding.rule for placed in report.findings} == {"replacement-refused"}
    assert lake.published("orders") == published


def test_what_is_named_by_a_live_row_is_never_in_a_plan_to_delete(lake):
    retain(lake)
    keep_tidy(lake)
    for as_of_ms in (AS_OF_MS, AS_OF_MS + 100 * DAY):
        config = TidyArchiveConfig(str(lake.path), "look", as_of_ms, force=True, orphan_after_ms=0)
        made = tidy_archive.plan(config)
        named = {str(Path(row["path"]).with_suffix("")) for row in lake.rows("segments") if row["retired_ms"] is None}
        going = {str(Path(file.path).with_suffix("")) for file in (*made.removal.files, *made.removal.orphans)}
        assert not named & going
