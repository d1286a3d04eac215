"""Small sound batches of every make, packed by hand, each with the records it holds as they are stated here.

Three formats, five codecs, all attribute bits, and what compaction, transactions and careless producers leave. They are
small on purpose: every bit, byte and length of each is injured in `test_every_injury`.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tests import handmade
from tests.fuzz import streams
from tests.fuzz.streams import GZIP, LZ4, NONE, SNAPPY, ZSTD

CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = 0, 1, -1
_HORIZON_MS = 1_700_000_000_000
_NOT_UTF8 = b"caf\xe9"


class Row(NamedTuple):
    """A record as a reader must see it."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Canonical:
    """A batch's bytes and what is true of them."""

    name: str
    magic: int
    codec: int
    base_offset: int
    last_offset: int
    rows: tuple[Row, ...]
    """Control records included."""
    data: bytes = field(repr=False)
    control: bool = False
    plain: bytes = field(default=b"", repr=False)
    """What the codec's stream holds; the record section itself where there is no codec."""

    @property
    def leader_epoch(self) -> int:
        """The stored epoch, -1 where the format has none."""
        return int(struct.unpack_from(">i", self.data, 12)[0]) if self.magic == 2 else -1


class Item(NamedTuple):
    """A record to pack: offset and timestamp relative to its batch."""

    offset: int = 0
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    time: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    attributes: int = 0


def _v2(
    name: str,
    items: Sequence[Item],
    *,
    codec: int = NONE,
    base: int = 100,
    last: int | None = None,
    base_timestamp: int = 1_600_000_000_000,
    max_timestamp: int | None = None,
    attributes: int = 0,
    stream: bytes | None = None,
    plain: bytes | None = None,
    **fields: int,
) -> Canonical:
    """A v2 batch; `stream` replaces the body, `plain` the packed records in it (the same records in other bytes)."""
    if plain is None:
        plain = b"".join(
            handmade.record(
                item.offset,
                item.key,
                item.value,
                timestamp_delta=item.time,
                headers=item.headers,
                attributes=item.attributes,
            )
            for item in items
        )
    append_time = attributes & handmade.LOG_APPEND_TIME
    times = [base_timestamp + item.time for item in items]
    if max_timestamp is None:
        max_timestamp = max(times, default=base_timestamp)
    last_delta = max(len(items) - 1, 0) if last is None else last
    data = handmade.batch(
        base_offset=base,
        leader_epoch=fields.pop("leader_epoch", 3),
        attributes=attributes | codec,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=len(items),
        body=streams.STREAMS[codec](plain) if stream is None else stream,
        **fields,
    )
    rows = [
        Row(
            base + item.offset,
            max_timestamp if append_time else time,
            LOG_APPEND_TIME if append_time else CREATE_TIME,
            item.key,
            item.value,
            item.headers,
        )
        for item, time in zip(items, times, strict=True)
    ]
    control = bool(attributes & handmade.CONTROL)
    return Canonical(name, 2, codec, base, base + last_delta, tuple(rows), data, control, plain)


def message(
    magic: int, offset: int, key: bytes | None, value: bytes | None, timestamp: int = -1, attributes: int = 0
) -> bytes:
    """A message of format v0 or v1 with a right CRC-32."""
    return handmade.message(offset, key, value, magic=magic, timestamp=timestamp, attributes=attributes)


def _single(name: str, magic: int, item: Item, timestamp: int = -1, append_time: bool = False) -> Canonical:
    offset, attributes = 100, 8 if append_time else 0
    data = message(magic, offset, item.key, item.value, timestamp, attributes)
    kind = NO_TIMESTAMP_TYPE if magic == 0 else LOG_APPEND_TIME if append_time else CREATE_TIME
    row = Row(offset, -1 if magic == 0 else timestamp, kind, item.key, item.value)
    return Canonical(name, magic, NONE, offset, offset, (row,), data)


def _wrapper(
    name: str,
    magic: int,
    codec: int,
    base: int,
    items: Sequence[Item],
    *,
    timestamp: int = 1_500_000_000_000,
    append_time: bool = False,
    outer_offset: int | None = None,
    pack: Callable[[bytes], bytes] | None = None,
    tail: bytes = b"",
) -> Canonical:
    """A compressed message set. v0 keeps absolute offsets inside, v1 offsets from 0; `tail` follows the inner set."""
    first = 0 if magic else base
    plain = b"".join(
        message(magic, first + item.offset, item.key, item.value, timestamp + item.time, item.attributes)
        for item in items
    )
    plain += tail
    if pack is None:
        pack = streams.lz4_stream_of_v0 if codec == LZ4 and magic == 0 else streams.STREAMS[codec]
    last = base + items[-1].offset
    outer_time = max(timestamp + item.time for item in items)
    attributes = codec | (8 if append_time else 0)
    data = message(magic, last if outer_offset is None else outer_offset, None, pack(plain), outer_time, attributes)
    kind = NO_TIMESTAMP_TYPE if magic == 0 else LOG_APPEND_TIME if append_time else CREATE_TIME
    rows = [
        Row(
            base + item.offset,
            -1 if magic == 0 else outer_time if append_time else timestamp + item.time,
            kind,
            item.key,
            item.value,
        )
        for item in items
    ]
    return Canonical(name, magic, codec, base, last, tuple(rows), data, plain=plain)


def _padded_record(item: Item) -> bytes:
    """A record each of whose integers takes more bytes than it needs: legal, and no encoder's habit."""
    assert item.key is not None
    assert item.value is not None
    body = bytes([item.attributes]) + handmade.varint(item.time, padding=2) + handmade.varint(item.offset, padding=3)
    for part in (item.key, item.value):
        body += handmade.varint(len(part), padding=1) + part
    body += handmade.varint(0, padding=4)
    return handmade.varint(len(body), padding=2) + body


_TWO = (Item(0, b"k1", b"v1"), Item(1, b"k2", None, 5))
_THREE = (*_TWO, Item(2, None, b"", -7))
_HEADERS = (
    Item(0, b"k", b"v", 0, ((b"a", b"1"), (b"a", None), (b"", b""))),
    Item(1, None, None, 1, ((_NOT_UTF8, b"x"),)),
)
_LIKE = tuple(Item(index, b"key-%d" % index, b"aaaaaaaaaaaaaaaaaaaa", index) for index in range(4))
_PRODUCER = {"producer_id": 99, "producer_epoch": 2, "base_sequence": 7}
_TRANSACTION = handmade.TRANSACTIONAL
_MARKER = handmade.TRANSACTIONAL | handmade.CONTROL
_END = {"producer_id": 99, "producer_epoch": 2}


def _marker(name: str, kind: int, attributes: int = _MARKER, **fields: int) -> Canonical:
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 5)
    return _v2(name, [Item(0, key, value)], attributes=attributes, **fields)


def _plain(items: Sequence[Item]) -> bytes:
    return _v2("", items).plain


def _batches() -> list[Canonical]:
    return [
        _v2("v2 one record", [Item()]),
        _v2("v2 nulls and negative deltas", _THREE),
        _v2("v2 headers: null value, twice, empty, not UTF-8", _HEADERS),
        _v2("v2 padded integers", _TWO[:1], plain=_padded_record(_TWO[0])),
        _v2("v2 record attributes set", [Item(attributes=0xFF)]),
        _v2("v2 offsets near 2^62", _TWO, base=(1 << 62) - 3),
        _v2("v2 timestamps before 1970", _TWO, base_timestamp=-62_135_596_800_001),
        _v2("v2 no timestamp", [Item()], base_timestamp=-1),
        _v2("v2 log append time", _THREE, attributes=handmade.LOG_APPEND_TIME, max_timestamp=1_600_000_009_999),
        _v2("v2 transactional", _TWO, attributes=_TRANSACTION, **_PRODUCER),
        _v2("v2 sequence about to wrap", _TWO, **(_PRODUCER | {"base_sequence": (1 << 31) - 1})),
        _v2("v2 delete horizon", _TWO, attributes=handmade.DELETE_HORIZON, base_timestamp=_HORIZON_MS),
        _v2("v2 no leader epoch", _TWO, leader_epoch=-1),
        _v2("v2 unknown attribute bits", _TWO, attributes=0x7F80),
        _v2("v2 gaps of compaction", (Item(1), Item(4, b"k4", b"")), last=9),
        _v2("v2 emptied", [], last=5, base_timestamp=-1, max_timestamp=1_600_000_000_000),
        _v2("v2 emptied, transactional", [], last=0, base_timestamp=-1, attributes=_TRANSACTION, **_PRODUCER),
        _marker("v2 abort marker", handmade.ABORT, **_END),
        _marker("v2 commit marker", handmade.COMMIT, **_END),
        _marker("v2 marker with horizon", handmade.COMMIT, _MARKER | handmade.DELETE_HORIZON, **_END),
        _marker("v2 control record of the future", 77, handmade.CONTROL),
        _v2("v2 gzip", _LIKE, codec=GZIP),
        _v2(
            "v2 gzip of two members",
            _TWO,
            codec=GZIP,
            stream=streams.gzip_stream(_plain(_TWO)[:9]) + streams.gzip_stream(_plain(_TWO)[9:]),
        ),
        _v2("v2 snappy", _LIKE, codec=SNAPPY),
        _v2("v2 snappy of small blocks", _LIKE, codec=SNAPPY, stream=streams.snappy_stream(_plain(_LIKE), 40)),
        _v2("v2 snappy unframed", _LIKE, codec=SNAPPY, stream=streams.snappy_raw(_plain(_LIKE))),
        _v2("v2 lz4", _LIKE, codec=LZ4),
        _v2("v2 lz4 of a stored block", _TWO, codec=LZ4),
        _v2("v2 zstd", _LIKE, codec=ZSTD),
        _v2(
            "v2 zstd of two frames",
            _TWO,
            codec=ZSTD,
            stream=streams.zstd_stream(_plain(_TWO)[:9]) + streams.zstd_stream(_plain(_TWO)[9:]),
        ),
        _v2(
            "v2 gzip, log append time, transactional",
            _TWO,
            codec=GZIP,
            attributes=handmade.LOG_APPEND_TIME | _TRANSACTION,
            max_timestamp=1_600_000_009_999,
            **_PRODUCER,
        ),
        _v2("v2 zstd with headers and gaps", (Item(2, headers=((b"h", b"1"),)), Item(5)), codec=ZSTD, last=7),
        _single("v0 message", 0, Item(0, b"k1", b"v1")),
        _single("v0 null key and null value", 0, Item(0, None, None)),
        _wrapper("v0 gzip", 0, GZIP, 100, _LIKE[:3]),
        _wrapper("v0 snappy with gaps", 0, SNAPPY, 100, (Item(0), Item(3))),
        _wrapper("v0 lz4 with the broken checksum", 0, LZ4, 100, _TWO),
        _single("v1 message", 1, Item(0, b"k1", b"v1"), 1_500_000_000_000),
        _single("v1 empty value, log append time", 1, Item(0, None, b""), 1_500_000_000_000, True),
        _wrapper("v1 gzip", 1, GZIP, 100, _LIKE[:3]),
        _wrapper("v1 snappy", 1, SNAPPY, 100, _TWO),
        _wrapper("v1 snappy of small blocks", 1, SNAPPY, 100, _TWO, pack=partial(streams.snappy_stream, block=30)),
        _wrapper("v1 gzip, last inner message cut short", 1, GZIP, 100, _TWO, tail=message(1, 2, b"k", b"v", 0)[:-3]),
        _wrapper("v1 lz4", 1, LZ4, 100, _TWO),
        _wrapper("v1 gzip with gaps", 1, GZIP, 100, (Item(0), Item(3, b"k", None, -4))),
        _wrapper("v1 snappy, log append time", 1, SNAPPY, 100, _TWO, append_time=True),
        _wrapper("v1 lz4, log append time set inside", 1, LZ4, 100, [Item(attributes=8)], append_time=True),
        _wrapper("v1 gzip, outer offset never assigned", 1, GZIP, 0, _TWO, outer_offset=0),
    ]


CANONICAL: tuple[Canonical, ...] = tuple(_batches())
BY_NAME = {batch.name: batch for batch in CANONICAL}
