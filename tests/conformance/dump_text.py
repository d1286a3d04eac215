"""What Kafka's DumpLogSegments would print of a segment, made from what the code under test read.

Written after what the tool prints (`--deep-iteration`, with or without `--print-data-log`), so that its text can be
compared as a whole: every header field, every record's offset, timestamp, sizes, sequence and header names, every
marker, every gap between offsets and, where it was asked for, every key and value. Two things are not compared: the
fields of KRaft's own control records, and the crc of a message inside of a compressed v0 or v1 message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from logcore.records.batch import BatchHeader
from logcore.records.control import coordinator_epoch
from logcore.records.record import Record
from tests.conformance.ours import Batch, Segment

_MARKERS = ("ABORT", "COMMIT")
_STRUCTS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}
_STRUCT_FIELDS = re.compile(rf"( (?:{'|'.join(_STRUCTS.values())})) \{{.*\}}$", re.MULTILINE)
_INNER_CRC = re.compile(r"^(\| offset: .*? isValid: true crc: )\d+", re.MULTILINE)
_PLACE = re.compile(r"^(Non-consecutive offsets in ).*?([^/]+/[^/]+)$", re.MULTILINE)
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_WRAPPER = re.compile(r"^offset: \d+ position: .* compresscodec: (gzip|snappy|lz4) ", re.MULTILINE)


def comparable(text: str) -> str:
    """The tool's text without what is not compared."""
    text = _PLACE.sub(r"\1\2", _STRUCT_FIELDS.sub(r"\1", text))
    return _INNER_CRC.sub(r"\1-", text) if _WRAPPER.search(text) else text


def segment_text(segment: Segment, directory: str, *, payload: bool, tool: str | None) -> str:
    """The text for one segment. tool: the dump tool's version; None leaves its complaints about gaps out."""
    lines = [
        f"Dumping {directory}/{segment.name}\n",
        f"Log starting offset: {segment.file.base_offset}\n",
        *batch_lines(segment.batches, payload=payload),
    ]
    gaps = [] if tool is None else list(_gaps(segment.batches))
    if tool is not None and not tool.startswith(
        "4.3"
    ):  # older ones take the first offset as it is, and begin with the last gap
        gaps = [gap for gap in reversed(gaps) if gap[0] >= 0]
    if gaps:
        lines.append(f"Non-consecutive offsets in {directory}/{segment.name}\n")
        lines += [f"  {before} is followed by {after}\n" for before, after in gaps]
    return comparable("".join(lines))


def batch_lines(batches: Iterable[Batch], *, payload: bool) -> Iterator[str]:
    """A line for each batch, followed by one for each of its records."""
    for batch in batches:
        yield batch_line(batch.header, batch.scanned.position)
        for record in batch.records:
            yield _record_line(batch, record, payload)


def batch_line(header: BatchHeader, position: int) -> str:
    """The line of a batch whose crc is right."""
    if header.magic >= 2:
        horizon = header.delete_horizon_ms
        shown = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} "
            f"lastSequence: {_sequence(header.base_sequence, header.last_offset_delta)} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)} "
            f"deleteHorizonMs: {shown}"
        )
    else:
        start = f"offset: {header.last_offset}"
    return (
        f"{start} position: {position} {header.timestamp_type.kafka_name}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {header.codec.kafka_name} crc: {header.crc} isvalid: true\n"
    )


def _record_line(batch: Batch, record: Record, payload: bool) -> str:
    header = batch.header
    line = (
        f"| offset: {record.offset} {record.timestamp_type.kafka_name}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if header.magic >= 2:
        names = ",".join(_text(name) for name, _ in record.headers)
        sequence = _sequence(header.base_sequence, record.offset - header.base_offset)
        line += f" sequence: {sequence} headerKeys: [{names}]"
    else:
        line += f" isValid: true crc: {header.crc}"
    if header.is_control:
        kind = str(batch.scanned.control_type)
        if kind in _MARKERS:
            return f"{line} endTxnMarker: {kind} coordinatorEpoch: {coordinator_epoch(record.value)}\n"
        assert record.key is not None
        kind = list(_STRUCTS)[int.from_bytes(record.key[2:4], "big") - 2]
        return f"{line} {_STRUCTS[kind]}\n"
    if payload:
        line += "" if record.key is None else f" key: {_text(record.key)}"
        line += "" if record.value is None else f" payload: {_text(record.value)}"
    return line + "\n"


def _gaps(batches: Iterable[Batch]) -> Iterator[tuple[int, int]]:
    before = -1
    for batch in batches:
        for record in batch.records:
            if record.offset != before + 1:
                yield before, record.offset
            before = record.offset


def _sequence(base: int, delta: int) -> int:
    if base < 0:
        return -1
    return base + delta if base + delta < 2**31 else delta - (2**31 - 1 - base) - 1


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _java(value: bool) -> str:
    return "true" if value else "false"


def _text(content: bytes) -> str:
    """As Java decodes it: half of a surrogate pair, encoded, is one malformed piece; Python counts each byte."""
    return _ENCODED_SURROGATE.sub(b"\xff", content).decode("utf-8", errors="replace")
