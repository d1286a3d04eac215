"""Records of `__transaction_state`, packed by hand."""

from __future__ import annotations

import struct

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD = range(7)


def state_key(name: str) -> bytes:
    return struct.pack(">hh", 0, len(name)) + name.encode()


def state_value(
    status: int,
    *,
    producer_id: int,
    epoch: int,
    partitions: dict[str, tuple[int, ...]] | None = None,
    updated_ms: int,
    start_ms: int = -1,
    timeout_ms: int = 60_000,
    version: int = 2,
    previous_producer_id: int | None = None,
) -> bytes:
    """Value v1 for transaction version 1 and newer, else v0."""
    head = struct.pack(">qhib", producer_id, epoch, timeout_ms, status)
    times = struct.pack(">qq", updated_ms, start_ms)
    if version == 0:
        if partitions is None:
            return b"\0\0" + head + struct.pack(">i", -1) + times
        topics = b"".join(
            struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
            for topic, numbers in partitions.items()
        )
        return b"\0\0" + head + struct.pack(">i", len(partitions)) + topics + times
    if partitions is None:
        body = b"\0"
    else:
        body = bytes([len(partitions) + 1]) + b"".join(
            bytes([len(topic) + 1])
            + topic.encode()
            + bytes([len(numbers) + 1])
            + struct.pack(f">{len(numbers)}i", *numbers)
            + b"\0"
            for topic, numbers in partitions.items()
        )
    previous = producer_id if previous_producer_id is None else previous_producer_id
    tags = b"\0\x08" + struct.pack(">q", previous)
    tags = b"\2" + tags + b"\2\2" + struct.pack(">h", version) if version > 1 else b"\1" + tags
    return b"\0\1" + head + body + times + tags
