"""`records` is made again without the features and losses that other engines brought."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import launch
from spark_jobs.contracts import ReplaceConfig
from spark_jobs.errors import JobError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.view import ledger_comparison
from spark_jobs.lake_commands.withdraw import withdraw_command
from tests.spark.cycle import AS_OF_MS
from tests.spark.repair.repaired_lakes import Made, called, command, publish, recorded

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


def spoil_with_features(made: Made, spark: SparkSession) -> None:
    """Deletion vectors that hide rows, mapped columns, and a column of the user's."""
    place = f"delta.`{made.table()}`"
    spark.sql(f"ALTER TABLE {place} ADD COLUMNS (label string)")
    spark.sql(f"UPDATE {place} SET label = concat('l', offset) WHERE topic = 'orders' AND offset < 20")
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')")
    spark.sql(f"DELETE FROM {place} WHERE topic = 'orders' AND offset IN (3, 4)")
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')")
    spark.sql(f"ALTER TABLE {place} DROP COLUMN position")


@pytest.mark.long
def test_records_with_features_are_made_again_as_deltas_reader_sees_them(made, spark: SparkSession, capsys):
    before = {(r["topic"], r["offset"]): r for r in made.lake.rows("records")}
    spoil_with_features(made, spark)
    versions = DeltaTable(made.table()).version()
    assert command(made, "--rebuild", "records") == 1
    said = capsys.readouterr().out
    assert ".records-rebuilding" in said
    assert "nothing was written" in said
    assert DeltaTable(made.table()).version() == versions
    assert command(made, "--rebuild", "records", "--apply") == 0
    said = capsys.readouterr().out
    assert "tables/.records-before-1" in said
    assert "carried over: label" in said
    assert "missing columns, now empty: position" in said
    table = DeltaTable(made.table())
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert not (made.lake.path / "tables" / ".records-rebuilding").exists()
    assert (made.lake.path / "tables" / ".records-before-1" / "_delta_log").is_dir()
    rows = {(r["topic"], r["offset"]): r for r in table.to_pyarrow_table().to_pylist()}
    assert set(rows) == set(before) - {("orders", 3), ("orders", 4)}
    for key, row in rows.items():
        label = f"l{key[1]}" if key[0] == "orders" and key[1] < 20 else None
        assert row == before[key] | {"label": label, "position": None}
    assert recorded(made) == {"orders": 30, "payments": 15}
    for file in table.file_uris():
        offsets = pq.read_table(file, columns=["log_id", "partition", "offset"], partitioning=None)
        assert offsets["offset"].to_pylist() == sorted(offsets["offset"].to_pylist())
        assert len(set(offsets["log_id"].to_pylist())) == 1
    assert called(withdraw_command, made, "--apply") == 0
    made.grow()
    assert made.offsets() == set(range(40)) - {3, 4}
    assert ledger_comparison.differences(str(made.lake.path)) == ()


@pytest.mark.long
def test_columns_that_were_lost_are_filled_from_the_archive_by_a_replacement(made, spark: SparkSession):
    before = {(r["topic"], r["offset"]): r for r in made.lake.rows("records")}
    place = f"delta.`{made.table()}`"
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')")
    spark.sql(f"ALTER TABLE {place} DROP COLUMN value")
    assert command(made, "--rebuild", "records", "--apply") == 0
    launch.run(ReplaceConfig(str(made.lake.path), "fill", AS_OF_MS, start_offset=0))
    assert {(r["topic"], r["offset"]): r for r in made.lake.rows("records")} == before


@pytest.mark.long
@pytest.mark.parametrize("dies_at", [1, 2, "cleaning", "writing"])
def test_a_rebuild_may_be_killed_anywhere_and_no_job_publishes_into_the_gap(made, monkeypatch, dies_at):
    rows = sorted((r["topic"], r["offset"]) for r in made.lake.rows("records"))
    rename, rmtree, done = os.rename, shutil.rmtree, []

    def dies(*given: Any, **more: Any) -> None:
        if Path(given[0]).name != "file":
            done.append(given)
            if len(done) == dies_at:
                raise KeyboardInterrupt
        rename(*given, **more)

    with monkeypatch.context() as dying:
        dying.setattr(os, "rename", dies)
        if dies_at == "cleaning":
            dying.setattr(shutil, "rmtree", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        if dies_at == "writing":
            dying.setattr(commits, "add_files", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            command(made, "--rebuild", "records", "--apply")
    assert shutil.rmtree is rmtree
    if dies_at == 2:  # the old table is aside, the new one not in its place
        assert not Path(made.table()).exists()
        with pytest.raises(JobError, match="--rebuild records --apply"):
            publish(made)
        with pytest.raises(JobError, match="--rebuild records --apply"):
            made.grow()
        assert not Path(made.table()).exists()
        assert command(made, "--rebuild", "records") == 1
    else:
        assert sorted((r["topic"], r["offset"]) for r in made.lake.rows("records")) == rows
    assert command(made, "--rebuild", "records", "--apply") == 0
    assert sorted((r["topic"], r["offset"]) for r in made.lake.rows("records")) == rows
    assert not (made.lake.path / "tables" / ".records-rebuilding").exists()
    made.grow()
    assert made.offsets() == set(range(40))
    assert recorded(made) == {"orders": 40, "payments": 16}


@pytest.mark.long
def test_a_commit_that_comes_while_the_rows_are_copied_is_not_lost(made, monkeypatch, capsys):
    add = commits.add_files

    def overtaken(*given: Any, **more: Any) -> None:
        add(*given, **more)
        monkeypatch.setattr(commits, "add_files", add)
        DeltaTable(made.table()).delete("topic = 'orders' AND offset = 9")

    monkeypatch.setattr(commits, "add_files", overtaken)
    assert command(made, "--rebuild", "records", "--apply") == 3
    assert "was changed while it was read" in capsys.readouterr().err
    assert made.offsets() == set(range(30)) - {9}
    assert command(made, "--rebuild", "records", "--apply") == 0
    assert made.offsets() == set(range(30)) - {9}
