"""What each remote segment is to its log, from metadata, objects and leader epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logcore.remote.chunked.segment_manifest import DescribedOffsets
from logcore.remote.inventory import FoundSegment, LogLineage, RemoteStatus, StoredObjects, grouped, inventory
from logcore.remote.lineage import JoinedSegment
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.remote.segment_states import SegmentStates
from logcore.remote.stored_names import part_of
from logcore.remote.stored_part import RemoteObject
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry

TOPIC = "GW-1GPphSsCFtpdS005Bug"
IDS = ["Zs2vpUXwT1WTbYAIMD4Ahg", "Sk-fUSfDRQanaMIGL3bWYQ", "_0mlUw1wQCqLKB9Qybceig"]
NAME = TopicPartition("orders", 0)
PLACE = TopicIdPartition(TOPIC, 0)
LOG = LogLineage(NAME, 0, 100, (EpochEntry(0, 0),))
S = RemoteSegmentState


def described(number: int, start: int, end: int, state: S = S.COPY_FINISHED, epoch: int = 0) -> RemoteSegment:
    return RemoteSegment(NAME, TOPIC, IDS[number], start, end, (EpochEntry(epoch, start),), 1000, state)


def stored(number: int, start: int, parts: str = "log indexes rsm-manifest", root: str = "/r") -> list[RemoteObject]:
    found = []
    for suffix in parts.split():
        path = f"{root}/orders-{TOPIC}/0/{start:020d}-{IDS[number]}.{suffix}"
        part = part_of(path)
        assert part is not None
        found.append(RemoteObject(path, part, 10, 1))
    return found


def never(_: StoredObjects) -> DescribedOffsets | None:
    raise AssertionError("objects are not read where there is metadata")


def decided(
    segments: list[RemoteSegment] | None,
    objects: list[RemoteObject],
    log: LogLineage | None = LOG,
    says: DescribedOffsets | None = None,
) -> list[FoundSegment]:
    states = None if segments is None else SegmentStates({each.segment_id: each for each in segments})
    logs = {} if log is None else {PLACE: log}
    return list(inventory(states, grouped(objects), logs, never if segments is not None else lambda _: says))


@pytest.mark.parametrize(
    ("segment", "objects", "log", "status", "orphaned"),
    [
        (described(0, 0, 9), stored(0, 0), LOG, "counts", False),
        (described(0, 0, 9), stored(0, 0), None, "counts", False),
        (described(0, 0, 9), [], LOG, "objects-missing", True),
        (described(0, 0, 9), stored(0, 0, "log indexes"), LOG, "objects-missing", True),
        (described(0, 0, 9), stored(0, 0) + stored(0, 0, root="/r/again"), LOG, "ambiguous", False),
        (described(0, 0, 9), stored(0, 0), replace(LOG, log_start_offset=10), "below-log-start", False),
        (described(0, 0, 9), [], replace(LOG, log_start_offset=10), "below-log-start", False),
        (described(0, 0, 9), stored(0, 0), replace(LOG, log_start_offset=9), "counts", False),
        (described(0, 0, 9, epoch=1), stored(0, 0), LOG, "not-in-lineage", False),
        (described(0, 0, 9, S.COPY_STARTED), stored(0, 0, "log"), LOG, "copying", True),
        (described(0, 0, 9, S.COPY_STARTED), [], LOG, "copying", True),
        (described(0, 0, 9, S.DELETE_STARTED), stored(0, 0), LOG, "deleting", False),
        (described(0, 0, 9, S.DELETE_FINISHED), stored(0, 0, "log"), LOG, "deleted", True),
    ],
)
def test_metadata_decides_what_a_segment_is(
    segment: RemoteSegment, objects: list[RemoteObject], log: LogLineage | None, status: str, orphaned: bool
) -> None:
    (found,) = decided([segment], objects, log)
    assert (str(found.status), found.is_orphaned) == (status, orphaned)
    assert found.nbytes == sum(each.size for each in objects if "/again/" not in each.path)
    assert found.is_lineage_known is (log is not None)
    whole = JoinedSegment(segment, segment.start_offset, segment.end_offset + 1)
    assert found.part == (whole if status == "counts" else None)


def test_a_segment_counts_with_the_offsets_that_are_in_its_log() -> None:
    epochs = (EpochEntry(0, 0), EpochEntry(1, 5))
    for end, log in ((5, replace(LOG, leader_epochs=epochs)), (8, replace(LOG, log_end_offset=8))):
        (found,) = decided([described(0, 0, 9)], stored(0, 0), log)
        assert (found.status, found.part) == (RemoteStatus.COUNTS, JoinedSegment(described(0, 0, 9), 0, end))
    below = replace(LOG, leader_epochs=epochs, log_start_offset=5)
    (found,) = decided([described(0, 0, 9)], stored(0, 0), below)
    assert (found.status, found.part) == (RemoteStatus.NOT_IN_LINEAGE, None)


def test_without_leader_epochs_of_the_log_the_lineage_is_not_known() -> None:
    (found,) = decided([described(0, 0, 9)], stored(0, 0), replace(LOG, leader_epochs=()))
    assert (found.status, found.is_lineage_known) == (RemoteStatus.COUNTS, False)


@pytest.mark.parametrize(("noted", "status"), [(None, "counts"), (30, "counts"), (29, "counts"), (31, "other-size")])
def test_objects_with_fewer_bytes_than_the_plugin_noted_do_not_count(noted: int | None, status: str) -> None:
    # One field: tag 0, one byte, a zigzag varlong.
    custom = None if noted is None else bytes([1, 0, 1, 2 * noted])
    (found,) = decided([replace(described(0, 0, 9), custom_metadata=custom)], stored(0, 0))
    assert str(found.status) == status
    assert found.other_size == ((30, 31) if noted == 31 else None)


@pytest.mark.parametrize(("size", "status"), [(1000, "counts"), (999, "other-size"), (1001, "other-size")])
def test_a_plain_copy_must_have_the_size_that_the_metadata_says(size: int, status: str) -> None:
    found = []
    for suffix in ("log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot"):
        path = f"/r/orders-0-{TOPIC}/{0:020d}-{IDS[0]}.{suffix}"
        part = part_of(path)
        assert part is not None
        found.append(RemoteObject(path, part, size, 1))
    (segment,) = decided([described(0, 0, 9)], found)
    assert str(segment.status) == status


def test_a_segment_that_was_deleted_with_all_objects_is_left_out() -> None:
    assert decided([described(0, 0, 9, S.DELETE_FINISHED)], []) == []


def test_objects_are_orphans_only_where_the_metadata_names_their_partition() -> None:
    named, orphan = decided([described(0, 0, 9)], stored(0, 0) + stored(1, 10))
    assert (named.status, orphan.status) == (RemoteStatus.COUNTS, RemoteStatus.UNNAMED)
    assert (orphan.is_orphaned, orphan.nbytes, orphan.end_offset) == (True, 30, None)
    (elsewhere,) = decided([], stored(1, 10))
    assert (elsewhere.status, elsewhere.is_orphaned) == (RemoteStatus.NOT_COVERED, False)


@pytest.mark.parametrize(
    ("objects", "says", "status"),
    [
        (stored(0, 0), DescribedOffsets(0, 9, (EpochEntry(0, 0),)), "counts"),
        (stored(0, 0), DescribedOffsets(0, 9, (EpochEntry(3, 0),)), "not-in-lineage"),
        (stored(0, 0), DescribedOffsets(5, 9, (EpochEntry(0, 5),)), "not-covered"),
        (stored(0, 0), None, "not-covered"),
        (stored(0, 0, "log"), DescribedOffsets(0, 9, (EpochEntry(0, 0),)), "not-covered"),
        (stored(0, 0) + stored(0, 0, root="/r/2"), DescribedOffsets(0, 9, (EpochEntry(0, 0),)), "ambiguous"),
    ],
)
def test_without_metadata_the_objects_are_asked_and_nothing_is_an_orphan(
    objects: list[RemoteObject], says: DescribedOffsets | None, status: str
) -> None:
    (found,) = decided(None, objects, says=says)
    assert (str(found.status), found.is_orphaned, found.state) == (status, False, None)


def test_two_topics_of_one_name_are_two_partitions() -> None:
    other = replace(described(1, 0, 9), topic_id=IDS[2])
    first, second = sorted(decided([described(0, 0, 9), other], stored(0, 0)), key=lambda each: each.status)
    assert (first.status, second.status) == (RemoteStatus.COUNTS, RemoteStatus.OBJECTS_MISSING)


def test_a_stray_object_with_the_id_of_a_segment_hides_nothing() -> None:
    for stray in (stored(0, 50, "log"), stored(0, 50)):
        for objects in (stored(0, 0) + stray, stray + stored(0, 0)):
            named, other = decided([described(0, 0, 9)], objects)
            assert (named.status, named.start_offset, named.nbytes) == (RemoteStatus.COUNTS, 0, 30)
            assert (other.status, other.start_offset, other.nbytes) == (RemoteStatus.UNNAMED, 50, 10 * len(stray))
        missing, other = decided([described(0, 0, 9)], stray)
        assert (missing.status, missing.objects) == (RemoteStatus.OBJECTS_MISSING, None)
        assert (other.status, other.nbytes) == (RemoteStatus.UNNAMED, 10 * len(stray))


def test_a_segment_in_both_layouts_is_ambiguous() -> None:
    path = f"/r/orders-0-{TOPIC}/{0:020d}-{IDS[0]}.log"
    part = part_of(path)
    assert part is not None
    (found,) = decided([described(0, 0, 9)], [*stored(0, 0), RemoteObject(path, part, 7, 1)])
    assert (found.status, found.nbytes) == (RemoteStatus.AMBIGUOUS, 30)


def test_a_record_that_is_read_again_after_an_update_is_no_contradiction() -> None:
    first = replace(described(0, 0, 9, S.COPY_STARTED), event_timestamp_ms=1, broker_id=1)
    states = SegmentStates()
    assert states.add(first) is None
    states.segments[IDS[0]] = replace(
        first, state=S.COPY_FINISHED, event_timestamp_ms=2, broker_id=2, custom_metadata=b"x"
    )
    assert states.add(first) is None
    assert states.segments[IDS[0]].state is S.COPY_FINISHED
    assert "differently" in str(states.add(replace(first, end_offset=10)))
