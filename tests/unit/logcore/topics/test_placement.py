"""Where replicas are: brokers, log directories, and partitions that need attention."""

from __future__ import annotations

from typing import Any

import pytest

from logcore.cli.internal_topics.placement import LISTED, placement_text
from logcore.topics.placement import (
    NO_LEADER,
    NOT_PREFERRED,
    UNDER_REPLICATED,
    BrokerPlacement,
    DirectoryPlacement,
    Placement,
    SourceDirectory,
    placement_of,
)

UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"


def partition(number: int, leader: int, replicas: list[int], isr: list[int], **more: Any) -> dict[str, Any]:
    directories = [f"d{broker}" for broker in replicas]
    row = {"topic": "orders", "partition": number, "leader": leader, "replicas": replicas, "isr": isr}
    return row | {"adding_replicas": None, "directories": directories} | more


def broker(number: int, **more: Any) -> dict[str, Any]:
    return {"broker": number, "rack": None, "is_fenced": False, "is_in_controlled_shutdown": False} | more


def test_brokers_have_their_replicas_leaders_and_preferred_leaders() -> None:
    partitions = [
        partition(0, 1, [1, 2], [1, 2]),
        partition(1, 2, [1, 2], [2]),
        partition(2, -1, [3], []),
    ]
    found = placement_of(partitions, [broker(1, rack="a"), broker(2, is_fenced=True), broker(4)], [])
    assert found.partitions == 3
    assert found.brokers == (
        BrokerPlacement(1, "a", "active", replicas=2, leaders=1, preferred=2, out_of_sync=1),
        BrokerPlacement(2, None, "fenced", replicas=2, leaders=1, preferred=0, out_of_sync=0),
        BrokerPlacement(3, None, "not registered", replicas=1, leaders=0, preferred=1, out_of_sync=1),
        BrokerPlacement(4, None, "active", replicas=0, leaders=0, preferred=0, out_of_sync=0),
    )


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (partition(0, 1, [1, 2], [1, 2]), None),
        (partition(0, 2, [1, 2], [1, 2]), NOT_PREFERRED),
        (partition(0, 2, [1, 2], [2]), UNDER_REPLICATED),
        (partition(0, -1, [1, 2], [1]), NO_LEADER),
        (partition(0, 1, [1, 2, 3], [1, 2], adding_replicas=[3]), None),
        (partition(0, 1, [1, 2, 3], [1], adding_replicas=[3]), UNDER_REPLICATED),
    ],
)
def test_a_partition_has_its_worst_problem_and_added_replicas_are_not_missing(
    row: dict[str, Any], problem: str | None
) -> None:
    found = placement_of([row], [], []).problems
    assert [each.problem for each in found] == ([] if problem is None else [problem])


def test_directories_of_the_metadata_are_joined_with_those_at_the_sources_by_broker_and_id() -> None:
    partitions = [
        partition(0, 1, [1, 2], [1, 2]),
        partition(1, 1, [1, 2], [1, 2], directories=["d1", UNASSIGNED]),
        partition(2, 1, [1], [1], directories=None),
    ]
    at_source = [
        SourceDirectory("/kafka/a", 1, "d1", 2, 100),
        SourceDirectory("/kafka/b", 1, "d9", 1, 5),
        SourceDirectory("/copy", None, None, 1, 7),
    ]
    assert placement_of(partitions, [], at_source).directories == (
        DirectoryPlacement(None, "", 0, "/copy", 1, 7),
        DirectoryPlacement(1, "", 1),
        DirectoryPlacement(1, "d1", 2, "/kafka/a", 2, 100),
        DirectoryPlacement(1, "d9", 0, "/kafka/b", 1, 5),
        DirectoryPlacement(2, "d2", 1),
        DirectoryPlacement(2, "not assigned yet", 1),
    )


def test_reserved_ids_of_directories_say_what_they_mean_to_a_broker() -> None:
    """The ids are those that `DirectoryId` of Kafka 3.9.2, 4.1.2, 4.3.1 and 4.4.0 prints."""
    ids = {"AAAAAAAAAAAAAAAAAAAAAA": "not stated", "AAAAAAAAAAAAAAAAAAAAAQ": "not assigned yet"}
    ids |= {"AAAAAAAAAAAAAAAAAAAAAg": "lost"}
    partitions = [partition(at, at, [at], [at], directories=[directory_id]) for at, directory_id in enumerate(ids)]
    found = placement_of(partitions, [], []).directories
    assert [(each.broker, each.directory) for each in found] == list(enumerate(ids.values()))


def test_the_report_lists_brokers_directories_and_problems_and_says_how_many_are_left_out() -> None:
    partitions = [partition(number, -1, [1001], []) for number in range(LISTED + 2)]
    text = placement_text(placement_of(partitions, [broker(1001)], [SourceDirectory("/kafka", 1001, "d", 3, 12_345)]))
    assert text.splitlines()[0] == "placement: partitions 52, brokers 1, no leader 52"
    assert "1001  -     active        52        0         52           52" in text
    assert "12,345  /kafka" in text
    assert text.count("no leader  -") == LISTED
    assert text.endswith("and 2 more partitions\n")


def test_a_lake_without_metadata_says_so() -> None:
    said = placement_text(Placement(0, (), (), ()))
    assert said == "placement: not known, because no source had the log of __cluster_metadata\n"
