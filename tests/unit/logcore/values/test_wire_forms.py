"""Prefixes and headers that name schemas: bytes are packed by hand, expected writers are written beside them."""

from __future__ import annotations

import random
import struct
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.serde import SchemaId as OtherSchemaId

from logcore.values.prefix import VALUE_HEADER, Framing, Prefix, Writer, read_header, read_prefix, split_row
from logcore.values.split_column import header_column, split_column, split_column_plainly
from logcore.values.undecodable import Reason, Undecodable

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
ID_7 = b"\0\0\0\0\7"
GUID_PREFIX = b"\1" + GUID.bytes


def test_byte_0_is_followed_by_an_id():
    assert read_prefix(b"\0\0\1\0\2body") == Prefix(Writer(65538), 5)


def test_byte_1_is_followed_by_a_guid():
    assert read_prefix(GUID_PREFIX + b"body") == Prefix(Writer(GUID), 17)


@pytest.mark.parametrize(
    ("indexes", "message"),
    [
        (b"\0", (0,)),
        (b"\2\0", (0,)),
        (b"\2\2", (1,)),
        (b"\4\2\6", (1, 3)),
        (b"\2\x80\1", (64,)),
    ],
)
def test_message_indexes_are_zigzag_varints_after_their_count(indexes, message):
    assert read_prefix(ID_7 + indexes + b"\x0a", True) == Prefix(Writer(7, message), 5 + len(indexes))
    assert read_prefix(GUID_PREFIX + indexes, True) == Prefix(Writer(GUID, message), 17 + len(indexes))


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        (b"", Reason.SHORT_PREFIX, "byte 0"),
        (b"\0\0\0\0", Reason.SHORT_PREFIX, "byte 4"),
        (GUID_PREFIX[:-1], Reason.SHORT_PREFIX, "byte 16"),
        (b"\2\0\0\0\7", Reason.NO_PREFIX, "byte 0"),
        (b'{"a":1}', Reason.NO_PREFIX, "byte 0"),
        (ID_7, Reason.SHORT_PREFIX, "byte 5"),
        (ID_7 + b"\4\2", Reason.SHORT_PREFIX, "byte 7"),
        (ID_7 + b"\1", Reason.LENGTH, "byte 6"),
        (ID_7 + b"\2\1", Reason.LENGTH, "byte 6"),
        (ID_7 + b"\xfe\xff\xff\xff\x0f", Reason.LENGTH, "byte 10"),
        (ID_7 + b"\x80\x80\x80\x80\x80\0", Reason.VARINT, "byte 5"),
        (ID_7 + b"\xff\xff\xff\xff\x1f", Reason.VARINT, "byte 5"),
    ],
)
def test_a_harmed_prefix_has_a_reason_and_a_place(body, reason, place):
    with pytest.raises(Undecodable) as caught:
        read_prefix(body, True)
    assert (caught.value.reason, caught.value.place) == (reason, place)


def test_a_header_decides_and_the_bytes_are_the_value():
    assert split_row(b"\0\0\0\0\7", GUID_PREFIX, Framing.HEADER_OR_PREFIX) == Prefix(Writer(GUID), 0)
    assert split_row(ID_7, None, Framing.HEADER_OR_PREFIX) == Prefix(Writer(7), 5)
    assert split_row(ID_7, b"any", Framing.NONE) == Prefix(Writer(), 0)


@pytest.mark.parametrize("header", [b"\0\0\0\0\x08", GUID_PREFIX])
def test_a_header_beside_a_prefix_must_name_the_same_schema(header):
    assert split_row(ID_7, ID_7, Framing.PREFIX) == Prefix(Writer(7), 5)
    with pytest.raises(Undecodable) as caught:
        split_row(ID_7, header, Framing.PREFIX)
    assert caught.value.reason == Reason.HEADER_DIFFERS


@pytest.mark.parametrize(
    ("header", "reason"),
    [(b"", Reason.SHORT_PREFIX), (b"7", Reason.NO_PREFIX), (ID_7 + b"\0", Reason.NO_PREFIX), (b"\1a", "SHORT_PREFIX")],
)
def test_a_header_is_exactly_a_prefix(header, reason):
    with pytest.raises(Undecodable) as caught:
        read_header(header)
    assert (caught.value.reason, caught.value.place) == (reason, "header")


def test_prefixes_of_another_library_are_read():
    for indexes in (None, [0], [1], [2, 0, 70]):
        kind = "AVRO" if indexes is None else "PROTOBUF"
        message = None if indexes is None else tuple(indexes)
        other = OtherSchemaId(kind, 123456, str(GUID), indexes)
        assert read_header(other.id_to_bytes(), indexes is not None) == Writer(123456, message)
        assert read_header(other.guid_to_bytes(), indexes is not None) == Writer(GUID, message)


def test_the_last_header_of_a_name_counts():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = [
        [{"key": VALUE_HEADER, "value": b"1"}, {"key": "x", "value": b"2"}, {"key": VALUE_HEADER, "value": b"3"}],
        None,
        [{"key": "x", "value": b"4"}],
        [{"key": VALUE_HEADER, "value": None}],
        [{"key": VALUE_HEADER, "value": b"5"}],
    ]
    found = header_column(pa.array(rows, kind).slice(0), VALUE_HEADER)
    assert found is not None
    assert found.to_pylist() == [b"3", None, None, None, b"5"]
    sliced = header_column(pa.array(rows, kind).slice(3), VALUE_HEADER)
    assert sliced is not None
    assert sliced.to_pylist() == [None, b"5"]
    assert header_column(pa.array(rows[1:3], kind), VALUE_HEADER) is None


def test_a_column_is_grouped_by_writer_and_keeps_every_row():
    column = pa.array([ID_7 + b"a", None, b"\0\0\0\0\x08b", ID_7, b"", GUID_PREFIX + b"c", b"{}", ID_7 + b"d"])
    split = split_column(column, Framing.PREFIX)
    assert [(group.writer.schema, group.rows, group.bodies.to_pylist()) for group in split.groups] == [
        (7, (0, 3, 7), [b"a", b"", b"d"]),
        (8, (2,), [b"b"]),
        (GUID, (5,), [b"c"]),
    ]
    assert [(failed.row, failed.failure.reason) for failed in split.failed] == [
        (4, Reason.SHORT_PREFIX),
        (6, Reason.NO_PREFIX),
    ]


def _damaged(rng: random.Random) -> bytes | None:
    if rng.random() < 0.1:
        return None
    head = rng.choice([struct.pack(">bI", 0, rng.choice([1, 2, 300, 2**31])), GUID_PREFIX, b"\1" + bytes(16)])
    body = bytearray(head + rng.choice([b"", b"\0", b"\2\2", b"\4\2\x80\1", b"\1"]) + rng.randbytes(rng.randrange(9)))
    if rng.random() < 0.2 and body:
        body[rng.randrange(len(body))] = rng.randrange(256)
    return bytes(body[: rng.randrange(len(body) + 1)] if rng.random() < 0.2 else body)


@pytest.mark.parametrize("seed", range(60))
def test_the_fast_way_and_the_plain_way_agree_on_damaged_columns(seed):
    rng = random.Random(seed)
    count = rng.choice([0, 1, 7, 300])
    kind = rng.choice([pa.binary(), pa.large_binary()])
    bodies = pa.array([_damaged(rng) for _ in range(count + 3)], kind).slice(rng.randrange(4), count)
    headers = rng.choice([None, pa.array([_damaged(rng) for _ in range(count)], pa.binary())])
    for framing in Framing:
        for messages in (False, True):
            fast = split_column(bodies, framing, headers, messages)
            plain = split_column_plainly(bodies, framing, headers, messages)
            assert [(g.writer, g.rows, g.bodies.to_pylist()) for g in fast.groups] == [
                (g.writer, g.rows, g.bodies.to_pylist()) for g in plain.groups
            ]
            assert [(f.row, f.failure.args) for f in fast.failed] == [(f.row, f.failure.args) for f in plain.failed]


def test_ten_thousand_schemas_in_one_column_are_ten_thousand_groups():
    column = pa.array([struct.pack(">bI", 0, row % 10_000) + b"%d" % row for row in range(30_000)])
    split = split_column(column, Framing.PREFIX)
    assert len(split.groups) == 10_000
    assert split.groups[9_999].rows == (9_999, 19_999, 29_999)
    assert split.groups[9_999].bodies.to_pylist() == [b"9999", b"19999", b"29999"]
