"""Every record of every snapshot, read by the readers of the Spark data source, is what a real consumer received."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as t

from logcore.segments.filenames import DirectoryKind, is_internal_topic
from spark_jobs.data_source.log_readers import LogReader
from spark_jobs.data_source.source import LoglakeSource
from tests.conformance.oracles import Consumed
from tests.conformance.snapshots import Snapshot
from tests.conformance.test_records import APART, CONSUMED, NOT_ASKED

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

PAIR = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
SCHEMA = t.StructType(
    [
        t.StructField("topic", t.StringType()),
        t.StructField("partition", t.IntegerType()),
        t.StructField("offset", t.LongType()),
        t.StructField("timestamp_ms", t.LongType()),
        t.StructField("timestampType", t.IntegerType()),
        t.StructField("key", t.BinaryType()),
        t.StructField("value", t.BinaryType()),
        t.StructField("headers", t.ArrayType(PAIR)),
        t.StructField("leader_epoch", t.IntegerType()),
    ]
)
KINDS = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def rows(path: str, **options: str) -> dict[str, list[Consumed]]:
    """The rows of all parts, each handed over as to a worker, by topic partition."""
    source = LoglakeSource({"path": path, "mode": "permissive", "includeHeaders": "true", **options})
    reader = source.reader(SCHEMA)
    assert isinstance(reader, LogReader)
    found: dict[str, list[Consumed]] = {}
    for row in itertools.chain.from_iterable(
        batch.to_pylist() for part in reader.partitions() for batch in reader.read(part)
    ):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(_consumed(row))
    return found


def _consumed(row: dict[str, Any]) -> Consumed:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    kind, time = KINDS[row["timestampType"]], row["timestamp_ms"]
    return Consumed(row["offset"], time, kind, row["key"], row["value"], headers, row["leader_epoch"])


@pytest.mark.parametrize(("snapshot", "isolation_level"), CONSUMED, ids=lambda value: str(value))
def test_the_rows_of_all_parts_are_the_records_of_the_real_consumer(
    corpus: Corpus, snapshot: Snapshot, isolation_level: str
) -> None:
    expected = corpus.consumed(snapshot, isolation_level)
    live = {name for name, log in corpus.logs(snapshot).items() if log.source.kind is DirectoryKind.LIVE}
    apart = {name for name in live if isolation_level in APART.get((str(snapshot), name), ((), ""))[0]}
    compared = {
        name
        for name in live - apart - NOT_ASKED.get(str(snapshot), set())
        if name in expected or not is_internal_topic(name)
    }
    options = {"path": str(corpus.directory(snapshot)), "isolation.level": isolation_level}

    read = {parts: rows(**options, minPartitions=parts) for parts in ("1", "40")}

    assert read["1"] == read["40"]
    for name in sorted(compared):
        mine, theirs = read["1"].get(name, []), expected.get(name, [])
        if snapshot.era == "legacy":  # clients before 2.1 do not report the leader epoch
            mine = [row._replace(leader_epoch=record.leader_epoch) for row, record in zip(mine, theirs, strict=True)]
        assert mine == theirs, name
