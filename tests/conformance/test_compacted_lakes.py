"""Rounds of cleaning by real brokers, and by the lake that took the same logs: the same segments and indexes.

A case is a log directory before a broker's cleaner and after it. What was before is ingested, validated, published and
compacted at the broker's clock; what lies in the archive then is held against what the broker left.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig, IngestConfig, JobReport, PublishConfig, ValidateConfig
from spark_jobs.lake import archive
from spark_jobs.lake.log_directory import side_file
from spark_jobs.lake.log_segments import log_segments
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import snapshot
from tests.conformance.test_cleaned_rounds import LINES, modern_config

pytestmark = pytest.mark.spark

AS_OF_MS = 1_900_000_000_000
OTHER_ENCODER = "c-snappy"
"""Held against the broker's content in `test_cleaned_rounds`."""


def take(lake: Path, source: Path) -> None:
    launch.run("ingest", IngestConfig(str(lake), (str(source),), "take", AS_OF_MS, topics=("c-*",)))
    launch.run("validate", ValidateConfig(str(lake), "take", AS_OF_MS))
    launch.run("publish", PublishConfig(str(lake), "take", AS_OF_MS))


def compact(lake: Path, topic: str, settings: dict[str, object], now: int) -> JobReport:
    policies = lake.parent / f"{topic}.yaml"
    lines = [f"    {name}: {value}" for name, value in settings.items()]
    policies.write_text("\n".join(["topics:", f"  {topic}:", "    cleanup.policy: compact", *lines]))
    (log,) = [row.log for row in archive.read_logs(str(lake)).values() if row.topic == topic]
    return launch.run("compaction", CompactionConfig(str(lake), f"clean-{now}", now, str(policies), (log,), apply=True))


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


def archived(lake: Path, topic: str) -> dict[str, bytes]:
    """Live segments but for the active one, with their indexes, by the names that a broker has for them."""
    (log,) = [row.log for row in archive.read_logs(str(lake)).values() if row.topic == topic]
    active = log_segments(archive.read_segments(str(lake), [log]))[-1].base_offset
    found = {}
    for segment in archive.read_segments(str(lake), [log]):
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            path = lake / side_file(segment.path, suffix)
            if path.exists() and segment.base_offset < active:
                found[path.name] = path.read_bytes()
    return found


def left_by_broker(directory: Path) -> dict[str, bytes]:
    names = sorted(path.name for path in directory.glob("*.log"))
    kept = [path for path in directory.iterdir() if path.name[:20] + ".log" in names[:-1]]
    wanted = (".log", ".index", ".timeindex", ".txnindex")
    return {path.name: path.read_bytes() for path in kept if path.suffix in wanted}


@pytest.mark.parametrize(("version", "spread"), [("3.9.2", False), ("4.1.2", False), ("4.4.0", False), ("4.4.0", True)])
def test_a_lake_that_took_what_the_broker_had_leaves_what_the_broker_left(
    corpus: Corpus, tmp_path: Path, version: str, spread: bool
):
    lake, compared = tmp_path / "lake", 0
    before, after = (snapshot(f"compaction-{version}/{name}1") for name in ("before", "after"))
    take(lake, corpus.directory(before))
    facts = corpus.facts(before)
    stated = facts["snapshots"][after.name]
    for topic in facts["topics"]:
        as_of = stated["as_of"][f"{topic}-0"]
        now = (as_of["as_of_ms"] or as_of["cleaning_began_ms"] or [stated["taken_ms"]])[0]
        report = compact(lake, topic, settings_of(corpus, version, topic, spread=spread), now)
        assert report.findings == (), topic
        assert report.metrics["spread_logs"] == spread, topic
        if topic == OTHER_ENCODER:
            continue
        ours, broker = archived(lake, topic), left_by_broker(corpus.directory(after) / f"{topic}-0")
        assert ours.keys() == broker.keys(), topic
        assert [name for name in ours if ours[name] != broker[name]] == [], topic
        compared += 1
    assert compared >= 9
    print(f"{version}: {compared} partitions")
