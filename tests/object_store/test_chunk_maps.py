"""Chunk maps that a lake registers: how often manifests in a bucket are read, by a first run, rounds and later runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from logcore.cli.main import main
from logcore.remote.chunked.chunk_map import ChunkMap, packed
from logcore.remote.chunked.segment_manifest import parse_manifest
from logcore.storage.remote_tier import known_manifests
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig, ReplaceConfig, ValidateConfig
from spark_jobs.lake.store import local_copies
from tests import remote_objects
from tests.broker_directory import LogDirectory
from tests.conformance.remote_lakes import with_private_key
from tests.in_process import without_spark
from tests.object_store.gateway import Gateway, upload
from tests.remote_storage import RemoteStorage, tiered
from tests.spark.cycle import AS_OF_MS, OF_OURS, Lake

pytestmark = pytest.mark.object_store

LOG_COUNT = 3


@pytest.fixture(autouse=True)
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(known_manifests, "_kept", known_manifests._Kept())
    with with_private_key(tmp_path), without_spark():
        yield


@dataclass
class Tier:
    """A log with its beginning in a bucket, and a lake that refers to it there."""

    source: LogDirectory
    storage: RemoteStorage
    address: str
    lake: Lake
    gateway: Gateway

    def run(self, **ingest: Any) -> dict[str, int]:
        """A whole run with copies of what it registered; returns how often each manifest was read."""
        with local_copies.keeping(str(self.lake.path)):
            return self.reads(
                lambda: self.lake.turn(self.source.path, remote=(self.address,), mode="reference", **ingest)
            )

    def reads(self, work: Callable[[], object]) -> dict[str, int]:
        """How often each manifest is read by some work."""
        before = self._counts()
        work()
        return {name: count - before[name] for name, count in self._counts().items()}

    def _counts(self) -> dict[str, int]:
        stems = [path.stem for path in self.storage.logs()]
        return {stem: self.gateway.requests(f"{stem}.rsm-manifest")["GetObject"] for stem in stems}

    def config(self, run_id: str = "first") -> IngestConfig:
        """A first job that registers the segments."""
        paths, remote = (str(self.source.path),), (self.address,)
        return IngestConfig(str(self.lake.path), paths, run_id, AS_OF_MS, remote=remote, mode="reference")

    def maps(self) -> list[bytes | None]:
        """Chunk maps of the remote segments, by offset."""
        rows = sorted(self.lake.rows("segments"), key=lambda row: row["base_offset"])
        return [row["chunk_map"] for row in rows if row["etag"]]

    def change_maps(self, change: Callable[[list[bytes | None]], list[bytes | None]]) -> None:
        """Write the table of segments, as a commit of ours, with other chunk maps of the remote segments."""
        table = DeltaTable(str(self.lake.path / "tables" / "segments"))
        whole = pa.table(table.to_pyarrow_table())
        rows = sorted(whole.to_pylist(), key=lambda row: row["base_offset"])
        remote = [row for row in rows if row["etag"]]
        for row, content in zip(remote, change([row["chunk_map"] for row in remote]), strict=True):
            row["chunk_map"] = content
        changed, ours = pa.Table.from_pylist(rows, schema=whole.schema), CommitProperties(OF_OURS)
        write_deltalake(table, changed, mode="overwrite", commit_properties=ours)


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def tier(request: pytest.FixtureRequest, gateway: Gateway, gateway_bucket: str, tmp_path: Path) -> Tier:
    source = LogDirectory(tmp_path / "source")
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=request.param)
    upload(storage.path, f"{gateway_bucket}/tier")
    return Tier(source, storage, f"{gateway_bucket}/tier", Lake(tmp_path / "lake"), gateway)


def test_a_first_run_reads_each_manifest_once_and_later_runs_read_none(tier: Tier) -> None:
    assert set(tier.run().values()) == {1}
    assert all(tier.maps())
    for end in (55, 60):
        known_manifests._kept.maps.clear()  # as in another process
        tier.storage.partition.append(5)
        tier.source.high_watermarks(orders_0=end)
        assert set(tier.run().values()) == {0}
    assert tier.lake.published("orders") == tier.storage.partition.rows


def test_jobs_without_local_copies_read_registered_segments_without_their_manifests(tier: Tier) -> None:
    launch.run(tier.config())
    lake = str(tier.lake.path)
    jobs = (
        ValidateConfig(lake, "second", AS_OF_MS),
        PublishConfig(lake, "second", AS_OF_MS),
        ReplaceConfig(lake, "second", AS_OF_MS),
    )
    assert set(tier.reads(lambda: [launch.run(job) for job in jobs]).values()) == {0}
    assert tier.lake.published("orders") == tier.storage.partition.rows


def test_a_run_in_rounds_reads_each_manifest_once(tier: Tier) -> None:
    counts = [tier.run(max_bytes=1) for _ in range(LOG_COUNT + 2)]
    assert {name: sum(each[name] for each in counts) for name in counts[0]} == dict.fromkeys(counts[0], 1)
    assert tier.lake.published("orders") == tier.storage.partition.rows


def test_without_chunk_maps_in_the_table_manifests_are_read_as_before(tier: Tier) -> None:
    launch.run(tier.config())
    tier.change_maps(lambda maps: [None for _ in maps])
    known_manifests._kept.maps.clear()
    assert all(tier.run().values())
    assert tier.lake.published("orders") == tier.storage.partition.rows


def test_a_manifest_that_was_put_again_is_read_again_and_only_that_one(tier: Tier) -> None:
    tier.run()
    again = sorted(tier.storage.path.rglob("*.rsm-manifest"))[1]
    again.write_bytes(again.read_bytes() + b"\n")
    upload(tier.storage.path, tier.address)
    tier.storage.partition.append(5)
    tier.source.high_watermarks(orders_0=55)
    reads = tier.run()
    assert {name for name, count in reads.items() if count} == {again.stem}
    assert tier.lake.published("orders") == tier.storage.partition.rows


def test_an_object_that_was_put_again_with_its_manifest_stops_its_log(tier: Tier, tmp_path: Path) -> None:
    tier.run()
    before = tier.lake.published("orders")
    tier.storage.replace(tmp_path / "others")
    upload(tier.storage.path, tier.address)
    tier.storage.partition.append(5)
    tier.source.high_watermarks(orders_0=55)
    tier.run()
    assert tier.lake.stopped() == {"orders-0": "source-changed"}
    assert tier.lake.published("orders") == before


def test_an_object_that_was_put_again_with_its_manifest_after_a_run_registered_it_is_not_published(
    tier: Tier, tmp_path: Path
) -> None:
    launch.run(tier.config())
    tier.storage.replace(tmp_path / "others")
    upload(tier.storage.path, tier.address)
    report = launch.run(ValidateConfig(str(tier.lake.path), "second", AS_OF_MS))
    (said,) = report.findings
    assert said.finding.rule == "archive-unreadable"
    assert "another object took its name" in said.finding.message
    assert "chunk map" not in said.finding.message


def test_a_chunk_map_that_lies_is_a_finding_about_its_segment_and_gives_no_row(
    tier: Tier, capsys: pytest.CaptureFixture[str]
) -> None:
    launch.run(tier.config())
    options = {"compressed": tier.storage.is_encrypted, "is_encrypted": tier.storage.is_encrypted}
    other = remote_objects.stored_segment(bytes(2_000), {}, chunk_size=150, **options)
    lie = packed(ChunkMap(parse_manifest(other.manifest), '"other"'))
    tier.change_maps(lambda maps: [maps[0], lie, maps[2]])
    report = launch.run(ValidateConfig(str(tier.lake.path), "second", AS_OF_MS))
    (said,) = report.findings
    assert said.finding.rule == "archive-unreadable"
    assert "its registered chunk map is not that of its manifest" in said.finding.message
    assert said.finding.file == f"{tier.address}/{tier.storage.logs()[1].relative_to(tier.storage.path).as_posix()}"
    launch.run(PublishConfig(str(tier.lake.path), "second", AS_OF_MS))
    assert set(tier.lake.published("orders")) <= set(range(10))
    capsys.readouterr()
    assert main(["verify", str(tier.lake.path), "--format", "jsonl"]) == 2
    assert capsys.readouterr().out.count("Its chunk map in the table segments is not that of its manifest") == 1


@pytest.mark.parametrize("content", [b"", b"\1", b"\2" * 40], ids=["empty", "short", "other-form"])
def test_a_chunk_map_that_is_none_is_a_finding_and_the_lake_is_read_after_its_repair(
    tier: Tier, content: bytes
) -> None:
    launch.run(tier.config())
    good = tier.maps()
    tier.change_maps(lambda maps: [maps[0], content, maps[2]])
    report = launch.run(ValidateConfig(str(tier.lake.path), "second", AS_OF_MS))
    assert "its registered chunk map cannot be used" in report.findings[0].finding.message
    tier.change_maps(lambda _: good)
    tier.run()
    assert tier.lake.published("orders") == tier.storage.partition.rows
