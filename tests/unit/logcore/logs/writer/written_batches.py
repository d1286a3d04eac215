"""Batches of one record and a writer of them; what is expected of its files is packed by hand."""

import struct

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import topic_config
from logcore.logs.writer.writer import LogWriter
from logcore.segments.filenames import TopicPartition
from tests import handmade

T = 1_700_000_000_000

ORDERS = TopicPartition("orders", 0)


def batch(offset: int, timestamp: int = T, count: int = 1, **fields: int) -> bytes:
    return handmade.batch(
        [handmade.record(n, b"k", b"v") for n in range(count)],
        base_offset=offset,
        base_timestamp=timestamp,
        last_offset_delta=count - 1,
        **({"leader_epoch": 0} | fields),
    )


SIZE = len(batch(0))


def writer(values: dict[str, str] | None = None, *, line: BrokerLine = BrokerLine.V4_4, **given) -> LogWriter:
    return LogWriter(ORDERS, topic_config(values or {}), line, **({"as_of_ms": T} | given))


def contents(directory: PartitionDirectory) -> dict[str, bytes]:
    return {name: bytes(file.content) for name, file in directory.files.items()}


def file(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


def data(offset: int, producer: int, sequence: int = 0, at: int = T) -> bytes:
    fields = {"attributes": handmade.TRANSACTIONAL, "producer_id": producer, "producer_epoch": 0}
    return batch(offset, at, base_sequence=sequence, **fields)


def marker(offset: int, producer: int, kind: int = handmade.ABORT) -> bytes:
    return handmade.marker(offset, kind, producer_id=producer, base_timestamp=T, coordinator_epoch=4, leader_epoch=0)


def aborted(producer: int, first: int, last: int, stable: int) -> bytes:
    return struct.pack(">hqqqq", 0, producer, first, last, stable)


def entry(producer: int, sequence: int, last: int, opened: int = -1, coordinator: int = -1) -> bytes:
    return struct.pack(">qhiqiqiq", producer, 0, sequence, last, 0, T, coordinator, opened)


def snapshot(*entries: bytes) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


def epochs(log: LogWriter) -> bytes:
    return contents(log.kill())["leader-epoch-checkpoint"]
