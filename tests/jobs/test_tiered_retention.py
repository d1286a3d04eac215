"""Retention of a lake with a tiered topic: `retention.*` decides about the whole log, and `local.retention.*` never."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig, RetentionConfig, TidyArchiveConfig
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import TOPIC_ID
from tests.jobs.tiered_lake import MODES
from tests.metadata_log import MetadataLog, compact, setting
from tests.spark.archived import spans
from tests.spark.cycle import AS_OF_MS, Lake
from tests.tiered_log import TieredLog

T = 1_700_000_000_000
"""The time of all records."""
WHOLE = [(0, 10), (10, 20), (20, 25), (25, 30)]
DAY_MS = 86_400_000


class Tiered:
    """A lake of `orders`: offsets 0 to 19 in two remote segments, 20 to 29 in two local ones."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder, self.mode = folder, mode
        self.log = TieredLog(folder)
        self.log.append(5, 5, 5, 5, 5, 5)
        self.log.copy(0, 10)
        self.log.copy(10, 20)
        self.log.write(20, bases=(25,))
        self.lake = Lake(folder / "lake")
        self.turn()
        assert spans(self.lake, "orders") == WHOLE

    def turn(self, *, with_remote: bool = True) -> None:
        remote = (str(self.log.remote),) if with_remote else ()
        self.lake.turn(self.log.logs, remote=remote, mode=self.mode, topics=("orders",))

    def said(self, **settings: str) -> None:
        """The cluster says that the topic is tiered, and these settings of it."""
        topic = b"\1\2\0" + compact("orders") + base64.urlsafe_b64decode(TOPIC_ID + "==") + b"\0"
        names = {name.replace("_", "."): value for name, value in settings.items()}
        known = {"remote.storage.enable": "true", "cleanup.policy": "delete"} | names
        MetadataLog(self.log.logs).say((None, topic), *(setting("orders", *each) for each in known.items()))
        source = (str(self.log.logs),)
        launch.run(ClusterConfig(str(self.lake.path), "cluster", AS_OF_MS, source, only_metadata=True))

    def retained(self, text: str, as_of_ms: int = T + 1000) -> list[tuple[int, str]]:
        """Apply retention; returns first offsets and rules of what leaves."""
        policies = self.folder / "policies.yaml"
        policies.write_text(text)
        config = RetentionConfig(str(self.lake.path), "retain", as_of_ms, read_policies(str(policies)), apply=True)
        logs: Any = launch.run(config).plan.logs
        return [(each.base_offset, each.rule) for log in logs for each in log.segments]


@pytest.fixture(params=MODES)
def tiered(request: pytest.FixtureRequest, tmp_path: Path) -> Tiered:
    return Tiered(tmp_path, request.param)


FROM_CLUSTER = "topics: {orders: {from: cluster}}"


@pytest.mark.parametrize("retention", [{}, {"retention_ms": "-1", "retention_bytes": "-1"}, {"retention_ms": "5000"}])
def test_local_limits_of_the_cluster_remove_nothing_from_a_lake(tiered: Tiered, retention: dict[str, str]) -> None:
    """Every local segment is due at the broker, at once and by both limits."""
    tiered.said(local_retention_ms="0", local_retention_bytes="0", **retention)
    assert tiered.retained(FROM_CLUSTER) == []
    assert spans(tiered.lake, "orders") == WHOLE
    assert len(tiered.lake.published("orders")) == 30


def test_local_limits_of_the_cluster_protect_nothing_that_is_due(tiered: Tiered) -> None:
    objects = {path: path.read_bytes() for path in tiered.log.remote.rglob("*") if path.is_file()}
    tiered.said(local_retention_ms="-1", local_retention_bytes="-1", retention_ms="500")
    assert tiered.retained(FROM_CLUSTER) == [(base, "retention.ms") for base, _ in WHOLE]
    assert spans(tiered.lake, "orders") == []
    assert len(tiered.lake.published("orders")) == 30, "published rows stay"
    config = TidyArchiveConfig(str(tiered.lake.path), "tidy", T + 9 * DAY_MS, apply=True, force=True)
    launch.run(config)
    assert {path: path.read_bytes() for path in tiered.log.remote.rglob("*") if path.is_file()} == objects


def test_the_size_limit_counts_remote_and_local_segments_together(tiered: Tiered) -> None:
    sizes = [row["size"] for row in sorted(tiered.lake.rows("segments"), key=lambda row: row["base_offset"])]
    assert tiered.retained(f"topics: {{orders: {{cleanup.policy: delete, retention.bytes: {sum(sizes[1:])}}}}}") == [
        (0, "retention.bytes")
    ]
    assert spans(tiered.lake, "orders") == WHOLE[1:]


def test_what_the_policies_protect_stays_whatever_the_cluster_says(tiered: Tiered) -> None:
    tiered.said(retention_ms="0", local_retention_ms="0")
    assert tiered.retained("topics: {orders: {from: cluster, retention.ms: 1d}}") == []
    assert tiered.retained("topics: {other: {from: cluster}}") == []
    assert spans(tiered.lake, "orders") == WHOLE


@pytest.mark.parametrize("with_remote", [True, False])
def test_local_segments_that_a_broker_deleted_after_their_copy_are_no_trim(tiered: Tiered, with_remote: bool) -> None:
    """The log start of the whole log stays; only what is on the disk begins later."""
    tiered.log.copy(20, 25)
    (tiered.log.logs / "orders-0" / f"{20:020d}.log").rename(tiered.folder / "deleted")
    tiered.log.write(25)
    if tiered.mode == "copy":
        tiered.turn(with_remote=with_remote)
    follow = "topics: {orders: {cleanup.policy: [], on_trim: follow}}"
    assert tiered.retained(follow) == []
    assert spans(tiered.lake, "orders") == WHOLE


def test_a_log_start_that_moved_in_remote_storage_is_followed(tiered: Tiered) -> None:
    tiered.log.write(20, bases=(25,), log_start=10)
    tiered.turn()
    assert tiered.retained("topics: {orders: {cleanup.policy: [], on_trim: keep}}") == []
    assert tiered.retained("topics: {orders: {cleanup.policy: [], on_trim: follow}}") == [(0, "log-start-offset")]
    assert spans(tiered.lake, "orders") == WHOLE[1:]
