"""Kafka's own `AdminUtils` places the replicas of random topics where we do."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from logcore.topics.assignment import assignment
from tests.kafka import distribution

ORACLE = Path(__file__).with_name("java-placement") / "Assigned.java"
VERSION = "3.9.2"
CASES = 3000


def test_replicas_are_placed_as_kafka_places_them() -> None:
    try:
        java, jars = distribution.jdk(), distribution.class_path(VERSION)
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be asked here: {missing}")
    chance = random.Random(20_261_130)
    cases, lines = [], []
    for _ in range(CASES):
        ids = sorted(chance.sample(range(1, 40), chance.randint(1, 9)))
        names = chance.choice([["-"], ["a"], ["a", "b"], ["a", "b", "c"], ["z", "y", "x", "w", "v"]])
        racks = {broker: chance.choice(names) for broker in ids}
        partitions, factor, start = chance.randint(1, 25), chance.randint(1, len(ids)), chance.randrange(len(ids))
        cases.append(({b: None if r == "-" else r for b, r in racks.items()}, partitions, factor, start))
        lines.append(f"{partitions} {factor} {start} " + " ".join(f"{b}:{r}" for b, r in racks.items()))
    command = [str(java), "-cp", jars, str(ORACLE)]
    ran = subprocess.run(command, input="\n".join(lines), text=True, capture_output=True, check=True)
    answers = ran.stdout.splitlines()
    assert len(answers) == CASES
    for (racks, partitions, factor, start), answer in zip(cases, answers, strict=True):
        expected = tuple(tuple(map(int, ids.split(","))) for ids in answer.split(" "))
        assert assignment(racks, partitions, factor, start, start) == expected, (racks, partitions, factor, start)
