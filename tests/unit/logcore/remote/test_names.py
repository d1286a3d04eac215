"""What the names of stored objects say."""

from __future__ import annotations

import struct

import pytest

from logcore.errors import CorruptIndexError
from logcore.remote import aiven_layout, local_tiered_storage
from logcore.remote.stored_names import part_of
from logcore.remote.stored_part import RemoteLayout, SegmentPart, StoredPart
from logcore.segments.filenames import TopicPartition

TOPIC, SEGMENT = "GW-1GPphSsCFtpdS005Bug", "_0mlUw1wQCqLKB9Qybceig"


def test_files_of_local_tiered_storage_are_read_from_the_end_of_their_names() -> None:
    found = part_of(f"/r/kafka-tiered-storage/a-b-1-12-{TOPIC}/00000000000000000029-{SEGMENT}.txnindex")
    expected = StoredPart(
        RemoteLayout.LOCAL_TIERED_STORAGE,
        TopicPartition("a-b-1", 12),
        TOPIC,
        29,
        SEGMENT,
        SegmentPart.TRANSACTION_INDEX,
    )
    assert found == expected


@pytest.mark.parametrize(
    ("suffix", "part"),
    [
        (".log", SegmentPart.LOG),
        (".index", SegmentPart.OFFSET_INDEX),
        (".timeindex", SegmentPart.TIME_INDEX),
        (".txnindex", SegmentPart.TRANSACTION_INDEX),
        (".leader_epoch_checkpoint", SegmentPart.LEADER_EPOCHS),
        (".snapshot", SegmentPart.PRODUCER_SNAPSHOT),
    ],
)
def test_every_suffix_of_local_tiered_storage_is_known(suffix: str, part: SegmentPart) -> None:
    found = local_tiered_storage.part_of(f"t-0-{TOPIC}/00000000000000000000-{SEGMENT}{suffix}")
    assert found is not None
    assert found.part == part


@pytest.mark.parametrize(
    ("suffix", "part"),
    [(".log", SegmentPart.LOG), (".indexes", SegmentPart.INDEXES), (".rsm-manifest", SegmentPart.MANIFEST)],
)
def test_objects_of_aivens_plugin_have_a_folder_for_the_partition(suffix: str, part: SegmentPart) -> None:
    found = part_of(f"s3://bucket/prefix/a-b-{TOPIC}/7/00000000000000001234-{SEGMENT}{suffix}")
    assert found == StoredPart(RemoteLayout.AIVEN, TopicPartition("a-b", 7), TOPIC, 1234, SEGMENT, part)


@pytest.mark.parametrize(
    "path",
    [
        f"t-0-{TOPIC}/0000000000000000000-{SEGMENT}.log",  # 19 digits
        f"t-0-{TOPIC[:-1]}/00000000000000000000-{SEGMENT}.log",
        f"t-0-{TOPIC[:-1]}B/00000000000000000000-{SEGMENT}.log",  # the last character cannot end 16 bytes
        f"t-01-{TOPIC}/00000000000000000000-{SEGMENT}.log",
        f"t-0-{TOPIC}/99999999999999999999-{SEGMENT}.log",
        f"t-9999999999-{TOPIC}/00000000000000000000-{SEGMENT}.log",
        f"t-0-{TOPIC}/00000000000000000000-{SEGMENT}.unknown",
        f"t-{TOPIC}/00000000000000000000-{SEGMENT}.log",
        "orders-0/00000000000000000000.log",
    ],
)
def test_other_names_are_no_parts_of_segments(path: str) -> None:
    assert part_of(path) is None


def test_objects_of_one_segment_are_found_from_each_other() -> None:
    name = f"s3://b/t-{TOPIC}/0/00000000000000000000-{SEGMENT}"
    assert aiven_layout.beside(f"{name}.log", SegmentPart.MANIFEST) == f"{name}.rsm-manifest"
    with pytest.raises(ValueError, match="not an object"):
        aiven_layout.beside("t/0.log", SegmentPart.MANIFEST)


def test_files_of_iceberg_and_of_old_releases_are_known_by_name() -> None:
    assert aiven_layout.iceberg_segment(f"warehouse/t/metadata/{SEGMENT}.puffin") == SEGMENT
    assert aiven_layout.iceberg_segment(f"warehouse/t/metadata/{SEGMENT}.log") is None
    old = f"t-{TOPIC}/0/00000000000000000000-{SEGMENT}.leader-epoch-checkpoint"
    assert aiven_layout.is_of_old_release(old)
    assert not aiven_layout.is_of_old_release(old.replace("leader-epoch-checkpoint", "log"))


def test_custom_metadata_names_size_prefix_and_key() -> None:
    packed = bytes([3, 0, 2]) + b"\xac\x02" + bytes([1, 4, 4]) + b"p1/" + bytes([2, 3, 3]) + b"ab"
    assert aiven_layout.custom_metadata(packed) == aiven_layout.AivenMetadata(150, "p1/", "ab")


def test_empty_custom_metadata_names_nothing_and_unknown_tags_are_skipped() -> None:
    assert aiven_layout.custom_metadata(b"") == aiven_layout.AivenMetadata()
    assert aiven_layout.custom_metadata(bytes([1, 9, 2, 1, 1])) == aiven_layout.AivenMetadata()


@pytest.mark.parametrize(
    "packed",
    [
        bytes([1]),
        bytes([1, 0]),
        bytes([1, 0, 5, 1]),
        bytes([2, 1, 2, 2, 65, 1, 2, 2, 65]),  # the same tag twice
        bytes([1, 1, 2, 9, 65]),  # a text longer than its field
        bytes([1, 1, 2, 2, 255]),  # no UTF-8
        bytes([0, 0]),
        bytes([1, 0, 2, 2, 2]),
        b"\xff" * 6,
        struct.pack("B", 127) + bytes(8),
    ],
)
def test_custom_metadata_that_contradicts_itself_is_refused(packed: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        aiven_layout.custom_metadata(packed)
