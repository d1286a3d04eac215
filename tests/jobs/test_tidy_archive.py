"""The archive is kept tidy: needless files are deleted, slices are joined, and every table shows it."""

from __future__ import annotations

import errno
import json
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
    JobReport,
    RebuildIndexesConfig,
    ReplaceConfig,
    RetentionConfig,
    TidyArchiveConfig,
)
from spark_jobs.lake.delta.commits import commit_guards, row_commits
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.delta.state.table_checks import cheap_check
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.errors import ConcurrentChange, JobError, UsageError
from spark_jobs.lake.lineage import lineage
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store import deletion, storage
from spark_jobs.tidy_archive import archive_removal
from spark_jobs.tidy_archive import job as tidy_archive
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.spark.archived import append_segment, files, ledger, live, spans, tables
from tests.spark.cycle import AS_OF_MS, Lake

DAY = 86_400_000
RETIRED_AT = 1_700_000_001_500
"""Only the first segment is due then."""
POLICY = "topics: {orders: {cleanup.policy: delete, retention.ms: 1, file.delete.delay.ms: 1000}}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """orders: a segment of ten with side files, then one that came in three slices of five; all published."""
    folder = tmp_path_factory.mktemp("tidy_archive")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders = source.partition("orders-0")
    append_segment(orders, [(b"k", b"v")] * 10, 1_700_000_001_000)
    append_segment(orders, [(b"k%d" % n, b"v") for n in range(5)], 1_700_000_002_000)
    lake.turn(source.path)
    for _ in range(2):
        orders.append(5)
        lake.turn(source.path)
    launch.run("rebuild_indexes", RebuildIndexesConfig(str(lake.path), "rebuild", AS_OF_MS))
    (folder / "policies.yaml").write_text(POLICY)
    return lake


@pytest.fixture
def lake(built: Lake, tmp_path: Path) -> Lake:
    shutil.copy(built.path.parent / "policies.yaml", tmp_path)
    copy = Lake(Path(shutil.copytree(built.path, tmp_path / "lake")))
    copy.turns = built.turns
    return copy


def retain(lake: Lake, as_of_ms: int = RETIRED_AT) -> None:
    config = RetentionConfig(str(lake.path), "retain", as_of_ms, str(lake.path.parent / "policies.yaml"), apply=True)
    assert launch.run("retention", config).metrics["due_segments"] == 1


def keep_tidy(lake: Lake, **more: object) -> JobReport:
    """Run the job. By default it is the only user of the lake."""
    settings = {"as_of_ms": AS_OF_MS, "apply": True, "force": True, "orphan_after_ms": 0} | more
    config = TidyArchiveConfig(str(lake.path), "tidy", policies=str(lake.path.parent / "policies.yaml"), **settings)
    return launch.run("tidy_archive", config)


def plant(lake: Lake, name: str) -> Path:
    path = lake.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(100))
    return path


def test_a_dry_run_names_what_could_go_and_why_and_touches_nothing(lake):
    retain(lake)
    plant(lake, "archive/lost.0/0/0123/00000000000000000000.log")
    before, versions = files(lake.path), lake.versions()
    report = keep_tidy(lake, apply=False)
    assert not report.used_executor
    assert [file["path"] for file in report.plan["orphans"]["files"]] == [
        "archive/lost.0/0/0123/00000000000000000000.log"
    ]
    [retired] = [row for row in lake.rows("segments") if row["retired_ms"] is not None]
    stem = retired["path"].removesuffix(".log")
    assert {file["path"] for file in report.plan["deletable"]["files"]} >= {
        stem + suffix for suffix in (".log", ".index", ".timeindex")
    }
    assert {file["age_ms"] for file in report.plan["deletable"]["files"]} == {AS_OF_MS - RETIRED_AT}
    delay_ms = 1000  # of the policy
    assert {file["waits_ms"] for file in report.plan["deletable"]["files"]} == {AS_OF_MS - RETIRED_AT - delay_ms}
    [slices] = report.plan["mergeable"]["logs"]
    assert slices["base_offsets"] == [10, 15, 20]
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


def test_a_lake_of_layout_2_gets_the_new_number_before_segments_share_a_folder(lake, monkeypatch):
    retain(lake)
    described = lake.path / "lake.json"
    described.write_text(described.read_text().replace('"layout": 3', '"layout": 2'))
    numbers = []
    placed = storage.Staged.place

    def place(file, final, **more):
        if "/archive/" in final:
            numbers.append(json.loads(described.read_text())["layout"])
        placed(file, final, **more)

    monkeypatch.setattr(storage.Staged, "place", place)
    assert not keep_tidy(lake, apply=False).used_executor
    assert json.loads(described.read_text())["layout"] == 2
    keep_tidy(lake)
    assert set(numbers) == {3}


def test_slices_become_one_segment_of_the_same_bytes_with_all_rows_that_a_segment_has(lake):
    slices = live(lake, "orders")[1:]
    content = b"".join((lake.path / row["path"]).read_bytes() for row in slices)
    published, told = lake.published("orders"), ledger(lake, "orders")
    noted = [r for r in lake.rows("batches") if r["segment_id"] in {s["segment_id"] for s in slices}]
    report = keep_tidy(lake)
    [_, joined] = live(lake, "orders")
    assert (lake.path / joined["path"]).read_bytes() == content
    assert (joined["base_offset"], joined["next_offset"], joined["size"]) == (10, 25, len(content))
    assert (joined["generation"], joined["origin_position"], joined["sealed"]) == (0, 0, False)
    for name in ("modified_ms", "last_batch_base_offset", "last_batch_crc", "last_batch_end"):
        assert joined[name] == slices[-1][name]
    gone = [row for row in lake.rows("segments") if row["retired_because"] == "merged"]
    assert {row["replaced_by"] for row in gone} == {joined["segment_id"]}
    assert {row["segment_id"] for row in gone} == {row["segment_id"] for row in slices}
    [validation] = [r for r in lake.rows("validations") if r["segment_id"] == joined["segment_id"]]
    assert (validation["verdict"], validation["records"], validation["file_bytes"]) == ("clean", 15, len(content))
    batches = sorted(
        (r for r in lake.rows("batches") if r["segment_id"] == joined["segment_id"]), key=lambda r: r["position"]
    )
    starts = {row["segment_id"]: row["origin_position"] for row in slices}
    expected = [
        r | {"segment_id": joined["segment_id"], "position": r["position"] + starts[r["segment_id"]]} for r in noted
    ]
    assert batches == sorted(expected, key=lambda r: r["position"])
    assert report.metrics["merged_segments"] == 3
    actions = [row for row in lake.rows("log_actions") if row["action"] == "merge"]
    assert {row["segment_id"] for row in actions} == {row["segment_id"] for row in slices}
    assert (lake.published("orders"), ledger(lake, "orders")) == (published, told)
    assert spans(lake, "orders") == [(0, 10), (10, 25)]


def test_every_version_of_the_segments_that_a_reader_can_meet_holds_the_whole_log_once(lake):
    retain(lake)
    before = lake.versions()["segments"]
    keep_tidy(lake)
    seen = set()
    for version in range(before, lake.versions()["segments"] + 1):
        table = DeltaTable(str(lake.path / "tables" / "segments"), version=version)
        rows = table.to_pyarrow_table().to_pylist()
        held = sorted((r["base_offset"], r["next_offset"]) for r in rows if r["retired_ms"] is None)
        seen.add(tuple(held))
        assert all((lake.path / r["path"]).exists() for r in rows if r["retired_ms"] is None)
    assert seen == {((10, 15), (15, 20), (20, 25)), ((10, 25),)}


def test_after_a_merge_the_log_grows_is_validated_and_published_as_without_a_merge(built, lake):
    orders_of = built.path.parent / "source"
    source = LogDirectory(Path(shutil.copytree(orders_of, lake.path.parent / "source")))
    undisturbed = Lake(Path(shutil.copytree(lake.path, lake.path.parent / "undisturbed")))
    keep_tidy(lake)
    segment = max((source.path / "orders-0").glob("*.log"))
    with segment.open("ab") as file:
        file.write(handmade.simple_batch(25, [(b"new", b"row")] * 4, base_timestamp=1_700_000_009_000))
    for one in (lake, undisturbed):
        one.turn(source.path, move_source=True)
    assert lake.published("orders") == undisturbed.published("orders")
    assert set(lake.published("orders")) == set(range(29))
    assert ledger(lake, "orders") == ledger(undisturbed, "orders")
    keep_tidy(lake)
    assert spans(lake, "orders") == [(0, 10), (10, 25), (25, 29)]  # four records do not move fifteen
    assert lake.stopped() == {"orders-0": None}


def test_a_large_slice_waits_for_its_segment_to_be_closed_and_then_all_are_joined(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    (tmp_path / "policies.yaml").write_text(POLICY)
    orders = source.partition("orders-0")
    append_segment(orders, [(b"k", b"v")] * 50, 1_700_000_001_000)
    lake.turn(source.path)
    for _ in range(2):
        orders.append(5)
        lake.turn(source.path)
    keep_tidy(lake)
    assert spans(lake, "orders") == [(0, 50), (50, 60)]
    orders.append(5)
    orders.roll()
    orders.append(1)
    lake.turn(source.path)
    keep_tidy(lake)
    assert spans(lake, "orders") == [(0, 65), (65, 66)]
    assert (lake.path / live(lake, "orders")[0]["path"]).read_bytes() == orders.segments()[0].read_bytes()
    assert set(lake.published("orders")) == set(range(66))


def test_damaged_slices_and_those_at_the_source_stay_apart(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    (tmp_path / "policies.yaml").write_text(POLICY)
    orders = source.partition("orders-0")
    for _ in range(3):
        orders.append(5)
        lake.turn(source.path)
    [first, *_] = live(lake, "orders")
    path = lake.path / first["path"]
    path.write_bytes(handmade.flip(path.read_bytes(), 80))
    report = keep_tidy(lake)
    [finding] = report.findings
    assert finding["rule"] == "slices-not-merged"
    assert "not those that were archived" in str(finding["message"])
    assert spans(lake, "orders") == [(0, 5), (5, 10), (10, 15)]
    in_place = Lake(tmp_path / "in-place")
    in_place.turn(source.path, mode="reference")
    orders.append(5)
    in_place.turn(source.path, mode="reference")
    before = source.fingerprint()
    assert keep_tidy(in_place).plan["mergeable"]["count"] == 0
    assert source.fingerprint() == before


def test_a_row_published_from_a_slice_is_traced_to_where_its_bytes_lie_now(lake):
    [row] = [r for r in lake.rows("records") if r["offset"] == 17]
    keep_tidy(lake)
    [before] = lineage.offset_lineage(str(lake.path), "records", "orders", 0, 17)
    assert (before.segment.segment_id, before.held, before.problems) == (row["segment_id"], True, ())
    assert [s.base_offset for s in before.successors] == [10]
    keep_tidy(lake, as_of_ms=AS_OF_MS + 2000)
    assert not any(r["segment_id"] == row["segment_id"] for name in ("batches", "validations") for r in lake.rows(name))
    [after] = lineage.offset_lineage(str(lake.path), "records", "orders", 0, 17)
    [_, joined] = live(lake, "orders")
    assert after.row.segment_id == row["segment_id"]
    assert (after.segment.segment_id, after.held, after.problems) == (joined["segment_id"], True, ())
    assert after.batch.base_offset == before.batch.base_offset
    assert after.batch.origin_position == before.batch.origin_position


def test_rows_published_from_slices_are_compared_with_what_they_are_joined_to(lake):
    published = lake.published("orders")
    keep_tidy(lake)
    keep_tidy(lake, as_of_ms=AS_OF_MS + 2000)
    report = launch.run("replace", ReplaceConfig(str(lake.path), "again", AS_OF_MS, start_offset=0))
    assert report.findings == ()
    assert lake.published("orders") == published


def test_a_segment_that_is_needed_keeps_its_files_and_the_plan_says_what_for(lake, monkeypatch):
    retain(lake)
    [retired] = [s for s in archive.read_segments(str(lake.path), live=False) if s.retired_ms is not None]
    frontiers = archive_removal.frontier.read_frontiers
    monkeypatch.setattr(
        archive_removal.frontier, "read_frontiers", lambda lake, logs: dict.fromkeys(frontiers(lake, logs), 4)
    )
    report = keep_tidy(lake)
    [kept] = report.plan["kept"]["segments"]
    assert kept["reason"] == "nothing is published from offset 4 on"
    assert (lake.path / retired.path).exists()


def test_what_was_retired_a_moment_ago_waits_for_readers_whatever_clock_a_run_was_given(lake):
    retain(lake)
    settings = {"force": False, "orphan_after_ms": 7 * DAY}
    report = keep_tidy(lake, as_of_ms=AS_OF_MS + 1000 * DAY, **settings)
    assert report.metrics["deleted_segments"] == 0
    [kept] = report.plan["kept"]["segments"]
    assert "may not have finished" in kept["reason"]


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
        known = commit_guards.versions(root, "segments", ["test"])["test"]
        row_commits.append(
            root, "segments", archive.SEGMENTS.empty_table(), "later", [Guard("test", known, (known or 0) + 1)]
        )
    DeltaTable(str(segments)).create_checkpoint()
    for version in range(retired.version() + 1):
        (segments / "_delta_log" / f"{version:020d}.json").unlink()
    monkeypatch.setattr(storage, "clock_ms", lambda root: clock + DAY)
    report = keep_tidy(lake, as_of_ms=AS_OF_MS, force=False, orphan_after_ms=7 * DAY)
    assert report.metrics["deleted_segments"] == 1


def test_small_slices_are_joined_alone_where_that_is_asked(lake):
    """A watch joins what a round archived if it is small, and deletes nothing."""
    retain(lake)
    before = files(lake.path / "archive")
    sizes = [row["size"] for row in live(lake, "orders")]
    none = keep_tidy(lake, only_join=True, small_bytes=min(sizes))
    assert none.plan["mergeable"]["count"] == 0
    report = keep_tidy(lake, only_join=True, small_bytes=max(sizes) + 1)
    assert (report.metrics["merged_segments"], report.metrics["deleted_files"]) == (3, 0)
    assert before.items() <= files(lake.path / "archive").items()


def test_to_join_slices_no_row_of_a_retired_segment_is_planned_with(lake, monkeypatch):
    """A watch joins every fifty rounds, and keeps a row of each slice."""
    retain(lake)
    read = archive.read_segments
    asked: list[bool] = []

    def reading(*args: object, live: bool = True) -> list[archive.Segment]:
        asked.append(live)
        return read(*args, live=live)

    monkeypatch.setattr(archive, "read_segments", reading)
    report = keep_tidy(lake, only_join=True)
    assert report.metrics["merged_segments"] == 3
    assert asked == [True]
    merges = [row for row in lake.rows("log_actions") if row["action"] == "merge"]
    assert sorted(row["segment_id"] for row in merges) == sorted(
        row["segment_id"] for row in lake.rows("segments") if row["retired_because"] == "merged"
    )


def test_plans_and_looks_pass_over_slices_that_were_joined(lake):
    joined = [row["segment_id"] for row in live(lake, "orders")[1:]]
    keep_tidy(lake, only_join=True)
    root = str(lake.path)
    everything = archive.read_segments(root, live=False)
    assert {s.segment_id for s in everything if s.retired_because == archive.MERGED} == set(joined)
    assert archive.read_segments(root, live=False, joined=False) == [
        s for s in everything if s.segment_id not in joined
    ]
    assert archive.ids_in_table(root, everything)[1] == set(joined)
    assert not [f for f in cheap_check(root) if f.rule.startswith("archive")]
    (lake.path / next(s.path for s in everything if s.segment_id in joined)).write_bytes(b"")
    assert not [f for f in cheap_check(root) if f.rule.startswith("archive")]
    (lake.path / live(lake, "orders")[1]["path"]).write_bytes(b"")
    assert [f.rule for f in cheap_check(root)] == ["archive-file-changed"]


def test_slices_that_were_validated_as_one_and_not_swapped_in_are_joined_with_one_row_each(lake, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "no commit")

    with monkeypatch.context() as patch:
        patch.setattr(archive, "swap_segments", fails)
        with pytest.raises(JobError, match="no commit"):
            keep_tidy(lake, only_join=True)
    keep_tidy(lake, only_join=True)
    [_, joined] = live(lake, "orders")
    for name in ("validations", "batches"):
        rows = [row for row in lake.rows(name) if row["segment_id"] == joined["segment_id"]]
        assert len(rows) == (1 if name == "validations" else 3)


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


def test_young_orphans_may_be_copies_under_way_and_stay(lake):
    orphan = plant(lake, "archive/lost.0/0/0123/00000000000000000000.log")
    os.utime(orphan, (0, 0))  # the time of change is the source's, and says nothing
    keep_tidy(lake, force=False, orphan_after_ms=7 * DAY)
    assert orphan.exists()
    with pytest.raises(UsageError, match="seven days"):
        keep_tidy(lake, force=False, orphan_after_ms=DAY)
    keep_tidy(lake)
    assert not (lake.path / "archive/lost.0").exists()
    [action] = [row for row in lake.rows("log_actions") if row["action"] == "delete-orphan"]
    assert (action["log"], action["segment_id"], action["bytes_before"]) == ("lost.0/0", "0123", 100)


def test_orphans_of_one_log_are_recorded_one_by_one(lake):
    names = [f"{base:020d}.{identity}" for base, identity in ((0, "a" * 32), (10, "b" * 32))]
    orphans = [plant(lake, f"archive/lost.0/0/{name}{end}") for name in names for end in (".log", ".index")]
    keep_tidy(lake)
    assert not any(orphan.exists() for orphan in orphans)
    late = plant(lake, f"archive/lost.0/0/{10:020d}.{'c' * 32}.log")
    keep_tidy(lake)
    assert not late.exists()
    actions = [row for row in lake.rows("log_actions") if row["action"] == "delete-orphan"]
    assert sorted((row["log"], row["segment_id"], row["bytes_before"]) for row in actions) == [
        ("lost.0/0", "a" * 32, 200),
        ("lost.0/0", "b" * 32, 200),
        ("lost.0/0", "c" * 32, 100),
    ]


def test_a_joined_file_that_waits_for_its_commit_is_no_orphan(lake, monkeypatch):
    before = files(lake.path / "archive")

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "no commit")

    with monkeypatch.context() as patch:
        patch.setattr(archive, "swap_segments", fails)
        with pytest.raises(JobError, match="no commit"):
            keep_tidy(lake)
    joined = files(lake.path / "archive").keys() - before.keys()
    assert any(name.endswith(".log") for name in joined)
    plan = keep_tidy(lake, apply=False).plan
    assert plan["mergeable"]["logs"], "the slices are still to be joined"
    assert not [file["path"] for file in plan["orphans"]["files"] if file["path"].endswith(".log")]


def test_a_half_written_file_beside_a_live_segment_goes_and_the_segment_stays(lake):
    [first, *_] = live(lake, "orders")
    half = plant(lake, str(Path(first["path"]).parent / ".0123.writing"))
    before = files(lake.path / "archive")
    keep_tidy(lake)
    assert not half.exists()
    after = files(lake.path / "archive")
    assert {name: after[name] for name in before if not name.endswith(".writing")}.items() <= before.items()


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
    [kept] = report.plan["kept"]["segments"]
    assert "is not in the archive" in kept["reason"]
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
    [finding] = report.findings
    assert finding["rule"] == "archive-not-deleted"
    assert "Permission denied" in str(finding["message"])
    assert report.metrics["not_deleted"] == 1
    assert len(list((lake.path / "archive").rglob("*.timeindex"))) > 1
    again = keep_tidy(lake)
    assert (again.metrics["deleted_files"], again.findings) == (1, ())


def test_a_full_disk_leaves_the_slices_and_the_next_run_joins_them(lake, monkeypatch):
    before = files(lake.path / "archive")

    place = storage.Staged.place

    def full(staged: storage.Staged, final: str, **more: Any) -> None:
        if "/archive/" in final:
            raise OSError(errno.ENOSPC, "No space left on device")
        place(staged, final, **more)

    with monkeypatch.context() as patch:
        patch.setattr(storage.Staged, "place", full)
        report = keep_tidy(lake)
    [finding] = report.findings
    assert "No space left" in str(finding["message"])
    assert files(lake.path / "archive") == before
    keep_tidy(lake)
    assert spans(lake, "orders") == [(0, 10), (10, 25)]


def test_a_plan_that_another_commit_overtook_deletes_and_merges_nothing(lake):
    retain(lake)
    settings = {"policies": str(lake.path.parent / "policies.yaml"), "apply": True, "force": True}
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
    config = CompactionConfig(str(lake.path), "compact", AS_OF_MS - 10 * DAY, str(policies), apply=True)
    launch.run("compaction", config)
    retired = [row for row in lake.rows("segments") if row["retired_because"] == "compaction"]
    assert retired
    published = lake.published("orders")
    keep_tidy(lake)
    assert all(not (lake.path / row["path"]).exists() for row in retired)
    end = max(row["next_offset"] for row in retired)
    assert {row[5] for row in ledger(lake, "orders") if row[0] < end} == {"compacted-away"}
    report = launch.run("replace", ReplaceConfig(str(lake.path), "again", AS_OF_MS, start_offset=0, end_offset=end))
    assert {finding["rule"] for finding in report.findings} == {"replacement-refused"}
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


def test_a_merged_log_and_an_unmerged_one_are_retained_alike(lake):
    apart = Lake(Path(shutil.copytree(lake.path, lake.path.parent / "apart")))
    keep_tidy(lake)
    for one in (lake, apart):
        config = RetentionConfig(str(one.path), "retain", AS_OF_MS, str(lake.path.parent / "policies.yaml"), apply=True)
        launch.run("retention", config)
    assert [s for s in (spans(lake, "orders"), spans(apart, "orders")) if s and s[0][0] < 10] == []
    assert ledger(lake, "orders") == ledger(apart, "orders")
    assert tables(lake, "records") == tables(apart, "records")
