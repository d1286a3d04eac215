"""One command repairs what other engines did to a lake's tables, and publishes nothing twice."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import launch
from spark_jobs.contracts import PublishConfig, ReplaceConfig
from spark_jobs.lake.delta.commits import file_commits
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.errors import JobError
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.published import completeness
from spark_jobs.lake.table_schemas import OFFSET_LEDGER
from spark_jobs.lake_commands.repair import repair_command
from spark_jobs.lake_commands.withdraw import withdraw_command
from spark_jobs.machine.session import get_session
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


class Made:
    """A source of which a part is published, and copies of both that a test may change."""

    def __init__(self, folder: Path) -> None:
        self.source, self.lake = LogDirectory(folder / "source"), Lake(folder / "lake")
        self.folder = folder

    def table(self, name: str = "records") -> str:
        return str(self.lake.path / "tables" / name)

    def grow(self) -> None:
        """What was above the high watermark is below it now."""
        self.source.high_watermarks(orders_0=40, payments_0=16, hurt_0=15)
        self.lake.turns += 1
        self.lake.turn(self.source.path)

    def offsets(self, topic: str = "orders") -> set[int]:
        return set(self.lake.published(topic))


@pytest.fixture
def made(tmp_path: Path, made_once: Path) -> Made:
    # Taken from where it always was: a log is kept to the directory it was first taken from.
    shutil.rmtree(made_once / "source", ignore_errors=True)
    shutil.copytree(made_once / "kept", made_once / "source")
    copy = Made(made_once)
    copy.lake = Lake(Path(shutil.copytree(made_once / "lake", tmp_path / "lake")))
    return copy


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orders-0: 0-29 published of 40. payments-0: 0-4, then an aborted transaction at 5-9 with its marker at 10, then
    11-15; all published but 15. hurt-0: 0-4, then a batch that is damaged, then 10-14."""
    made = Made(tmp_path_factory.mktemp("repaired"))
    orders, payments = made.source.partition("orders-0"), made.source.partition("payments-0", OTHER_TOPIC_ID)
    for _ in range(4):
        orders.append(10, per_batch=5)
        orders.roll()
    payments.append(5)
    payments.append(5, producer_id=7, producer_epoch=0, base_sequence=0, attributes=handmade.TRANSACTIONAL)
    payments.marker(7, handmade.ABORT)
    payments.append(4)
    payments.append(1)
    hurt = made.source.partition("hurt-0", "DDDDDDDDDDDDDDDDDDDDDA")
    hurt.append(5)
    hurt.write(handmade.flip(handmade.simple_batch(5, [(b"k", b"v")] * 5, leader_epoch=0), 70))
    hurt.next_offset = 10
    hurt.append(5)
    made.source.high_watermarks(orders_0=30, payments_0=15, hurt_0=15)
    shutil.copytree(made.source.path, made.folder / "kept")
    made.lake.turn(made.source.path)
    assert made.offsets() == set(range(30))
    assert made.offsets("payments") == {0, 1, 2, 3, 4, 11, 12, 13, 14}
    return made.folder


def command(made: Made, *options: str) -> int:
    return called(repair_command, "repair", made, *options)


def called(which: Any, name: str, made: Made, *options: str) -> int:
    parser = argparse.ArgumentParser()
    which.add_parser(parser.add_subparsers())
    chosen = parser.parse_args([name, str(made.lake.path), *options])
    chosen.now_ms = AS_OF_MS
    code: int = chosen.func(chosen)
    return code


def erase(made: Made, name: str = "records") -> None:
    """As an engine that keeps application ids for no time at all, at its next checkpoint."""
    place = f"delta.`{made.table(name)}`"
    properties = "'delta.setTransactionRetentionDuration'='interval 0 seconds', 'delta.checkpointInterval'='1'"
    spark = get_session()
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {place} SELECT * FROM {place} WHERE false")
    assert {DeltaTable(made.table(name)).transaction_version(app) for app in ids(made, name)} == {None}


def ids(made: Made, name: str) -> list[str]:
    prefix = {"segments": "segments", "findings": "expectations"}.get(name, name)
    return [f"{prefix}/{row['log']}" for row in made.lake.rows("logs")]


def recorded(made: Made, name: str = "records") -> dict[str, int | None]:
    table = DeltaTable(made.table(name))
    logs = {row["topic"]: row["log"] for row in made.lake.rows("logs")}
    return {topic: table.transaction_version(f"{name}/{logs[topic]}") for topic in ("orders", "payments")}


def publish(made: Made, **options: Any) -> Any:
    return launch.run("publish", PublishConfig(str(made.lake.path), "publish", AS_OF_MS, **options))


# --- frontiers --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_publishing_refuses_an_erased_frontier_naming_the_command_and_keeps_what_the_ledger_says(made):
    erase(made)
    made.grow()
    assert made.offsets() == set(range(30))
    said = [row["message"] for row in made.lake.rows("findings") if row["rule"] == "output-mismatch"]
    assert len(said) == 3
    assert all(f"loglake repair {made.lake.path} --frontiers" in message for message in said)
    published = [r for r in made.lake.rows("offset_ledger") if r["published"] and r["topic"] == "orders"]
    assert max(r["end_offset"] for r in published) == 30


@pytest.mark.long
def test_frontiers_are_made_again_from_rows_and_ledger_and_the_logs_go_on_without_a_duplicate(made, capsys):
    before = recorded(made)
    assert before == {"orders": 30, "payments": 15}
    assert command(made, "--frontiers") == 0
    erase(made)
    versions = made.lake.versions()
    assert command(made, "--frontiers") == 1
    said = capsys.readouterr().out
    assert "orders-0" in said
    assert "would be 30" in said
    assert "forgets application ids after interval 0 seconds" in said
    assert made.lake.versions() == versions
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made) == before
    DeltaTable(made.table()).create_checkpoint()
    assert recorded(made) == before, "the next checkpoint forgets them again"
    assert command(made, "--frontiers") == 0
    made.grow()
    assert made.offsets() == set(range(40))
    assert made.offsets("payments") == {0, 1, 2, 3, 4, 11, 12, 13, 14, 15}
    assert completeness.differences(str(made.lake.path)) == ()


@pytest.mark.long
def test_a_run_that_was_refused_leaves_what_the_frontiers_are_made_again_from(made):
    erase(made)
    made.grow()
    assert made.offsets() == set(range(30))
    assert command(made, "--frontiers", "--apply") == 0
    publish(made)
    assert made.offsets() == set(range(40))
    assert completeness.differences(str(made.lake.path)) == ()


@pytest.mark.long
@pytest.mark.parametrize(
    ("harm", "offsets"),
    [
        (lambda table: table.delete("topic = 'orders' AND offset IN (4, 5)"), "[4, 6)"),
        (
            lambda table: table.update(predicate="topic = 'orders' AND offset = 29", updates={"offset": "35"}),
            "[29, 30)",
        ),
    ],
)
def test_where_rows_and_ledger_disagree_the_log_is_named_with_offsets_and_left_alone(
    made, capsys, harm: Callable[[DeltaTable], object], offsets: str
):
    harm(DeltaTable(made.table()))
    erase(made)
    assert command(made, "--frontiers", "--apply") == 2
    said = capsys.readouterr().out
    assert "orders-0" in said
    assert "disagree; left alone" in said
    assert f"offsets {offsets}" in said
    assert recorded(made) == {"orders": None, "payments": 15}


@pytest.mark.long
def test_duplicate_rows_are_a_disagreement(made, capsys, spark: SparkSession):
    place = f"delta.`{made.table()}`"
    spark.sql(f"INSERT INTO {place} SELECT * FROM {place} WHERE topic = 'orders' AND offset < 3")
    erase(made)
    assert command(made, "--frontiers") == 2
    assert "3 rows have an offset that another row has too" in capsys.readouterr().out


@pytest.mark.long
def test_a_ledger_that_says_nothing_is_published_gets_its_frontier_from_the_rows(made):
    """As an earlier run left it, which took `published` back when the frontier was gone."""
    rows = [row | {"published": False} for row in made.lake.rows("offset_ledger")]
    logs = sorted({row["log"] for row in rows})
    parsed = [frontier.LedgerRow(**{name: row[name] for name in frontier.STORED}) for row in rows]
    frontier.commit_ledger(str(made.lake.path), parsed, logs, "earlier")
    erase(made)
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made) == {"orders": 30, "payments": 15}
    made.grow()
    assert made.offsets() == set(range(40))
    assert len(rows) == len(pa.Table.from_pylist(rows, schema=OFFSET_LEDGER))


@pytest.mark.long
def test_withdrawn_rows_are_not_missed_by_a_frontier(made):
    DeltaTable(made.table()).delete("topic = 'orders' AND offset >= 27")
    called(withdraw_command, "withdraw", made, "--apply")
    erase(made)
    assert called(withdraw_command, "withdraw", made, "--apply") == 2, "the frontier comes first"
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made)["orders"] == 30
    made.grow()
    assert made.offsets() == set(range(27)) | set(range(30, 40))


@pytest.mark.long
def test_the_decided_part_of_records_uncommitted_gets_its_frontier_and_is_not_made_again(made):
    publish(made, isolation_level="read_uncommitted")
    before = recorded(made, "records_uncommitted")
    assert before == {"orders": 30, "payments": 15}
    name = "records_uncommitted"
    decided = {f for f in DeltaTable(made.table(name)).file_uris() if "topic=payments" in f}
    erase(made, name)
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made, name) == before
    publish(made, isolation_level="read_uncommitted")
    assert decided & set(DeltaTable(made.table(name)).file_uris()) == decided
    rows = [(r["topic"], r["offset"]) for r in made.lake.rows(name)]
    assert len(rows) == len(set(rows)) == 40 - 10 + 14 + 5


@pytest.mark.long
@pytest.mark.parametrize("name", ["segments", "findings"])
def test_the_loss_of_other_application_ids_repairs_itself(made, name):
    if name == "findings":
        logs = [row["log"] for row in made.lake.rows("logs")]
        guards = [Guard(f"expectations/{log}", None, 5) for log in logs]
        file_commits.add_files(str(made.lake.path), "findings", [], "checked", guards)
    erase(made, name)
    assert command(made, "--frontiers") == 0
    made.grow()
    assert made.offsets() == set(range(40))
    assert completeness.differences(str(made.lake.path)) == ()


# --- records made again -----------------------------------------------------------------------------------------------


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
    assert called(withdraw_command, "withdraw", made, "--apply") == 0
    made.grow()
    assert made.offsets() == set(range(40)) - {3, 4}
    assert completeness.differences(str(made.lake.path)) == ()


@pytest.mark.long
def test_columns_that_were_lost_are_filled_from_the_archive_by_a_replacement(made, spark: SparkSession):
    before = {(r["topic"], r["offset"]): r for r in made.lake.rows("records")}
    place = f"delta.`{made.table()}`"
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')")
    spark.sql(f"ALTER TABLE {place} DROP COLUMN value")
    assert command(made, "--rebuild", "records", "--apply") == 0
    launch.run("replace", ReplaceConfig(str(made.lake.path), "fill", AS_OF_MS, start_offset=0))
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
            dying.setattr(file_commits, "add_files", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
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
    add = file_commits.add_files

    def overtaken(*given: Any, **more: Any) -> None:
        add(*given, **more)
        monkeypatch.setattr(file_commits, "add_files", add)
        DeltaTable(made.table()).delete("topic = 'orders' AND offset = 9")

    monkeypatch.setattr(file_commits, "add_files", overtaken)
    assert command(made, "--rebuild", "records", "--apply") == 3
    assert "was changed while it was read" in capsys.readouterr().err
    assert made.offsets() == set(range(30)) - {9}
    assert command(made, "--rebuild", "records", "--apply") == 0
    assert made.offsets() == set(range(30)) - {9}


# --- state tables -----------------------------------------------------------------------------------------------------


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
    called(withdraw_command, "withdraw", made, "--apply")
    state = ("validations", "batches", "findings", "quarantine", "transactions", "offset_ledger", "logs")
    before = {each: comparable(made, each) for each in state}
    damage(made, name)
    assert command(made, "--rebuild", name) == 1
    assert command(made, "--rebuild", name, "--apply") == 0
    assert (made.lake.path / "tables" / f".{name}-before-1").is_dir()
    made.lake.turn(made.source.path)
    launch.run("replace", ReplaceConfig(str(made.lake.path), "late", AS_OF_MS))
    assert made.offsets() == set(range(30)) - {3, 4}
    assert made.offsets("payments") == {0, 1, 2, 3, 4, 11, 12, 13, 14}
    after = {each: comparable(made, each) for each in state}
    for each in set(state) - {"findings", "logs"}:
        assert after[each] == before[each], each
    assert completeness.differences(str(made.lake.path)) == ()
    made.grow()
    assert made.offsets() == set(range(40)) - {3, 4}
    assert completeness.differences(str(made.lake.path)) == ()


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
    assert completeness.differences(lake) == ()
    assert len(comparable(made, "validations")) == len(validations) - 1
    made.grow()
    assert made.offsets() == set(range(40))


def test_a_table_that_cannot_be_derived_is_not_deleted(made, capsys):
    DeltaTable(made.table()).delete("topic = 'orders' AND offset = 3")
    called(withdraw_command, "withdraw", made, "--apply")
    damage(made, "withdrawals")
    assert command(made, "--rebuild", "withdrawals", "--apply") == 3
    assert "they cannot be derived" in capsys.readouterr().err
    assert Path(made.table("withdrawals")).is_dir()


def test_a_name_that_is_no_table_is_wrong_usage(made, capsys):
    assert command(made, "--rebuild", "nosuch") == 64
    assert "records_uncommitted" in capsys.readouterr().err
