"""Kafka's storage classes in our JVM do what brokers did. Only then they are a reference for what no broker did.

Every round of the cleaner in the corpus is done again from what was before it, by the version of that broker, and every
recovery of an old broker by all three versions.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.snapshots import snapshot
from tests.kafka import distribution
from tests.kafka.storage_oracle import VERSIONS, StorageOracle

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

pytestmark = pytest.mark.kafka

_COMPARED = (".log", ".index", ".timeindex", ".txnindex")


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> Iterator[StorageOracle]:
    try:
        started = StorageOracle(request.param)
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka's storage classes cannot be run here: {missing}")
    with started:
        yield started


@dataclass(frozen=True, slots=True)
class Round:
    """One partition through one round of a broker's cleaner. Times of change in milliseconds, by file."""

    before: Path
    after: Path
    times_before: dict[str, int]
    times_after: dict[str, int]
    first_dirty: int
    end: int
    clock: int
    config: dict[str, Any]
    intervals: tuple[int, ...]
    """What `index.interval.bytes` may have been: for some topics it was drawn and not noted."""


def rounds_of_brokers(corpus: Corpus, version: str) -> Iterator[Round]:
    for number in ("", "2"):
        before, after = snapshot(f"compact-2.8.2/before{number}"), snapshot(f"compact-2.8.2/after{number}-{version}")
        facts = corpus.facts(before)
        clocks = facts["broker_clean_now_ms"].get(after.name, {})
        given = {}
        for topic, settings in facts["topics"].items():
            clock = clocks.get(f"{topic}-0", 1_800_000_000_000)  # without a new horizon it did not matter
            given[f"{topic}-0"] = (clock, settings["segment_bytes"], 1 << 20, settings["delete_retention_ms"], (4096,))
        times = [facts["mtimes_ms"][case.name] for case in (before, after)]
        yield from _rounds(corpus.directory(before), corpus.directory(after), *times, given)
    for number in (1, 2, 3) if version == "4.4.0" else (1, 2):
        before = snapshot(f"compaction-{version}/before{number}")
        after = snapshot(f"compaction-{version}/after{number}")
        facts = corpus.facts(before)
        given = {}
        for name, clocks in facts["snapshots"][after.name]["as_of"].items():
            if clocks["cleaned"]:
                retention = facts["topic_delete_retention_ms"][name.removesuffix("-0")]
                clock = (clocks["as_of_ms"] or clocks["cleaning_began_ms"])[0]
                given[name] = (clock, 1500, 2040, retention, (0, 200, 500))
        # the archive itself rounds times
        listed = [json.loads(corpus.oracle(case, "files.json").read_text()) for case in (before, after)]
        times = [{entry["path"]: entry["mtime_ns"] // 1_000_000 for entry in files} for files in listed]
        yield from _rounds(corpus.directory(before), corpus.directory(after), *times, given)


def _rounds(
    before: Path,
    after: Path,
    times_before: dict[str, int],
    times_after: dict[str, int],
    given: dict[str, tuple[int, int, int, int, tuple[int, ...]]],
) -> Iterator[Round]:
    dirty, ends = (checkpoint(folder / "cleaner-offset-checkpoint") for folder in (before, after))
    for name, (clock, segment_bytes, index_bytes, delete_retention, intervals) in given.items():
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": segment_bytes,
            "segment.index.bytes": index_bytes,
            "delete.retention.ms": delete_retention,
        }
        times = (
            {path.removeprefix(f"{name}/"): time for path, time in all_times.items() if path.startswith(f"{name}/")}
            for all_times in (times_before, times_after)
        )
        yield Round(before / name, after / name, *times, dirty.get(name, 0), ends[name], clock, config, intervals)


def checkpoint(path: Path) -> dict[str, int]:
    """Offsets by partition directory; none if there is no such file."""
    words = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in words}


def contents(directory: Path, suffixes: tuple[str, ...] = _COMPARED) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in suffixes}


def equally_cleaned(kafka: StorageOracle, done: Round, interval: int, copy: Path) -> bool:
    """Whether the round, done again on a copy, leaves the same bytes, times of change of logs and checkpoint."""
    shutil.copytree(done.before, copy)
    for name, milliseconds in done.times_before.items():
        os.utime(copy / name, ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))
    answer = kafka.ask(
        "clean",
        directory=copy,
        now=done.clock,
        config={**done.config, "index.interval.bytes": interval},
        first_dirty_offset=done.first_dirty,
        uncleanable=done.end,
    )
    times = {path.name: path.stat().st_mtime_ns // 1_000_000 for path in copy.glob("*.log")}
    equal = (
        answer["end_offset"] == done.end
        and contents(copy) == contents(done.after)
        and times == {name: time for name, time in done.times_after.items() if name.endswith(".log")}
    )
    shutil.rmtree(copy)
    return equal


@pytest.mark.long
def test_the_cleaner_leaves_what_the_broker_s_left(kafka: StorageOracle, corpus: Corpus, tmp_path: Path):
    count = 0
    fitting: dict[Path, set[int]] = {}
    for done in rounds_of_brokers(corpus, kafka.version):
        equal = {
            interval
            for interval in done.intervals
            if equally_cleaned(kafka, done, interval, tmp_path / done.before.name)
        }
        topic = done.before.parent.parent / done.before.name
        fitting.setdefault(topic, set(done.intervals)).intersection_update(equal)
        assert fitting[topic], done.before  # one setting must do for all rounds of a topic
        count += 1
    assert count == {"3.9.2": 22 + 23, "4.1.2": 22 + 23, "4.4.0": 22 + 34}[kafka.version]


@pytest.mark.parametrize("case", ["crash-0.9.0.1", "crash-0.10.2.2", "crash-2.8.2"])
def test_a_start_after_a_crash_keeps_what_the_broker_kept(
    kafka: StorageOracle, corpus: Corpus, tmp_path: Path, case: str
):
    before, after = (corpus.directory(snapshot(f"{case}/{name}")) for name in ("before", "after"))
    points = checkpoint(before / "recovery-point-offset-checkpoint")
    suffixes = _COMPARED if case != "crash-0.9.0.1" else (".log", ".index")  # without time indexes
    names = [path.name for path in before.iterdir() if path.is_dir() and not path.name.startswith("__")]
    for name in names:
        copy = tmp_path / name
        shutil.copytree(before / name, copy)
        config = {"segment.bytes": 7500, "segment.index.bytes": 4800}
        kafka.ask("recover", directory=copy, now=1_800_000_000_000, config=config, recovery_point=points.get(name, 0))
        assert contents(copy, suffixes) == contents(after / name, suffixes), name
    assert len(names) == 4
