"""Logs for a round of cleaning, drawn by Hypothesis and packed by hand, and what a cleaner makes of one.

Keys are few, so that records meet; every codec, format, kind of batch and oddity of encoding comes up, but for logs in
which all is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from hypothesis import strategies as st

from logcore.errors import LogError
from logcore.logs.compaction.cleaner import Cleaner
from logcore.logs.compaction.cleaning_round import ActiveProducer, CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.model.broker_line import BrokerLine
from logcore.segments.side_files.transaction_index import AbortedTransaction
from tests import handmade
from tests.fuzz import streams

NOW, RETENTION = 1_000_000, 500
KEYS = [b"", b"a", b"b", b"c", b"longer than eight", bytes(24)]

keys = st.sampled_from([*KEYS, *KEYS, None])
values = st.sampled_from([b"v", b"another value", bytes(200), b"", None])
names = st.sampled_from([*[b"h", b"", "é".encode()] * 5, b"\xff"])
headers = st.lists(st.tuples(names, values), max_size=2)
plain_headers = st.lists(st.tuples(st.just(b"h"), values), max_size=1)
times = st.sampled_from([*[-1, 0, 1000, NOW, NOW + 9_000] * 4, -2, (1 << 62) + 5])


@dataclass(frozen=True)
class Scene:
    """What a cleaner is given. groups: numbers of segments."""

    segments: tuple[SourceSegment, ...]
    round: CleaningRound
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """What came of it; error: what it raised, and as far as it came."""

    end_offset: int | None
    cleaned: tuple[tuple[bytes, CleanedSegment], ...]
    error: str | None


def outcome(cleaner: Cleaner, scene: Scene) -> Outcome:
    """The whole round."""
    end, made = None, list[tuple[bytes, CleanedSegment]]()
    try:
        dirty = [each for each in scene.segments if each.next_base_offset > scene.round.first_dirty_offset]
        end = cleaner.build_map(dirty, scene.round)
        for group in scene.groups:
            sink = BytesIO()
            result = cleaner.clean([scene.segments[number] for number in group], sink)
            made.append((sink.getvalue(), result))
    except (LogError, ValueError) as error:
        return Outcome(end, tuple(made), f"{type(error).__name__}: {error}")
    return Outcome(end, tuple(made), None)


class _Transactions:
    """Which producers are in a transaction while a log is drawn, and what was aborted."""

    def __init__(self) -> None:
        self.begun: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    def end(self, producer_id: int, offset: int, *, aborts: bool) -> None:
        first = self.begun.pop(producer_id, None)
        if aborts and first is not None:
            self.aborted.append(AbortedTransaction(producer_id, first, offset, offset + 1))


@st.composite
def _data(draw: st.DrawFn, offset: int, transactions: _Transactions, is_plain: bool) -> tuple[bytes, int]:
    deltas = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=6)))
    padding = 0 if is_plain else draw(st.sampled_from([0] * 15 + [1]))
    rows = []
    for delta in deltas:
        row = handmade.record(
            delta,
            draw(keys),
            draw(values),
            timestamp_delta=draw(st.integers(-3, 70)),
            headers=draw(plain_headers if is_plain else headers),
            attributes=draw(st.sampled_from([0, 0, 0, 5])),
        )
        if padding:
            length = len(row) - 1
            row = handmade.varint(length, padding=1) + row[1:] if row[0] < 128 else row
        rows.append(row)
    codec = draw(st.integers(0, 4))
    last_delta = deltas[-1] + draw(st.sampled_from([0, 0, 2]))
    attributes = codec | draw(st.sampled_from([0, 0, handmade.LOG_APPEND_TIME]))
    producer, epoch, sequence = -1, -1, -1
    kinds = [*["plain", "plain", "idempotent", "transactional"] * 6, "wrong"]
    kind = draw(st.sampled_from(kinds[:3] if is_plain else kinds))
    if kind != "plain":
        producer, epoch, sequence = draw(st.integers(1, 3)), draw(st.integers(0, 1)), draw(st.integers(0, 5))
    if kind == "wrong":
        epoch, sequence = draw(st.sampled_from([(-1, 0), (0, -1), (-1, -1)]))
    if kind == "transactional":
        attributes |= handmade.TRANSACTIONAL
        transactions.begun.setdefault(producer, offset)
    base_timestamp = draw(times)
    if draw(st.integers(0, 4)) == 0:
        attributes |= handmade.DELETE_HORIZON
        base_timestamp = draw(st.sampled_from([*[NOW - 1, NOW, NOW + 1] * 5, -5]))
    if draw(st.integers(0, 9)) == 0:
        attributes |= 0x80
    data = handmade.batch(
        body=streams.STREAMS[codec](b"".join(rows)),
        base_offset=offset,
        count=len(rows),
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=draw(times),
        leader_epoch=draw(st.sampled_from([-1, 0, 7])),
        attributes=attributes,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return data, offset + last_delta + 1


@st.composite
def _old(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    magic = draw(st.sampled_from([0, 1]))
    if draw(st.booleans()):
        return handmade.message(offset, draw(keys), draw(values), magic=magic, timestamp=draw(times)), offset + 1
    deltas = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=5)))
    base = 0 if magic else offset
    inner = [handmade.message(base + delta, draw(keys), draw(values), magic=magic) for delta in deltas]
    codec = draw(st.sampled_from([handmade.GZIP, handmade.SNAPPY, handmade.LZ4]))
    last = offset + deltas[-1]
    return handmade.wrapper(inner, offset=last, codec=codec, magic=magic), last + 1


@st.composite
def _batch(
    draw: st.DrawFn, offset: int, transactions: _Transactions, has_old: bool, is_plain: bool
) -> tuple[bytes, int]:
    if is_plain:
        return draw(_data(offset, transactions, is_plain))
    kind = draw(st.sampled_from(["data"] * 7 + ["marker"] * 2 + ["emptied", "old", "other control"]))
    if kind == "marker":
        producer = draw(st.integers(1, 3))
        type_ = draw(st.sampled_from([handmade.ABORT, handmade.COMMIT]))
        transactions.end(producer, offset, aborts=type_ == handmade.ABORT)
        data = handmade.marker(offset, type_, producer_id=producer)
        if draw(st.integers(0, 2)) == 0:
            stamp = draw(st.sampled_from([NOW - 1, NOW, NOW + 1]))
            attributes = handmade.TRANSACTIONAL | handmade.CONTROL | handmade.DELETE_HORIZON
            data = handmade.fix_crc(handmade.patch(data, 21, attributes.to_bytes(2, "big")))
            data = handmade.fix_crc(handmade.patch(data, 27, stamp.to_bytes(8, "big")))
        return data, offset + 1
    if kind == "emptied":
        return handmade.empty_batch(offset, 3), offset + 4
    if kind == "other control":
        return handmade.marker(offset, draw(st.sampled_from([2, 6])), producer_id=-1), offset + 1
    if kind == "old" and has_old:
        return draw(_old(offset))
    return draw(_data(offset, transactions, is_plain))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A log of one to four segments and a round over it."""
    transactions, parts, bases, offset = _Transactions(), list[bytes](), list[int](), draw(st.sampled_from([0, 50]))
    start, has_old, is_plain = offset, draw(st.integers(0, 2)) == 0, draw(st.integers(0, 2)) == 0
    for _ in range(draw(st.integers(1, 4))):
        bases.append(offset)
        content = b""
        for _ in range(draw(st.integers(0, 6))):
            data, offset = draw(_batch(offset, transactions, has_old, is_plain))
            content += data
            offset += draw(st.sampled_from([0, 0, 0, 3]))
        offset = max(offset, bases[-1] + 1)
        parts.append(content)
    next_bases = [*bases[1:], offset]
    segments = tuple(
        SourceSegment(
            base,
            behind,
            content,
            draw(st.integers(0, 3)),
            0,
            0,
            aborted=tuple(
                each for each in transactions.aborted if each.first_offset < behind and each.last_offset >= base
            ),
        )
        for base, behind, content in zip(bases, next_bases, parts, strict=True)
    )
    dirty = draw(st.sampled_from([start, start, *bases, draw(st.integers(start, offset))]))
    round = CleaningRound(
        log_start_offset=start,
        first_dirty_offset=dirty,
        upper_bound_offset=offset,
        high_watermark=draw(st.sampled_from([offset, offset + 7])),
        as_of_ms=NOW,
        delete_retention_ms=RETENTION,
        legacy_horizon_ms=draw(st.integers(0, 3)),
        line=draw(st.sampled_from(list(BrokerLine))),
        producers={
            producer: ActiveProducer(draw(st.integers(0, 1)), draw(st.sampled_from([None, offset - 1, offset // 2])))
            for producer in draw(st.sets(st.integers(1, 3), max_size=3))
        },
        index_interval_bytes=draw(st.sampled_from([4096, 100, 0])),
        max_keys=draw(st.sampled_from([None, None, None, 0, 1, 3])),
    )
    numbers = list(range(len(segments)))
    cut = draw(st.integers(0, len(numbers)))
    groups = tuple(tuple(group) for group in (numbers[:cut], numbers[cut:]) if group)
    return Scene(segments, round, groups)


def with_content(scene: Scene, contents: Sequence[bytes], **fields: Any) -> Scene:
    """The same scene with other bytes in its segments."""
    segments = tuple(
        replace(each, held=content, unreadable=()) for each, content in zip(scene.segments, contents, strict=True)
    )
    return replace(scene, segments=segments, round=replace(scene.round, **fields))
