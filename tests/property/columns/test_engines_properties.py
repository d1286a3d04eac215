"""For all segments and all wishes: every engine gives the rows that were put in, and of them those that are wanted."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.columns.engines import Engine, available
from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.columns.wanted import Wanted
from logcore.records.batch import TimestampType
from logcore.records.builder import build_batch
from logcore.records.compression import Codec
from logcore.records.record import Record
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.fuzz import streams
from tests.fuzz.engines_compared import ALL, PLACE, Outcome, equal, outcome
from tests.property.strategies import rising_records
from tests.sampling import examples

stable = settings(deadline=None, derandomize=True, max_examples=examples(120))
ENGINES = list(available())
KEYS = [None, b"", b"a", b"b", b"ab", b"a longer key than sixteen bytes"]
EDGES = [-(1 << 63), -62_135_596_800_001, -1, 0, 1, 1_600_000_000_000, 253_402_300_800_000, (1 << 63) - 1]

keys = st.sampled_from(KEYS)
values = st.sampled_from([None, b"", b"v", b"some value", bytes(300)])
names = st.sampled_from([b"", b"h", "é".encode(), b"\xff", b"\xed\xa0\x80"])
headers = st.lists(st.tuples(names, values), max_size=2)


@st.composite
def batches(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    """A sound batch of any format, codec and kind at that offset, and the next offset after it."""
    kind = draw(st.sampled_from(["v2", "v2", "v2", "v2", "marker", "emptied", "message", "wrapper"]))
    if kind == "marker":
        return handmade.marker(offset, draw(st.sampled_from([0, 1])), producer_id=5), offset + 1
    if kind == "emptied":
        return handmade.empty_batch(offset, 3), offset + 4
    magic = draw(st.sampled_from([0, 1]))
    if kind == "message":
        time = draw(st.sampled_from(EDGES))
        return handmade.message(offset, draw(keys), draw(values), magic=magic, timestamp=time), offset + 1
    deltas = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=5)))
    if kind == "wrapper":
        base = 0 if magic else offset
        inner = [handmade.message(base + delta, draw(keys), draw(values), magic=magic) for delta in deltas]
        codec = draw(st.sampled_from([handmade.GZIP, handmade.SNAPPY, handmade.LZ4]))
        attributes = draw(st.sampled_from([0, handmade.LOG_APPEND_TIME])) if magic else 0
        last = offset + deltas[-1]
        # With an offset of 0 a v1 wrapper means something else: its messages' offsets are true as they stand. So here.
        return handmade.wrapper(inner, offset=last, codec=codec, magic=magic, attributes=attributes), last + 1
    records = [
        handmade.record(
            delta, draw(keys), draw(values), timestamp_delta=draw(st.integers(-3, 3)), headers=draw(headers)
        )
        for delta in deltas
    ]
    codec = draw(st.integers(0, 4))
    last_delta = deltas[-1] + draw(st.sampled_from([0, 0, 2]))
    data = handmade.batch(
        body=streams.STREAMS[codec](b"".join(records)),
        base_offset=offset,
        count=len(records),
        last_offset_delta=last_delta,
        base_timestamp=draw(st.sampled_from(EDGES)),
        max_timestamp=draw(st.sampled_from(EDGES)),
        leader_epoch=draw(st.sampled_from([-1, 0, 7])),
        attributes=codec | draw(st.sampled_from([0, handmade.LOG_APPEND_TIME, handmade.TRANSACTIONAL])),
    )
    return data, offset + last_delta + 1


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """A sound segment of base offset 0."""
    data, offset = b"", 0
    for _ in range(draw(st.integers(1, 8))):
        batch, offset = draw(batches(offset + draw(st.sampled_from([0, 0, 3]))))
        data += batch
    return data


@st.composite
def wishes(draw: st.DrawFn) -> Wanted:
    """Any columns, ranges, times and key."""
    columns = draw(st.lists(st.sampled_from(RECORDS_SCHEMA.names), unique=True, min_size=1))
    bounds = sorted(draw(st.lists(st.integers(-2, 60), max_size=6)))
    ranges = tuple(zip(bounds[::2], bounds[1::2], strict=False))
    times = st.none() | st.sampled_from(EDGES)
    return Wanted(
        columns=tuple(columns),
        visible=draw(st.sampled_from([None, ranges])),
        since=draw(times),
        until=draw(times),
        key=draw(st.none() | st.sampled_from(KEYS[1:])),
        control=draw(st.booleans()),
    )


def rows(found: Outcome) -> list[dict[str, Any]]:
    """All rows; there must be nothing else."""
    assert not any(isinstance(item, Stretch) for item in found)
    return [row for item in found for row in item.to_pylist()]


def is_wanted(row: dict[str, Any], wanted: Wanted) -> bool:
    """The filters, said once more, on a finished row."""
    ranges = wanted.visible
    return (
        (ranges is None or any(start <= row["offset"] < end for start, end in ranges))
        and (wanted.since is None or row["timestamp_ms"] >= wanted.since)
        and (wanted.until is None or row["timestamp_ms"] < wanted.until)
        and (wanted.key is None or row["key"] == wanted.key)
    )


@pytest.mark.parametrize("engine", ENGINES)
@stable
@given(st.lists(rising_records(), min_size=1, max_size=4), st.sampled_from(list(Codec)[:5]), st.booleans())
def test_records_that_were_built_into_batches_come_back_as_rows(
    engine: Engine, groups: list[list[Record]], codec: Codec, append_time: bool
) -> None:
    data, expected, shift = b"", [], 0
    kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    for group in groups:
        # Each group begins after the one before, in the same segment.
        base = group[0].offset
        moved = [
            Record(record.offset - base + shift, record.timestamp, kind, record.key, record.value, record.headers)
            for record in group
        ]
        shift = moved[-1].offset + 1
        position = len(data)
        data += build_batch(moved, codec=codec, timestamp_type=kind, leader_epoch=4)
        latest = max(record.timestamp for record in group)
        expected += [(record, latest if append_time else record.timestamp, position) for record in moved]
    found = rows(outcome(data, 0, engine))
    assert len(found) == len(expected)
    for row, (record, time, position) in zip(found, expected, strict=True):
        assert (row["topic"], row["partition"], row["log_id"], row["segment_id"]) == (
            PLACE.topic,
            PLACE.partition,
            PLACE.log_id,
            PLACE.segment_id,
        )
        assert (row["offset"], row["timestamp_ms"], row["timestampType"]) == (record.offset, time, int(kind))
        assert (row["key"], row["value"], row["leader_epoch"]) == (record.key, record.value, 4)
        assert row["position"] == position
        raw = row["header_keys_raw"] or [header["key"].encode() for header in row["headers"] or ()]
        contents = [header["value"] for header in row["headers"] or ()]
        assert list(zip(raw, contents, strict=True)) == list(record.headers)


@pytest.mark.parametrize("engine", ENGINES)
@stable
@given(segments(), wishes())
def test_what_is_wanted_is_what_would_be_picked_from_all_rows_afterwards(
    engine: Engine, data: bytes, wanted: Wanted
) -> None:
    everything = rows(outcome(data, 0, Engine.REFERENCE, wanted=Wanted(control=wanted.control)))
    expected = [{name: row[name] for name in wanted.schema.names} for row in everything if is_wanted(row, wanted)]
    assert rows(outcome(data, 0, engine, wanted=wanted)) == expected


@pytest.mark.parametrize("engine", ENGINES)
@stable
@given(segments(), wishes(), st.integers(0, 1 << 32), st.booleans())
def test_of_an_injured_segment_too_every_engine_gives_what_the_reference_gives(
    engine: Engine, data: bytes, wanted: Wanted, seed: int, sealed: bool
) -> None:
    draw = random.Random(seed)
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(data))
        match draw.randrange(4):
            case 0 | 1:
                data = handmade.flip(data, at, draw.randrange(8))
            case 2:
                data = data[:at] + data[at + 1 :] + b"\0"
            case 3:
                data = data[: at + 1]
    for wish in (wanted, ALL):
        right = outcome(data, 0, Engine.REFERENCE, sealed=sealed, wanted=wish)
        assert equal(outcome(data, 0, engine, sealed=sealed, wanted=wish), right)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_filter_without_an_end_does_not_lose_the_greatest_timestamp(engine: Engine) -> None:
    greatest = (1 << 63) - 1
    records = [handmade.record(0, b"a"), handmade.record(1, b"a", timestamp_delta=-1)]
    data = handmade.batch(records, base_timestamp=greatest)
    for wanted, offsets in (
        (Wanted(key=b"a"), [0, 1]),
        (Wanted(since=greatest), [0]),
        (Wanted(until=greatest), [1]),
        (Wanted(since=-(1 << 63)), [0, 1]),
    ):
        assert [row["offset"] for row in rows(outcome(data, 0, engine, wanted=wanted))] == offsets
