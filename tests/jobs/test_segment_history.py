"""Rows of joined slices lie in files of their own, and plans open none of these."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, OptimizeConfig, PublishConfig, TidyArchiveConfig, ValidateConfig
from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.segments import archive
from spark_jobs.lake.table_specs import SEGMENTS, TABLES
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.optimize import file_runs
from spark_jobs.outlines import OptimizeOutline
from tests.broker_directory import LogDirectory
from tests.spark.archived import append_segment
from tests.spark.cycle import AS_OF_MS, Lake

LIVE, JOINED = 200, 5_000
PROPERTY = "delta.dataSkippingStatsColumns"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in which one file of `segments` mixes live rows and very many of joined slices, as after an OPTIMIZE."""
    folder = tmp_path_factory.mktemp("history")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders = source.partition("orders-0")
    for number in range(LIVE):
        append_segment(orders, [(b"k", b"v")], AS_OF_MS - 1000 + number)
    lake.turn(source.path)
    rows = DeltaTable(table_uri(str(lake.path), "segments")).to_pyarrow_table().cast(SEGMENTS).to_pylist()
    assert len(rows) == LIVE
    slices = [
        rows[0]
        | {"segment_id": f"{number:032x}", "retired_ms": 1, "deleted_ms": 2, "retired_because": "merged"}
        | {"replaced_by": rows[0]["segment_id"], "path": f"archive/gone/{number}.log"}
        for number in range(JOINED)
    ]
    chunks = pa.Table.from_pylist([*rows, *slices], SEGMENTS).to_batches()
    mixed = write_file(table_uri(str(lake.path), "segments"), TABLES["segments"], chunks, {})
    before = [file.path for file in newest_files(str(lake.path), "segments")]
    commits.rewrite_files(str(lake.path), "segments", before, [mixed], "run", data_change=True)
    append_segment(orders, [(b"new", b"row")], AS_OF_MS)
    return folder


@pytest.fixture
def lake(built: Path, tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(built / "lake", tmp_path / "lake")))


def merge_files(lake: Lake, *, apply: bool = True) -> OptimizeOutline:
    """Run ``optimize``; return its plan."""
    return launch.run(OptimizeConfig(str(lake.path), "optimize", AS_OF_MS, apply=apply)).plan


def values_in_files(lake: Lake) -> list[set[str | None]]:
    """Values of ``retired_because`` in each live file, read from the file."""
    root = Path(table_uri(str(lake.path), "segments"))
    files = newest_files(str(lake.path), "segments")
    return [set(pq.read_table(root / file.path)["retired_because"].to_pylist()) for file in files]


def damage_history(lake: Lake) -> int:
    """Overwrite files that have joined slices only; return their bytes."""
    root, size = Path(table_uri(str(lake.path), "segments")), 0
    for file in newest_files(str(lake.path), "segments"):
        if set(pq.read_table(root / file.path)["retired_because"].to_pylist()) == {"merged"}:
            (root / file.path).write_bytes(b"?" * file.size)
            size += file.size
    assert size
    return size


def plans(lake: Lake, source: Path) -> dict[str, Any]:
    """What the jobs of a run plan, and what pages show."""
    at = str(lake.path)
    configs = (
        IngestConfig(at, (str(source),), "run", AS_OF_MS, move_source=True),
        ValidateConfig(at, "run", AS_OF_MS),
        PublishConfig(at, "run", AS_OF_MS),
    )
    made: dict[str, Any] = {config.JOB: launch.plan(config).outline for config in configs}
    return made | {"state": read_state(at), "segments": archive.read_segments(at, live=False, joined=False)}


def bytes_read(work: Callable[[], object]) -> int:
    """Bytes that this process reads meanwhile, as the kernel counts them."""

    def so_far() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    begun = so_far()
    work()
    return so_far() - begun


def test_plans_of_a_run_do_not_open_files_of_joined_slices(built, lake):
    expected = plans(lake, built / "source")
    assert len(expected["segments"]) == LIVE
    assert "orders" in str(expected["ingest"])
    merge_files(lake)
    history = damage_history(lake)
    assert plans(lake, built / "source") == expected
    at = str(lake.path)
    assert bytes_read(lambda: archive.read_segments(at, live=False, joined=False)) < history
    grown = replace(expected["segments"][-1], base_offset=LIVE, segment_id=f"{JOINED // 2:032x}")
    assert archive.ids_in_table(at, [grown])[1] == set()
    with pytest.raises(TableUnreadable):
        archive.ids_in_table(at, [replace(grown, base_offset=0)])


def test_a_file_that_mixes_rows_is_separated_once_and_the_rows_are_the_same(lake):
    before = sorted(lake.rows("segments"), key=lambda row: row["segment_id"])
    assert values_in_files(lake) == [{None, "merged"}]
    merge_files(lake)
    assert sorted(values_in_files(lake), key=len) in ([[{None}, {"merged"}], [{"merged"}, {None}]])
    assert sorted(lake.rows("segments"), key=lambda row: row["segment_id"]) == before
    version = lake.versions()["segments"]
    assert merge_files(lake).merges == ()
    assert lake.versions()["segments"] == version


def test_a_swap_writes_retired_and_live_rows_into_files_of_their_own(lake):
    merge_files(lake)
    policies = lake.path.parent / "policies.yaml"
    policies.write_text("topics: {orders: {cleanup.policy: delete}}")
    segments = archive.read_segments(str(lake.path))
    versions = archive.planned_versions(str(lake.path), [segments[0].log])
    for retired, because in ((segments[:3], archive.RETENTION), (segments[3:5], archive.FILLED)):
        archive.swap_segments(str(lake.path), retired, [], versions, "run", AS_OF_MS, because)
        versions = archive.planned_versions(str(lake.path), [segments[0].log])
    every = archive.read_segments(str(lake.path), live=False)
    archive.mark_deleted(
        str(lake.path), [s for s in every if s.retired_because == archive.RETENTION], versions, "run", AS_OF_MS
    )
    assert all(len(values) == 1 for values in values_in_files(lake))
    found = [row["retired_because"] for row in lake.rows("segments")]
    assert {value: found.count(value) for value in set(found)} == {
        None: LIVE - 5,
        "retention": 3,
        "filled": 2,
        "merged": JOINED,
    }
    damage_history(lake)
    left = archive.read_segments(str(lake.path), live=False, joined=False)
    assert [s.segment_id for s in left] == [s.segment_id for s in segments]


def test_a_few_files_of_history_wait_for_more(lake, monkeypatch):
    monkeypatch.setattr(file_runs, "SEPARATED_FILES", 3)
    merge_files(lake)
    counts = []
    for _ in range(3):
        live = archive.read_segments(str(lake.path))
        versions = archive.planned_versions(str(lake.path), [live[0].log])
        archive.swap_segments(str(lake.path), live[:1], [], versions, "run", AS_OF_MS, archive.MERGED)
        merge_files(lake)
        counts.append(sorted(len(pq.read_table(path)) for path in files_with(lake, "merged")))
    assert counts == [[1, JOINED], [JOINED + 2], [1, JOINED + 2]]


def files_with(lake: Lake, value: str) -> list[Path]:
    """Live files that have a row with this value of ``retired_because``."""
    root = Path(table_uri(str(lake.path), "segments"))
    paths = [root / file.path for file in newest_files(str(lake.path), "segments")]
    return [path for path in paths if value in pq.read_table(path)["retired_because"].to_pylist()]


@pytest.mark.parametrize("stated", ["base_offset", "segment_id,log,base_offset,retired_ms"])
def test_a_table_without_statistics_of_the_reason_is_read_whole_and_nothing_is_merged_twice(lake, stated):
    """Of a user who chose the columns."""
    at = str(lake.path)
    DeltaTable(table_uri(at, "segments")).alter.set_table_properties({PROPERTY: stated})
    live = archive.read_segments(at)
    versions = archive.planned_versions(at, [live[0].log])
    archive.swap_segments(at, live[:2], [], versions, "run", AS_OF_MS, archive.MERGED)
    merge_files(lake)
    assert DeltaTable(table_uri(at, "segments")).metadata().configuration[PROPERTY] == stated
    assert merge_files(lake).merges == ()
    assert archive.read_segments(at, live=False, joined=False) == archive.read_segments(at) == live[2:]
    assert len(archive.read_segments(at, live=False)) == LIVE + JOINED


def test_slices_that_a_run_joins_are_left_out_of_the_plans_after_it(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    for _ in range(4):
        orders.append(2)
        lake.turn(source.path)
    config = TidyArchiveConfig(str(lake.path), "tidy", AS_OF_MS, apply=True, only_join=True, small_bytes=4 << 20)
    assert launch.run(config).metrics["merged_segments"] == 4
    damage_history(lake)
    orders.append(2)
    lake.turn(source.path)  # its commit looks for ids of joined slices only where their base offset may be
    assert set(lake.published("orders")) == set(range(10))
