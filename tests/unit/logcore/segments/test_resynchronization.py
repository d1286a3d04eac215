"""Where a walk continues after damage: which batches count, what lies inside a batch, and what a tail may be."""

import struct
import tempfile
from collections.abc import Iterator

import pytest

from logcore.columns import engines
from logcore.columns.engines import Engine, available
from logcore.errors import CorruptionReason
from logcore.logs.checks.validation import SegmentValidation, SegmentVerdict
from logcore.logs.model.findings import Severity, exit_code
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.records.compression import compress
from logcore.records.model import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.filenames import TopicPartition
from logcore.segments.scanning import damaged_batch, sound_batches
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from logcore.storage import source_bytes
from logcore.storage.source_bytes import SourceBytes
from tests import handmade
from tests.handmade import cut, flip, patch

pytestmark = pytest.mark.slow

HEADER = range(61)
BASE_OFFSET, LENGTH, EPOCH = range(8), range(8, 12), range(12, 16)
LOG = f"{0:020d}.log"


def batch(offset: int, count: int = 2, value: bytes = b"v", **fields: int) -> bytes:
    return handmade.simple_batch(offset, [(b"k", value)] * count, **fields)


def length(data: bytes, stated: int) -> bytes:
    return patch(data, 8, struct.pack(">i", stated))


def verdict_of(data: bytes, *, sealed: bool, base_offset: int = 0, next_base: int | None = None) -> SegmentVerdict:
    """The verdict of every available engine. All verdicts are equal, and every byte is accounted for."""
    found = SegmentValidation(data, base_offset=base_offset, sealed=sealed, file="f", next_base_offset=next_base)
    for _ in found:
        pass
    if Engine.KERNELS in available():
        fast = engines.check_segment(data, base_offset=base_offset, sealed=sealed, file="f", next_base_offset=next_base)
        for _ in fast:
            pass
        assert (fast.findings, fast.accounting, fast.next_offset) == (
            found.findings,
            found.accounting,
            found.next_offset,
        )
        assert fast.counts == found.counts
    if data:
        assert_same_from_a_file(data, found, sealed=sealed, base_offset=base_offset, next_base=next_base)
    sums = found.accounting
    assert sums.valid + sums.quarantined + sums.tail + sums.padding == len(data)
    return found


def assert_same_from_a_file(
    data: bytes, expected: SegmentVerdict, *, sealed: bool, base_offset: int, next_base: int | None
) -> None:
    """Bytes that come into memory in pieces of 4 KiB and are searched 64 at a time give the same judgement."""
    with tempfile.NamedTemporaryFile() as file, pytest.MonkeyPatch.context() as patched:
        file.write(data)
        file.flush()
        patched.setattr(source_bytes, "PIECE", 4096)
        patched.setattr(sound_batches, "_SEARCHED", 64)
        patched.setattr(damaged_batch, "SUMMED_AT_ONCE", 64)
        source = SourceBytes(file.name, sealed=sealed)
        found = SegmentValidation(
            source.content,
            base_offset=base_offset,
            sealed=sealed,
            file="f",
            next_base_offset=next_base,
            fetched=source,
        )
        for _ in found:
            pass
    assert (found.findings, found.accounting, found.counts) == (expected.findings, expected.accounting, expected.counts)


def rules(judgement: SegmentVerdict) -> list[str]:
    return [finding.rule for finding in judgement.findings]


def good(data: bytes, *, sealed: bool = True) -> list[int]:
    walk = SegmentScan(data, base_offset=0, sealed=sealed)
    return [item.position for item in walk if isinstance(item, ScannedBatch)]


def stretches(data: bytes, *, sealed: bool = True) -> list[Stretch]:
    return [item for item in SegmentScan(data, base_offset=0, sealed=sealed) if isinstance(item, Stretch)]


def salvaged(files: dict[str, bytes]) -> tuple[RecoveryPlan, dict[str, bytes]]:
    held = {file: PartitionFile(file, content, 77) for file, content in files.items()}
    plan = plan_recovery(
        PartitionDirectory(TopicPartition("orders", 0), held), TopicConfig(), as_of_ms=5_000, salvage=True
    )
    made: dict[str, bytes] = {}
    for name, file in plan.files.items():
        match file:
            case Keep(source):
                made[name] = files[source]
            case Cut(source, size, _):
                made[name] = files[source][:size]
            case Write(content, _):
                made[name] = content
    return plan, made


# -- the whole file


def test_one_flipped_bit_in_a_length_field_costs_one_batch_and_is_an_error() -> None:
    batches = [batch(offset) for offset in range(0, 400, 2)]
    size = len(batches[0])
    found = verdict_of(flip(b"".join(batches), size + 9), sealed=False)
    assert exit_code(found.findings) == 2
    assert found.counts.batches == 199
    assert found.accounting.quarantined == size


@pytest.mark.parametrize("content", [bytes(range(1, 200)), b"2026-01-01 INFO started\n" * 40, b"\x91"])
@pytest.mark.parametrize("has_batches", [True, False])
def test_bytes_that_are_no_batch_are_an_error_at_the_end_of_an_active_segment(
    content: bytes, has_batches: bool
) -> None:
    found = verdict_of((batch(0) if has_batches else b"") + content, sealed=False)
    assert rules(found) == ["tail-hides-batches"]
    assert found.findings[0].severity is Severity.ERROR


@pytest.mark.parametrize("size", [9, 11, 12, 16, 17, 20, 60, 61, 70])
def test_a_file_of_one_partial_batch_is_not_clean(size: int) -> None:
    found = verdict_of(cut(batch(1 << 56), size), sealed=False, base_offset=1 << 56)
    assert rules(found) == ["torn-tail", "segment-without-batch"]
    assert exit_code(found.findings) == 1


@pytest.mark.parametrize("content", [b"", bytes(5000)])
def test_an_empty_file_and_zeros_alone_in_the_last_segment_are_clean(content: bytes) -> None:
    assert exit_code(verdict_of(content, sealed=False).findings) == 0


# -- tails


@pytest.mark.parametrize("size", list(range(8, len(batch(2)))))
def test_every_part_of_a_batch_is_an_ordinary_tail(size: int) -> None:
    assert rules(verdict_of(batch(0) + cut(batch(2), size), sealed=False)) == ["torn-tail"]


def test_a_write_under_way_of_a_value_that_is_a_batch_is_never_data() -> None:
    outer = batch(2, 2, value=batch(3))
    found = verdict_of(batch(0) + cut(outer, len(outer) - 2), sealed=False)
    assert rules(found) == ["tail-hides-batches"]
    assert found.counts.batches == 1
    foreign = batch(2, 2, value=batch(0))  # offsets that do not fit are a record's value for certain
    assert rules(verdict_of(batch(0, 2) + cut(foreign, len(foreign) - 2), sealed=False)) == ["torn-tail"]


@pytest.mark.parametrize("torn", [0, 1, 40, 70])
@pytest.mark.parametrize("byte", [0x00, 0x0D, 0xFF])
@pytest.mark.parametrize("at", range(61))
def test_a_byte_too_many_in_a_header_costs_one_batch_of_an_active_segment(at: int, byte: int, torn: int) -> None:
    """As a copy in text mode makes it. The shifted length field claims more than the file has. The last batch may be
    a write in progress.
    """
    before = b"".join(batch(2 * number) for number in range(5))
    after = b"".join(batch(12 + 2 * number) for number in range(12)) + batch(36)[:torn]
    injured = batch(10)[:at] + bytes([byte]) + batch(10)[at:]
    found = verdict_of(before + injured + after, sealed=False)
    assert found.counts.batches >= 5 + 12
    assert found.next_offset == 36
    assert rules(found)[:1] == ["corrupt-bytes"]


@pytest.mark.parametrize(("sequence", "epoch"), [(-1, 0), (0, 1), (5, 2), (300, 3)])
@pytest.mark.parametrize("count", [1, 12, 20, 64])
@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize("at", range(8, 12))
def test_what_the_shifted_fields_claim_hides_no_batch_after_them(
    at: int, codec: int, count: int, sequence: int, epoch: int
) -> None:
    records = b"".join(handmade.record(number, b"k", b"value") for number in range(count))
    body = compress(codec, records)
    fields = {"attributes": codec, "base_sequence": sequence, "producer_id": 7, "leader_epoch": epoch}
    whole = handmade.batch([], base_offset=2, count=count, last_offset_delta=count - 1, body=body, **fields)
    after = b"".join(batch(2 + count + 2 * number, leader_epoch=epoch) for number in range(10))
    found = verdict_of(batch(0) + whole[:at] + b"\x01" + whole[at:] + after[:-3], sealed=False)
    assert found.counts.batches == 1 + 9
    assert found.next_offset == 2 + count + 18


@pytest.mark.parametrize("offset", [0, 2, 3, 1000])
def test_a_write_in_progress_of_a_value_of_many_batches_is_never_data(offset: int) -> None:
    """Except a write that ends exactly between two of them, if their offsets fit."""
    inner = [batch(offset + 2 * number) for number in range(10)]
    outer = batch(2, 2, value=b"".join(inner))
    begins = outer.index(inner[0])
    ends = {begins + sum(map(len, inner[: number + 1])) for number in range(10)}
    for size in range(begins + 61, begins + len(b"".join(inner)) + 1):
        found = verdict_of(batch(0) + cut(outer, size), sealed=False)
        assert found.counts.batches == 1 or (size in ends and offset != 1000), size


def test_batches_of_too_low_offsets_in_a_tail_are_no_ordinary_tail() -> None:
    """After a page of another log: the last batch of the page is cut, and the batches of the log follow."""
    own = b"".join(batch(2 * number) for number in range(20))
    foreign = b"".join(batch(1000 + 2 * number) for number in range(2)) + cut(batch(1004), 70)
    found = verdict_of(own[: len(batch(0)) * 3] + foreign + own[len(batch(0)) * 5 :], sealed=False)
    assert rules(found)[-1] == "tail-hides-batches"


def test_a_length_field_of_the_last_batch_that_is_wrong_is_no_write_under_way() -> None:
    for bit in range(32):
        last = batch(2)
        injured = flip(last, 11 - bit // 8, bit % 8)
        found = verdict_of(batch(0) + injured, sealed=False)
        assert rules(found) == ["corrupt-bytes"], bit


# -- inside and outside of a batch


@pytest.mark.parametrize("sealed", [True, False])
def test_a_value_that_is_a_batch_is_not_read_where_its_batch_fails_its_checksum(sealed: bool) -> None:
    inner = batch(3)
    outer = flip(batch(2, 2, value=inner), 62)
    data = batch(0) + outer + batch(4)
    assert good(data, sealed=sealed) == [0, len(batch(0) + outer)]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("inner_offset", [2, 3, 5, 1000])
@pytest.mark.parametrize("copies", [1, 2])
def test_damage_in_a_length_field_before_a_value_that_is_a_batch(sealed: bool, inner_offset: int, copies: int) -> None:
    inner = b"".join(batch(inner_offset + 2 * copy) for copy in range(copies))
    outer = batch(2, 2, value=inner)
    for bit in range(32):
        data = batch(0) + flip(outer, 11 - bit // 8, bit % 8) + batch(4) + batch(6)
        assert good(data, sealed=sealed) == [0, len(batch(0) + outer), len(batch(0) + outer + batch(4))], bit
        assert [(item.size, item.is_repaired) for item in stretches(data, sealed=sealed)] == [(len(outer), True)]


def test_a_batch_inside_an_extent_that_cannot_be_counts() -> None:
    damaged = length(flip(batch(2, 3), 65), 120)
    data = batch(0) + damaged + batch(5) + batch(7) + batch(9)
    assert good(data) == [0, len(batch(0) + damaged), len(batch(0) + damaged + batch(5)), len(data) - len(batch(9))]


def test_a_batch_that_is_not_below_the_next_good_one_does_not_count() -> None:
    strange = batch(1000) + b"no batch at all follows here"
    data = batch(0) + bytes(40) + strange + batch(4) + batch(6)
    assert good(data) == [0, len(data) - 2 * len(batch(4)), len(data) - len(batch(6))]


def test_a_batch_of_a_later_epoch_than_the_next_good_one_does_not_count() -> None:
    strange = batch(2, leader_epoch=9) + b"no batch at all follows here"
    data = batch(0, leader_epoch=3) + bytes(40) + strange + batch(4, leader_epoch=3) + batch(6, leader_epoch=4)
    assert good(data) == [0, len(data) - 2 * len(batch(4)), len(data) - len(batch(6))]


def test_too_much_that_looks_like_a_batch_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_batches, "_SUMMED", 10 * len(batch(2)))
    liars = b"".join(flip(batch(2), 70) for _ in range(30))
    assert good(batch(0) + bytes(40) + liars + batch(4)) == [0]


@pytest.mark.parametrize("is_torn", [True, False])
def test_the_work_for_batches_of_too_low_offsets_grows_with_the_file(
    is_torn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sound_batches, "_REMEMBERED", 100)
    checked: list[int] = []
    matches = sound_batches.crc_matches

    def counted(buf: Buffer, position: int, header: BatchHeader) -> bool:
        checked.append(position)
        return matches(buf, position, header)

    monkeypatch.setattr(sound_batches, "crc_matches", counted)
    lower = b"".join(batch(2 * number) for number in range(1000))
    outer = batch(5000, 1, value=lower)
    data = batch(4990, 10) + cut(outer, len(outer) - 10 if is_torn else outer.index(lower) + len(lower))
    good(data, sealed=False)
    assert len(checked) < 5 * 1000


# -- every flip of a header


SIZES = [1, 2, 1, 3, 1, 1, 2, 5, 1, 1, 4, 1]


def sealed_and_active() -> Iterator[tuple[list[bytes], bool]]:
    """Batches with and without transactions, batches as values and leader epochs."""
    for sealed in (True, False):
        parts, offset, sequence = [], 0, 0
        for number, count in enumerate(SIZES):
            codec_bits = 0x10 if number % 3 == 0 else 0
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if codec_bits else {}
            value = batch(offset, 1) if number % 4 == 1 else b"x" * (number * 13 % 90)
            parts.append(batch(offset, count, value, leader_epoch=number // 4, attributes=codec_bits, **producer))
            offset += count
            sequence += count if codec_bits else 0
        yield parts, sealed


@pytest.mark.long
@pytest.mark.parametrize(("parts", "sealed"), list(sealed_and_active()))
def test_every_flipped_bit_of_a_header_is_reported_and_costs_one_batch_at_most(
    parts: list[bytes], sealed: bool
) -> None:
    end = sum(SIZES)
    for number in range(len(parts)):
        start = sum(map(len, parts[:number]))
        is_last = number == len(parts) - 1
        for at in HEADER:
            # Every bit of a length field; of the others, in turn, each bit of a byte in one batch or another.
            for bit in range(8) if at in LENGTH else {(at + number) % 8, (at + number * 3 + 4) % 8}:
                data = flip(b"".join(parts), start + at, bit)
                found = verdict_of(data, sealed=sealed, next_base=end if sealed else None)
                place = (number, at, bit)
                if at in EPOCH:
                    assert found.counts.batches == len(parts), place
                    continue
                if is_last and not sealed and at in BASE_OFFSET:
                    continue  # the segment does not show where its last batch begins; see the high watermark
                assert found.counts.batches == len(parts) - 1, place
                is_unwritten = is_last and not sealed and at not in LENGTH
                assert exit_code(found.findings) == 2 or (is_unwritten and rules(found) == ["torn-tail"]), place


@pytest.mark.parametrize("has_later_segment", [True, False])
def test_salvage_keeps_every_other_batch_and_that_of_a_wrong_length(has_later_segment: bool) -> None:
    parts, _ = next(sealed_and_active())
    later = {f"{sum(SIZES):020d}.log": batch(sum(SIZES))} if has_later_segment else {}
    for number in range(len(parts)):
        start = sum(map(len, parts[:number]))
        others = b"".join(parts[:number] + parts[number + 1 :])
        for at in [*range(0, 8, 3), *LENGTH, 16, 17, 21, 23, 26, 57, 60]:
            for bit in (0, 5, 7):
                if at in BASE_OFFSET and number == len(parts) - 1 and not has_later_segment:
                    continue
                plan, made = salvaged({LOG: flip(b"".join(parts), start + at, bit), **later})
                wanted = b"".join(parts) if at in LENGTH else others
                assert made[LOG] == wanted, (number, at, bit)
                kinds = [loss.kind for loss in plan.losses]
                assert ("length-repaired" in kinds) == (at in LENGTH)
                assert plan.exit_code == (2 if at not in LENGTH and "cut" in kinds else 1)


def test_damage_is_reported_with_its_reason() -> None:
    data = batch(0) + flip(batch(2), 9) + batch(4)
    (stretch,) = stretches(data)
    assert (stretch.reason, stretch.offset) == (CorruptionReason.TRUNCATED, 2)
    assert f"its crc matches the {len(batch(2))} bytes" in stretch.message


def test_a_batch_after_zeros_is_found_at_any_boundary_of_the_search() -> None:
    """The first bytes of a batch are zeros too. Only its length shows where it begins."""
    damaged = length(batch(0), 1 << 30)
    for zeros in range(0, 150, 3):
        found = verdict_of(damaged + bytes(zeros) + batch(7) + batch(9), sealed=True)
        assert (found.counts.batches, found.next_offset) == (2, 11), zeros
