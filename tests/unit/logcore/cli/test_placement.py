"""`topics --placement`: where replicas are, what is unbalanced, and the reassignment by Kafka's rule."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from logcore.topics.assignment import alternating, assignment
from tests.metadata_log import MetadataLog, Record, compact, created, topic_id

Captured = pytest.CaptureFixture[str]


def ids(*brokers: int) -> bytes:
    return bytes([len(brokers) + 1]) + struct.pack(f">{len(brokers)}i", *brokers)


def placed(
    topic: str, partition: int, *replicas: int, leader: int | None = None, adding: tuple[int, ...] = ()
) -> Record:
    """By PartitionRecord 0."""
    first = replicas[0] if leader is None else leader
    ends = struct.pack(">iii", first, 0, 0) + b"\0"
    return None, b"\1\3\0" + struct.pack(">i", partition) + topic_id(topic) + ids(*replicas) * 2 + b"\1" + ids(
        *adding
    ) + ends


def registered(broker: int, rack: str | None = None, *, fenced: bool = False) -> Record:
    """By RegisterBrokerRecord 0, without end points and features."""
    return None, (
        b"\1\0\0" + struct.pack(">i", broker) + bytes(16) + struct.pack(">q", 1) + b"\1\1" + compact(rack)
        + bytes([fenced]) + b"\0"
    )  # fmt: skip


def rows_of(
    tmp_path: Path, capsys: Captured, *records: Record, arguments: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    MetadataLog(tmp_path).say(*records)
    assert main(["topics", str(tmp_path), "--placement", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def faults(rows: list[dict[str, Any]]) -> list[tuple[str, int | None, str]]:
    return [(row["topic"], row["partition"], row["reason"]) for row in rows if row["kind"] == "fault"]


def test_the_rule_alternates_between_racks_and_shifts_after_each_round() -> None:
    """The example of Kafka's AdminUtils, worked out by hand from its comments."""
    racks = {0: "a", 1: "c", 2: "c", 3: "b", 4: "b", 5: "a"}
    assert alternating(racks) == (0, 3, 1, 5, 4, 2)
    made = assignment(dict.fromkeys(range(5), None), 10, 3, 0, 0)
    assert made[:5] == ((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1))
    assert made[5:] == ((0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2))


def test_a_topic_that_lies_as_the_rule_places_it_has_no_fault_and_no_move(tmp_path: Path, capsys: Captured) -> None:
    brokers = [registered(n) for n in (1, 2, 3)]
    rows = rows_of(
        tmp_path, capsys, *brokers, created("orders"), placed("orders", 0, 2, 3), placed("orders", 1, 3, 1),
        placed("orders", 2, 1, 2),
    )  # fmt: skip
    assert faults(rows) == []
    assert rows[-1] == {"kind": "reassignment", "version": 1, "partitions": []}
    assert [row for row in rows if row["kind"] == "broker"] == [
        {
            "kind": "broker",
            "broker": n,
            "rack": None,
            "state": "active",
            "replicas": 2,
            "leaders": 1,
            "preferred": 1,
            "out_of_sync": 0,
        }
        for n in (1, 2, 3)
    ]


def test_an_unbalanced_topic_is_named_and_gets_a_plan_that_moves_the_fewest(tmp_path: Path, capsys: Captured) -> None:
    brokers = [registered(n) for n in (1, 2, 3)]
    partitions = [placed("orders", n, 1, 2, leader=2 if n == 1 else None) for n in range(3)]
    rows = rows_of(tmp_path, capsys, *brokers, created("orders"), *partitions)
    assert faults(rows) == [
        ("orders", None, "broker 1 has 3 replicas, broker 3 has 0"),
        ("orders", None, "broker 1 has 3 preferred leaders, broker 2 has 0"),
    ]
    (problem,) = [row for row in rows if row["kind"] == "problem"]
    assert (problem["topic_partition"], problem["problem"]) == ("orders-1", "not led by the preferred leader")
    assert rows[-1]["partitions"] == [
        {"topic": "orders", "partition": 1, "replicas": [2, 3]},
        {"topic": "orders", "partition": 2, "replicas": [3, 1]},
    ]
    assert main(["topics", str(tmp_path), "--placement", "--format", "reassignment"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": 1, "partitions": rows[-1]["partitions"]}


def test_replicas_in_one_rack_and_on_brokers_that_are_gone_are_named(tmp_path: Path, capsys: Captured) -> None:
    brokers = [registered(1, "a"), registered(2, "a"), registered(3, "b"), registered(4, "b", fenced=True)]
    rows = rows_of(
        tmp_path, capsys, *brokers, created("orders"), placed("orders", 0, 1, 2), created("other"),
        placed("other", 0, 4, 9, leader=-1), created("third"), placed("third", 0, 1, 3),
    )  # fmt: skip
    assert faults(rows) == [
        ("orders", 0, "2 replicas are in 1 of 2 racks: a"),
        ("other", 0, "broker 9 is not registered"),
    ]
    assert [move["topic"] for move in rows[-1]["partitions"]] == ["orders", "other"]
    only = rows_of(
        tmp_path / "again", capsys, *brokers, created("x"), placed("x", 0, 1, 2, 3, 4, 9), arguments=("--name", "x")
    )
    assert faults(only)[-1] == ("x", None, "5 replicas cannot be on 4 brokers")


def test_a_topic_that_is_being_moved_gets_no_plan_and_a_fenced_broker_keeps_its_replicas(
    tmp_path: Path, capsys: Captured
) -> None:
    brokers = [registered(1), registered(2, fenced=True), registered(3)]
    moving = [placed("moving", 0, 3, 1, 2, adding=(3,)), placed("moving", 1, 1, 2)]
    resting = [placed("resting", n, 1 + n, 1 + (n + 1) % 3) for n in range(3)]
    rows = rows_of(tmp_path, capsys, *brokers, created("moving"), *moving, created("resting"), *resting)
    assert faults(rows) == [("moving", None, "a reassignment is under way")]
    assert rows[-1]["partitions"] == []


def test_the_text_has_tables_and_says_how_many_would_move(tmp_path: Path, capsys: Captured) -> None:
    MetadataLog(tmp_path).say(
        registered(1), registered(2), created("orders"), placed("orders", 0, 1), placed("orders", 1, 1)
    )
    assert main(["topics", str(tmp_path), "--placement"]) == 0
    out = capsys.readouterr().out
    assert "broker 1 has 2 replicas, broker 2 has 0" in out
    assert out.endswith("partitions that Kafka's rule would move: 1; --format reassignment prints the plan\n")
    assert main(["topics", str(tmp_path), "--format", "reassignment"]) == 64
