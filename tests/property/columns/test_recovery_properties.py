"""The compiled recovery and the specification: the same result on any bytes, and the same producer state after it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from logcore.columns.engines import Engine, available
from logcore.errors import LogError
from logcore.logs.model.producers.producer_state import ProducerReplay
from logcore.logs.recovery.segment_recovery import IndexRules, Recover, recover_segment
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests import handmade

if Engine.KERNELS not in available():
    pytest.skip("the kernels cannot be compiled on this machine", allow_module_level=True)

from logcore.columns.recovery import recover_compiled

BASE = 1000
ROUNDS = 1200


def outcome(recover: Recover, content: bytes, rules: IndexRules) -> Any:
    """Everything that a recovery says: its result or error, and what producers came to."""
    producers = ProducerReplay(is_strict=True)
    try:
        result: Any = recover(content, BASE, rules, epochs=(EpochEntry(1, 900),), producers=producers)
    except LogError as error:
        return type(error), error.message, error.position, error.offset, getattr(error, "cut_at", None)
    return result, producers.entries()


def log(chance: random.Random) -> bytes:
    """Batches of every kind: formats, codecs' bits, producers, transactions, markers of all sorts, leader epochs."""
    parts, offset, opened, epoch, timestamp = [], BASE, set(), chance.choice([-1, 0, 1]), 1_000_000
    for _ in range(chance.randrange(40)):
        count = chance.randrange(1, 4)
        timestamp += chance.randrange(-500, 1000)
        epoch += chance.random() < 0.1
        producer = chance.choice([-1, 1, 2, 3, 1025])
        fields = {"leader_epoch": epoch, "base_timestamp": timestamp, "producer_epoch": chance.choice([0, 0, 0, 1])}
        kind = chance.random()
        if kind < 0.1:
            value = b"v" * chance.randrange(300)
            is_old = chance.random() < 0.5
            build = handmade.message_v0 if is_old else handmade.message_v1
            parts.append(build(offset, *([] if is_old else [timestamp]), b"k", value))
            count = 1
        elif kind < 0.3 and producer >= 0:
            marker = chance.choice([handmade.ABORT, handmade.COMMIT, handmade.ABORT, handmade.COMMIT, 2])
            if chance.random() < 0.2:
                fields["attributes"] = handmade.TRANSACTIONAL | handmade.LOG_APPEND_TIME
                fields["max_timestamp"] = timestamp + 7
            if marker == 2 and chance.random() < 0.8:
                marker = handmade.COMMIT
            coordinator = chance.randrange(9)
            key, value = marker.to_bytes(4, "big"), coordinator.to_bytes(6, "big")
            fields.setdefault("attributes", handmade.TRANSACTIONAL)
            parts.append(handmade.control_batch(offset, key, value, producer_id=producer, **fields))
            opened.discard(producer)
            count = 1
        elif kind < 0.33:
            parts.append(handmade.empty_batch(offset, count - 1, producer_id=producer, attributes=0x30))
        else:
            is_transactional = producer >= 0 and (producer in opened or chance.random() < 0.4)
            if is_transactional and chance.random() > 0.01:
                opened.add(producer)
            fields |= {
                "attributes": handmade.TRANSACTIONAL if is_transactional else 0,
                "base_sequence": chance.choice([0, 5, 2**31 - 2]) if producer >= 0 else -1,
            }
            records = [handmade.record(n, b"k", b"v" * chance.randrange(200)) for n in range(count)]
            if chance.random() < 0.05:
                fields["magic"] = 0x58
            parts.append(handmade.batch(records, base_offset=offset, producer_id=producer, **fields))
        offset += count + (chance.random() < 0.1)
        if chance.random() < 0.005:
            offset += 2**31
        if chance.random() < 0.01:
            offset -= 3
    return b"".join(parts)


def injured(content: bytes, chance: random.Random) -> bytes:
    """The same with a flipped bit, a cut, zeros or junk at its end; or as it is."""
    how = chance.random()
    if not content or how < 0.4:
        return content
    at = chance.randrange(len(content))
    if how < 0.7:
        return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
    if how < 0.8:
        return content[:at]
    return content + (bytes(chance.randrange(60)) if how < 0.9 else chance.randbytes(chance.randrange(200)))


def test_both_recoveries_say_the_same_on_whole_and_damaged_segments() -> None:
    chance = random.Random(20260)
    results = cut = failed = aborted = 0
    for number in range(ROUNDS):
        content = injured(log(chance), chance)
        rules = IndexRules(chance.choice([0, 100, 300, 4096]), chance.choice([48, 240, 10 << 20, 10 << 20, 10 << 20]))
        plain = outcome(recover_segment, content, rules)
        assert outcome(recover_compiled, content, rules) == plain, number
        if len(plain) == 2:
            results += 1
            cut += plain[0].valid_bytes < len(content)
            aborted += len(plain[0].aborted)
        else:
            failed += 1
    print(f"{results} recovered, {cut} of them cut, {aborted} aborted transactions, {failed} refused")
    assert min(results, cut, failed, aborted) > ROUNDS // 20


def test_more_events_and_entries_than_a_call_holds() -> None:
    """A transaction of two batches each, so that events and index entries fill the buffers several times over."""
    parts = []
    for number in range(9000):
        offset = BASE + 2 * number
        parts.append(
            handmade.batch(
                body=bytes(7), count=0, base_offset=offset, producer_id=number % 700, attributes=handmade.TRANSACTIONAL
            )
        )
        kind = handmade.ABORT if number % 3 else handmade.COMMIT
        parts.append(handmade.marker(offset + 1, kind, producer_id=number % 700, producer_epoch=-1))
    content = b"".join(parts)
    rules = IndexRules(0)
    assert outcome(recover_compiled, content, rules) == outcome(recover_segment, content, rules)
