"""The number of requests of a plan does not depend on the number of segments: a plan lists, and asks for no file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.run.look import outcome_without_work
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.contracts import (
    CompactionConfig,
    IngestConfig,
    JobConfig,
    OptimizeConfig,
    PublishConfig,
    RebuildIndexesConfig,
    RetentionConfig,
    TidyArchiveConfig,
    ValidateConfig,
)
from spark_jobs.lake.store import deletion, storage
from spark_jobs.policies.policies_file import NO_POLICIES, read_policies
from tests.broker_directory import LogDirectory

pytestmark = pytest.mark.object_store

AS_OF_MS = 1_800_000_000_000
POLICIES = "topics:\n  '*': {cleanup.policy: delete, retention.bytes: 1, file.delete.delay.ms: 0}\n"

RequestsOf = Callable[[Callable[[], object]], list[str]]


def filled(bucket: str, folder: Path, segments: int) -> tuple[str, Path]:
    """A lake with so many segments of one log, all published."""
    source = LogDirectory(folder)
    orders = source.partition("orders-0")
    for _ in range(segments):
        orders.append(2)
        orders.roll()
    source.high_watermarks(orders_0=2 * segments)
    lake = f"{bucket}/lake-{segments}"
    for config in intake(lake, source.path, "run-1"):
        launch.run(config, engine="local")
    return lake, source.path


def intake(lake: str, source: Path, run_id: str) -> list[JobConfig]:
    return [
        IngestConfig(lake, (str(source),), run_id, AS_OF_MS),
        ValidateConfig(lake, run_id, AS_OF_MS),
        PublishConfig(lake, run_id, AS_OF_MS),
    ]


def upkeep(lake: str, policies: str) -> list[JobConfig]:
    return [
        RetentionConfig(lake, "run-2", AS_OF_MS, read_policies(policies)),
        CompactionConfig(lake, "run-2", AS_OF_MS, read_policies(policies)),
        TidyArchiveConfig(lake, "run-2", AS_OF_MS, read_policies(policies)),
        RebuildIndexesConfig(lake, "run-2", AS_OF_MS, read_policies(policies)),
        OptimizeConfig(lake, "run-2", AS_OF_MS),
    ]


@pytest.mark.long
def test_no_plan_makes_a_request_for_each_segment(bucket: str, tmp_path: Path, requests_of: RequestsOf) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICIES)
    counts: dict[str, list[int]] = {}
    for segments in (3, 30):
        lake, source = filled(bucket, tmp_path / f"source-{segments}", segments)
        for config in (*intake(lake, source, "run-2"), *upkeep(lake, str(policies))):
            launch.plan(config)  # the second plan of a process knows the tables
            found = requests_of(lambda config=config: launch.plan(config))
            counts.setdefault(config.JOB, []).append(len(found))
            written = [each for each in found if each.startswith(("PUT", "POST", "DELETE"))]
            assert all(each.endswith("/lease-clock") for each in written), (config.JOB, written)
    assert len(counts) == 8
    assert all(0 < many <= few + 3 for few, many in counts.values()), counts


@pytest.mark.long
def test_a_look_for_work_lists_and_reads_nothing_twice(bucket: str, tmp_path: Path, requests_of: RequestsOf) -> None:
    lake, source = filled(bucket, tmp_path / "source", 3)
    request = RunRequest(sources=(str(source),))
    outcome_without_work(lake, request, NO_POLICIES, AS_OF_MS)
    found = requests_of(lambda: outcome_without_work(lake, request, NO_POLICIES, AS_OF_MS))
    listed = Counter(each for each in found if "list-type" in each)
    assert any("/segments/_delta_log/" in each for each in listed)
    assert max(listed.values()) == 1, listed
    opened = Counter(each for each in found if each.startswith("HEAD"))
    assert any("/tables/logs/part-" in each for each in opened)
    assert max(opened.values()) <= 3, opened  # with other columns or conditions


def test_many_files_are_deleted_with_few_requests(bucket: str, requests_of: RequestsOf) -> None:
    paths = [f"archive/l.0/0/{number:04d}/segment.log" for number in range(40)]
    for path in paths:
        storage.put(f"{bucket}/lake/{path}", b"bytes")
    storage.put(f"{bucket}/lake/archive/kept.log", b"bytes")
    newer = storage.stat(f"{bucket}/lake/{paths[0]}").placed_ms
    removed: list[str] = []

    def delete(before_ms: int) -> None:
        done = deletion.delete_all_below(f"{bucket}/lake", [*paths, "archive/gone.log"], placed_before_ms=before_ms)
        assert not done.failed
        removed.extend(done.removed)

    delete(newer - 1)
    assert removed == []
    found = requests_of(lambda: delete(2**62))
    assert sorted(removed) == paths
    assert len(found) <= 3, found
    assert [file.path for file in storage.files_below(f"{bucket}/lake")] == [f"{bucket}/lake/archive/kept.log"]
