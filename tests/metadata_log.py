"""A `__cluster_metadata` log that a test writes record by record, packed by Kafka's schemas with `struct`."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from tests import handmade

Record = tuple[None, bytes]
HEADER, FOOTER = 3, 4


def topic_id(name: str, number: int = 0) -> bytes:
    return name.encode().ljust(15, b"-")[:15] + bytes([number])


def topic_id_text(name: str, number: int = 0) -> str:
    """As `partition.metadata` has it."""
    return base64.urlsafe_b64encode(topic_id(name, number)).decode().rstrip("=")


def compact(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def created(name: str, number: int = 0) -> Record:
    """By TopicRecord 0."""
    return None, b"\1\2\0" + compact(name) + topic_id(name, number) + b"\0"


def removed(name: str, number: int = 0) -> Record:
    """By RemoveTopicRecord 0."""
    return None, b"\1\x09\0" + topic_id(name, number) + b"\0"


def setting(topic: str, name: str, value: str | None) -> Record:
    """By ConfigRecord 0, for a topic; a value of None removes the setting."""
    return None, b"\1\4\0" + b"\2" + compact(topic) + compact(name) + compact(value) + b"\0"


def control(base_offset: int, kind: int, value: bytes = b"\0\0\0") -> bytes:
    return handmade.control_batch(base_offset, struct.pack(">hh", 0, kind), value, leader_epoch=1)


def snapshot_of(records: list[Record], time_ms: int) -> bytes:
    header = control(0, HEADER, struct.pack(">hq", 0, time_ms) + b"\0")
    body = handmade.simple_batch(1, records, leader_epoch=1, base_timestamp=time_ms)
    return header + body + control(1 + len(records), FOOTER)


class MetadataLog:
    """`__cluster_metadata-0` in a log directory; each record has a batch of its own."""

    def __init__(self, log_directory: Path) -> None:
        self.path = log_directory / "__cluster_metadata-0"
        self.path.mkdir(parents=True)
        self.segment = self.path / f"{0:020d}.log"
        self.segment.touch()
        self.batches: list[bytes] = []

    def say(self, *records: Record, time_ms: int = 1000) -> None:
        """Append records at a time."""
        for record in records:
            at = len(self.batches)
            self.batches.append(handmade.simple_batch(at, [record], leader_epoch=1, base_timestamp=time_ms))
        self.segment.write_bytes(b"".join(self.batches))

    def damage(self, offset: int) -> None:
        """Turn over a bit in the batch with this offset."""
        batches = [handmade.flip(data, 70) if at == offset else data for at, data in enumerate(self.batches)]
        self.segment.write_bytes(b"".join(batches))

    def snapshot(self, end: int, *records: Record, time_ms: int = 1000) -> None:
        """Write a snapshot with these records that ends at an offset."""
        (self.path / f"{end:020d}-{1:010d}.checkpoint").write_bytes(snapshot_of(list(records), time_ms))
