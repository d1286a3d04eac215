"""One round of retention gives the directory that a real broker left, file for file and byte for byte.

The case has three moments of one log directory: `before`; `mid`, after a run with deleteRecords and retention off;
`after`, a run with retention on. Between two moments lies a start and a stop of the broker, and what those do is done
here by hand, each thing on its own, to what retention gave:

    start   a new leader epoch begins at the log end; snapshots at or below the log start offset are removed
    stop    the indexes of the last segment are closed: same bytes, a new time of change
    both    a deleted file stays as `.deleted` for file.delete.delay.ms, which is 0 or a minute here
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logcore.cli.main import main
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import topic_config
from logcore.logs.retention.retention_plan import RetentionPlan, plan_retention
from logcore.segments.filenames import parse_topic_partition
from tests.conformance.snapshots import snapshot as named

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

BEFORE, MID, AFTER = (named(f"retention-4.3.1/{name}") for name in ("before", "mid", "after"))
LINE = BrokerLine.V4_0

PARTITIONS = (
    *("r-time-0", "r-time-all-0", "r-shuffled-0", "r-future-0", "r-size-0", "r-size0-0", "r-both-0", "r-txn-0"),
    *("r-lat-0", "r-cd-0", "d-mid-0", "d-all-0", "d-txn-0", "keep-0", "__transaction_state-0"),
)
DELETED_SEGMENTS = {
    "r-time-0": [0, 28],
    "r-time-all-0": [0, 17, 46],
    "r-future-0": [0],
    "r-size-0": [0, 25],
    "r-size0-0": [0, 26],
    "r-both-0": [0],
    "r-cd-0": [0],
    "d-mid-0": [0, 27],
    "d-all-0": [0],
    "d-txn-0": [0, 20],
}
"""What the broker's log says that it deleted."""

NEW_SEGMENTS = {"r-time-all-0": 63, "r-size0-0": 35}
"""Partitions of which everything went, and where the broker rolled."""

LINGERING = ("d-mid-0", "r-future-0", "r-time-0")
"""Topics whose file.delete.delay.ms is a minute: the deleted files are still there, except a snapshot that a start
removed before."""

CLEANED_WITH = {"segment.bytes": "1800", "index.interval.bytes": "300"}
CLEANED_HORIZON_MS = 1_795_278_765_556
"""What the topic of `r-cd-0` was made with, and the delete horizon that the broker's cleaner gave its tombstones."""

DELETE_RECORDS = {"d-mid-0": 59, "d-all-0": -1, "d-txn-0": 51}

Content = dict[str, bytes]


def content(directory: Path) -> Content:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def modified(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns // 1_000_000 for path in sorted(directory.iterdir())}


def as_directory(root: Path, partition: str, facts: dict[str, Any]) -> PartitionDirectory:
    """A partition of a log directory, its root lines from the case's description."""
    topic_partition = parse_topic_partition(partition)
    assert topic_partition is not None
    times = modified(root / partition)
    return PartitionDirectory(
        topic_partition,
        {name: PartitionFile(name, data, times[name]) for name, data in content(root / partition).items()},
        recovery_point=facts["recovery_points"].get(partition),
        log_start_offset=facts["log_start_checkpoint"].get(partition),
        high_watermark=facts["high_watermarks"].get(partition, 0),
        first_dirty_offset=facts["cleaner_checkpoint"].get(partition),
        is_clean=facts["clean"],
    )


def applied(plan: RetentionPlan) -> tuple[Content, dict[str, int]]:
    """The bytes and times of change that a plan's files have."""
    files, times = {}, {}
    for name, file in plan.files.items():
        if isinstance(file, Keep):
            files[name] = bytes(plan.directory.files[file.source].content)
            times[name] = plan.directory.files[file.source].modified_ms
        else:
            assert isinstance(file, Write)
            files[name], times[name] = file.content, file.modified_ms
    return files, times


def epochs(text: bytes) -> list[tuple[int, int]]:
    lines = text.decode().split("\n")
    assert lines[0] == "0"
    assert lines[-1] == ""
    assert int(lines[1]) == len(lines) - 3
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines[2:-1]]


def epoch_file(entries: list[tuple[int, int]]) -> bytes:
    return "\n".join(["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries), ""]).encode()


def begun(files: Content, epoch: int, log_end: int, log_start: int) -> Content:
    """What a start in a new leader epoch makes of a directory."""
    entries = epochs(files["leader-epoch-checkpoint"])
    while entries and entries[-1][1] >= log_end:
        entries.pop()
    entries.append((epoch, log_end))
    gone = [name for name in files if name.endswith(".snapshot") and int(name[:20]) <= log_start]
    return {name: data for name, data in files.items() if name not in gone} | {
        "leader-epoch-checkpoint": epoch_file(entries)
    }


def clock(facts: dict[str, Any], partition: str) -> int:
    """The rule's clock: at most a few milliseconds before the first line that the broker logged about it."""
    lines = [at for at, text in facts["as_of_log_lines"].get(partition, []) if "largestRecordTimestamp=-1)" not in text]
    return lines[0] if lines else facts["window_ms"][1]


def config_of(case: dict[str, Any], partition: str) -> dict[str, str]:
    topic = partition.rpartition("-")[0]
    given = {name: str(value) for name, value in case["topic_configs"].get(topic, {}).items()}
    if topic == "__transaction_state":
        given["cleanup.policy"] = "compact"
    return {"retention.ms": "-1"} | given


def broker_before_retention(corpus: Corpus, partition: str) -> PartitionDirectory:
    """`mid` as the broker of `after` had it when retention came: started, and where it compacts too, cleaned."""
    case = corpus.facts(MID)
    facts = case["snapshots"]["mid"]
    directory = as_directory(corpus.directory(MID), partition, facts)
    log_end = facts["recovery_points"][partition]
    files = {name: bytes(file.content) for name, file in directory.files.items()}
    times = {name: file.modified_ms for name, file in directory.files.items()}
    files = begun(files, 4, log_end, facts["log_start_checkpoint"].get(partition, 0))
    if partition == "r-cd-0":
        # The cleaning of the segment at 27, as it is found afterwards; that of the one at 0 was deleted at once.
        for suffix in (".log", ".index", ".timeindex"):
            name = f"{27:020d}{suffix}"
            files[name] = (corpus.directory(AFTER) / partition / name).read_bytes()
            times[name] = modified(corpus.directory(AFTER) / partition)[name]
    held = {name: PartitionFile(name, data, times[name]) for name, data in files.items()}
    return PartitionDirectory(
        directory.topic_partition,
        held,
        directory.recovery_point,
        directory.log_start_offset,
        directory.high_watermark,
        directory.first_dirty_offset,
        is_clean=True,
    )


@pytest.mark.parametrize("partition", PARTITIONS)
def test_retention_leaves_what_the_broker_left(corpus: Corpus, partition: str):
    case = corpus.facts(AFTER)
    facts = case["snapshots"]["after"]
    directory = broker_before_retention(corpus, partition)
    plan = plan_retention(
        directory,
        topic_config(config_of(case, partition)),
        line=LINE,
        as_of_ms=clock(facts, partition),
    )
    assert [each.segment.base_offset for each in plan.decision.deletions] == DELETED_SEGMENTS.get(partition, [])
    assert plan.new_segment == NEW_SEGMENTS.get(partition)
    assert plan.findings == ()
    ours, our_times = applied(plan)
    there = content(corpus.directory(AFTER) / partition)
    times = modified(corpus.directory(AFTER) / partition)
    lingering = {name for name in there if name.endswith(".deleted")}
    assert bool(lingering) == (partition in LINGERING)
    for name in lingering:
        plain = name.removesuffix(".deleted")
        assert plan.removed()[plain].startswith("its segment is deleted by")
        assert bytes(directory.files[plain].content) == there[name]
    assert ours == {name: data for name, data in there.items() if name not in lingering}
    last = max(name for name in ours if name.endswith(".log")).removesuffix(".log")
    closed = {f"{last}.index", f"{last}.timeindex"}
    rolled = f"{plan.new_segment:020d}.log" if plan.new_segment is not None else ""
    for name in ours:
        if name == "leader-epoch-checkpoint" or name in closed:
            assert times[name] >= our_times[name]
        elif name == rolled:
            assert abs(times[name] - our_times[name]) <= 20  # the clock of the case is that of a log line
        else:
            assert times[name] == our_times[name], name
    root = {
        "recovery_points": plan.root.recovery_point,
        "log_start_checkpoint": plan.root.log_start_offset,
        "high_watermarks": plan.root.high_watermark,
    }
    assert root == {name: facts[name].get(partition) for name in root}


def test_every_partition_of_the_case_is_looked_at(corpus: Corpus):
    for moment in (BEFORE, MID, AFTER):
        assert {path.name for path in corpus.directory(moment).iterdir() if path.is_dir()} == set(PARTITIONS)


@pytest.mark.parametrize("partition", DELETE_RECORDS)
def test_delete_records_moves_what_the_broker_moved(corpus: Corpus, partition: str):
    """In `mid` the records are deleted and the segments still there; the next round took them."""
    case = corpus.facts(MID)
    facts = case["snapshots"]["mid"]
    directory = as_directory(corpus.directory(BEFORE), partition, case["snapshots"]["before"])
    log_end = facts["recovery_points"][partition]
    files = begun({name: bytes(file.content) for name, file in directory.files.items()}, 2, log_end, 0)
    started = PartitionDirectory(
        directory.topic_partition,
        {name: PartitionFile(name, data, directory.files[name].modified_ms) for name, data in files.items()},
        directory.recovery_point,
        directory.log_start_offset,
        directory.high_watermark,
        is_clean=True,
    )
    config = topic_config(config_of(case, partition))
    asked = DELETE_RECORDS[partition]
    plan = plan_retention(started, config, line=LINE, as_of_ms=facts["taken_ms"], delete_records_before=asked)
    topic = partition.rpartition("-")[0]
    assert plan.new_log_start_offset == case["delete_records"]["low_watermarks"][topic]
    assert plan.root.log_start_offset == facts["log_start_checkpoint"][partition]
    assert [each.segment.base_offset for each in plan.decision.deletions] == DELETED_SEGMENTS[partition]
    ours, our_times = applied(plan)
    there = content(corpus.directory(MID) / partition)
    times = modified(corpus.directory(MID) / partition)
    went = plan.removed()
    assert ours == {name: data for name, data in there.items() if name not in went}
    assert {int(name[:20]) for name in went} == set(DELETED_SEGMENTS[partition])
    last = max(name for name in ours if name.endswith(".log")).removesuffix(".log")
    for name in set(ours) - {"leader-epoch-checkpoint", f"{last}.index", f"{last}.timeindex"}:
        assert our_times[name] == times[name]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_second_round_at_the_same_clock_changes_nothing(corpus: Corpus, partition: str):
    case = corpus.facts(AFTER)
    facts = case["snapshots"]["after"]
    config = topic_config(config_of(case, partition))
    directory = as_directory(corpus.directory(AFTER), partition, facts)
    plan = plan_retention(directory, config, line=LINE, as_of_ms=clock(facts, partition))
    assert plan.decision.deletions == ()
    assert plan.new_segment is None
    assert plan.new_log_start_offset == plan.log_start_offset
    # files that the next start removes, also a leftover of the first round: the snapshot at the log start
    old = f"{plan.log_start_offset:020d}.snapshot"
    assert set(plan.removed()) == {name for name in directory.files if name.endswith(".deleted") or name == old}


def test_what_is_compacted_and_deleted_from_goes_through_both_commands_one_after_the_other(
    corpus: Corpus, tmp_path: Path
):
    """The broker's cleaner thread did both in one go, at the same clock but for a few milliseconds."""
    source, there = (corpus.directory(moment) / "r-cd-0" for moment in (MID, AFTER))
    facts = corpus.facts(AFTER)
    config = [
        part
        for name, value in (config_of(facts, "r-cd-0") | CLEANED_WITH).items()
        for part in ("--config", f"{name}={value}")
    ]
    cleaned, left = tmp_path / "cleaned", tmp_path / "left"
    given = ["--compat", "4.0", *config]
    clock_of_cleaning = CLEANED_HORIZON_MS - int(facts["topic_configs"]["r-cd"]["delete.retention.ms"])
    for command, begins, ends, at in (
        ("compact", source, cleaned, clock_of_cleaning),
        ("retain", cleaned / "r-cd-0", left, clock(facts["snapshots"]["after"], "r-cd-0")),
    ):
        to = ["--out", str(ends / "r-cd-0"), "--checkpoints-out", str(ends), "--as-of", str(at)]
        assert main([command, str(begins), *to, *given]) == 0
    ours, theirs = content(left / "r-cd-0"), content(there)
    assert epochs(ours.pop("leader-epoch-checkpoint")) == [(0, 27), (2, 82)]
    assert epochs(theirs.pop("leader-epoch-checkpoint")) == [(0, 27), (4, 82)]  # it had been started once more
    assert ours == theirs
    closed = {f"{57:020d}.index", f"{57:020d}.timeindex"}
    times = modified(there)
    assert {name: at for name, at in modified(left / "r-cd-0").items() if name in ours and name not in closed} == {
        name: at for name, at in times.items() if name in theirs and name not in closed
    }
    assert "r-cd 0 57\n" in (left / "cleaner-offset-checkpoint").read_text()
