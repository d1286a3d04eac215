"""Rounds of cleaning by real brokers, and by the lake that took the same logs: the same segments and indexes.

A case is a log directory before a broker's cleaner and after it. What was before is ingested, validated, published and
compacted at the broker's clock; then the archive is compared with what the broker left.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.segments.side_files import transaction_index
from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig, IngestConfig, JobReport, PublishConfig, ValidateConfig
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.log_directory import side_file
from spark_jobs.policies.policies_file import read_policies
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import snapshot
from tests.conformance.test_cleaned_rounds import LINES, NOT_CLEANED, modern_config

pytestmark = pytest.mark.spark

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
AS_OF_MS = 1_900_000_000_000


def take(lake: Path, source: Path, number: int) -> None:
    """Each round has another log directory. A log keeps its source until an option names another one."""
    run, now = f"take-{number}", AS_OF_MS + number
    options = {"topics": ("c-*",), "move_source": number > 1}
    launch.run(IngestConfig(str(lake), (str(source),), run, now, **options))
    launch.run(ValidateConfig(str(lake), run, now))
    launch.run(PublishConfig(str(lake), run, now))


def compact(lake: Path, topic: str, settings: dict[str, object], now: int) -> JobReport:
    policies = lake.parent / f"{topic}.yaml"
    lines = [f"    {name}: {value}" for name, value in settings.items()]
    policies.write_text("\n".join(["topics:", f"  {topic}:", "    cleanup.policy: compact", *lines]))
    (log,) = [row.log for row in archive.read_logs(str(lake)).values() if row.topic == topic]
    return launch.run(
        CompactionConfig(str(lake), f"clean-{now}", now, read_policies(str(policies)), (log,), apply=True)
    )


def settings_of(corpus: Corpus, version: str, topic: str, *, spread: bool) -> dict[str, object]:
    config = modern_config(corpus.facts(snapshot(f"compaction-{version}/before1")), version, topic)
    stated: dict[str, object] = {
        "segment.bytes": config.segment_bytes,
        "segment.index.bytes": config.segment_index_bytes,
        "index.interval.bytes": config.index_interval_bytes,
        "delete.retention.ms": config.delete_retention_ms,
        "min.compaction.lag.ms": config.min_compaction_lag_ms,
        "min.cleanable.dirty.ratio": config.min_cleanable_dirty_ratio,
        "compat": str(LINES[version]),
    }
    if spread:
        return stated | {"compaction.spread.bytes": 0}
    return stated | {"log.cleaner.dedupe.buffer.size": config.log_cleaner_dedupe_buffer_size}


def archived(lake: Path, topic: str, end: int) -> dict[str, bytes]:
    """Live segments below an offset, with their indexes, by the names that a broker has for them."""
    (log,) = [row.log for row in archive.read_logs(str(lake)).values() if row.topic == topic]
    found = {}
    for segment in archive.read_segments(str(lake), [log]):
        for suffix in SUFFIXES:
            path = lake / side_file(segment.path, suffix)
            if path.exists() and segment.base_offset < end:
                found[f"{segment.base_offset:020d}{suffix}"] = path.read_bytes()
    return found


def left_by_broker(directory: Path, end: int) -> dict[str, bytes]:
    paths = (path for path in directory.iterdir() if path.suffix in SUFFIXES and int(path.name[:20]) < end)
    return {path.name: path.read_bytes() for path in paths}


def assert_same(ours: dict[str, bytes], broker: dict[str, bytes]) -> None:
    """The same files, but for beginnings in transaction indexes: a broker keeps what it wrote when it took a
    transaction, a lake derives it again, and by then its first batches, or another one, may be cleaned away."""
    assert ours.keys() == broker.keys()
    differing = {name for name in ours if ours[name] != broker[name]}
    for name in (name for name in differing if name.endswith(".txnindex")):
        assert ends(name, ours[name]) == ends(name, broker[name]), name
        print(f"{name}: the ends of transactions alone are alike")
    assert [name for name in differing if not name.endswith(".txnindex")] == []


def ends(name: str, content: bytes) -> list[tuple[int, int]]:
    entries = transaction_index.parse(content, int(name[:20]))
    return [(each.producer_id, each.last_offset) for each in entries]


ROUNDS = {"3.9.2": 2, "4.1.2": 2, "4.4.0": 3}


@pytest.mark.long
@pytest.mark.parametrize(("version", "spread"), [("3.9.2", False), ("4.1.2", False), ("4.4.0", False), ("4.4.0", True)])
def test_a_lake_that_took_what_the_broker_had_leaves_what_the_broker_left(
    corpus: Corpus, tmp_path: Path, version: str, spread: bool
):
    """Round by round, new records of the broker are ingested after the records that were cleaned here."""
    lake = tmp_path / "lake"
    for number in range(1, ROUNDS[version] + 1):
        compared = 0
        before, after = (snapshot(f"compaction-{version}/{name}{number}") for name in ("before", "after"))
        take(lake, corpus.directory(before), number)
        facts = corpus.facts(before)
        stated = facts["snapshots"][after.name]
        for topic in facts["topics"]:
            as_of = stated["as_of"][f"{topic}-0"]
            now = (as_of["as_of_ms"] or as_of["cleaning_began_ms"] or [stated["taken_ms"]])[0]
            report = compact(lake, topic, settings_of(corpus, version, topic, spread=spread), now)
            if (version, number, f"{topic}-0") in NOT_CLEANED:
                assert report.plan.logs == (), topic
                continue
            assert report.findings == (), topic
            assert report.metrics["spread_logs"] == spread, topic
            (planned,) = report.plan.logs
            ours = archived(lake, topic, planned.end_offset)
            broker = left_by_broker(corpus.directory(after) / f"{topic}-0", planned.end_offset)
            assert_same(ours, broker)
            compared += 1
        assert compared == len(facts["topics"]) - sum(each[:2] == (version, number) for each in NOT_CLEANED)
