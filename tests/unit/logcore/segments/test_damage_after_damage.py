"""Damage next to damage, and at the end of an active segment: values stay values, the log goes on, in linear time."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.segments.filenames import TopicPartition
from logcore.segments.scanning import sound_batches
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from logcore.storage.source_bytes import SourceBytes
from tests import handmade
from tests.executed import executed
from tests.handmade import flip, patch
from tests.unit.logcore.segments.test_resynchronization import batch, good, length, rules, verdict_of

pytestmark = pytest.mark.slow

LOG = f"{0:020d}.log"


def wrong_crc(data: bytes) -> bytes:
    return flip(data, 17, 5)


def salvaged(content: bytes, *, is_sealed: bool, next_base: int = 30) -> bytes:
    files = {LOG: content} | ({f"{next_base:020d}.log": batch(next_base)} if is_sealed else {})
    held = {name: PartitionFile(name, data, 77) for name, data in files.items()}
    directory = PartitionDirectory(TopicPartition("orders", 0), held)
    plan = plan_recovery(directory, TopicConfig(), as_of_ms=5_000, salvage=True)
    match plan.files[LOG]:
        case Keep():
            return content
        case Cut(_, size, _):
            return content[:size]
        case Write(made, _):
            return bytes(made)


# -- two damaged batches, one after the other

SECOND = batch(15, 5)
DAMAGED_SECONDS = {
    "its checksum": wrong_crc(SECOND),
    "its length, too small for any batch": length(wrong_crc(SECOND), 5),
    "its length, which leads nowhere": length(wrong_crc(SECOND), 333),
    "its length, beyond the file": length(wrong_crc(SECOND), 1 << 30),
    "its records": flip(SECOND, 70, 2),
    "its record count": patch(SECOND, 57, b"\x7f\xff\xff\xff"),
}


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("second", DAMAGED_SECONDS)
def test_a_value_that_is_a_batch_stays_a_value_where_the_next_batch_is_damaged_too(second: str, sealed: bool) -> None:
    value = batch(10, 3)
    first = wrong_crc(handmade.simple_batch(10, [(b"k", value), *[(b"k", b"v")] * 4]))
    front, behind = batch(0, 10), batch(20, 5) + batch(25, 5)
    data = front + first + DAMAGED_SECONDS[second] + behind
    start = len(data) - len(behind)
    assert good(data, sealed=sealed) == [0, start, start + len(batch(20, 5))]
    assert verdict_of(data, sealed=sealed, next_base=30 if sealed else None).counts.batches == 3
    assert salvaged(data, is_sealed=sealed) == front + behind


def test_lengths_are_followed_through_damaged_batches_of_a_log_with_gaps() -> None:
    value = batch(10, 3)
    first = wrong_crc(handmade.simple_batch(10, [(b"k", value), (b"k", b"v")]))
    damaged = first + wrong_crc(batch(40)) + wrong_crc(batch(60)) + wrong_crc(batch(90))
    data = batch(0, 10) + damaged + batch(100) + batch(200)
    assert good(data) == [0, len(batch(0, 10) + damaged), len(data) - len(batch(200))]


# -- an extent beyond the file's end


def hundred(number: int, damaged: Callable[[bytes], bytes], codec: int = 0) -> tuple[list[bytes], list[bytes]]:
    """100 batches of one record each, as written and with one of them damaged."""
    if codec:
        body = handmade.stored_gzip(handmade.record(0, b"k", b"value"))
        batches = [handmade.batch(base_offset=at, attributes=codec, body=body, count=1) for at in range(100)]
    else:
        batches = [batch(at, 1, b"value") for at in range(100)]
    return batches, [*batches[:number], damaged(batches[number]), *batches[number + 1 :]]


LONGER: dict[str, Callable[[bytes], bytes]] = {
    "length and checksum": lambda data: length(wrong_crc(data), 0x10000),
    "length and record count": lambda data: length(patch(data, 57, b"\x00\x00\x00\x05"), 0x10000),
}


@pytest.mark.parametrize("codec", [0, handmade.GZIP])
@pytest.mark.parametrize("tail", ["", "zeros", "a part of a batch", "a part of an offset"])
@pytest.mark.parametrize("injury", LONGER)
def test_sound_batches_after_a_length_beyond_the_end_of_an_active_segment_are_kept(
    injury: str, tail: str, codec: int
) -> None:
    rest = {"": b"", "zeros": bytes(500), "a part of a batch": batch(100)[:65], "a part of an offset": bytes(5)}
    batches, damaged = hundred(10, LONGER[injury], codec)
    data = b"".join(damaged) + rest[tail]
    assert len(good(data, sealed=False)) == 99
    found = verdict_of(data, sealed=False)
    assert (found.counts.batches, found.next_offset) == (99, 100)
    assert "corrupt-bytes" in rules(found)
    assert salvaged(data, is_sealed=False) == b"".join(batches[:10] + batches[11:])


@pytest.mark.parametrize(
    ("number", "batches", "rule"),
    [(95, 95, "tail-hides-batches"), (91, 99, "corrupt-bytes"), (10, 99, "corrupt-bytes")],
)
def test_few_batches_that_a_record_claims_for_itself_are_no_batches_of_an_active_segment(
    number: int, batches: int, rule: str
) -> None:
    """Eight or more up to the end of the file are: a write would have to end exactly between two of them."""
    _, damaged = hundred(number, lambda data: length(patch(data, 61, b"\x7e"), 0x10000))
    found = verdict_of(b"".join(damaged), sealed=False)
    assert (found.counts.batches, rules(found)) == (batches, [rule])


def test_a_length_into_the_zeros_at_the_end_hides_no_sound_batch() -> None:
    batches, damaged = hundred(10, lambda data: length(wrong_crc(data), 30_000))
    for sealed in (True, False):
        data = b"".join(damaged) + bytes(50_000)
        assert len(good(data, sealed=sealed)) == 99
        assert verdict_of(data, sealed=sealed).counts.batches == 99
    assert salvaged(data, is_sealed=False) == b"".join(batches[:10] + batches[11:])


def test_two_lengths_beyond_the_end_cost_two_batches() -> None:
    injure = LONGER["length and checksum"]
    batches, damaged = hundred(10, injure)
    damaged[50] = injure(damaged[50])
    assert salvaged(b"".join(damaged), is_sealed=False) == b"".join(batches[:10] + batches[11:50] + batches[51:])


@pytest.mark.parametrize("codec", [0, handmade.GZIP])
@pytest.mark.parametrize("has_zeros", [True, False])
@pytest.mark.parametrize("first", [10, 12, 13, 40])
def test_a_write_under_way_of_a_value_of_many_batches_is_never_data(first: int, has_zeros: bool, codec: int) -> None:
    """A piece of a mirrored segment as a value; its offsets may even be those that would follow."""
    inner = [batch(first + 2 * number) for number in range(4)]
    records = [handmade.record(0, b"k", b"v"), handmade.record(1, b"k", b"".join(inner)), handmade.record(2)]
    body = handmade.stored_gzip(b"".join(records)) if codec else b"".join(records)
    outer = handmade.batch(base_offset=10, attributes=codec, last_offset_delta=2, count=3, body=body)
    front = batch(0, 10)
    for size in range(61, len(outer.rstrip(b"\0"))):
        data = front + outer[:size] + (bytes(5000) if has_zeros else b"")
        assert good(data, sealed=False) == [0], size


# -- the work


def walked(data: bytes) -> int:
    return sum(isinstance(item, ScannedBatch) for item in SegmentScan(data, base_offset=0, sealed=False, decode=False))


class Counted:
    """A file's bytes as they are fetched, with the number of bytes that were copied out of it."""

    def __init__(self, source: SourceBytes) -> None:
        self._source, self.copied = source, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, start: int, end: int) -> bytes:
        content = self._source.read(start, end)
        self.copied += len(content)
        return content


def copied(data: bytes, path: Path) -> int:
    """Bytes that a walk over a file searches, or sums beside the batches' own checksums."""
    path.write_bytes(data)
    source = SourceBytes(str(path), sealed=False)
    counted = Counted(source)
    fetched: FetchedBytes = counted
    for _ in SegmentScan(source.content, base_offset=0, sealed=False, decode=False, fetched=fetched):
        pass
    return counted.copied


def every_second(count: int, stated: int) -> bytes:
    """Batches of 270 bytes, of which every second one has a wrong length and a wrong checksum."""
    parts = [batch(at, 1, b"v" * 200) for at in range(count)]
    return b"".join(length(wrong_crc(part), stated) if at % 2 else part for at, part in enumerate(parts))


@pytest.mark.parametrize("stated", [7777, 5, 1 << 29])
def test_where_every_second_batch_is_damaged_each_costs_a_look_at_few_others(stated: int) -> None:
    count = 400
    data = every_second(count, stated)
    assert walked(data) == count // 2
    # It takes some hundred lines per batch. A check of all batches in 64 KiB after each damaged one takes thousands.
    assert executed(lambda: walked(data), "line") < 1500 * count


def test_the_work_on_damaged_batches_grows_with_their_number() -> None:
    few, many = every_second(300, 7777), every_second(1200, 7777)
    walked(few)
    assert executed(lambda: walked(many), "line") < 6 * executed(lambda: walked(few), "line")


def test_zeros_at_the_end_are_looked_at_once_however_many_batches_are_damaged(tmp_path: Path) -> None:
    parts = [batch(at, 1) for at in range(200)]
    zeros = 4 << 20
    for injure in (wrong_crc, lambda part: length(wrong_crc(part), 7777)):
        damaged = [injure(part) if at % 10 == 5 else part for at, part in enumerate(parts)]
        data = b"".join(damaged) + bytes(zeros)
        assert walked(data) == 180
        assert copied(data, tmp_path / LOG) < 2 * zeros


def test_a_checksum_is_not_summed_over_the_rest_of_the_file_for_each_damaged_batch(tmp_path: Path) -> None:
    value = b"v" * ((1 << 16) - len(batch(0, 1, b"v" * (1 << 16))) + (1 << 16))
    parts = [batch(at, 1, value) for at in range(96)]
    assert {len(part) for part in parts} == {1 << 16}
    damaged = [wrong_crc(part) if at % 8 == 3 else part for at, part in enumerate(parts)]
    data = b"".join(damaged)
    assert walked(data) == 84
    assert copied(data, tmp_path / LOG) < 12 * 1.3 * (1 << 20)


def step_by_step(data: bytes, *, sealed: bool) -> list[ScannedBatch | Stretch]:
    """A walk of which each step remembers nothing of those before it."""
    items: list[ScannedBatch | Stretch] = []
    position, next_offset = 0, 0
    while position < len(data):
        walk = SegmentScan(data, base_offset=0, sealed=sealed, decode=False, start=position, next_offset=next_offset)
        item = next(iter(walk), None)
        if item is None:
            break
        items.append(item)
        position, next_offset = item.end, walk.next_offset
    return items


def damaged_at_random(draw: random.Random) -> bytes:
    """Batches of one to three records, some with batches as values, many damaged: checksum, length, offset, zeros."""
    parts, offset = [], 0
    for _ in range(draw.randint(20, 120)):
        count = draw.randint(1, 3)
        inner = b"".join(batch(offset + draw.randint(-2, 6) % 99, 1) for _ in range(draw.choice((0, 0, 1, 2))))
        part = batch(offset, count, inner or b"v" * draw.randint(0, 40), leader_epoch=draw.choice((3, 3, 3, 4)))
        offset += count + draw.choice((0, 0, 0, 2))
        match draw.randint(0, 11):
            case 0 | 1:
                part = wrong_crc(part)
            case 2:
                part = length(wrong_crc(part), draw.choice((5, 77, 200, 777, 70_000, 1 << 29)))
            case 3:
                part = flip(part, draw.randrange(8, 12), draw.randrange(8))
            case 4:
                part = flip(part, draw.randrange(4, 8), draw.randrange(8))
            case 5:
                part = bytes(draw.randint(1, len(part))) + part[draw.randint(0, 20) :]
            case 6:
                part = part[: draw.randint(1, len(part))]
        parts.append(part)
    return b"".join(parts) + bytes(draw.choice((0, 0, 3, 300)))


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("looked_ahead", [300, 2000, 64 << 10])
def test_what_a_search_remembers_changes_no_answer(
    looked_ahead: int, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sound_batches, "LOOKED_AHEAD", looked_ahead)
    monkeypatch.setattr(sound_batches, "_SUMMED", 4 * looked_ahead)
    monkeypatch.setattr(sound_batches, "_REMEMBERED", 7)
    for seed in range(40):
        data = damaged_at_random(random.Random(f"{seed}:{looked_ahead}"))
        walk = SegmentScan(data, base_offset=0, sealed=sealed, decode=False)
        assert list(walk) == step_by_step(data, sealed=sealed), seed
