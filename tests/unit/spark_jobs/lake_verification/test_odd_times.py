"""Bounds of files at both ends of the calendar and of int64: sound ones are sound, and changed ones are not."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.spark.cycle import Lake

SEED = 20_261_128
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z: Go's and .NET's zero times."""
NEAR = [FIRST_MS, LAST_MS, 0, -1, 1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000]
NEAR += [2**63 - 1, -(2**63), 2**31, 2**53, -2]

pytestmark = pytest.mark.slow


def some_time(chance: random.Random) -> int:
    return max(-(2**63), min(chance.choice(NEAR) + chance.choice([-1000, -1, 0, 0, 0, 1, 999]), 2**63 - 1))


def text_of(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def dated(time_ms: int) -> str:
    moment = EPOCH + timedelta(milliseconds=time_ms)
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}T{text_of(moment)}"


def shift_bound(lake: Lake, topic: str, bound: str, shift_ms: int) -> bool:
    """Change a bound of a topic's times in its commit; False if it has none, or there is no such time."""
    for commit in sorted((lake.path / "tables" / "records" / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if action.get("add", {}).get("partitionValues", {}).get("topic") != topic:
                continue
            said = json.loads(action["add"]["stats"])
            if "timestamp" not in said[bound]:
                return False
            before = datetime.fromisoformat(said[bound]["timestamp"].replace("Z", "+00:00"))
            time_ms = (before - EPOCH) // timedelta(milliseconds=1) + shift_ms
            if not FIRST_MS <= time_ms <= LAST_MS:
                return False
            said[bound]["timestamp"] = dated(time_ms)
            action["add"]["stats"] = json.dumps(said)
            commit.write_text("".join(json.dumps(each) + "\n" for each in actions))
            return True
    raise AssertionError(f"no file of {topic}")


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.long)])
def test_exactly_the_files_whose_bounds_were_changed_are_damaged(count: int, verified, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    topics = [f"topic{number}" for number in range(count)]
    for topic in topics:
        partition = source.partition(f"{topic}-0", topic_id=None)
        times = [some_time(chance) for _ in range(chance.randrange(1, 4))]
        if topic == topics[0]:
            times = [FIRST_MS, LAST_MS]  # the two that have no neighbour
        partition.roll()
        for offset, time in enumerate(times):
            partition.write(handmade.simple_batch(offset, [(b"k", b"v")], base_timestamp=time, max_timestamp=time))
    source.high_watermarks(**{f"{topic}_0": 3 for topic in topics})
    with without_spark():
        lake.turn(source.path)
    sound = verified(lake)
    assert (sound.code, sound.findings) == (0, [])
    changed = {
        topic
        for topic in topics
        if chance.random() < 0.5
        and shift_bound(lake, topic, chance.choice(["minValues", "maxValues"]), chance.choice([-1, 1]))
    }
    assert len(changed) > count // 5
    done = verified(lake)
    assert done.rules == {"table-file-damaged"}
    assert {each["message"].split(" of ")[1].split("-0")[0].removeprefix("topic ") for each in done.findings} == changed
