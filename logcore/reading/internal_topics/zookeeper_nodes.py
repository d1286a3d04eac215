"""The nodes of a ZooKeeper at some moment: the newest snapshot before it, then the transactions that follow.

A snapshot that is not whole is reported, and an earlier one is used. If there is none, and the logs do not begin at
the first transaction, what can be read of the newest one is used, in doubt, and all before is lost. Transactions are
numbered without gaps within an epoch of the ensemble, so that one that is lost is noticed.

The sums of all logs are checked, also those of transactions that the snapshot has.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from logcore.errors import CorruptionReason, CorruptNodeError, CorruptRecordError, LogError
from logcore.garbage_collection import collector_paused
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.records.compression import Codec, decompress
from logcore.storage.discovery import SourceUnreadable, read_file, shown
from logcore.zookeeper.node_tree import NodeTree
from logcore.zookeeper.snapshots import Snapshot, ZooKeeperNode, read_snapshot
from logcore.zookeeper.transactions import BadStretch, ZooKeeperTransaction, read_transactions

_GZIP = 16 + zlib.MAX_WBITS
_MOST_UNPACKED = 1 << 29
"""512 MiB: a million nodes take 200. A few bytes can pack many."""
_PIECE = 1 << 24
_COUNTER = (1 << 32) - 1
"""The lower half of a transaction's number counts within an epoch, which is the upper half."""
_FIRST = (0, 1, (1 << 32) + 1)
"""The first transaction ever: of one server, and of an ensemble. A later epoch has others before it."""


@dataclass(slots=True)
class ReadNodes:
    """The nodes.

    Attributes:
        nodes: By path.
        end: The number after the last transaction that counts.
        snapshot_end: The number after the transaction in the name of the snapshot; None without one.
        lost_from: The number of the first transaction that is lost or cannot be read; None: there is none.
    """

    nodes: dict[str, ZooKeeperNode]
    end: int
    snapshot_end: int | None
    lost_from: int | None = None


@collector_paused()  # it makes many objects that stay
def read_nodes(log: SourceLog, notes: Notes, is_late: Callable[[int, int], bool]) -> ReadNodes:
    """Read the data of a ZooKeeper.

    Args:
        log: Its files.
        notes: Gets the findings.
        is_late: Whether a transaction does not count any more, by its number and time.
    """
    start, snapshot, lost_from = _start(log, notes, is_late)
    read, tree, is_damaged = ReadNodes(snapshot.nodes, start or 0, start, lost_from), NodeTree(snapshot), False
    last = read.end - 1
    for file, item in _items(log, notes):
        if isinstance(item, BadStretch):
            is_damaged |= not item.is_torn
            continue
        if item.zxid <= last:
            continue
        if is_late(item.zxid, item.time_ms):
            break
        if not _follows(last, item.zxid):
            if not is_damaged and (last >= 0 or read.lost_from is None):
                _note_missing(file, last, item.zxid, notes)
            _lose(read, last + 1)
        is_damaged, last = False, item.zxid
        try:
            tree.add(item)
        except CorruptNodeError as error:
            _lose(read, item.zxid)
            message = f"{shown(file.path)}: transaction {item.zxid:#x} cannot be read: {error.message}."
            notes.say(found("zookeeper-damaged", message, file=file.path))
    read.end = last + 1
    if is_damaged:
        _lose(read, read.end)
    if read.lost_from is None:
        tree.remove_nodes_of_closed_sessions()
    return read


def _start(
    log: SourceLog, notes: Notes, is_late: Callable[[int, int], bool]
) -> tuple[int | None, Snapshot, int | None]:
    """The snapshot to begin with, the number after the transaction in its name (None: no snapshot), and `lost_from`."""
    part: tuple[int | None, Snapshot] | None = None
    for end, path in reversed(log.metadata_snapshots):
        if is_late(end - 1, 0):
            continue
        snapshot = _snapshot(path, notes)
        if is_late(*snapshot.last_change):
            continue
        if snapshot.problem is None:
            return end, snapshot, None
        if part is None and snapshot.nodes:
            part = end, snapshot
    if log.segments and log.segments[0].base_offset in _FIRST:
        return None, Snapshot(), None
    if log.segments or part is None:
        missing = "no whole snapshot by this moment, and no log from the first transaction on"
        message = f"{shown(log.directory)}: there is {missing}."
        notes.say(found("zookeeper-transactions-missing", message, file=log.directory))
    return *(part or (None, Snapshot())), 0


def _snapshot(path: str, notes: Notes) -> Snapshot:
    """Read a snapshot. One that is not whole is reported."""
    try:
        snapshot = read_snapshot(_unpacked(path, read_file(path)))
    except CorruptRecordError as error:
        snapshot = Snapshot(problem=error.message)
    except LogError as error:
        notes.say(found("unreadable", str(error.at(file=shown(path))), file=path))
        return Snapshot(problem=error.message)
    if snapshot.problem is not None:
        what = "is cut off" if snapshot.is_half else "is damaged"
        message = f"{shown(path)} {what}: {snapshot.problem}. An earlier snapshot is used, if there is one."
        notes.say(found("zookeeper-cut-off" if snapshot.is_half else "zookeeper-damaged", message, file=path))
    return snapshot


def _unpacked(path: str, content: bytes) -> bytes | bytearray:
    """The content of a snapshot; of one that is cut off, what there is.

    Raises:
        CorruptRecordError: The packed bytes are damaged.
        SourceUnreadable: They give too many.
    """
    if path.endswith(".snappy"):
        try:
            return decompress(Codec.SNAPPY, content, _MOST_UNPACKED)
        except CorruptRecordError as error:
            if error.reason is CorruptionReason.OUTPUT_CAP:
                raise _too_many() from error
            raise
    if not path.endswith(".gz"):
        return content
    unpacked, stream = bytearray(), zlib.decompressobj(_GZIP)  # it grows where it is: pieces would be there twice
    try:
        while piece := stream.decompress(content, min(_PIECE, _MOST_UNPACKED + 1 - len(unpacked))):
            unpacked += piece
            if len(unpacked) > _MOST_UNPACKED:
                raise _too_many()
            content = stream.unconsumed_tail
    except zlib.error as error:
        raise CorruptRecordError(CorruptionReason.CODEC_STREAM, str(error)) from error
    return unpacked


def _too_many() -> SourceUnreadable:
    return SourceUnreadable(f"it has more than {_MOST_UNPACKED} bytes unpacked, and is not read. Unpack it to a file.")


def _items(log: SourceLog, notes: Notes) -> Iterator[tuple[SegmentFile, ZooKeeperTransaction | BadStretch]]:
    """What is in the logs. What is bad is reported."""
    for file in log.segments:
        try:
            content = read_file(file.path)
        except LogError as error:
            notes.say(found("unreadable", str(error.at(file=shown(file.path))), file=file.path))
            yield file, BadStretch(0, file.size, error.message)
            continue
        for item in read_transactions(content):
            if isinstance(item, BadStretch):
                rule = "zookeeper-cut-off" if item.is_torn else "zookeeper-damaged"
                message = f"{shown(file.path)}, position {item.start}: {item.problem}."
                nbytes = item.end - item.start
                notes.say(found(rule, message, file=file.path, position=item.start, nbytes=nbytes))
            yield file, item


def _follows(last: int, zxid: int) -> bool:
    """Whether no transaction is lost between two. The first one of an epoch follows any of an earlier one.

    Args:
        last: The earlier one; negative: there is none.
        zxid: The later one.
    """
    if last < 0:
        return zxid in _FIRST
    return zxid == last + 1 or (zxid >> 32 > last >> 32 and zxid & _COUNTER <= 1)


def _note_missing(file: SegmentFile, last: int, zxid: int, notes: Notes) -> None:
    message = f"{shown(file.path)}: transaction {zxid:#x} does not follow {max(last, 0):#x}. Those between are missing."
    notes.say(found("zookeeper-transactions-missing", message, file=file.path))


def _lose(read: ReadNodes, zxid: int) -> None:
    if read.lost_from is None:
        read.lost_from = zxid
