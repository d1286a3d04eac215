"""For all bytes: a scan ends, every byte is accounted for once, and only batches with a right crc are good."""

from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.logs.checks.validation import SegmentValidation
from logcore.records.record import Limits
from logcore.segments.scanning.scan import End, ScannedBatch, SegmentScan, Stretch, last_good_end
from tests import handmade
from tests.sampling import examples

SMALL = Limits(decoded_batch_bytes=1 << 20, headers_per_record=100)


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, bytes, list[int]]:
    """A base offset, a sound segment with gaps between its batches, and the positions of those."""
    base_offset = offset = draw(st.integers(0, 1 << 40))
    data, starts = b"", []
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 7]))
        rows = draw(
            st.lists(st.tuples(st.none() | st.binary(max_size=6), st.none() | st.binary(max_size=6)), max_size=3)
        )
        starts.append(len(data))
        kind = draw(st.sampled_from(["v2", "v2", "v1", "v0", "v1 wrapper", "v0 wrapper"]))
        if kind == "v2":
            data += handmade.simple_batch(offset, rows)
            offset += max(len(rows), 1)
        elif kind in ("v0", "v1"):
            data += handmade.message(offset, *(rows[0] if rows else (None, None)), magic=int(kind[1]))
            offset += 1
        else:
            inside = [offset, *(offset + delta for delta in draw(st.sampled_from([(), (1,), (1, 2), (3, 9)])))]
            codec = draw(st.sampled_from([handmade.GZIP, handmade.SNAPPY, handmade.LZ4]))
            make = handmade.wrapper_v0 if kind == "v0 wrapper" else handmade.wrapper_v1
            data += make(inside, codec=codec)
            offset = inside[-1] + 1
    return base_offset, data, starts


@st.composite
def injured_segments(draw: st.DrawFn) -> tuple[int, bytes]:
    """A segment after a few injuries of those that disks and copies inflict."""
    base_offset, data, _ = draw(segments())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        piece = draw(st.binary(max_size=20) | st.integers(0, 60).map(bytes))
        match draw(st.sampled_from(["overwrite", "insert", "remove", "cut", "append", "double"])):
            case "overwrite":
                data = handmade.patch(data, at, piece)
            case "insert":
                data = data[:at] + piece + data[at:]
            case "remove":
                data = data[:at] + data[at + len(piece) :]
            case "cut":
                data = data[:at]
            case "append":
                data += piece
            case "double":
                data += data[at:]
    return base_offset, data


def check(base_offset: int, data: bytes, *, sealed: bool, decode: bool) -> SegmentScan:
    """Walk, and hold what must hold for any bytes."""
    walk = SegmentScan(data, base_offset=base_offset, sealed=sealed, decode=decode, limits=SMALL)
    position, expected = 0, base_offset
    sums = [0, 0, 0]
    for item in walk:
        assert item.position == position
        position += item.size
        assert walk.position == position
        if isinstance(item, ScannedBatch):
            sums[0] += item.size
            assert item.header.base_offset >= expected
            batch = data[item.position : item.end]
            assert len(batch) == item.header.size
            assert (handmade.fix_message_crc if item.header.magic < 2 else handmade.fix_crc)(batch) == batch
            expected = item.header.next_offset
        else:
            assert isinstance(item, Stretch)
            assert item.offset == expected
            assert item.size > 0
            sums[2 if item.tail else 1] += item.size
            assert not (item.tail and sealed)
    found = walk.accounting
    assert [found.valid, found.quarantined, found.tail] == sums
    assert found.valid + found.quarantined + found.tail + found.padding == len(data) == found.file_size
    assert not any(data[position:])
    assert walk.next_offset == expected
    assert (walk.end is End.CORRUPT) == (sums[1] > 0 or (sealed and found.padding > 0))
    return walk


@given(st.binary(max_size=400), st.integers(0, 2**63 - 1), st.booleans(), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=examples(200))
def test_arbitrary_bytes_are_accounted_for(data: bytes, base_offset: int, sealed: bool, decode: bool) -> None:
    check(base_offset, data, sealed=sealed, decode=decode)


@given(injured_segments(), st.booleans(), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=examples(150))
def test_an_injured_segment_is_accounted_for(segment: tuple[int, bytes], sealed: bool, decode: bool) -> None:
    check(*segment, sealed=sealed, decode=decode)


@given(segments(), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=examples(50))
def test_a_sound_segment_is_read_whole(segment: tuple[int, bytes, list[int]], sealed: bool) -> None:
    base_offset, data, starts = segment
    walk = SegmentScan(data, base_offset=base_offset, sealed=sealed)
    assert [item.position for item in walk if isinstance(item, ScannedBatch)] == starts
    assert walk.end is End.CLEAN


@given(injured_segments(), st.booleans(), st.data())
@settings(derandomize=True, deadline=None, max_examples=examples(150))
def test_a_walk_that_continues_where_another_stopped_finds_the_same(
    segment: tuple[int, bytes], sealed: bool, data: st.DataObject
) -> None:
    base_offset, content = segment
    walk = SegmentScan(content, base_offset=base_offset, sealed=sealed, limits=SMALL)
    steps = [(0, base_offset)]
    items = []
    for item in walk:
        items.append(item)
        steps.append((walk.position, walk.next_offset))
    done = data.draw(st.integers(0, len(items)))
    start, next_offset = steps[done]
    rest = SegmentScan(
        content, base_offset=base_offset, sealed=sealed, limits=SMALL, start=start, next_offset=next_offset
    )
    assert list(rest) == items[done:]
    assert (rest.position, rest.next_offset) == (walk.position, walk.next_offset)
    found = rest.accounting
    assert found.file_size == len(content) - start == found.valid + found.quarantined + found.tail + found.padding
    assert found.padding == walk.accounting.padding


@given(injured_segments())
@settings(derandomize=True, deadline=None, max_examples=examples(100))
def test_decoding_only_ever_refuses_more(segment: tuple[int, bytes]) -> None:
    decoded, headers_only = check(*segment, sealed=True, decode=True), check(*segment, sealed=True, decode=False)
    assert decoded.accounting.valid <= headers_only.accounting.valid


@given(injured_segments())
@settings(derandomize=True, deadline=None, max_examples=examples(100))
def test_what_may_be_taken_ends_with_a_good_batch_and_is_found_again(segment: tuple[int, bytes]) -> None:
    base_offset, data = segment
    end, next_offset, last = last_good_end(data, base_offset)
    assert 0 <= end <= len(data)
    assert (end == 0) == (last is None)
    assert last_good_end(data[:end], base_offset) == (end, next_offset, last)
    taken = check(base_offset, data[:end], sealed=False, decode=False)
    assert taken.accounting.tail == taken.accounting.padding == 0


@given(injured_segments(), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=examples(100))
def test_a_judgement_of_any_segment_ends_and_says_what_the_walk_says(segment: tuple[int, bytes], sealed: bool) -> None:
    base_offset, data = segment
    judged = SegmentValidation(data, base_offset=base_offset, sealed=sealed, file="0.log", limits=SMALL)
    rows = list(judged)
    walk = SegmentScan(data, base_offset=base_offset, sealed=sealed, limits=SMALL)
    assert [(row.position, row.size) for row in rows] == [(item.position, item.size) for item in walk]
    assert (judged.accounting, judged.end, judged.next_offset) == (walk.accounting, walk.end, walk.next_offset)
    said = ("corrupt-bytes", "tail-hides-batches")
    corrupt = [finding for finding in judged.findings if finding.rule in said]
    assert sum(finding.nbytes or 0 for finding in corrupt) == judged.accounting.quarantined
    assert all(0 <= (finding.position or 0) < len(data) for finding in judged.findings)
