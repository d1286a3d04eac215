"""A snapshot of ZooKeeper: the open sessions and all nodes, each with its state. Byte tables are in `FORMAT.md`.

ZooKeeper goes on writing while it takes one. So a snapshot is no state of one moment: the transactions after the one in
its name are applied again. It is written under its final name, so that a process that was killed leaves half of one.

Source: org.apache.zookeeper.server.persistence FileSnap, SnapStream; org.apache.zookeeper.server DataTree.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from logcore.errors import CorruptNodeError
from logcore.texts import java_text
from logcore.zookeeper.jute import HEADER_SIZE, INT32, JuteReader, read_header

_MAGIC = b"ZKSN"
_SESSION = struct.Struct(">qi")
_ACL_ID = struct.Struct(">q")
_STATE = struct.Struct(">qqqqqiiiqq")
"""Of a node: its ACL, creating and changing transaction, their times, three versions, owner, transaction of a child."""
_SUM = struct.Struct(">q")
_SEAL_END = b"\0\0\0\x01/"
"""After the sum: the path `/` ends the nodes, and also seals a file."""
_SEAL_SIZE = _SUM.size + len(_SEAL_END)


class ZooKeeperNode(NamedTuple):
    """A node. There may be millions.

    Attributes:
        data: Its bytes; None: it has none.
        created: The transaction that created it.
        changed: The transaction that changed its bytes last.
        changed_ms: When, epoch milliseconds.
        version: How often its bytes were changed.
        owner: The session with which it goes; 0 and special values for nodes that stay.
    """

    data: bytes | None
    created: int
    changed: int
    changed_ms: int
    version: int
    owner: int


@dataclass(slots=True)
class Snapshot:
    """What a snapshot has, as far as it can be read.

    Attributes:
        sessions: The open sessions.
        nodes: The nodes by their paths; the root is left out.
        problem: Why it is not whole; None: it is.
        is_half: Its writer did not come to the end. Else the bytes are damaged.
    """

    sessions: set[int] = field(default_factory=set)
    nodes: dict[str, ZooKeeperNode] = field(default_factory=dict)
    problem: str | None = None
    is_half: bool = False

    @property
    def last_change(self) -> tuple[int, int]:
        """The latest transaction that it shows, and the latest time; zeros if it has no node."""
        nodes = self.nodes.values()
        return max((node.changed for node in nodes), default=0), max((node.changed_ms for node in nodes), default=0)


def read_snapshot(data: bytes | bytearray | memoryview) -> Snapshot:
    """Read the bytes of a snapshot, unpacked."""
    snapshot = Snapshot()
    try:
        end = _read_nodes(data, _read_sessions(data, snapshot), snapshot)
        with memoryview(data) as view:
            _check_sum(view, end)
            if len(view) > end + _SEAL_SIZE:  # newer versions add the digest and the last transaction, sealed again
                _check_sum(view, len(view) - _SEAL_SIZE)
    except CorruptNodeError as error:
        snapshot.problem = str(error)
        is_in_seal = error.position is not None and error.position + _SEAL_SIZE > len(data)
        snapshot.is_half = is_in_seal or bytes(data[-len(_SEAL_END) :]) != _SEAL_END
    return snapshot


def _read_sessions(data: bytes | bytearray | memoryview, snapshot: Snapshot) -> int:
    """Read what is before the nodes; returns where they begin."""
    read_header(data, _MAGIC)
    reader = JuteReader(data, HEADER_SIZE)
    for _ in range(reader.int32()):
        snapshot.sessions.add(reader.numbers(_SESSION)[0])
    for _ in range(reader.int32()):
        reader.numbers(_ACL_ID)
        reader.skip_access_rules()
    return reader.position


def _read_nodes(data: bytes | bytearray | memoryview, position: int, snapshot: Snapshot) -> int:
    """Read the nodes; returns where the seal begins. Written out, because it runs for each of millions."""
    nodes, unpack_length, unpack_state, size = snapshot.nodes, INT32.unpack_from, _STATE.unpack_from, len(data)
    try:
        while True:
            start = position
            (length,) = unpack_length(data, position)
            position += 4
            if not 0 <= length <= size - position:
                raise CorruptNodeError(f"a path of {length} bytes reaches beyond the end", position=start)
            path = java_text(bytes(data[position : position + length]))
            position += length
            if path == "/":
                return position
            (length,) = unpack_length(data, position)
            position += 4
            content = None
            if length >= 0:
                if length > size - position:
                    raise CorruptNodeError(f"the {length} bytes of a node reach beyond the end", position=start)
                content = bytes(data[position : position + length])
                position += length
            elif length != -1:
                raise CorruptNodeError(f"a node of {length} bytes", position=start)
            _, created, changed, _, changed_ms, version, _, _, owner, _ = unpack_state(data, position)
            position += _STATE.size
            if path:
                nodes[path] = ZooKeeperNode(content, created, changed, changed_ms, version, owner)
    except struct.error:
        raise CorruptNodeError("the file ends inside a node", position=position) from None


def _check_sum(view: memoryview, end: int) -> None:
    """Check the seal at a position: the Adler-32 sum of all bytes before it, and a path that ends what it seals."""
    if len(view) < end + _SEAL_SIZE:
        raise CorruptNodeError("the file ends inside the sum of its bytes", position=end)
    (stated,), computed = _SUM.unpack_from(view, end), zlib.adler32(view[:end])
    if stated != computed:
        raise CorruptNodeError(f"the Adler-32 sum is {computed:#x}, and {stated:#x} is stated", position=end)
    if view[end + _SUM.size : end + _SEAL_SIZE] != _SEAL_END:
        raise CorruptNodeError("no path ends what the sum seals", position=end)
