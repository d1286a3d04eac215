"""Every injury of every canonical batch is refused, or changes nothing, or is listed as not provable."""

import os

import pytest

from tests import handmade
from tests.fuzz.canonical import CANONICAL, Canonical
from tests.fuzz.engines_compared import disagreeing
from tests.fuzz.injuries import LEADER_EPOCH_BITS, OFFSET_BITS, Scene, Seen, injuries, original, scene, see

STRIDE = 1 if os.environ.get("LOGLAKE_FUZZ") == "long" else 7
"""Of the injuries, every which one goes through the engines: `make test-long` sees all. No multiple of 8 or of 5, the
periods of the injuries, so that over the batches each bit of a byte and each kind is met."""
ROOM = 40
"""Free offsets on either side of the batch in the loose scene."""


def neighbours(where: Scene) -> tuple[list[Seen], list[Seen]]:
    """What is read from the batches before and after, each alone."""
    return see(where.before, where.base_offset)[0], see(where.after, where.successor)[0]


def carries_own_offsets(batch: Canonical) -> bool:
    """Whether its records' offsets are under the checksum, and so give away a wrong one in front: wrappers of v0."""
    return batch.magic == 0 and batch.codec != 0


def with_flipped_offset(batch: Canonical, bit: int) -> Seen:
    """What the batch claims after one bit of its first eight bytes was flipped."""
    flipped = int.from_bytes(handmade.flip(batch.data, bit // 8, 7 - bit % 8)[:8], "big", signed=True)
    whole = original(batch)
    # v2 states its first offset, a message its last one.
    return whole.moved(flipped - (batch.base_offset if batch.magic == 2 else batch.last_offset))


def unprovable(where: Scene) -> dict[tuple[str, int], list[Seen]]:
    """The injuries that leave a sound segment with another meaning, and what is then seen of the batch.

    These bits are under no checksum. A base offset that still lies between the neighbours' is a possible one; so is any
    leader epoch. A batch that is missing whole leaves a gap, as compaction does. Only a witness outside the segment
    (an index, a manifest, the sequence numbers of its producer, another replica) could show it.
    """
    batch, whole = where.batch, original(where.batch)
    lowest = where.base_offset + 1 if where.before else where.base_offset
    known: dict[tuple[str, int], list[Seen]] = {("cut", 0): []}
    for bit in () if carries_own_offsets(batch) else OFFSET_BITS:
        moved = with_flipped_offset(batch, bit)
        possible = lowest <= moved.base_offset <= moved.last_offset < where.successor
        if possible and moved != whole:
            known["flip", bit] = [moved]
    if batch.magic == 2:
        for bit in LEADER_EPOCH_BITS:
            stored = int.from_bytes(batch.data[12:16], "big") ^ 1 << 127 - bit
            known["flip", bit] = [whole._replace(leader_epoch=stored - ((stored >> 31) << 32))]
    return known


@pytest.mark.parametrize("batch", CANONICAL, ids=lambda batch: batch.name)
def test_an_uninjured_batch_is_seen_as_it_is_stated(batch: Canonical) -> None:
    for gap in (0, ROOM):
        where = scene(batch, gap)
        before, after = neighbours(where)
        seen, stretches, _ = see(where.segment(batch.data), where.base_offset)
        assert seen == [*before, original(batch), *after]
        assert stretches == []


@pytest.mark.long
@pytest.mark.parametrize("gap", [0, ROOM], ids=["tight", "loose"])
@pytest.mark.parametrize("batch", CANONICAL, ids=lambda batch: batch.name)
def test_no_injury_gives_another_record_but_for_the_bits_that_nothing_covers(batch: Canonical, gap: int) -> None:
    where = scene(batch, gap)
    before, after = neighbours(where)
    known = unprovable(where)
    sound = [*before, original(batch), *after]
    met: set[tuple[str, int]] = set()
    for injury in injuries(batch.data):
        data = where.segment(injury.data)
        seen, stretches, accounting = see(data, where.base_offset)
        total = accounting.valid + accounting.quarantined + accounting.tail + accounting.padding
        assert total == accounting.file_size == len(data)
        assert sum(stretch.size for stretch in stretches) == accounting.quarantined
        if not stretches and seen != sound:
            assert seen == [*before, *known[injury.kind, injury.at], *after], injury
            met.add((injury.kind, injury.at))
            continue
        left = iter(sound)
        assert all(item in left for item in seen), injury
    assert met == set(known)


@pytest.mark.parametrize("batch", CANONICAL, ids=lambda batch: batch.name)
def test_a_write_cut_short_anywhere_is_the_tail_of_an_open_segment_and_damage_in_a_sealed_one(batch: Canonical) -> None:
    where = scene(batch, 0)
    before, _ = neighbours(where)
    for length in range(1, len(batch.data)):
        data = where.before + batch.data[:length]
        padded = not any(batch.data[:length])
        for sealed in (False, True):
            seen, stretches, accounting = see(data, where.base_offset, sealed=sealed)
            assert seen == before
            assert (accounting.padding == length) == padded
            assert [(stretch.size, stretch.tail) for stretch in stretches] == ([] if padded else [(length, not sealed)])


@pytest.mark.long
@pytest.mark.parametrize("gap", [0, ROOM], ids=["tight", "loose"])
@pytest.mark.parametrize("batch", CANONICAL, ids=lambda batch: batch.name)
def test_every_engine_makes_of_an_injured_segment_what_the_reference_makes(batch: Canonical, gap: int) -> None:
    where = scene(batch, gap)
    assert disagreeing(where.segment(batch.data), where.base_offset) == []
    for number, injury in enumerate(injuries(batch.data)):
        if number % STRIDE == 0:
            assert disagreeing(where.segment(injury.data), where.base_offset) == [], injury
