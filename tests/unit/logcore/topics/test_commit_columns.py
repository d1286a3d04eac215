"""Commits as columns equal what the generic reader reads, also from damaged bytes."""

from __future__ import annotations

import os
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from logcore.topics.commit_columns import commit_columns
from tests.unit.logcore.topics.offset_commits import TEXTS, OffsetCommit, generic, key, value

TOPIC_ID = b"\x01\x00\x10" + bytes(range(16))
MUTANTS = int(os.environ.get("LOGLAKE_TEST_MESSAGES", "10000"))

Pair = tuple[bytes | None, bytes | None]


def found(*pairs: Pair) -> list[OffsetCommit | None]:
    """The commits that were read, by record; None: a deletion, or left to the readers of single records."""
    keys, values = (pa.array([pair[at] for pair in pairs], pa.binary()) for at in (0, 1))
    # Rows before and after are not part of the columns that are given.
    padded = [pa.concat_arrays([pa.array([b"\xff\xff"], pa.binary()), each]).slice(1) for each in (keys, values)]
    return commits(*padded)


def commits(keys: Any, values: Any) -> list[OffsetCommit | None]:
    columns = commit_columns(keys, values)
    rows = zip(
        columns.group.to_pylist(), columns.topic.to_pylist(), columns.partition.tolist(), columns.offset.tolist(),
        columns.leader_epoch.tolist(), columns.metadata.to_pylist(), columns.commit_time_ms.tolist(),
        strict=True,
    )  # fmt: skip
    pairs = zip(rows, columns.is_deleted.tolist(), strict=True)
    read = (None if is_deleted else OffsetCommit(*row) for row, is_deleted in pairs)
    return [next(read) if is_read else None for is_read in columns.is_read.tolist()]


def test_commits_of_both_versions_have_the_values_that_were_packed() -> None:
    time = 1_700_000_000_000
    assert found(
        (key("g", "orders", 3), value(3, 1 << 40, 7, "note", time)),
        (None, value(3, 1, 1, "", 1)),
        (key("group-1", "", 1 << 30), value(4, -1, -1, "", 0)),
        (key("g", "t", 0), None),
        (key("g", "t", -1), value(4, 5, 0, "x" * 125, -1, TOPIC_ID)),
    ) == [
        OffsetCommit("g", "orders", 3, 1 << 40, 7, "note", time),
        None,
        OffsetCommit("group-1", "", 1 << 30, -1, -1, "", 0),
        None,
        OffsetCommit("g", "t", -1, 5, 0, "x" * 125, -1),
    ]


@pytest.mark.parametrize(
    ("of_key", "of_value"),
    [
        (key("g", "t", 0, 2), value(3, 1, 1, "", 1)),
        (key("g", "t", 0, 0), value(3, 1, 1, "", 1)),
        (key("g", "t", 0) + b"x", value(3, 1, 1, "", 1)),
        (key("g", "t", 0)[:-1], value(3, 1, 1, "", 1)),
        (b"", value(3, 1, 1, "", 1)),
        (key("g", "t", 0), b""),
        (key("g", "t", 0), value(3, 1, 1, "", 1) + b"x"),
        (key("g", "t", 0), struct.pack(">hq", 5, 1) + struct.pack(">h", 0) + struct.pack(">q", 1)),
        (key("g", "t", 0), value(4, 1, 1, "x" * 200, 1)),
        (key("g", "t", 0), value(4, 1, 1, "", 1, b"\x01\x05\x00")),
        (key("g", "t", 0), value(4, 1, 1, "", 1, b"\x01\x00\x0f" + bytes(16))),
        (key("g", "t", 0), value(4, 1, 1, "", 1, b"\x01")),
        (key("größe", "t", 0), value(3, 1, 1, "", 1)),
        (key("g", "größe", 0), value(3, 1, 1, "", 1)),
        (key("g", "t", 0), value(3, 1, 1, "größe", 1)),
        (key("g", "t", 0)[:2] + b"\xff\xff" + key("g", "t", 0)[4:], value(3, 1, 1, "", 1)),
        (key("g", "t", 0), struct.pack(">hqih", 3, 1, 1, -1) + struct.pack(">q", 1)),
    ],
)
def test_every_other_form_is_left_to_the_readers_of_single_records(of_key: bytes, of_value: bytes) -> None:
    usual = key("g", "t", 0), value(3, 1, 1, "", 1)
    commit = OffsetCommit("g", "t", 0, 1, 1, "", 1)
    assert found((of_key, of_value)) == [None]
    assert found(usual, (of_key, of_value), usual) == [commit, None, commit]


def old_value(version: int, offset: int, metadata: str, time_ms: int) -> bytes:
    text = struct.pack(">h", len(metadata.encode())) + metadata.encode()
    rest = struct.pack(">q", time_ms + 1) if version == 1 else b""
    return struct.pack(">hq", version, offset) + text + struct.pack(">q", time_ms) + rest


@pytest.mark.parametrize("version", [0, 1, 2])
def test_commits_of_old_versions_have_no_leader_epoch(version: int) -> None:
    of_key, of_value = key("g", "t", 1), old_value(version, 7, "note", 1_700_000_000_000)
    expected = OffsetCommit("g", "t", 1, 7, -1, "note", 1_700_000_000_000)
    assert found((of_key, of_value), (of_key, of_value + b"x")) == [expected, None]
    assert generic(of_key, of_value) == expected


def test_a_record_without_a_value_deletes_an_offset() -> None:
    keys = pa.array([key("g", "t", 1), key("g", "t", 2), key("g", "t", 0, 2), None], pa.binary())
    values = pa.array([None, value(3, 5, 1, "", 9), None, None], pa.binary())
    columns = commit_columns(keys, values)
    assert columns.is_read.tolist() == [True, True, False, False]
    assert columns.is_deleted.tolist() == [True, False]
    assert columns.partition.tolist() == [1, 2]
    assert columns.group.to_pylist() == ["g", "g"]


def test_no_records_and_records_without_any_bytes_give_no_commits() -> None:
    assert found() == []
    assert found((None, None), (b"", b"")) == [None, None]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_is_read_equals_the_generic_reader_on_whole_and_damaged_bytes(is_damaged: bool) -> None:
    chance = random.Random(21)
    pairs: list[tuple[bytes, bytes]] = []
    for _ in range(max(MUTANTS, 10_000)):
        parts = [
            key(chance.choice(TEXTS), chance.choice(TEXTS), chance.randrange(-9, 300), chance.choice([0, 1, 1, 1, 2])),
            value(
                chance.choice([3, 4]), chance.randrange(1 << 40), chance.randrange(-1, 9), chance.choice(TEXTS),
                chance.randrange(1 << 41), chance.choice([b"\x00", TOPIC_ID]),
            ),
        ]  # fmt: skip
        if chance.random() < 0.3:
            parts[1] = old_value(chance.randrange(3), chance.randrange(1 << 40), chance.choice(TEXTS), 9)
        if is_damaged:
            at = chance.randrange(2)
            body = bytearray(parts[at])
            place = chance.randrange(len(body))
            if chance.random() < 0.5:
                body[place] = chance.choice((0, 1, 3, 4, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            elif chance.random() < 0.5:
                del body[place:]
            else:
                body[place:place] = chance.randbytes(chance.randint(1, 3))
            parts[at] = bytes(body)
        pairs.append((parts[0], parts[1]))
    read = 0
    for pair, commit in zip(pairs, found(*pairs), strict=True):
        expected = generic(*pair)
        if commit is not None:
            assert commit == expected
            read += 1
        elif not is_damaged and expected is not None:
            texts = expected.group + expected.topic + expected.metadata
            assert not texts.isascii() or len(expected.metadata) > 125 or pair[0][1] == 0
    assert read > len(pairs) / 20
