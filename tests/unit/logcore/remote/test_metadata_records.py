"""Records of `__remote_log_metadata`, packed by hand, and the states that follow from them."""

from __future__ import annotations

import base64
import struct

import pytest

from logcore.errors import CorruptRecordError, UnsupportedFormatError
from logcore.remote.metadata_records import PartitionDelete, SegmentUpdate, metadata_event
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.remote.segment_states import SegmentStates
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry

TOPIC_ID, SEGMENT_ID = bytes(range(16)), bytes(range(100, 116))
TOPIC = base64.urlsafe_b64encode(TOPIC_ID).decode().rstrip("=")
SEGMENT = base64.urlsafe_b64encode(SEGMENT_ID).decode().rstrip("=")
PLACE = b"\x07orders" + TOPIC_ID + struct.pack(">i", 3) + b"\0"


def added(state: int = 0, custom: bytes | None = None, tags: bytes = b"\0") -> bytes:
    packed_custom = b"\0" if custom is None else bytes([len(custom) + 1]) + custom
    return (
        b"\x01\x00\x00" + PLACE + SEGMENT_ID + b"\0" + struct.pack(">qqiqq", 10, 29, 1, 1700, 1800)
        + b"\x03" + struct.pack(">iq", 4, 20) + b"\0" + struct.pack(">iq", 2, 5) + b"\0"
        + struct.pack(">i", 5000) + packed_custom + struct.pack(">b", state) + tags
    )  # fmt: skip


def updated(state: int, custom: bytes | None = None) -> bytes:
    packed_custom = b"\0" if custom is None else bytes([len(custom) + 1]) + custom
    fields = struct.pack(">iq", 2, 1900) + packed_custom + struct.pack(">b", state)
    return b"\x01\x01\x00" + PLACE + SEGMENT_ID + b"\0" + fields + b"\0"


def deleted(state: int) -> bytes:
    return b"\x01\x02\x00" + PLACE + struct.pack(">iqb", 2, 2000, state) + b"\0"


DESCRIBED = RemoteSegment(
    TopicPartition("orders", 3),
    TOPIC,
    SEGMENT,
    10,
    29,
    (EpochEntry(2, 5), EpochEntry(4, 20)),
    5000,
    RemoteSegmentState.COPY_STARTED,
    None,
    1700,
    1800,
    1,
)


def test_the_three_kinds_of_records_are_read() -> None:
    assert metadata_event(added()) == DESCRIBED
    assert metadata_event(updated(1, b"xy")) == SegmentUpdate(
        TopicPartition("orders", 3), TOPIC, SEGMENT, 2, 1900, b"xy", RemoteSegmentState.COPY_FINISHED
    )
    assert metadata_event(deleted(2)) == PartitionDelete(TopicPartition("orders", 3), TOPIC, 2, 2000, 2)


def test_tagged_fields_are_skipped() -> None:
    assert metadata_event(added(tags=b"\x01\x00\x01\x01")) == DESCRIBED


def test_every_cut_of_a_record_is_an_error_of_our_family() -> None:
    for whole in (added(custom=b"xyz"), updated(1), deleted(0)):
        for end in range(len(whole)):
            with pytest.raises((CorruptRecordError, UnsupportedFormatError)):
                metadata_event(whole[:end])
        with pytest.raises(CorruptRecordError, match="1 bytes follow"):
            metadata_event(whole + b"\0")


@pytest.mark.parametrize("start", [b"\x02\x00\x00", b"\x01\x09\x00", b"\x01\x00\x63", b"\x01\x03\x00"])
def test_other_frames_types_and_versions_are_named(start: bytes) -> None:
    with pytest.raises(UnsupportedFormatError, match="is not known"):
        metadata_event(start + added()[3:])


def test_a_count_or_state_that_is_not_possible_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="state 7"):
        metadata_event(added(state=7))
    many = added().replace(b"\x03" + struct.pack(">iq", 4, 20), b"\xff\xff\xff\xff\x07" + struct.pack(">iq", 4, 20))
    with pytest.raises(CorruptRecordError, match="an array of 2147483646 elements"):
        metadata_event(many)
    with pytest.raises(CorruptRecordError, match="offsets 30 to 29"):
        metadata_event(added().replace(struct.pack(">qq", 10, 29), struct.pack(">qq", 30, 29)))


def _states(*values: bytes) -> tuple[SegmentStates, list[str | None]]:
    states = SegmentStates()
    return states, [states.add(metadata_event(value)) for value in values]


def test_a_copy_ends_and_keeps_the_bytes_of_the_plugin() -> None:
    states, problems = _states(added(), updated(1, b"xy"), updated(2))
    assert problems == [None, None, None]
    (segment,) = states.segments.values()
    assert (segment.state, segment.custom_metadata) == (RemoteSegmentState.DELETE_STARTED, b"xy")
    assert (segment.event_timestamp_ms, segment.broker_id, segment.start_offset) == (1900, 2, 10)


def test_records_that_cannot_follow_are_named_and_left_out() -> None:
    other = updated(1).replace(struct.pack(">i", 3) + b"\0", struct.pack(">i", 4) + b"\0")
    states, problems = _states(
        updated(1), added(), updated(1), updated(0), other, added().replace(b"\x13\x88", b"\x13\x89")
    )
    assert [problem and problem.split(" ", 2)[2] for problem in problems] == [
        "is updated, and no record before describes it",
        None,
        None,
        "goes back from COPY_SEGMENT_FINISHED to COPY_SEGMENT_STARTED",
        "is updated as one of another partition",
        "is described a second time, differently",
    ]
    assert [segment.state for segment in states.segments.values()] == [RemoteSegmentState.COPY_FINISHED]


def test_a_deleted_topic_has_no_segments_any_more() -> None:
    states, _ = _states(added(), updated(1), deleted(0))
    assert [segment.state for segment in states.segments.values()] == [RemoteSegmentState.COPY_FINISHED]
    states.add(metadata_event(deleted(2)))
    assert [segment.state for segment in states.segments.values()] == [RemoteSegmentState.DELETE_FINISHED]
    assert states.places == {TopicIdPartition(TOPIC, 3)}
