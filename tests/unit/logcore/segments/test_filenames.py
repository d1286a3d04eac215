"""Names on disk say what a broker meant by them, and nothing else passes for one."""

import pytest

from logcore.segments.filenames import (
    DirectoryKind,
    TopicPartition,
    is_internal_topic,
    is_legal_topic,
    looks_like_partition_directory,
    metadata_snapshot,
    parse_partition_directory,
    segment_base_offset,
    segment_file_name,
    snapshot_end_offset,
)

UUID = "478272f0a33c41a18c274462e3ef6713"


@pytest.mark.parametrize(
    ("name", "base_offset"),
    [
        ("00000000000000000000.log", 0),
        ("00000000000000000042.log", 42),
        ("09223372036854775807.log", 2**63 - 1),
    ],
)
def test_a_segment_is_named_by_its_base_offset_in_20_digits(name: str, base_offset: int) -> None:
    assert segment_base_offset(name) == base_offset
    assert segment_file_name(base_offset) == name


@pytest.mark.parametrize(
    "name",
    [
        "0.log",
        "0000000000000000042.log",
        "000000000000000000042.log",
        "-0000000000000000042.log",
        "+0000000000000000042.log",
        "0000000000000000004x.log",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.log",
        "09223372036854775808.log",
        "00000000000000000042.log.deleted",
        "00000000000000000042.LOG",
        "00000000000000000042.index",
        "00000000000000000042.log\n",
        " 00000000000000000042.log",
        "server.log",
        ".log",
        "",
    ],
)
def test_anything_else_is_no_segment(name: str) -> None:
    assert segment_base_offset(name) is None


@pytest.mark.parametrize("base_offset", [-1, 2**63])
def test_an_offset_outside_of_64_bits_names_no_segment(base_offset: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        segment_file_name(base_offset)


def test_side_files_share_the_segments_digits() -> None:
    assert segment_file_name(7, ".timeindex") == "00000000000000000007.timeindex"


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind"),
    [
        ("orders-0", "orders", 0, DirectoryKind.LIVE),
        ("orders-eu-12", "orders-eu", 12, DirectoryKind.LIVE),
        ("a.b_c-2147483647", "a.b_c", 2147483647, DirectoryKind.LIVE),
        ("--1", "-", 1, DirectoryKind.LIVE),
        ("__consumer_offsets-49", "__consumer_offsets", 49, DirectoryKind.LIVE),
        (f"orders-0.{UUID}-delete", "orders", 0, DirectoryKind.DELETE),
        (f"or.de.rs-3.{UUID}-future", "or.de.rs", 3, DirectoryKind.FUTURE),
        (f"orders-0.{UUID}-stray", "orders", 0, DirectoryKind.STRAY),
        ("t-1.x-delete-5", "t-1.x-delete", 5, DirectoryKind.LIVE),
        ("a" * 249 + "-0", "a" * 249, 0, DirectoryKind.LIVE),
    ],
)
def test_a_partition_directory_says_topic_partition_and_use(
    name: str, topic: str, partition: int, kind: DirectoryKind
) -> None:
    assert parse_partition_directory(name) == (TopicPartition(topic, partition), kind)
    assert looks_like_partition_directory(name)


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "-0",
        "orders-",
        "orders-x",
        "orders-+1",
        "orders--",
        "orders-01",
        "orders-2147483648",
        "orders-99999999999",
        "..-0",
        ".-0",
        "or ders-0",
        "or/ders-0",
        "orders\n-0",
        "orders-0\n",
        "örders-0",
        "orders-٣",
        'or"ders-0',
        "a" * 250 + "-0",
        f"orders-0.{UUID}-deleted",
        f"orders.{UUID}-delete",
        "lost+found",
        "",
    ],
)
def test_a_name_no_broker_would_make_is_no_partition(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize("name", ["..-0", "or ders-0", "a" * 250 + "-0", "orders\n-0", "orders-99999999999"])
def test_an_illegal_topic_still_looks_like_a_partition(name: str) -> None:
    assert looks_like_partition_directory(name)


@pytest.mark.parametrize("name", ["lost+found", "remote-log-index-cache", "orders", ""])
def test_other_directories_do_not_look_like_one(name: str) -> None:
    assert not looks_like_partition_directory(name)


def test_topics_differing_in_case_or_in_dot_and_underscore_stay_apart() -> None:
    names = ["a.b", "a_b", "A.b", "a-b"]
    assert len({parse_partition_directory(f"{name}-0") for name in names}) == len(names)


@pytest.mark.parametrize(("topic", "legal"), [("a", True), ("a" * 249, True), ("", False), (".", False), ("..", False)])
def test_topic_names_follow_the_brokers_grammar(topic: str, legal: bool) -> None:
    assert is_legal_topic(topic) is legal


def test_internal_topics_begin_with_two_underscores() -> None:
    assert is_internal_topic("__cluster_metadata")
    assert not is_internal_topic("_schemas")


def test_partitions_sort_by_number_and_not_by_text() -> None:
    names = ["b-0", "a-10", "a-9"]
    parsed = sorted(entry[0] for entry in map(parse_partition_directory, names) if entry)
    assert [str(entry) for entry in parsed] == ["a-9", "a-10", "b-0"]


@pytest.mark.parametrize(
    ("name", "end_offset"),
    [
        ("00000000000000000042.snapshot", 42),
        ("09223372036854775807.snapshot", 2**63 - 1),
        ("09223372036854775808.snapshot", None),
        ("42.snapshot", None),
        ("00000000000000000042.snapshot.deleted", None),
        ("00000000000000000042.log", None),
        ("00000000000000000042.snapshot\n", None),
    ],
)
def test_a_producer_snapshot_is_named_by_where_it_ends(name: str, end_offset: int | None) -> None:
    assert snapshot_end_offset(name) == end_offset


@pytest.mark.parametrize(
    ("name", "end_and_epoch"),
    [
        ("00000000000000000064-0000000001.checkpoint", (64, 1)),
        ("00000000000000000000-2147483647.checkpoint", (0, 2**31 - 1)),
        ("00000000000000000000-2147483648.checkpoint", None),
        ("09223372036854775808-0000000001.checkpoint", None),
        ("00000000000000000064-0000000001.checkpoint.deleted", None),
        ("00000000000000000064-0000000001-1234.checkpoint.part", None),
        ("bootstrap.checkpoint", None),
        ("64-1.checkpoint", None),
    ],
)
def test_a_kraft_snapshot_is_named_by_end_and_epoch(name: str, end_and_epoch: tuple[int, int] | None) -> None:
    assert metadata_snapshot(name) == end_and_epoch
