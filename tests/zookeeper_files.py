"""Files of ZooKeeper, packed by hand from its byte tables: snapshots and transaction logs."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CREATE, DELETE, SET_DATA, MULTI, CREATE_SESSION, CLOSE_SESSION, ERROR = 1, 2, 5, 14, -10, -11, -1
CLIENT = 0x100000001
"""A session."""
SEAL_END = struct.pack(">i", 1) + b"/"
OPEN_TO_ALL = struct.pack(">ii", 1, 31) + struct.pack(">i", 5) + b"world" + struct.pack(">i", 6) + b"anyone"
"""A list with one access rule."""


def text(content: str | bytes | None) -> bytes:
    """A string or a buffer; None is null."""
    if content is None:
        return struct.pack(">i", -1)
    content = content.encode() if isinstance(content, str) else content
    return struct.pack(">i", len(content)) + content


def node(
    path: str, data: str | bytes | None = None, *, zxid: int = 1, changed: int | None = None, version: int = 0,
    owner: int = 0, time_ms: int = 1_000,
) -> bytes:  # fmt: skip
    """A node of a snapshot."""
    changed = zxid if changed is None else changed
    state = struct.pack(">qqqqiiiqq", zxid, changed, time_ms, time_ms, version, 0, 0, owner, zxid)
    return text(path) + text(data) + struct.pack(">q", 1) + state


def seal(content: bytes) -> bytes:
    """The same bytes, with their sum."""
    return content + struct.pack(">q", zlib.adler32(content)) + SEAL_END


def snapshot(*nodes: bytes, sessions: Iterable[int] = (CLIENT,), is_new: bool = False) -> bytes:
    """A snapshot; a new one has a digest and the last transaction, each sealed."""
    sessions = tuple(sessions)
    content = b"ZKSN" + struct.pack(">iq", 2, -1) + struct.pack(">i", len(sessions))
    content += b"".join(struct.pack(">qi", session, 30_000) for session in sessions)
    content += struct.pack(">iq", 1, 1) + OPEN_TO_ALL
    content = seal(content + node("") + b"".join(nodes) + text("/"))
    if is_new:
        content = seal(content + struct.pack(">qiq", 1, 2, 99))
        content = seal(content + struct.pack(">q", 1))
    return content


def create(path: str, data: str | bytes | None = None, *, is_ephemeral: bool = False) -> tuple[int, bytes]:
    """A node is created."""
    return CREATE, text(path) + text(data) + OPEN_TO_ALL + struct.pack(">?i", is_ephemeral, 1)


def delete(path: str) -> tuple[int, bytes]:
    """A node is removed."""
    return DELETE, text(path)


def change(path: str, data: str | bytes | None, version: int = 1) -> tuple[int, bytes]:
    """The bytes of a node are changed."""
    return SET_DATA, text(path) + text(data) + struct.pack(">i", version)


def multi(*parts: tuple[int, bytes]) -> tuple[int, bytes]:
    """Several at once."""
    return MULTI, struct.pack(">i", len(parts)) + b"".join(struct.pack(">i", kind) + text(body) for kind, body in parts)


OPEN_SESSION = CREATE_SESSION, struct.pack(">i", 30_000)
END_SESSION = CLOSE_SESSION, b""


def transaction(zxid: int, what: tuple[int, bytes], *, session: int = CLIENT, time_ms: int | None = None) -> bytes:
    """A transaction with its sum."""
    time_ms = 1_000 * zxid if time_ms is None else time_ms
    content = struct.pack(">qiqqi", session, 1, zxid, time_ms, what[0]) + what[1]
    return struct.pack(">q", zlib.adler32(content)) + text(content) + b"B"


def log(*transactions: bytes, padding: int = 500) -> bytes:
    """A transaction log, with the zeros of its preallocation."""
    return b"ZKLG" + struct.pack(">iq", 2, 0) + b"".join(transactions) + bytes(padding)


def numbered(*done: tuple[int, bytes], first: int = 1) -> bytes:
    """A log with transactions from one number on."""
    return log(*(transaction(first + index, what) for index, what in enumerate(done)))


def as_json(**fields: Any) -> str:
    """What Kafka writes into a node."""
    return json.dumps(fields)


def small_cluster() -> tuple[bytes, ...]:
    """Nodes of a cluster with one topic, one broker and one group."""
    return (
        node("/brokers"),
        node("/brokers/ids"),
        node("/brokers/topics"),
        node("/cluster/id", as_json(version="1", id="0123456789abcdefghijkl")),
        node("/controller", as_json(version=1, brokerid=7, timestamp="1"), owner=CLIENT),
        node(
            "/brokers/ids/7",
            as_json(endpoints=["PLAINTEXT://h7:9092"], host="h7", port=9092, version=4, rack="r"),
            owner=CLIENT,
            zxid=5,
        ),
        node("/brokers/topics/orders", as_json(version=1, partitions={"0": [7, 8], "1": [8, 7]}), zxid=6),
        node(
            "/brokers/topics/orders/partitions/0/state",
            as_json(controller_epoch=1, leader=7, version=1, leader_epoch=3, isr=[7]),
            zxid=7,
            version=4,
        ),
        node("/config/topics/orders", as_json(version=1, config={"retention.ms": "5", "x.password": "hidden"})),
        node("/consumers/g/ids/g_h-1-ab", as_json(version=1, subscription={"orders": 1}), owner=CLIENT),
        node("/consumers/g/owners/orders/0", "g_h-1-ab-0", owner=CLIENT),
        node("/consumers/g/offsets/orders/0", "42", zxid=8, time_ms=8_000),
    )


def write(directory: Path, files: dict[str, bytes]) -> Path:
    """Write the files of a data directory."""
    inner = directory / "version-2"
    inner.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (inner / name).write_bytes(content)
    return directory
