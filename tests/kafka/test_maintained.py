"""A broker starts on what we made of its log directory and repairs nothing; its consumers read what the rules leave."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.conftest import LEVELS, Lines, Produced, by_partition
from tests.kafka.maintained import CLEAN_MARKER, RECOVERIES, ROOT_FILES, WAYS, Expected, put_together

pytestmark = pytest.mark.kafka

STORAGE = r"\((?:kafka\.log|org\.apache\.kafka\.storage|org\.apache\.kafka\.server\.log)[\w.$]*\)$"
MENDS = (
    *("Recovering unflushed", "recovery for", "Found invalid", "Could not find", "orrupt", "truncat"),
    *("stray", "Deleting", "Deleted", "incremented", "Resetting", "resetting", "out of range", "was not closed"),
)
"""What a broker says when it changes a log; each is looked for in what its storage classes say."""

LOADED = re.compile(
    r"Completed load of Log\(dir=\S*/(?P<name>[^/,]+), .*?logStartOffset=(?P<begins>\d+), logEndOffset=(?P<ends>\d+)\)"
    r" with (?P<segments>\d+) segments"
)
REPLAYED = re.compile(r"\[LogLoader partition=(?P<name>\S+?),.*segment recovery from offset (?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class Started:
    """A broker that was started on a directory of ours, and stopped in order."""

    made: dict[str, tuple[str, Expected]]
    """By partition directory: in which way it was maintained, and what is to be found."""
    written: dict[str, bytes]
    """Our files as they were before the start, by path below the log directory."""
    left: dict[str, bytes]
    """The same after the stop."""
    said: list[str]
    """What the broker's storage classes logged while it loaded."""
    consumed: dict[str, Lines]
    bounds: dict[tuple[str, int], tuple[int, int]]


@pytest.fixture(scope="module")
def clean(produced: Produced, tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Every way of maintenance, and the mark of a clean stop."""
    folder = tmp_path_factory.mktemp("clean")
    made = put_together(produced, folder / "data", WAYS)
    return _started(folder, made)


@pytest.fixture(scope="module")
def unclean(produced: Produced, tmp_path_factory: pytest.TempPathFactory) -> Started:
    """What we recovered, and no mark: the broker recovers it once more."""
    folder = tmp_path_factory.mktemp("unclean")
    made = put_together(produced, folder / "data", RECOVERIES)
    (folder / "data" / CLEAN_MARKER).unlink()
    for name in ROOT_FILES[:1]:
        (folder / "data" / name).write_text("0\n0\n")  # nothing is known to be on disk: everything is read
    return _started(folder, made)


@pytest.fixture(params=["clean", "unclean"])
def started(request: pytest.FixtureRequest) -> Started:
    return request.getfixturevalue(request.param)


def test_every_way_was_taken_by_more_than_one_partition(clean: Started):
    taken = Counter(way for way, _ in clean.made.values())
    assert set(taken) == {way.__name__ for way in WAYS}
    assert min(taken.values()) > 1


def test_a_clean_start_repairs_nothing(clean: Started):
    said = [line for line in clean.said if _is_of(line, clean) and not _drops_snapshot_below_start(line, clean)]
    assert [line for line in said if any(word in line for word in MENDS)] == []
    assert [line for line in clean.said if re.search(r"\] (WARN|ERROR) ", line) and _is_of(line, clean)] == []


def test_an_unclean_start_cuts_nothing(unclean: Started):
    said = [line for line in unclean.said if _is_of(line, unclean)]
    assert any("Recovering unflushed" in line for line in said)
    # It deletes snapshots and writes them again. Another test claims that they come out the same.
    said = [
        line for line in said if "Recovering unflushed" not in line and "Deleted producer state snapshot" not in line
    ]
    assert [line for line in said if any(word in line for word in MENDS)] == []


def test_a_broker_finds_the_offsets_that_were_planned(started: Started):
    found = {}
    for line in started.said:
        if match := LOADED.search(line):
            found[match["name"]] = int(match["begins"]), int(match["ends"]), int(match["segments"])
    for name, (way, expected) in started.made.items():
        segments = sum(path.startswith(f"{name}/") and path.endswith(".log") for path in started.written)
        assert found[name] == (expected.begins, expected.ends, segments), (name, way)


def test_producers_are_known_from_our_snapshots_alone(clean: Started):
    """From the snapshot at the log end on there is nothing to replay."""
    found = {match["name"]: int(match["offset"]) for line in clean.said if (match := REPLAYED.search(line))}
    for name, (way, expected) in clean.made.items():
        assert found[name] == expected.ends, (name, way)


@pytest.mark.parametrize("level", LEVELS)
def test_a_consumer_reads_what_the_rules_leave(started: Started, level: str):
    for name, (way, expected) in started.made.items():
        topic, _, number = name.rpartition("-")
        found = started.consumed[level].get((topic, int(number)), [])
        offsets = [line["offset"] for line in expected.read[level]]
        assert [line["offset"] for line in found] == offsets, (name, way)
        assert found == expected.read[level], (name, way)
        if level == "read_uncommitted":
            assert started.bounds[topic, int(number)] == (expected.begins, expected.ends), (name, way)


def test_after_a_clean_stop_our_files_are_what_we_wrote(started: Started):
    """All but two kinds: a leader begins an epoch when it starts, at its log end; and a start removes the producer
    snapshots at and below the log start, which deleteRecords and retention leave where they are."""
    for path, content in started.written.items():
        left = started.left.get(path)
        if left is None and _is_snapshot_below_start(path, started):
            continue
        if path.endswith("/leader-epoch-checkpoint") and left is not None:
            name, expected = path.partition("/")[0], started.made[path.partition("/")[0]][1]
            new = left.decode().splitlines()[-1].split()
            assert left.decode().splitlines()[2:-1] == content.decode().splitlines()[2:], name
            assert new[1] == str(expected.ends), name
            continue
        assert left is not None, path
        if path.endswith(".snapshot") and left != content:
            # Written again from the same replay, in the order of a hash map.
            assert _entries(left) == _entries(content), f"{path}, {started.made[path.partition('/')[0]][0]}"
            continue
        assert left == content, f"{path}, {started.made[path.partition('/')[0]][0]}"
    assert set(started.left) <= set(started.written)


def _started(folder: Path, made: dict[str, tuple[str, Expected]]) -> Started:
    written = _files(folder / "data", made)
    with Broker(folder, log_level="INFO") as broker:
        said = broker.log_file.read_text(errors="replace").splitlines()
        files = {level: folder / f"{level}.jsonl" for level in LEVELS}
        broker.run("Consume", *(str(word) for pair in files.items() for word in pair))
    consumed: dict[str, Lines] = {}
    for level, path in files.items():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        consumed[level] = by_partition(line for line in lines if "topic" in line)
        if level == "read_uncommitted":
            bounds = {
                (line["partition_of"], line["partition"]): (line["beginning"], line["end"])
                for line in lines
                if "partition_of" in line
            }
    said = [line for line in said if re.search(STORAGE, line)]
    return Started(made, written, _files(folder / "data", made), said, consumed, bounds)


def _files(data: Path, made: dict[str, tuple[str, Expected]]) -> dict[str, bytes]:
    return {
        f"{name}/{path.name}": path.read_bytes() for name in made for path in (data / name).iterdir() if path.is_file()
    }


def _drops_snapshot_below_start(line: str, started: Started) -> bool:
    match = re.search(r"Deleted producer state snapshot \S*/([^/ ]+/\d+\.snapshot) ", line)
    return match is not None and _is_snapshot_below_start(match[1], started)


def _is_snapshot_below_start(path: str, started: Started) -> bool:
    """Of a path below the log directory."""
    name, file = path.split("/")
    return file.endswith(".snapshot") and int(file[:20]) <= started.made[name][1].begins


def _entries(snapshot: bytes) -> list[bytes]:
    """Of a producer snapshot: what it says of each producer."""
    return sorted(snapshot[at : at + 46] for at in range(10, len(snapshot), 46))


def _is_of(line: str, started: Started) -> bool:
    """Whether the line names one of our partitions."""
    return any(name in line for name in started.made)
