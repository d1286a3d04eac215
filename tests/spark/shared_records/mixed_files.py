"""What other engines do to the files of `records`, and what is in them then."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from spark_jobs.contracts import JobReport, OptimizeConfig, ReplaceConfig
from spark_jobs.engine.session import get_session
from spark_jobs.lake.view.ledger_comparison import differences
from spark_jobs.launch import run
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, Lake

Logs = dict[str, Partition]

Mix = Callable[[Lake], None]


def make(folder: Path) -> tuple[LogDirectory, Lake, Logs]:
    """Three files of ten offsets of each of orders-0 and orders-1; payments-0 is another topic."""
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    logs = {
        "orders-0": source.partition("orders-0"),
        "orders-1": source.partition("orders-1"),
        "payments-0": source.partition("payments-0", OTHER_TOPIC_ID),
    }
    for end in (10, 20, 30):
        for name, log in logs.items():
            log.append(10, per_batch=1, tag=name.encode())
        source.high_watermarks(orders_0=end, orders_1=end, payments_0=end)
        lake.turn(source.path)
    return source, lake, logs


def root(lake: Lake) -> Path:
    return lake.path / "tables" / "records"


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(root(lake)))


def sql(lake: Lake, statement: str) -> None:
    get_session(str(lake.path)).sql(statement.format(records=f"delta.`{root(lake)}`"))


def rows(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.rows("records"), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def assert_equal_to_source(lake: Lake, logs: Logs) -> None:
    """Every appended record is there once, key and value; no other row is."""
    for name, log in logs.items():
        topic, _, partition = name.rpartition("-")
        assert lake.published(topic, int(partition)) == log.rows
    assert len(lake.rows("records")) == sum(len(log.rows) for log in logs.values())
    assert differences(str(lake.path)) == ()


def contents(lake: Lake) -> dict[str, list[tuple[str, int, str, int]]]:
    """Topic, partition, log id and offset of every row of each live file, in the order of the file."""
    found = {}
    for path in paths(lake):
        read = pq.ParquetFile(root(lake) / path).read(["partition", "log_id", "offset"]).to_pylist()
        topic = path.partition("/")[0].removeprefix("topic=")
        found[path] = [(topic, row["partition"], row["log_id"], row["offset"]) for row in read]
    return found


def paths(lake: Lake) -> list[str]:
    return sorted(pa.table(table(lake).get_add_actions())["path"].to_pylist())


def is_ordered(lake: Lake) -> bool:
    """Whether every file has rows of one log with rising offsets, and no two files of a log overlap."""
    spans: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for found in contents(lake).values():
        if len({row[:3] for row in found}) > 1 or [row[3] for row in found] != sorted({row[3] for row in found}):
            return False
        spans.setdefault(found[0][:3], []).append((found[0][3], found[-1][3]))
    ordered = [sorted(of_log) for of_log in spans.values()]
    return all(before[1] < after[0] for of_log in ordered for before, after in pairwise(of_log))


def optimized(lake: Lake, **changes: Any) -> JobReport:
    return run(OptimizeConfig(str(lake.path), "optimize", **{"as_of_ms": AS_OF_MS, "apply": True} | changes))


def replaced(lake: Lake, **request: Any) -> JobReport:
    return run(ReplaceConfig(str(lake.path), "replace", AS_OF_MS, **{"start_offset": 0} | request))


def by_spark_optimize(lake: Lake) -> None:
    sql(lake, "OPTIMIZE {records}")


def by_compact(lake: Lake) -> None:
    table(lake).optimize.compact()


def damage(path: Path, harm: str) -> None:
    content = path.read_bytes()
    if harm == "removed":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:  # a byte in the pages of the column value
        meta = pq.read_metadata(path).row_group(0)
        [column] = [meta.column(i) for i in range(meta.num_columns) if meta.column(i).path_in_schema == "value"]
        at = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 20
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
