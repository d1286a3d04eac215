"""One round of cleaning by real brokers, and by ours on the same files at the same clock: the same directory.

Every file of every partition is accounted for. What differs is named, and nothing else may:

    <name>.deleted              what a round replaced and the broker had not removed yet: exactly what ours replaces
    leader-epoch-checkpoint     the broker became leader once more when it was started: one entry, at the log end
    partition.metadata          in logs of brokers without topic ids it was made by the newer broker
    times of the active index   the clean stop closed the active segment's indexes again, with the bytes they had
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logcore.columns.engines import new_cleaner
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.compaction.compaction_plan import CompactionOutcome, CompactionPlan, plan_compaction, run_compaction
from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.segments.side_files import checkpoints, producer_state
from logcore.storage.partition_directories import partition_directory
from tests.conformance.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

LINES = {"3.9.2": BrokerLine.V3_9, "4.1.2": BrokerLine.V4_0, "4.4.0": BrokerLine.V4_4}

INDEX_INTERVAL = {
    "3.9.2": {0: "none gzip lz4 mixed txn keep lag", 200: "snappy lat old", 500: "zstd open"},
    "4.1.2": {200: "lz4 zstd txn lat old lag open", 500: "none gzip snappy mixed keep"},
    "4.4.0": {0: "gzip lz4 zstd old keep open", 200: "none txn", 500: "snappy mixed lat lag"},
}
"""The topics' index.interval.bytes, which the cases do not state; any other makes other indexes."""

MODERN = [(version, number) for version in LINES for number in (1, 2, 3) if number < 3 or version == "4.4.0"]
LEGACY = [(version, source) for version in LINES for source in ("before", "before2")]

NOT_CLEANED = {
    ("3.9.2", 2, "c-lag-0"),
    ("4.1.2", 2, "c-lag-0"),
    ("4.4.0", 3, "c-lag-0"),
    ("4.4.0", 3, "c-open-0"),
}
"""Younger than min.compaction.lag.ms, or an open transaction in front of all that is dirty."""


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a round of ours makes of a directory."""

    plan: CompactionPlan
    outcome: CompactionOutcome
    files: dict[str, File]


def cleaned(directory: PartitionDirectory, config: TopicConfig, line: BrokerLine, now: int) -> Cleaned | Refusal:
    plan = plan_compaction(directory, config, line=line, as_of_ms=now)
    if isinstance(plan, Refusal):
        return plan
    slow, fast = (carried_out(plan, cleaner) for cleaner in (PlainCleaner(), new_cleaner()))
    assert slow == fast, "every way of cleaning leaves the same bytes"
    return fast


def carried_out(plan: CompactionPlan, cleaner: Cleaner) -> Cleaned:
    directory = plan.directory
    files: dict[str, File] = {}

    @contextmanager
    def stream(name: str, modified_ms: int) -> Iterator[BytesIO]:
        sink = BytesIO()
        yield sink
        files[name] = File(sink.getvalue(), modified_ms)

    outcome = run_compaction(plan, stream, cleaner)
    for name, file in outcome.files.items():
        assert name not in files
        match file:
            case Keep(source):
                kept = directory.files[source]
                files[name] = File(bytes(kept.content), kept.modified_ms)
            case Write(content, modified_ms):
                files[name] = File(content, modified_ms)
            case _:
                pytest.fail(f"cleaning cuts no file, and {name} was")
    return Cleaned(plan, outcome, files)


@contextmanager
def opened(path: Path, times: dict[str, int]) -> Iterator[PartitionDirectory]:
    """A partition directory; times: of change in ms, by `<directory>/<file>`."""
    with partition_directory(str(path)) as directory:
        stated = {
            name: replace(file, modified_ms=times.get(f"{path.name}/{name}", file.modified_ms))
            for name, file in directory.files.items()
        }
        yield replace(directory, files=stated)


@cache
def archived_times(case: Snapshot) -> dict[str, dict[str, int]]:
    """Times of change as the archive states them, by snapshot: unpacking takes them through a float, which is one
    millisecond off at times."""
    times: dict[str, dict[str, int]] = {}
    with tarfile.open(case.archive) as archive:
        for member in archive:
            _, _, inside = member.name.partition("/")
            name, _, path = inside.partition("/")
            stated = Decimal(member.pax_headers.get("mtime", member.mtime))
            times.setdefault(name, {})[path] = int(stated * 1000)
    return times


def assert_same(ours: Cleaned, broker: PartitionDirectory, *, made_newer: bool = False) -> None:
    """Every file of the broker's directory against ours."""
    theirs = {name: File(bytes(file.content), file.modified_ms) for name, file in broker.files.items()}
    waiting = {name for name in theirs if name.endswith(".deleted")}
    replaced = set(ours.outcome.removed) - set(ours.plan.start.dropped)
    assert waiting in (set(), {f"{name}.deleted" for name in replaced})
    extra = {"partition.metadata", "leader-epoch-checkpoint"} - set(ours.files) if made_newer else set()
    assert set(ours.files) | extra == set(theirs) - waiting

    active = f"{max(int(name[:20]) for name in ours.files if name.endswith('.log')):020d}"
    for name, mine in ours.files.items():
        other = theirs[name]
        if name == "leader-epoch-checkpoint":
            before, after = (checkpoints.parse_leader_epochs(each) for each in (mine.content, other.content))
            assert after[:-1] == before
            assert after[-1].start_offset == ours.plan.log_end_offset
            continue
        if name.endswith(".snapshot"):
            mine_known, known = (set(producer_state.parse(each)) for each in (mine.content, other.content))
            assert mine_known == known, name
            continue
        if name.endswith((".log", ".index", ".timeindex")) and name not in (f"{active}.index", f"{active}.timeindex"):
            assert mine.modified_ms == other.modified_ms, name
        assert mine.content == other.content, name


def modern_config(facts: dict[str, Any], version: str, topic: str) -> TopicConfig:
    (interval,) = (number for number, names in INDEX_INTERVAL[version].items() if topic[2:] in names.split())
    return TopicConfig(
        cleanup_policy=("compact",),
        segment_bytes=1500,
        segment_index_bytes=2040,
        index_interval_bytes=interval,
        delete_retention_ms=facts["topic_delete_retention_ms"][topic],
        min_compaction_lag_ms=3_600_000 if topic == "c-lag" else 0,
        min_cleanable_dirty_ratio=0.01,
        log_cleaner_dedupe_buffer_size=2_097_152,
    )


@pytest.mark.parametrize(("version", "number"), MODERN)
def test_a_round_gives_the_directory_that_the_broker_left(corpus: Corpus, version: str, number: int):
    before, after = (snapshot(f"compaction-{version}/{name}{number}") for name in ("before", "after"))
    facts = corpus.facts(before)
    stated = facts["snapshots"][after.name]
    times = archived_times(before)
    compared = 0
    for topic in facts["topics"]:
        name = f"{topic}-0"
        as_of = stated["as_of"][name]
        now = (as_of["as_of_ms"] or as_of["cleaning_began_ms"] or [stated["taken_ms"]])[0]
        with (
            opened(corpus.directory(before) / name, times[before.name]) as source,
            opened(corpus.directory(after) / name, times[after.name]) as broker,
        ):
            ours = cleaned(source, modern_config(facts, version, topic), LINES[version], now)
            if (version, number, name) in NOT_CLEANED:
                assert isinstance(ours, Refusal), name
                assert ours.reason is RefusalReason.NOTHING_CLEANABLE
                assert not as_of["cleaned"]
                for log in (each for each in source.files if each.endswith(".log")):
                    assert bytes(source.files[log].content) == bytes(broker.files[log].content)
                continue
            assert isinstance(ours, Cleaned), f"{name}: {ours}"
            assert ours.plan.why_not is None, name
            assert ours.outcome.first_dirty_offset == stated["cleaner_checkpoint"][name], name
            root = ours.outcome.root
            assert (root.first_dirty_offset, root.recovery_point, root.high_watermark, root.log_start_offset) == (
                broker.first_dirty_offset,
                broker.recovery_point,
                broker.high_watermark,
                broker.log_start_offset,
            ), name
            assert_same(ours, broker)
            compared += 1
    assert compared == len(facts["topics"]) - sum(each[:2] == (version, number) for each in NOT_CLEANED)


@pytest.mark.parametrize(("version", "source_name"), LEGACY)
def test_a_round_over_old_formats_gives_the_directory_that_the_newer_broker_left(
    corpus: Corpus, version: str, source_name: str
):
    before = snapshot(f"compact-2.8.2/{source_name}")
    after = snapshot(f"compact-2.8.2/{source_name.replace('before', 'after')}-{version}")
    facts = corpus.facts(before)
    times = facts["mtimes_ms"]
    compared = 0
    for topic, settings in facts["topics"].items():
        name = f"{topic}-0"
        now = facts["broker_clean_now_ms"].get(after.name, {}).get(name)
        config = TopicConfig(
            cleanup_policy=("compact",),
            segment_bytes=settings["segment_bytes"],
            segment_index_bytes=1_048_576,
            delete_retention_ms=settings["delete_retention_ms"],
        )
        with (
            opened(corpus.directory(before) / name, times[before.name]) as source,
            opened(corpus.directory(after) / name, times[after.name]) as broker,
        ):
            # 3.9 stamps nothing into old formats: its clock leaves no trace in them.
            assert (now is None) == (version == "3.9.2")
            ours = cleaned(source, config, LINES[version], 1_800_000_000_000 if now is None else now)
            assert isinstance(ours, Cleaned), f"{name}: {ours}"
            assert ours.outcome.first_dirty_offset == broker.first_dirty_offset, name
            assert_same(ours, broker, made_newer=True)
            compared += 1
    assert compared == 11
