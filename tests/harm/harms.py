"""Harms that another engine, an operator or a disk does to a lake, each a function of the place it is done to.

Those of other engines are done by those engines: Spark with Delta, and delta-rs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.harm.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Harm = Callable[[Place, "SparkSession"], None]


def sql(spark: SparkSession, place: Place, statement: str, table: str = "records") -> None:
    """A statement of Spark SQL on a table, named ``@table`` in it."""
    spark.sql(statement.replace("@table", f"delta.`{place.table(table)}`")).collect()
    spark.catalog.clearCache()


def keeping_times(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Other bytes of the same number, with the file's old times."""
    was, data = path.stat(), path.read_bytes()
    changed = change(data)
    assert len(changed) == len(data)
    assert changed != data
    path.write_bytes(changed)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def live(place: Place, table: str = "records") -> list[Path]:
    """Live files of a table, the largest first."""
    adds = pa.table(DeltaTable(place.table(table)).get_add_actions(flatten=True)).to_pylist()
    paths = [place.table(table) / each["path"] for each in adds]
    return sorted(paths, key=lambda path: path.stat().st_size, reverse=True)


def archived(place: Place) -> list[Path]:
    """Archived segments that are live, the largest first."""
    rows = DeltaTable(place.table("segments")).to_pyarrow_table(columns=["path", "retired_ms"]).to_pylist()
    paths = [place.lake / row["path"] for row in rows if row["retired_ms"] is None]
    return sorted(paths, key=lambda path: path.stat().st_size, reverse=True)


# --- rows -------------------------------------------------------------------------------------------------------------


def restored_by_delta_rs(place: Place, _: SparkSession) -> None:
    DeltaTable(place.table("records")).restore(0)


def restored_by_spark(place: Place, spark: SparkSession) -> None:
    sql(spark, place, "RESTORE TABLE @table TO VERSION AS OF 0")


def deleted_by_spark(place: Place, spark: SparkSession) -> None:
    sql(spark, place, "DELETE FROM @table WHERE topic = 'orders' AND `offset` IN (3, 4)")


def deleted_by_delta_rs(place: Place, _: SparkSession) -> None:
    DeltaTable(place.table("records")).delete("topic = 'orders' AND partition = 1 AND \"offset\" = 3")


def updated_by_spark(place: Place, spark: SparkSession) -> None:
    sql(spark, place, "UPDATE @table SET value = CAST('forged' AS BINARY) WHERE topic = 'orders' AND `offset` = 3")


def updated_by_delta_rs(place: Place, _: SparkSession) -> None:
    where = "topic = 'payments' AND \"offset\" = 3"
    DeltaTable(place.table("records")).update({"timestamp_ms": "12345"}, predicate=where)


def appended_twice(place: Place, _: SparkSession) -> None:
    rows = DeltaTable(place.table("records")).to_pyarrow_table().slice(0, 7)
    write_deltalake(place.table("records"), rows, mode="append")


# --- layout and features ----------------------------------------------------------------------------------------------


def optimized_by_spark(place: Place, spark: SparkSession) -> None:
    sql(spark, place, "OPTIMIZE @table")


def compacted_by_delta_rs(place: Place, _: SparkSession) -> None:
    assert DeltaTable(place.table("records")).optimize.compact()["numFilesRemoved"] > 1


def deletion_vectors(place: Place, spark: SparkSession) -> None:
    sql(spark, place, "ALTER TABLE @table SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    sql(spark, place, "DELETE FROM @table WHERE topic = 'orders' AND `offset` IN (3, 4)")
    adds = [json.loads(line) for path in _commits(place, "records") for line in path.read_text().splitlines()]
    assert any("deletionVector" in line.get("add", {}) for line in adds)


def column_mapping(place: Place, spark: SparkSession) -> None:
    mapping = "('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    sql(spark, place, f"ALTER TABLE @table SET TBLPROPERTIES {mapping}")


def column_added_and_filled(place: Place, spark: SparkSession) -> None:
    sql(spark, place, "ALTER TABLE @table ADD COLUMNS (label STRING)")
    sql(spark, place, "UPDATE @table SET label = concat(topic, '-', partition, '@', `offset`)")


def vacuumed_at_once(place: Place, spark: SparkSession) -> None:
    optimized_by_spark(place, spark)
    gone = DeltaTable(place.table("records")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert gone


# --- files ------------------------------------------------------------------------------------------------------------


def lost_file(place: Place, _: SparkSession) -> None:
    live(place)[0].unlink()


def cut_file(place: Place, _: SparkSession) -> None:
    os.truncate(live(place)[0], live(place)[0].stat().st_size // 2)


def flipped_page(place: Place, _: SparkSession) -> None:
    path = live(place)[0]
    group = pq.ParquetFile(path).metadata.row_group(0)
    [column] = [each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == "value"]
    at = column.data_page_offset + column.total_compressed_size - 3
    keeping_times(path, lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def zeroed_archive(place: Place, _: SparkSession) -> None:
    keeping_times(archived(place)[0], lambda data: bytes(len(data)))


def zeroed_archive_later(place: Place, _: SparkSession) -> None:
    """As `dd` would: the size is the same, the time is not."""
    for path in archived(place):
        path.write_bytes(bytes(path.stat().st_size))


def lost_archive_file(place: Place, _: SparkSession) -> None:
    archived(place)[0].unlink()


# --- commits ----------------------------------------------------------------------------------------------------------


def _commits(place: Place, table: str) -> list[Path]:
    return sorted((place.table(table) / "_delta_log").glob("*.json"))


def lost_commit(place: Place, _: SparkSession) -> None:
    _commits(place, "records")[-1].unlink()


def erased_frontiers(place: Place, spark: SparkSession) -> None:
    """Delta forgets transaction identifiers at a checkpoint when they are older than a table property."""
    property_ = "'delta.setTransactionRetentionDuration' = 'interval 0 seconds'"
    sql(spark, place, f"ALTER TABLE @table SET TBLPROPERTIES ({property_}, 'delta.checkpointInterval' = '1')")
    sql(spark, place, "ALTER TABLE @table SET TBLPROPERTIES ('by' = 'test')")
    log = place.table("records") / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    assert checkpoints
    kept = int(checkpoints[-1].name.split(".")[0])
    for path in _commits(place, "records"):
        if int(path.stem) < kept:  # Delta keeps the commit of the checkpoint itself
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    for path in log.glob("*.crc"):
        path.unlink()


def lost_state_table(place: Place, _: SparkSession) -> None:
    shutil.rmtree(place.table("offset_ledger"))
