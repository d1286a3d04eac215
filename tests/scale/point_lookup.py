"""One record of a large ``records`` table by topic, partition and offset: files opened and time, by every reader.

    python -m tests.scale.point_lookup --rows 100000000

The table is written through the same file writer and the same commit as ``publish`` does. Keys and values are made of
the offset, so that what comes back can be checked. Everything is deleted at the end.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.parquet_files import ROW_GROUP_ROWS, write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.table_specs import TABLES

FIRST_TIMESTAMP_MS = 1_700_000_000_000
FREE_BYTES_PER_ROW = 80
"""Disk that has to be free before anything is written: about twice what is used."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a table is cut: every partition has the same number of rows, every file too."""

    rows: int
    topics: int
    partitions: int
    rows_a_file: int

    @property
    def rows_a_partition(self) -> int:
        return self.rows // (self.topics * self.partitions)


def build(lake: str, shape: Shape) -> None:
    """Write the table ``records`` of a lake, one commit a topic."""
    root, spec = table_uri(lake, "records"), TABLES["records"]
    for topic in (f"topic-{i}" for i in range(shape.topics)):
        files = []
        guards = []
        for partition in range(shape.partitions):
            for start in range(0, shape.rows_a_partition, shape.rows_a_file):
                end = min(start + shape.rows_a_file, shape.rows_a_partition)
                file = write_file(root, spec, _chunks(topic, partition, start, end), {"topic": topic})
                assert file is not None
                files.append(file)
            log = f"{topic}.0/{partition}"
            guards.append(Guard(f"records/{log}", None, shape.rows_a_partition))
        commits.add_files(lake, "records", files, "point-lookup", guards)


def value_at(partition: int, offset: int) -> bytes:
    """The value of a record, made of its place."""
    return bytes(_scrambled(np.array([offset], np.uint64), partition).tobytes())


def _chunks(topic: str, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    schema = TABLES["records"].file_schema
    for first in range(start, end, ROW_GROUP_ROWS):
        offsets = np.arange(first, min(first + ROW_GROUP_ROWS, end), dtype=np.int64)
        count = len(offsets)
        made = {
            "partition": pa.array(np.full(count, partition, np.int32)),
            "offset": pa.array(offsets),
            "timestamp": pa.array((FIRST_TIMESTAMP_MS + offsets) * 1000).cast(schema.field("timestamp").type),
            "timestampType": pa.array(np.zeros(count, np.int32)),
            "key": _bytes(_scrambled(offsets.astype(np.uint64), partition + 1)[:, :1]),
            "value": _bytes(_scrambled(offsets.astype(np.uint64), partition)),
            "timestamp_ms": pa.array(FIRST_TIMESTAMP_MS + offsets),
            "leader_epoch": pa.array(np.zeros(count, np.int32)),
            "log_id": pa.repeat(f"{topic}.0", count),
            "segment_id": pa.repeat(f"{topic}-{partition}-{start}", count),
            "position": pa.array(offsets // 100 * 5000),
        }
        arrays = [made[f.name] if f.name in made else pa.nulls(count, f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _scrambled(offsets: np.ndarray[Any, Any], salt: int) -> np.ndarray[Any, Any]:
    """Two words an offset that no codec makes smaller."""
    mixed = (offsets + np.uint64(salt + 1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return np.stack([mixed * np.uint64(0xBF58476D1CE4E5B9), mixed * np.uint64(0x94D049BB133111EB)], axis=1)


def _bytes(words: np.ndarray[Any, Any]) -> pa.Array:
    width = words.shape[1] * 8
    ends = pa.py_buffer(np.arange(0, (len(words) + 1) * width, width, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(words), [None, ends, pa.py_buffer(np.ascontiguousarray(words))])


def files_named(lake: str, topic: str, partition: int, offset: int) -> list[str]:
    """Files in which Delta's statistics allow the record."""
    where = [("topic", "=", topic), ("partition", "=", partition), ("offset", "=", offset)]
    return DeltaTable(table_uri(lake, "records")).file_uris(file_pruning_predicate=where)


class _Counting(DeltaStorageHandler):
    """The table's files, and which of them were opened."""

    opened: list[str]

    def open_input_file(self, path: str) -> Any:
        self.opened.append(path)
        return super().open_input_file(path)


def files_opened(lake: str, topic: str, partition: int, offset: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Files that a look-up through pyarrow opens, and the rows it finds."""
    table = DeltaTable(table_uri(lake, "records"))
    handler = _Counting(table_uri(lake, "records"))
    handler.opened = []
    dataset = table.to_pyarrow_dataset(filesystem=fs.PyFileSystem(handler))
    rows = dataset.to_table(filter=_condition(topic, partition, offset)).to_pylist()
    return sorted(set(handler.opened)), rows


def spark_files(lake: str, topic: str, partition: int, offset: int) -> tuple[int, list[Any]]:
    """Files that Spark reads for a look-up, by its own metric, and the rows it finds."""
    from spark_jobs.engine.session import get_session

    where = f"topic = '{topic}' AND partition = {partition} AND offset = {offset}"
    frame = get_session().read.format("delta").load(table_uri(lake, "records")).where(where).select("value")
    rows = frame.collect()
    metrics = frame._jdf.queryExecution().executedPlan().collectLeaves().head().metrics()
    return metrics.get("numFiles").get().value(), rows


def by_pyarrow(lake: str, topic: str, partition: int, offset: int) -> list[bytes]:
    """The values that pyarrow finds, from the table's root to the row."""
    dataset = DeltaTable(table_uri(lake, "records")).to_pyarrow_dataset()
    found: list[bytes] = dataset.to_table(["value"], filter=_condition(topic, partition, offset))["value"].to_pylist()
    return found


def by_duckdb(lake: str, topic: str, partition: int, offset: int) -> list[bytes]:
    """The same by DuckDB, over the dataset."""
    connection = duckdb.connect()
    connection.register("records", DeltaTable(table_uri(lake, "records")).to_pyarrow_dataset())
    query = 'select value from records where topic = ? and partition = ? and "offset" = ?'
    return [row[0] for row in connection.execute(query, [topic, partition, offset]).fetchall()]


def by_polars(lake: str, topic: str, partition: int, offset: int) -> list[bytes]:
    """The same by Polars."""
    place = {"topic": topic, "partition": partition, "offset": offset}
    condition = [polars.col(name) == value for name, value in place.items()]
    return polars.scan_delta(table_uri(lake, "records")).filter(condition).select("value").collect()["value"].to_list()


READERS: dict[str, Callable[[str, str, int, int], list[bytes]]] = {
    "pyarrow": by_pyarrow,
    "duckdb": by_duckdb,
    "polars": by_polars,
}


def _condition(topic: str, partition: int, offset: int) -> ds.Expression:
    return (ds.field("topic") == topic) & (ds.field("partition") == partition) & (ds.field("offset") == offset)


def places(shape: Shape, count: int) -> list[tuple[str, int, int]]:
    """Records to look up, all over the table, the first and last of a file among them."""
    chance = np.random.default_rng(1)
    found = [("topic-0", 0, 0), ("topic-0", 0, min(shape.rows_a_file, shape.rows_a_partition) - 1)]
    while len(found) < count:
        offset = int(chance.integers(shape.rows_a_partition))
        found.append((f"topic-{chance.integers(shape.topics)}", int(chance.integers(shape.partitions)), offset))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, look up, print, delete; exit code 1 if a look-up opened more than one file."""
    parser = argparse.ArgumentParser(prog="python -m tests.scale.point_lookup", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--topics", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rows-a-file", type=int, default=1_600_000)
    parser.add_argument("--looks", type=int, default=12)
    parser.add_argument("--folder", default=None, help="where the table is made; a temporary directory")
    options = parser.parse_args(arguments)
    shape = Shape(options.rows, options.topics, options.partitions, options.rows_a_file)
    with tempfile.TemporaryDirectory(prefix="lookup-", dir=options.folder) as folder:
        if shutil.disk_usage(folder).free < shape.rows * FREE_BYTES_PER_ROW:
            print(f"{folder}: {shape.rows * FREE_BYTES_PER_ROW >> 30} GiB have to be free")
            return 3
        lake = str(Path(folder, "lake"))
        started = time.perf_counter()
        build(lake, shape)
        sizes = pa.table(DeltaTable(table_uri(lake, "records")).get_add_actions())["size_bytes"].to_pylist()
        print(
            f"{shape.rows} rows in {len(sizes)} files of {min(sizes) >> 20} to {max(sizes) >> 20} MiB, "
            f"{sum(sizes) / 1e9:.2f} GB, written in {time.perf_counter() - started:.0f} s",
            flush=True,
        )
        return _look_up(lake, shape, options.looks)


def _look_up(lake: str, shape: Shape, looks: int) -> int:
    most = {"statistics": 0, "pyarrow": 0, "spark": 0}
    times: dict[str, list[float]] = {name: [] for name in READERS} | {"spark": []}
    for topic, partition, offset in places(shape, looks):
        opened, rows = files_opened(lake, topic, partition, offset)
        assert [row["value"] for row in rows] == [value_at(partition, offset)]
        for name, reader in READERS.items():
            started = time.perf_counter()
            assert reader(lake, topic, partition, offset) == [value_at(partition, offset)]
            times[name].append(time.perf_counter() - started)
        started = time.perf_counter()
        count, found = spark_files(lake, topic, partition, offset)
        times["spark"].append(time.perf_counter() - started)
        assert [bytes(row["value"]) for row in found] == [value_at(partition, offset)]
        named = len(files_named(lake, topic, partition, offset))
        most = {
            "statistics": max(most["statistics"], named),
            "pyarrow": max(most["pyarrow"], len(opened)),
            "spark": max(most["spark"], count),
        }
    print("files, at most: " + ", ".join(f"{name} {count}" for name, count in most.items()))
    for name, seconds in times.items():
        print(f"{name}: median {statistics.median(seconds) * 1000:.0f} ms, best {min(seconds) * 1000:.0f} ms")
    return 0 if max(most.values()) == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
