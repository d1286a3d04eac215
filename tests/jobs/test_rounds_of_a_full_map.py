"""A lake whose policy states the cleaner's map: its rounds leave, one after another, what Kafka's cleaner leaves.

Kafka's own classes make the log and clean a copy of it, a round at a time, with a map of the same few bytes. The job
cleans the lake that took the log: in one task, or spread over many.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig
from spark_jobs.lake.segments import removals
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.conformance.test_compacted_lakes import archived, assert_same, left_by_broker
from tests.kafka import distribution
from tests.kafka.storage_oracle import StorageOracle
from tests.spark.cycle import Lake

VERSION, LINE = "4.4.0", "4.4"
BEGIN_MS = 1_700_000_000_000
NOW_MS = BEGIN_MS + 3_600_000
CONFIG = {
    "segment.bytes": "4000",
    "index.interval.bytes": "300",
    "delete.retention.ms": "60000",
    "segment.index.bytes": "1048576",
}
MAP_KEYS = 12
MAP_BYTES = 24 * MAP_KEYS * 10 // 9
PLAIN: dict[str, Any] = {
    "magic": ["2"],
    "codec": ["none", "lz4"],
    "timestamp_type": ["create"],
    "batches": 45,
    "largest_batch": 8,
    "keys": 40,
    "largest_value": 90,
    "producers": 3,
    "without_key": 0.05,
    "empty_key": 0.02,
    "tombstone": 0.2,
    "empty_value": 0.03,
    "headers": 0.1,
    "without_timestamp": 0,
    "idempotent": 0.3,
    "transactional": 0,
    "marker": 0,
    "abort": 0,
    "marker_of_nothing": 0,
    "leave_open": False,
    "roll": 0.03,
    "last_roll": 0,
    "leader_change": 0.05,
    "gap": 0,
    "step_ms": 1000,
    "jitter_ms": 0,
    "clock_jump": 0,
    "clock_jump_ms": 60_000,
}
LOGS = {
    "plain": PLAIN,
    "transactional": PLAIN | {"transactional": 0.6, "marker": 0.4, "abort": 0.5},
    "messages": PLAIN | {"magic": ["1"], "idempotent": 0, "headers": 0, "codec": ["none"]},
    "all formats": PLAIN | {"magic": ["0", "1", "2"], "transactional": 0.3, "marker": 0.4, "abort": 0.5},
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[StorageOracle]:
    try:
        started = StorageOracle(VERSION)
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka's storage classes cannot be run here: {missing}")
    with started:
        yield started


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("spread_bytes", [0, 1 << 30], ids=["many tasks", "one task"])
@pytest.mark.parametrize("name", LOGS)
def test_every_round_leaves_what_kafka_leaves(
    kafka: StorageOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, spread_bytes: int
) -> None:
    made = tmp_path / "made" / "t-0"
    made.parent.mkdir()
    seed = random.Random(name).randrange(1 << 30)
    given = {"now": BEGIN_MS, "config": CONFIG, "log_start_offset": 0}
    log = kafka.ask("generate", directory=made, specification=LOGS[name] | {"seed": seed}, **given)
    source = LogDirectory(tmp_path / "source")
    partition = source.partition("t-0")
    for path in made.iterdir():
        shutil.copy2(path, partition.path / path.name)
    source.high_watermarks(t_0=log["log_end_offset"])
    lake = Lake(tmp_path / "lake")
    lake.turn(source.path)

    end = max(int(path.name[:20]) for path in made.glob("*.log"))
    ours: list[dict[str, bytes]] = []
    finish = removals.finish

    def kept(*arguments: Any, **named: Any) -> Any:
        done = finish(*arguments, **named)
        ours.append(archived(lake.path, "t", end))
        return done

    monkeypatch.setattr(removals, "finish", kept)
    settings = CONFIG | {"min.cleanable.dirty.ratio": "0.0", "log.cleaner.dedupe.buffer.size": str(MAP_BYTES)}
    settings |= {"compaction.spread.bytes": str(spread_bytes), "compat": f'"{LINE}"'}
    policies = tmp_path / "policies.yaml"
    lines = [f"    {setting}: {value}" for setting, value in settings.items()]
    policies.write_text("\n".join(["topics:", "  t:", "    cleanup.policy: compact", *lines]))
    report = launch.run(CompactionConfig(str(lake.path), "clean", NOW_MS, read_policies(str(policies)), apply=True))
    assert report.findings == ()
    assert report.plan.passed == (), report.plan
    assert report.metrics["spread_logs"] == (spread_bytes == 0)

    first_dirty, rounds = 0, 0
    while first_dirty < end:
        answer = kafka.ask(
            "clean",
            directory=made,
            now=NOW_MS,
            config=CONFIG | {"cleanup.policy": "compact"},
            log_start_offset=0,
            first_dirty_offset=first_dirty,
            high_watermark=log["log_end_offset"],
            map_bytes=str(MAP_BYTES),
            clean_stop=True,
        )
        assert answer["end_offset"] > first_dirty
        first_dirty = answer["end_offset"]
        broker = left_by_broker(made, end)
        # A segment that no round wrote has no indexes in a lake.
        assert_same(
            ours[rounds], {name: broker[name] for name in broker if name in ours[rounds] or name[-4:] == ".log"}
        )
        rounds += 1
    assert report.metrics["rounds"] == rounds == len(ours)
    assert rounds > 3
