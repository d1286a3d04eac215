"""The column `published_at` of `records`: the clock of the run that wrote a row, and no part of what the row is."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, OptimizeConfig, PublishConfig, ReplaceConfig, ValidateConfig
from tests.broker_directory import LogDirectory, Partition
from tests.spark.cycle import Lake

FIRST_MS, SECOND_MS, LATER_MS = 1_800_000_000_123, 1_800_000_100_456, 1_800_000_200_789


def moment(ms: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=ms)


def take_in(lake: Path, source: LogDirectory, as_of_ms: int) -> None:
    run_id = f"run-{as_of_ms}"
    launch.run(IngestConfig(str(lake), (str(source.path),), run_id, as_of_ms))
    launch.run(ValidateConfig(str(lake), run_id, as_of_ms))
    launch.run(PublishConfig(str(lake), run_id, as_of_ms))


def published_at(lake: Path) -> dict[int, datetime.datetime | None]:
    rows = Lake(lake).rows("records")
    found = {row["offset"]: row["published_at"] for row in rows}
    assert len(found) == len(rows)
    return found


def between(start: int, end: int, ms: int) -> dict[int, datetime.datetime]:
    return dict.fromkeys(range(start, end), moment(ms))


def last_commit(lake: Path) -> dict[str, dict[str, str]]:
    """What the last commit of `records` records about its files: digests of rows and of bytes."""
    table = DeltaTable(str(lake / "tables" / "records"))
    said = json.loads(table.history(1)[0]["userMetadata"])
    return {kind: said[kind] for kind in ("digests", "contents")}


def table_of(lake: Path) -> DeltaTable:
    return DeltaTable(str(lake / "tables" / "records"))


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "source")


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    log = source.partition("orders-0")
    log.append(20)
    source.high_watermarks(orders_0=20)
    return log


@pytest.fixture
def lake(tmp_path: Path, source: LogDirectory, orders: Partition) -> Path:
    """Offsets 0 to 20 of the first run, 20 to 30 of the second."""
    path = tmp_path / "lake"
    take_in(path, source, FIRST_MS)
    orders.append(10)
    source.high_watermarks(orders_0=30)
    take_in(path, source, SECOND_MS)
    return path


def test_a_row_has_the_clock_of_the_run_that_published_it(lake: Path) -> None:
    assert published_at(lake) == between(0, 20, FIRST_MS) | between(20, 30, SECOND_MS)


def test_a_reader_of_new_rows_opens_new_files_only(lake: Path) -> None:
    statistics = [
        (file["max"]["offset"], file["min"]["published_at"], file["max"]["published_at"])
        for file in table_of(lake).get_add_actions().to_struct_array().to_pylist()
    ]
    assert sorted(statistics) == [
        (19, moment(FIRST_MS), moment(FIRST_MS)),
        (29, moment(SECOND_MS), moment(SECOND_MS)),
    ]


def test_a_merge_of_files_keeps_it(lake: Path) -> None:
    before = published_at(lake)
    launch.run(OptimizeConfig(str(lake), "optimize", LATER_MS, apply=True))
    assert len(table_of(lake).file_uris()) == 1
    assert published_at(lake) == before


def test_a_replacement_that_finds_no_difference_leaves_it(lake: Path) -> None:
    before, version = published_at(lake), table_of(lake).version()
    launch.run(ReplaceConfig(str(lake), "replace", LATER_MS, start_offset=0))
    assert published_at(lake) == before
    assert table_of(lake).version() == version


def test_a_replacement_sets_it_in_the_rows_that_it_writes_and_copies_that_of_others(lake: Path) -> None:
    table_of(lake).delete("offset = 12")
    launch.run(ReplaceConfig(str(lake), "replace", LATER_MS, start_offset=10, end_offset=15))
    expected = between(0, 20, FIRST_MS) | between(10, 15, LATER_MS) | between(20, 30, SECOND_MS)
    assert published_at(lake) == expected


def test_another_clock_gives_other_bytes_and_the_same_digest_of_rows(
    tmp_path: Path, source: LogDirectory, orders: Partition
) -> None:
    said = []
    for name, as_of_ms in (("one", FIRST_MS), ("same", FIRST_MS), ("other", LATER_MS)):
        take_in(tmp_path / name, source, as_of_ms)
        said.append({kind: set(found.values()) for kind, found in last_commit(tmp_path / name).items()})
    one, same, other = said
    assert one == same
    assert one["digests"] == other["digests"]
    assert one["contents"].isdisjoint(other["contents"])
