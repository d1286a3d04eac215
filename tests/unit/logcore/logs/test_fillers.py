"""Which batches of a copy fill a hole in a log. A copy here is a list of headers by segment."""

from dataclasses import dataclass

import pytest

from logcore.logs.growth.fillers import Filler, Hole, find_fillers
from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import BatchHeader
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests.unit.logcore.logs.described_source import DAMAGE, SIZE, Source, batch

Headers = list[BatchHeader | None]


@dataclass
class Copy(Source):
    """A copy of the log; `broken`: base offsets of batches that fail their checksum."""

    broken: tuple[int, ...] = ()

    def is_good(self, segment: SegmentFile, position: int, header: BatchHeader) -> bool:
        return header.base_offset not in self.broken


def identity(header: BatchHeader) -> tuple[int, int, int]:
    return header.base_offset, header.partition_leader_epoch, header.crc


HOLE = Hole(10, 30, identity(batch(0)), identity(batch(30)))


def whole() -> dict[int, Headers]:
    return {0: [batch(0), batch(10)], 20: [batch(20), batch(30)]}


def offsets(copy: Copy, hole: Hole = HOLE, *, is_own: bool = False, **more: object) -> list[tuple[int, int]]:
    found = find_fillers(hole, copy.log(), copy, is_own=is_own, **more)  # type: ignore[arg-type]
    return [(filler.base_offset, filler.next_offset) for filler in found]


def test_batches_back_to_back_are_one_filler_in_each_segment():
    copy = Copy(whole())
    first, second = copy.log().segments
    assert find_fillers(HOLE, copy.log(), copy, is_own=False) == (
        Filler(first, SIZE, 2 * SIZE, 10, 20),
        Filler(second, 0, SIZE, 20, 30),
    )
    merged = Copy({0: [batch(0), batch(10), batch(20), batch(30)]})
    assert find_fillers(HOLE, merged.log(), merged, is_own=False) == (
        Filler(merged.log().segments[0], SIZE, 3 * SIZE, 10, 30),
    )


def test_a_batch_that_fails_its_checksum_and_damage_fill_nothing():
    assert offsets(Copy(whole(), broken=(10,))) == [(20, 30)]
    assert offsets(Copy({0: [batch(0), DAMAGE, batch(10)], 20: [batch(20), batch(30)]})) == [(20, 30)]


@pytest.mark.parametrize("wide", [[batch(5, 10), batch(15, 5)], [batch(10), batch(20, 11)]])
def test_a_batch_over_an_edge_of_the_hole_is_refused(wide: Headers):
    kept = [(h.base_offset, h.next_offset) for h in wide if h and h.base_offset >= 10 and h.next_offset <= 30]
    assert offsets(Copy({0: [batch(0), *wide], 40: [batch(40)]})) == kept


def test_a_copy_that_differs_beside_the_hole_is_another_log():
    for at in (0, 3):
        parts: Headers = [batch(0), batch(10), batch(20), batch(30)]
        parts[at] = batch(at * 10, crc=5)
        assert offsets(Copy({0: parts})) == []
        assert offsets(Copy({0: parts}), is_own=True) == []


def test_a_copy_that_holds_nothing_of_what_lies_beside_the_hole_proves_nothing():
    lone = Copy({10: [batch(10), batch(20)]})
    assert offsets(lone) == []
    assert offsets(lone, is_own=True) == [(10, 30)]


def test_leader_epochs_lie_between_the_neighbours_and_are_those_of_the_copys_history():
    hole = Hole(10, 30, identity(batch(0, epoch=2)), identity(batch(30, epoch=3)))

    def of(first: int, second: int) -> list[tuple[int, int]]:
        parts: Headers = [batch(0, epoch=2), batch(10, epoch=first), batch(20, epoch=second), batch(30, epoch=3)]
        return offsets(Copy({0: parts}, epochs=()), hole)

    assert of(2, 2) == of(2, 3) == of(3, 3) == [(10, 30)]
    assert of(1, 2) == [(20, 30)]
    assert of(3, 2) == [(10, 20)]
    assert of(2, 4) == [(10, 20)]
    known = Copy({0: [batch(0, epoch=2), batch(10, epoch=3), batch(20, epoch=3), batch(30, epoch=3)]})
    known.epochs = ((2, 0), (3, 20))
    assert offsets(known, hole) == [(20, 30)]


def test_files_that_were_taken_as_they_are_are_not_read_again():
    copy = Copy(whole())
    seen = {file.path for file in copy.log().segments}
    assert offsets(copy, is_own=True, seen=seen) == []
    assert copy.asked == []


def test_bytes_before_the_hole_are_not_read_where_its_position_is_known():
    copy = Copy({0: [batch(0), batch(10), batch(20), batch(30), batch(40)]})
    path = copy.log().segments[0].path
    assert offsets(copy, is_own=True, begin_at={path: SIZE}) == [(10, 30)]
    assert (0, 0) not in copy.asked
    assert offsets(copy, is_own=True, begin_at={path: SIZE + 1}) == [(10, 30)], "it was rewritten: from its start"


def test_a_copy_that_cannot_be_read_fills_nothing():
    assert offsets(Copy(whole(), refuses=True), is_own=True, begin_at={f"{0:020d}.log": SIZE}) == []


def test_batches_of_an_earlier_leader_than_the_log_had_there_fill_nothing():
    hole = Hole(10, 30, identity(batch(0, epoch=4)), epochs=(EpochEntry(4, 0), EpochEntry(5, 20)))
    zombie = Copy({0: [batch(at, epoch=4) for at in (0, 10, 20)]}, epochs=((4, 0),))
    assert offsets(zombie, hole) == [(10, 20)]
    leader = Copy({0: [batch(0, epoch=4), batch(10, epoch=4), batch(20, epoch=6)]}, epochs=((4, 0), (6, 20)))
    assert offsets(leader, hole) == [(10, 30)]
