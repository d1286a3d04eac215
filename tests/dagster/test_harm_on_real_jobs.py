"""Harm by another engine reaches the exit code of `loglake run`, and the log that has it stops alone: one story."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.broker_directory import LogDirectory
from tests.commands import Commands, Done

pytestmark = pytest.mark.dagster


@dataclass
class Place:
    """Two logs of twelve records each, and the lake that they were taken into."""

    source: LogDirectory
    lake: Path
    home: Path
    commands: Commands

    def run(self, *options: str) -> Done:
        return self.commands.loglake("run", self.source.path, "--lake", self.lake, *options, home=self.home)

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(str(self.lake / "tables" / name))

    def rows(self, partition: int) -> int:
        records = self.table("records").to_pyarrow_table(columns=["partition"])
        return records["partition"].to_pylist().count(partition)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """After the first run, which was clean."""
    folder = tmp_path_factory.mktemp("harm")
    commands = Commands(folder / "commands")
    place = Place(LogDirectory(folder / "kafka-logs"), folder / "lake", folder / "home", commands)
    for number in range(2):
        place.source.partition(f"orders-{number}").append(12)
    place.source.high_watermarks(orders_0=12, orders_1=12)
    done = place.run()
    assert done.code == 0, done.said
    yield place
    commands.close()


@pytest.mark.long
def test_deleted_rows_are_exit_code_2_with_check_log_offsets_and_the_command_that_repairs_them(place: Place) -> None:
    place.table("records").delete("partition = 0 AND offset = 4")

    red, other, mended, after = place.run(), place.run("--partition", "1"), place.run("--replace", ".."), place.run()

    assert red.code == 2, red.said
    (line,) = [line for line in red.out.splitlines() if line.startswith("failed check rows_equal_ledger")]
    assert line.startswith("failed check rows_equal_ledger (error): orders-0 of lake lake, offsets [0, 12): 11 rows")
    again = f"`loglake run {place.source.path} --lake {place.lake} --replace ..`"
    assert f"What to do: {again} writes them again" in line
    assert other.code == 0, other.out
    assert "failed check" not in other.out
    assert mended.code == 0, mended.said
    assert after.code == 0
    assert after.out.rstrip().endswith("nothing new")
    assert [place.rows(0), place.rows(1)] == [12, 12]


def test_a_hole_in_the_ledger_of_one_log_stops_that_log_alone(place: Place) -> None:
    (row,) = [row for row in place.table("offset_ledger").to_pyarrow_table().to_pylist() if row["partition"] == 0]
    lost = place.table("offset_ledger").to_pyarrow_table().filter(_of_partition_0(place))
    place.table("offset_ledger").delete("partition = 0")
    shortened = lost.set_column(lost.schema.get_field_index("start_offset"), "start_offset", _one_more(row))
    write_deltalake(str(place.lake / "tables" / "offset_ledger"), shortened, mode="append")
    for number in range(2):
        grown = place.source.partition(f"orders-{number}")
        grown.next_offset = 12
        grown.append(5)
    place.source.high_watermarks(orders_0=17, orders_1=17)

    done = place.run()

    assert done.code == 2, done.said
    assert [place.rows(0), place.rows(1)] == [12, 17]
    (line,) = [each for each in done.out.splitlines() if each.startswith("failed check every_offset_accounted_for")]
    assert "orders-0 of lake lake, offsets [0, 1): no range covers the offsets [0, 1)" in line
    rules = {row["rule"] for row in place.table("findings").to_pyarrow_table().to_pylist()}
    assert "ledger-has-a-hole" in rules


def _of_partition_0(place: Place):
    return [number == 0 for number in place.table("offset_ledger").to_pyarrow_table()["partition"].to_pylist()]


def _one_more(row: dict):
    import pyarrow as pa

    return pa.array([row["start_offset"] + 1], pa.int64())
