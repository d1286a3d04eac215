"""A transaction log of ZooKeeper: transactions, each with the Adler-32 sum of its bytes. Byte tables: `FORMAT.md`.

The file is preallocated: zeros follow the last transaction. A process that was killed leaves a part of one before them.
After damage reading goes on at the next transaction whose sum is right.

Source: org.apache.zookeeper.server.persistence FileTxnLog, Util; org.apache.zookeeper.txn.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from logcore.errors import CorruptNodeError
from logcore.zookeeper.jute import HEADER_SIZE, read_header

_MAGIC = b"ZKLG"
_FRAME = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_END = 0x42
_NEXT = b"B\0\0\0\0"
"""The end of a transaction, and the upper half of the next one's sum, which has 32 bits in a number of 64."""


class ZooKeeperTransaction(NamedTuple):
    """A transaction whose sum is right. There may be millions.

    Attributes:
        session: Of the client.
        zxid: Its number.
        time_ms: When, epoch milliseconds.
        kind: The number of its type.
        body: What it does.
    """

    session: int
    zxid: int
    time_ms: int
    kind: int
    body: bytes


@dataclass(frozen=True, slots=True)
class BadStretch:
    """Bytes that are no transaction.

    Attributes:
        start: Position of the first one.
        end: Position after the last one.
        problem: What is wrong, in words.
        is_torn: Their writer did not come to the end of a transaction, and nothing follows. Else they are damaged.
    """

    start: int
    end: int
    problem: str
    is_torn: bool = False


def read_transactions(data: bytes) -> Iterator[ZooKeeperTransaction | BadStretch]:
    """Read the bytes of a log."""
    try:
        read_header(data, _MAGIC)
    except CorruptNodeError as error:
        is_torn = len(data) < HEADER_SIZE or not any(data[:HEADER_SIZE])
        yield BadStretch(0, len(data), error.message, is_torn)
        return
    used, position = len(data.rstrip(b"\0")), HEADER_SIZE
    room = [4 * len(data)]  # bytes to sum in searches: without a bound, crafted bytes would take hours
    while position < used:
        body = _body_at(data, position, used)
        if isinstance(body, bytes):
            session, _, zxid, time_ms, kind = _HEADER.unpack_from(body)
            yield ZooKeeperTransaction(session, zxid, time_ms, kind, body[_HEADER.size :])
            position += _FRAME.size + len(body) + 1
            continue
        following = _next_one(data, position, used, room)
        if following is None:
            following, is_torn = used, body == _UNFINISHED and not _is_whole(data, position, used)
            yield BadStretch(position, used, body, is_torn)
        else:
            yield BadStretch(position, following, body)
        position = following


_UNFINISHED = "a transaction does not end where its length says"


def _body_at(data: bytes, position: int, used: int) -> bytes | str:
    """The bytes of the transaction at a position; a text: why there is none."""
    start = position + _FRAME.size
    if start >= used:
        return _UNFINISHED
    stated, size = _FRAME.unpack_from(data, position)
    end = start + size
    if size <= 0:
        return f"a transaction of {size} bytes"
    if end >= len(data) or data[end] != _END:
        return _UNFINISHED
    body = data[start:end]
    computed = zlib.adler32(body)
    if computed != stated:
        return f"the Adler-32 sum of a transaction is {computed:#x}, and {stated:#x} is stated"
    return body if size >= _HEADER.size else f"a transaction of {size} bytes"


def _next_one(data: bytes, position: int, used: int, room: list[int]) -> int | None:
    """The position of the next transaction whose sum is right; None: there is none."""
    stated = _end_at(data, position, used)
    if stated is not None and isinstance(_body_at(data, stated + 1, used), bytes):
        return stated + 1
    at = data.find(_NEXT, position, used)
    while at >= 0 and room[0] > 0:
        end = _end_at(data, at + 1, used)
        room[0] -= len(_NEXT)
        if end is not None and data[end] == _END:
            room[0] -= end - at
            if isinstance(_body_at(data, at + 1, used), bytes):
                return at + 1
        at = data.find(_NEXT, at + 1, used)
    return None


def _end_at(data: bytes, position: int, used: int) -> int | None:
    """The last position of a transaction, by its length; None: it is outside of the bytes."""
    start = position + _FRAME.size
    if start >= used:
        return None
    _, size = _FRAME.unpack_from(data, position)
    return start + size if 0 < size < used - start else None


def _is_whole(data: bytes, position: int, used: int) -> bool:
    """Whether the last transaction was written to its end, by its sum: then it is its length that is damaged."""
    start = position + _FRAME.size
    if start >= used or data[used - 1] != _END:
        return False
    (stated, _), computed = _FRAME.unpack_from(data, position), zlib.adler32(memoryview(data)[start : used - 1])
    return bool(stated == computed)
