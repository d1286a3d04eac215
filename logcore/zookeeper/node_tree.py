"""The nodes of a ZooKeeper after a snapshot and the transactions that follow it.

A transaction may be in the snapshot already: a node that is there is not created again, and one that is gone stays so.
The end of a session removes its nodes, whether a transaction or the snapshot says that they are its own. As at a start
of ZooKeeper, nodes of a session that is not open are removed in the end.

Source: org.apache.zookeeper.server DataTree.processTxn, ZooKeeperServer.loadData, EphemeralType.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

from logcore.zookeeper.jute import JuteReader
from logcore.zookeeper.snapshots import Snapshot, ZooKeeperNode
from logcore.zookeeper.transactions import ZooKeeperTransaction

_ERROR = -1
_CREATE_SESSION, _CLOSE_SESSION = -10, -11
_MULTI = 14
_FLAG = struct.Struct(">?")
_STAYS = 0
_CONTAINER = -(1 << 63)
_EXTENDED = 0xFF
"""The first byte of an owner that says for how long a node stays."""


class NodeTree:
    """The nodes. Transactions are added in their order.

    Args:
        snapshot: What to begin with.

    Attributes:
        nodes: By path.
        sessions: Those that are open.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.nodes, self.sessions = snapshot.nodes, snapshot.sessions
        self._owned: dict[int, set[str]] = {}
        for path, node in self.nodes.items():
            if is_session(node.owner):
                self._owned.setdefault(node.owner, set()).add(path)

    def add(self, transaction: ZooKeeperTransaction) -> None:
        """Add a transaction.

        Raises:
            CorruptNodeError: Its bytes contradict themselves. It is not added, or only in part.
        """
        if transaction.kind == _CREATE_SESSION:
            self.sessions.add(transaction.session)
        elif transaction.kind == _CLOSE_SESSION:
            self.sessions.discard(transaction.session)
            self._remove_owned(transaction.session)
        elif transaction.kind == _MULTI:
            reader = JuteReader(transaction.body)
            parts = [(reader.int32(), reader.buffer() or b"") for _ in range(reader.int32())]
            if all(kind != _ERROR for kind, _ in parts):  # of a failed one nothing counts
                for kind, body in parts:
                    self._apply(kind, body, transaction)
        else:
            self._apply(transaction.kind, transaction.body, transaction)

    def remove_nodes_of_closed_sessions(self) -> None:
        """Remove the nodes of sessions that are not open."""
        for session in self._owned.keys() - self.sessions:
            self._remove_owned(session)

    def _apply(self, kind: int, body: bytes, transaction: ZooKeeperTransaction) -> None:
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, JuteReader(body), transaction)

    def create(self, path: str, data: bytes | None, owner: int, transaction: ZooKeeperTransaction) -> None:
        """Create a node, unless it is there."""
        if path in self.nodes:
            return
        self.nodes[path] = ZooKeeperNode(data, transaction.zxid, transaction.zxid, transaction.time_ms, 0, owner)
        if is_session(owner):
            self._owned.setdefault(owner, set()).add(path)

    def delete(self, path: str) -> None:
        """Remove a node, if it is there."""
        node = self.nodes.pop(path, None)
        if node is not None and node.owner in self._owned:
            self._owned[node.owner].discard(path)

    def change(self, path: str, data: bytes | None, version: int, transaction: ZooKeeperTransaction) -> None:
        """Change the bytes of a node, if it is there."""
        node = self.nodes.get(path)
        if node is not None:
            self.nodes[path] = ZooKeeperNode(
                data, node.created, transaction.zxid, transaction.time_ms, version, node.owner
            )

    def _remove_owned(self, session: int) -> None:
        for path in self._owned.pop(session, ()):
            self.nodes.pop(path, None)


def is_session(owner: int) -> bool:
    """Whether the owner of a node is a session: the node goes with it."""
    return owner not in (_STAYS, _CONTAINER) and (owner >> 56) & 0xFF != _EXTENDED


def _create(tree: NodeTree, reader: JuteReader, transaction: ZooKeeperTransaction) -> None:
    path, data = reader.text(), reader.buffer()
    reader.skip_access_rules()
    is_ephemeral = bool(reader.numbers(_FLAG)[0])
    tree.create(path, data, transaction.session if is_ephemeral else _STAYS, transaction)


def _create_lasting(tree: NodeTree, reader: JuteReader, transaction: ZooKeeperTransaction) -> None:
    tree.create(reader.text(), reader.buffer(), _STAYS, transaction)


def _delete(tree: NodeTree, reader: JuteReader, transaction: ZooKeeperTransaction) -> None:
    tree.delete(reader.text())


def _change(tree: NodeTree, reader: JuteReader, transaction: ZooKeeperTransaction) -> None:
    path, data = reader.text(), reader.buffer()
    tree.change(path, data, reader.int32(), transaction)


_HANDLERS: Mapping[int, Callable[[NodeTree, JuteReader, ZooKeeperTransaction], None]] = MappingProxyType(
    {
        1: _create,
        2: _delete,
        5: _change,
        15: _create,
        19: _create_lasting,
        20: _delete,
        21: _create_lasting,
    }
)
"""By the number of a type: create, delete, setData, create2, createContainer, deleteContainer, createTTL. All others
change no node: access rules, checks, and changes of the ensemble.
"""
