"""Every schema in every version: random messages are read and written again, and damaged ones do no harm."""

from __future__ import annotations

import os
import random
import time
import tracemalloc

import pytest

from logcore.messages.kafka_json import message_json
from logcore.messages.known_messages import MessageFamily, messages_of
from logcore.messages.message_schema import MessageSchema
from logcore.messages.reader import ReadMessage, UnreadReason, read_message
from tests.message_bytes import PackedMessage
from tests.message_writer import write_message

SEED = 20260901
MUTANTS = int(os.environ.get("LOGLAKE_TEST_MESSAGES", "10000"))
MOST_MEMORY_BYTES = 4 << 20
"""Ten times what a mutant of some hundred bytes may take."""

VERSIONS = [
    (schema, version)
    for family in MessageFamily
    for schema in messages_of(family)
    for version in range(schema.versions.lowest, schema.versions.highest + 1)
]


def test_the_schemas_are_all_there() -> None:
    assert len({schema.name for schema, _ in VERSIONS}) == 94
    assert len(VERSIONS) == 122


@pytest.mark.parametrize(
    ("schema", "version"), VERSIONS, ids=[f"{schema.name}-{version}" for schema, version in VERSIONS]
)
def test_what_is_read_is_written_with_the_same_bytes(schema: MessageSchema, version: int) -> None:
    chance = random.Random(f"{SEED} {schema.name} {version}")
    for number in range(40):
        packed = PackedMessage(schema, version, chance, unknown_tags=number % 2 == 1)
        message = read_message(schema, version, packed.content)
        assert isinstance(message, ReadMessage), message
        assert message.is_exact
        assert message.left == b""
        assert message_json(message) == packed.shown
        assert write_message(schema, version, message.fields) == packed.content


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if data:
                data[place % len(data)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 1:
                data[place:place] = chance.choice((b"\xff" * 5, b"\x7f\xff\xff\xff", b"\0", chance.randbytes(3)))
            case 2:
                del data[place : place + chance.randint(1, 8)]
            case 3:
                del data[place:]
            case _:
                data[place : place + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff"))
    return bytes(data)


@pytest.mark.long
def test_damaged_messages_do_no_harm() -> None:
    """Neither an error, nor a hang, nor much memory; and what is read exactly is written with the same bytes."""
    chance = random.Random(SEED)
    seen: dict[UnreadReason | str, int] = {}
    slowest = 0.0
    tracemalloc.start()
    try:
        for number in range(MUTANTS):
            schema, version = VERSIONS[number % len(VERSIONS)]
            data = mutated(PackedMessage(schema, version, chance, unknown_tags=True).content, chance)
            tracemalloc.reset_peak()
            before, began = tracemalloc.get_traced_memory()[0], time.perf_counter()
            message = read_message(schema, version, data)
            slowest = max(slowest, time.perf_counter() - began)
            assert tracemalloc.get_traced_memory()[1] - before < MOST_MEMORY_BYTES
            if not isinstance(message, ReadMessage):
                assert message.raw == data
                seen[message.reason] = seen.get(message.reason, 0) + 1
                continue
            seen["read"] = seen.get("read", 0) + 1
            if message.is_exact:
                assert write_message(schema, version, message.fields) + message.left == data
    finally:
        tracemalloc.stop()
    assert slowest < 1.0
    assert MUTANTS / 10 < seen["read"] < MUTANTS * 9 / 10, seen
    assert {UnreadReason.TRUNCATED, UnreadReason.LENGTH, UnreadReason.VARINT, UnreadReason.TAG} <= set(seen), seen
