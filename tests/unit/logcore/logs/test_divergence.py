"""Where a source and the archive part. Both sides are lists of headers by segment."""

from dataclasses import dataclass, field

import pytest

from logcore.logs.growth.divergence import Fork, HeldSegment, epochs_part_at, find_fork, only_ends_earlier
from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import BatchHeader
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests.unit.logcore.logs.described_source import DAMAGE, SIZE, Source, batch

Headers = list[BatchHeader | None]
ARCHIVED = 1_000_000
"""Base offsets of our files are told from the source's by this much."""


@dataclass
class Sides(Source):
    """A source, and what we hold by segment: of each a name of its own for the reader."""

    ours: dict[int, Headers] = field(default_factory=dict)
    broken: tuple[int, ...] = ()
    """Base offsets of the source's batches that fail their checksum."""

    def is_good(self, segment: SegmentFile, position: int, header: BatchHeader) -> bool:
        return header.base_offset not in self.broken

    def headers(self, segment: SegmentFile, position: int = 0):  # type: ignore[no-untyped-def]
        if segment.base_offset < ARCHIVED:
            yield from super().headers(segment, position)
            return
        for at, header in enumerate(self.ours[segment.base_offset - ARCHIVED]):
            yield at * SIZE, header
            if header is DAMAGE:
                return

    def fork(
        self, not_below: int | None = 0, known: tuple[tuple[int, int], ...] = ((0, 0),), is_whole: bool = False
    ) -> Fork | None:
        held = []
        for base, headers in sorted(self.ours.items()):
            last = headers[-1]
            end = base if last is None else last.next_offset
            file = SegmentFile(base + ARCHIVED, f"archived-{base}", SIZE * len(headers), 0, 0)
            held.append(HeldSegment(base, end, file, 0, SIZE * len(headers)))
        return find_fork(held, self.log(), self, self, known_epochs=known, not_below=not_below, is_whole=is_whole)


def sides(theirs: dict[int, Headers], **fields: object) -> Sides:
    ours: dict[int, Headers] = {0: [batch(0), batch(10)], 20: [batch(20), batch(30)]}
    defaults: dict[str, object] = {"ours": ours, "epochs": ((0, 0), (1, 30))}
    return Sides(theirs, **defaults | fields)  # type: ignore[arg-type]


def test_the_fork_follows_the_last_common_batch_and_has_its_position_in_both_logs():
    found = sides({0: [batch(0), batch(10)], 20: [batch(20), batch(30, epoch=1, crc=7)]}).fork()
    assert found is not None
    assert (found.offset, found.held, found.position) == (30, 1, SIZE)
    tail = found.tail
    assert tail is not None
    assert (tail.next_offset, tail.last_batch_base_offset, tail.last_batch_epoch) == (30, 20, 0)
    assert (tail.source_segment, tail.source_position, tail.last_batch_end) == (20, SIZE, SIZE)


def test_between_two_segments_of_ours_the_earlier_one_agrees_whole():
    found = sides({0: [batch(0), batch(10)], 20: [batch(20, epoch=1, crc=7)]}, epochs=((0, 0), (1, 20))).fork()
    assert found is not None
    assert (found.offset, found.held, found.position) == (20, 0, 2 * SIZE)


def test_segments_need_not_be_rolled_where_ours_were():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10), batch(20), batch(30, epoch=1, crc=7)]}
    found = sides(theirs).fork()
    assert found is not None
    assert (found.offset, found.held, found.position) == (30, 1, SIZE)
    assert found.tail is not None
    assert (found.tail.source_segment, found.tail.source_position) == (0, 3 * SIZE)


def test_a_fork_below_what_may_be_given_up_is_none():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10, epoch=1, crc=7)]}
    parted = sides(theirs, epochs=((0, 0), (1, 10)))
    assert parted.fork(not_below=11) is None
    found = parted.fork(not_below=10)
    assert found is not None
    assert found.offset == 10


def test_a_source_that_only_ends_earlier_has_no_fork():
    for theirs in ({0: [batch(0), batch(10)]}, {0: [batch(0), batch(10)], 20: [batch(20)]}):
        assert sides(dict(theirs), epochs=((0, 0),)).fork() is None
        assert sides(dict(theirs), epochs=((0, 0),)).fork(None) is None


def test_where_nothing_agrees_there_is_a_fork_only_if_everything_may_be_given_up():
    theirs: dict[int, Headers] = {0: [batch(0, epoch=2, crc=7), batch(10, epoch=2, crc=8)]}
    parted = sides(theirs, epochs=((2, 0),))
    assert parted.fork(0) is None
    assert parted.fork(None) == Fork(0)


def test_a_newer_leaders_log_that_begins_where_ours_does_and_never_had_any_of_it_parts_at_the_beginning():
    theirs: dict[int, Headers] = {0: [batch(0, epoch=2, crc=7), batch(10, epoch=2, crc=8)]}
    assert sides(dict(theirs), epochs=((2, 0),)).fork(0, is_whole=True) == Fork(0)
    for why_not in (
        sides(dict(theirs), epochs=((2, 0),)).fork(1, is_whole=True),  # something is published
        sides(dict(theirs), epochs=()).fork(0, is_whole=True),
        sides(dict(theirs), epochs=((2, 0),)).fork(0, known=(), is_whole=True),
        sides(dict(theirs), epochs=((0, 0), (2, 10))).fork(0, is_whole=True),  # the history is ours up to 10
        sides(dict(theirs), epochs=((2, 0),), cleaned=10).fork(0, is_whole=True),
        sides(dict(theirs), epochs=((2, 0),), broken=(0,)).fork(0, is_whole=True),
        sides({0: [batch(0, crc=7)]}).fork(0, is_whole=True),  # the same leader wrote both
        sides({10: [batch(10, epoch=2, crc=7)]}, epochs=((2, 10),)).fork(0, is_whole=True),
        sides({0: [DAMAGE]}, epochs=((2, 0),)).fork(0, is_whole=True),
    ):
        assert why_not is None


@pytest.mark.parametrize(
    "theirs",
    [
        batch(30, epoch=0, crc=99),  # the history says that epoch 1 wrote there
        batch(30, epoch=3, crc=99),
        batch(30, epoch=0),  # ours itself, but for what lies outside of its crc
        batch(31, epoch=1, crc=(30 * 31 + 10) % 2**32),
        batch(25, epoch=1, crc=7),  # over the batch before
        DAMAGE,
    ],
)
def test_what_may_be_damage_of_one_of_our_batches_is_no_fork(theirs: BatchHeader | None):
    assert sides({0: [batch(0), batch(10)], 20: [batch(20), theirs]}).fork() is None


def test_a_batch_that_fails_its_checksum_is_no_fork():
    source = sides({0: [batch(0), batch(10)], 20: [batch(20), batch(30, epoch=1, crc=7)]}, broken=(30,))
    assert source.fork() is None


def test_the_same_content_sent_again_to_a_new_leader_is_another_batch_if_the_history_knows_its_epoch():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10)], 20: [batch(20), batch(30, epoch=1)]}
    assert sides(dict(theirs)).fork() is not None
    assert sides(dict(theirs), epochs=()).fork() is None


def test_without_a_history_of_epochs_other_content_is_enough():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10)], 20: [batch(20), batch(30, epoch=1, crc=7)]}
    found = sides(theirs, epochs=()).fork()
    assert found is not None
    assert found.offset == 30


def test_a_batch_that_the_cleaner_may_have_changed_is_no_reason_to_give_up_ours():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10)], 20: [batch(20), batch(30, epoch=1, crc=7)]}
    assert sides(dict(theirs), cleaned=40).fork() is None
    assert sides(dict(theirs), cleaned=40).fork(None) is not None
    assert sides(dict(theirs), cleaned=30).fork() is not None


def test_leader_epochs_that_part_below_contradict_the_batches():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10)], 20: [batch(20), batch(30, epoch=2, crc=7)]}
    parted = sides(theirs, epochs=((0, 0), (2, 30)))
    assert parted.fork() is not None
    assert parted.fork(known=((0, 0), (1, 5))) is None


def test_an_unreadable_segment_hides_the_fork():
    theirs: dict[int, Headers] = {0: [batch(0), batch(10)], 30: [batch(30, epoch=1, crc=7)]}
    assert sides(theirs, unreadable=(20,)).fork() is None


def test_our_damage_at_the_end_gives_way_to_what_the_source_wrote_instead():
    ours: dict[int, Headers] = {0: [batch(0), batch(10), DAMAGE]}
    theirs: dict[int, Headers] = {0: [batch(0), batch(10), batch(20, epoch=1, crc=7)]}
    found = Sides(theirs, ours=ours, epochs=((0, 0), (1, 20))).fork()
    assert found is not None
    assert (found.offset, found.position) == (20, 2 * SIZE)


def entries(*pairs: tuple[int, int]) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("ours", "theirs", "our_end", "parts_at"),
    [
        (((0, 0),), ((0, 0), (1, 15)), 30, 15),  # the leader of epoch 1 began below our end
        (((0, 0),), ((0, 0), (1, 40)), 30, 30),
        (((0, 0), (1, 20)), ((0, 0), (2, 25)), 30, 20),  # KIP-101: we saw an epoch that the leader never did
        (((0, 0), (1, 20), (3, 28)), ((0, 0), (1, 20), (2, 24)), 30, None),
        (((0, 0), (2, 20), (4, 30)), ((0, 0), (1, 10), (3, 25), (5, 40)), 45, 10),  # KIP-279: down two epochs
        (((5, 10),), ((7, 10),), 30, 10),
        ((), ((0, 0),), 30, None),
        (((0, 0),), (), 30, None),
    ],
)
def test_histories_of_epochs_part_where_a_follower_would_cut(
    ours: tuple[tuple[int, int], ...], theirs: tuple[tuple[int, int], ...], our_end: int, parts_at: int | None
):
    assert epochs_part_at(entries(*ours), entries(*theirs), our_end) == parts_at


def test_an_old_copy_only_ends_earlier_and_a_parted_one_does_not():
    assert only_ends_earlier(((0, 0), (1, 20)), Source({}, epochs=((0, 0),)).log(), 30)
    assert only_ends_earlier(((0, 0),), Source({}, epochs=((0, 0),)).log(), 30)
    assert not only_ends_earlier(((0, 0),), Source({}, epochs=((0, 0), (1, 15))).log(), 30)
    assert not only_ends_earlier(((0, 0),), Source({}, epochs=()).log(), 30)
