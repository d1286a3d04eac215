"""Real brokers' batches, appended one by one, become the very files that those brokers wrote.

Every file of every partition: segments, indexes, transaction indexes, producer snapshots (their order too), history of
leaders. Of brokers that ran once and stopped, or were killed. Segment sizes and index intervals are those that the
cases gave their topics; the rest is Kafka's default, or the broker's `broker_props`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import topic_config
from logcore.logs.writer.writer import LogWriter
from logcore.segments.filenames import parse_topic_partition
from tests.conformance.snapshots import snapshot as named

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

WRITTEN_MS, STOPPED_MS = 1, 2


@dataclass(frozen=True)
class Written:
    """A snapshot of one broker's only run. By topic, or the part of its name before a dash: segment.bytes and
    index.interval.bytes; the broker's default of the latter. How many partitions and files there are."""

    name: str
    line: BrokerLine
    segment_bytes: dict[str, int]
    interval: int
    count: tuple[int, int]
    intervals: dict[str, int] = field(default_factory=dict)
    was_killed: bool = False

    def __str__(self) -> str:
        return self.name

    def config(self, topic: str) -> dict[str, str]:
        def of(values: dict[str, int], default: int) -> int:
            return values.get(topic, values.get(topic.partition("-")[0], default))

        return {
            "segment.bytes": str(of(self.segment_bytes, 100 << 20)),
            "index.interval.bytes": str(of(self.intervals, self.interval)),
            "segment.index.bytes": "2040",
            "cleanup.policy": "compact" if topic.startswith("__") else "delete",
        }


CODECS = {"codec": 6000, "multi": 6000, "recompress": 6000}
RETENTION = dict.fromkeys(("r", "d", "keep"), 1800)
WRITTEN = (
    Written(
        "codecs-v2-3.9.2/logdir",
        BrokerLine.V3_9,
        CODECS,
        600,
        (14, 119),
        {"codec-gzip": 300, "codec-lz4": 300, "codec-none": 0, "codec-snappy": 700, "codec-zstd": 700},
    ),
    Written(
        "codecs-v2-4.3.1/logdir",
        BrokerLine.V4_0,
        CODECS,
        600,
        (14, 131),
        {"codec-gzip": 0, "codec-lz4": 700, "codec-none": 700, "codec-snappy": 300, "codec-zstd": 0},
    ),
    Written("bigvalue-v2-4.3.1/logdir", BrokerLine.V4_0, {"big": 150_000}, 4096, (5, 30)),
    Written(
        "timestamps-v2-4.4.0/logdir",
        BrokerLine.V4_4,
        {"lat": 3000, "mixed": 5000, "backwards": 2500, "flat": 2500},
        4096,
        (8, 112),
        {"lat": 400, "mixed": 300, "backwards": 200, "flat": 200},
    ),
    Written(
        "transactions-3.9.2/logdir",
        BrokerLine.V3_9,
        {"txn-a": 2200, "txn-b": 4000, "txn-c": 3000},
        500,
        (5, 88),
        {"txn-a": 0},
    ),
    Written(
        "transactions-4.4.0/logdir",
        BrokerLine.V4_4,
        {"txn-a": 2200, "txn-b": 4000, "txn-c": 3000},
        500,
        (5, 82),
        {"txn-a": 0},
    ),
    Written(
        "retention-4.3.1/before",
        BrokerLine.V4_0,
        RETENTION,
        4096,
        (15, 235),
        dict.fromkeys(("d-all", "r-both", "r-lat", "r-size", "r-txn"), 0)
        | dict.fromkeys(
            ("r-time", "r-time-all", "r-shuffled", "r-future", "r-size0", "r-cd", "d-mid", "d-txn", "keep"), 300
        ),
    ),
    Written(
        "recovery-kill9-4.4.0/before",
        BrokerLine.V4_4,
        {"k-idem": 20_000, "k-plain": 15_000, "k-txn": 12_000, "k-idle": 5000},
        700,
        (7, 69),
        {"k-txn": 300},
        was_killed=True,
    ),
)


def batches(content: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(content):
        size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
        found.append(content[position : position + size])
        position += size
    return found


def written_again(there: dict[str, bytes], partition: str, case: Written) -> PartitionDirectory:
    """The log of the same batches, each an append call of its own."""
    topic_partition = parse_topic_partition(partition)
    assert topic_partition is not None
    writer = LogWriter(
        topic_partition,
        topic_config(case.config(topic_partition.topic)),
        case.line,
        as_of_ms=0,
        topic_id=there["partition.metadata"].decode().removeprefix("version: 0\ntopic_id: "),
    )
    writer.become_leader(0, as_of_ms=0)
    for name in sorted(name for name in there if name.endswith(".log")):
        for each in batches(there[name]):
            writer.append(each, WRITTEN_MS)
    return writer.kill() if case.was_killed else writer.close(STOPPED_MS)


@pytest.mark.parametrize("case", WRITTEN, ids=str)
def test_the_files_of_a_broker_are_written_again_from_its_batches(corpus: Corpus, case: Written):
    root = corpus.directory(named(case.name))
    partitions = [path for path in sorted(root.iterdir()) if path.is_dir() and path.name != "__cluster_metadata-0"]
    files = 0
    for path in partitions:
        there = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
        ours = {name: bytes(file.content) for name, file in written_again(there, Path(path).name, case).files.items()}
        assert set(ours) == set(there), path.name
        assert {name for name in there if ours[name] != there[name]} == set(), path.name
        files += len(there)
    assert (len(partitions), files) == case.count


def test_root_lines_of_a_clean_stop_are_the_brokers(corpus: Corpus):
    case = next(each for each in WRITTEN if each.name == "retention-4.3.1/before")
    root = corpus.directory(named(case.name))
    facts = corpus.facts(named(case.name))["snapshots"]["before"]
    for path in (path for path in sorted(root.iterdir()) if path.is_dir()):
        there = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
        made = written_again(there, path.name, case)
        assert made.recovery_point == facts["recovery_points"][path.name]
        assert made.high_watermark == facts["high_watermarks"][path.name]
        assert made.log_start_offset is facts["log_start_checkpoint"].get(path.name)
        assert made.is_clean


def test_deleted_records_and_restarts_leave_what_they_left_of_a_broker(corpus: Corpus):
    """From `before` to `mid` of the retention case: a start, deleteRecords, a stop."""
    case = next(each for each in WRITTEN if each.name == "retention-4.3.1/before")
    before, mid = (corpus.directory(named(f"retention-4.3.1/{name}")) for name in ("before", "mid"))
    targets = {"d-mid-0": 59, "d-all-0": 35, "d-txn-0": 51}
    for path in (path for path in sorted(before.iterdir()) if path.is_dir()):
        there = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
        topic_partition = parse_topic_partition(path.name)
        assert topic_partition is not None
        writer = LogWriter(topic_partition, topic_config(case.config(topic_partition.topic)), case.line, as_of_ms=0)
        writer.become_leader(0, as_of_ms=0)
        for name in sorted(name for name in there if name.endswith(".log")):
            for each in batches(there[name]):
                writer.append(each, WRITTEN_MS)
        writer.restart(STOPPED_MS)
        writer.become_leader(2, as_of_ms=STOPPED_MS)
        if path.name in targets:
            writer.delete_records(targets[path.name], STOPPED_MS)
        closed = writer.close(STOPPED_MS)
        left = {
            file.name: file.read_bytes() for file in (mid / path.name).iterdir() if file.name != "partition.metadata"
        }
        assert {name: bytes(file.content) for name, file in closed.files.items()} == left
        assert closed.log_start_offset == targets.get(path.name)
