"""State tables that other engines damaged are made again, and keep their rows and guards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import launch
from spark_jobs.contracts import ReplaceConfig
from spark_jobs.lake.view import ledger_comparison
from spark_jobs.lake_commands.withdraw import withdraw_command
from tests.spark.cycle import AS_OF_MS
from tests.spark.repair.repaired_lakes import Made, called, command, ids

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


def damage(made: Made, name: str) -> None:
    """Its newest Parquet file is cut, or its log is not JSON any more."""
    files = [Path(file.removeprefix("file://")) for file in DeltaTable(made.table(name)).file_uris()]
    for file in files:
        file.write_bytes(file.read_bytes()[:20])
    if not files:
        (Path(made.table(name)) / "_delta_log" / f"{0:020d}.json").write_text("{not json\n")


def comparable(made: Made, name: str) -> list[str]:
    left_out = {"run_id", "as_of_ms", "finding_id", "evidence"}  # a ledger that was lost calls rows late
    return sorted(str({k: v for k, v in row.items() if k not in left_out}) for row in made.lake.rows(name))


@pytest.mark.parametrize(
    "name", ["validations", "batches", "findings", "quarantine", "transactions", "offset_ledger", "logs", "segments"]
)
def test_a_damaged_state_table_is_made_again_by_the_next_run_and_no_row_is_published_twice(made, name):
    DeltaTable(made.table()).delete("topic = 'orders' AND offset IN (3, 4)")
    called(withdraw_command, made, "--apply")
    state = ("validations", "batches", "findings", "quarantine", "transactions", "offset_ledger", "logs")
    before = {each: comparable(made, each) for each in state}
    damage(made, name)
    assert command(made, "--rebuild", name) == 1
    assert command(made, "--rebuild", name, "--apply") == 0
    assert (made.lake.path / "tables" / f".{name}-before-1").is_dir()
    made.lake.turn(made.source.path)
    launch.run(ReplaceConfig(str(made.lake.path), "late", AS_OF_MS))
    assert made.offsets() == set(range(30)) - {3, 4}
    assert made.offsets("payments") == {0, 1, 2, 3, 4, 11, 12, 13, 14}
    after = {each: comparable(made, each) for each in state}
    for each in set(state) - {"findings", "logs"}:
        assert after[each] == before[each], each
    assert ledger_comparison.differences(str(made.lake.path)) == ()
    made.grow()
    assert made.offsets() == set(range(40)) - {3, 4}
    assert ledger_comparison.differences(str(made.lake.path)) == ()


@pytest.mark.long
def test_a_state_table_with_features_keeps_its_rows_and_its_guards(made, spark: SparkSession):
    place = f"delta.`{made.table('segments')}`"
    rows = comparable(made, "segments")
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')")
    table = DeltaTable(made.table("segments"))
    guards = {app: table.transaction_version(app) for app in ids(made, "segments")}
    assert command(made, "--rebuild", "segments", "--apply") == 0
    table = DeltaTable(made.table("segments"))
    assert table.protocol().min_reader_version == 1
    assert comparable(made, "segments") == rows
    assert {app: table.transaction_version(app) for app in ids(made, "segments")} == guards
    made.grow()
    assert made.offsets() == set(range(40))


@pytest.mark.long
def test_validations_of_segments_whose_files_are_deleted_are_copied_and_never_read_again(made):
    from spark_jobs.lake.segments import archive

    lake = str(made.lake.path)
    first = archive.read_segments(lake)[0]
    planned = archive.planned_versions(lake, [first.log])
    archive.swap_segments(lake, [first], [], planned, "retain", AS_OF_MS, "retention")
    first = next(s for s in archive.read_segments(lake, live=False) if s.segment_id == first.segment_id)
    planned = archive.planned_versions(lake, [first.log])
    archive.mark_deleted(lake, [first], planned, "delete", AS_OF_MS)
    os.unlink(first.local_path(lake))
    published = sum(row["records"] for row in made.lake.rows("offset_ledger") if row["published"])
    validations = comparable(made, "validations")
    assert command(made, "--rebuild", "validations", "--apply") == 0
    assert comparable(made, "validations") == validations
    shutil.rmtree(made.table("validations"))
    made.lake.turn(made.source.path)
    assert sum(row["records"] for row in made.lake.rows("offset_ledger") if row["published"]) == published
    assert ledger_comparison.differences(lake) == ()
    assert len(comparable(made, "validations")) == len(validations) - 1
    made.grow()
    assert made.offsets() == set(range(40))


def test_a_name_that_is_no_table_is_wrong_usage(made, capsys):
    assert command(made, "--rebuild", "nosuch") == 64
    assert "records_uncommitted" in capsys.readouterr().err
