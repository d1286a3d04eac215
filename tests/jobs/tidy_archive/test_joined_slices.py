"""Slices become one segment of the same bytes, and every table shows it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import (
    ReplaceConfig,
    RetentionConfig,
)
from spark_jobs.errors import JobError
from spark_jobs.lake import lineage
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store import storage
from spark_jobs.lake.view.harm import cheap_check
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.jobs.tidy_archive.tidied_lake import POLICY, keep_tidy, retain
from tests.spark.archived import append_segment, files, ledger, live, spans, tables
from tests.spark.cycle import AS_OF_MS, Lake


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
    [placed] = report.findings
    assert placed.finding.rule == "slices-not-merged"
    assert "not those that were archived" in str(placed.finding.message)
    assert spans(lake, "orders") == [(0, 5), (5, 10), (10, 15)]
    in_place = Lake(tmp_path / "in-place")
    in_place.turn(source.path, mode="reference")
    orders.append(5)
    in_place.turn(source.path, mode="reference")
    before = source.fingerprint()
    assert keep_tidy(in_place).plan.mergeable.count == 0
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
    assert after.batch.header.base_offset == before.batch.header.base_offset
    assert after.batch.origin_position == before.batch.origin_position


def test_rows_published_from_slices_are_compared_with_what_they_are_joined_to(lake):
    published = lake.published("orders")
    keep_tidy(lake)
    keep_tidy(lake, as_of_ms=AS_OF_MS + 2000)
    report = launch.run(ReplaceConfig(str(lake.path), "again", AS_OF_MS, start_offset=0))
    assert report.findings == ()
    assert lake.published("orders") == published


def test_small_slices_are_joined_alone_where_that_is_asked(lake):
    """A watch joins what a round archived if it is small, and deletes nothing."""
    retain(lake)
    before = files(lake.path / "archive")
    sizes = [row["size"] for row in live(lake, "orders")]
    none = keep_tidy(lake, only_join=True, small_bytes=min(sizes))
    assert none.plan.mergeable.count == 0
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
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(archive, "swap_segments", fails)
        with pytest.raises(JobError, match="Input/output error"):
            keep_tidy(lake, only_join=True)
    keep_tidy(lake, only_join=True)
    [_, joined] = live(lake, "orders")
    for name in ("validations", "batches"):
        rows = [row for row in lake.rows(name) if row["segment_id"] == joined["segment_id"]]
        assert len(rows) == (1 if name == "validations" else 3)


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
    [placed] = report.findings
    assert "No space left" in str(placed.finding.message)
    assert files(lake.path / "archive") == before
    keep_tidy(lake)
    assert spans(lake, "orders") == [(0, 10), (10, 25)]


def test_a_merged_log_and_an_unmerged_one_are_retained_alike(lake):
    apart = Lake(Path(shutil.copytree(lake.path, lake.path.parent / "apart")))
    keep_tidy(lake)
    for one in (lake, apart):
        config = RetentionConfig(
            str(one.path), "retain", AS_OF_MS, read_policies(str(lake.path.parent / "policies.yaml")), apply=True
        )
        launch.run(config)
    assert [s for s in (spans(lake, "orders"), spans(apart, "orders")) if s and s[0][0] < 10] == []
    assert ledger(lake, "orders") == ledger(apart, "orders")
    assert tables(lake, "records") == tables(apart, "records")
