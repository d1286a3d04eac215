"""Small files of `records`, written one by one, and what is in them."""

from __future__ import annotations

import datetime
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.table_specs import TABLES
from tests.spark.cycle import AS_OF_MS, Lake


def optimize_config(lake: Path, **changes: Any) -> OptimizeConfig:
    return OptimizeConfig(str(lake), "optimize", **{"as_of_ms": AS_OF_MS, "apply": True} | changes)


def rows_of(topic: str, partition: int, log_id: str, start: int, end: int) -> list[dict[str, Any]]:
    chance = random.Random(start)
    return [
        dict.fromkeys(TABLES["records"].schema.names)
        | {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp_ms": offset,
            "timestampType": 0,
            "key": None if offset % 7 == 0 else f"k{offset}".encode(),
            "value": b"" if offset % 5 == 0 else chance.randbytes(200),
            "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}] if offset % 3 == 0 else None,
            "log_id": log_id,
            "segment_id": f"{topic}-{start}",
            "position": offset,
            "header_keys_raw": [b"\xff", b"\xfe"] if offset % 11 == 0 else None,
            "published_at": None if start == 0 else datetime.datetime.fromtimestamp(start, datetime.UTC),
        }
        for offset in range(start, end)
    ]


def add_files(lake: Path, *spans: tuple[str, int, str, int, int], name: str = "records") -> None:
    """One file a span, committed together, and the frontier of each log."""
    files = []
    ends: dict[str, int] = {}
    for topic, partition, log_id, start, end in spans:
        rows = rows_of(topic, partition, log_id, start, end)
        chunk = pa.RecordBatch.from_pylist(rows, schema=TABLES[name].schema)
        files.append(write_file(table_uri(str(lake), name), TABLES[name], [chunk], {"topic": topic}))
        ends[f"{log_id}/{partition}"] = max(end, ends.get(f"{log_id}/{partition}", 0))
    ids = {log: f"{name}/{log}" for log in ends}
    found = commits.versions(str(lake), name, list(ids.values()))
    guards = [Guard(ids[log], found[ids[log]], end) for log, end in ends.items()]
    commits.add_files(str(lake), name, files, "run", guards)


def spans_of(topic: str, partition: int, log_id: str, *cuts: int) -> list[tuple[str, int, str, int, int]]:
    return [(topic, partition, log_id, start, end) for start, end in pairwise(cuts)]


def all_rows(lake: Path, name: str = "records") -> list[str]:
    return sorted(map(repr, Lake(lake).rows(name)))


def removed_files(root: Path) -> dict[str, int]:
    lines = [line for path in sorted((root / "_delta_log").glob("*.json")) for line in path.read_text().splitlines()]
    removed = [json.loads(line)["remove"] for line in lines if line.startswith('{"remove"')]
    return {action["path"]: action["deletionTimestamp"] for action in removed}
