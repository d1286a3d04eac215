"""`loglake run` from a log directory on an object store: the lake is that of the same directory on a disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logcore.storage.objects import listing
from pipelines.run.source_listing import listing_digest, source_state
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobReport, PublishConfig, ValidateConfig
from spark_jobs.errors import JobError, UsageError
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.lake.setup.lake_names import key_of
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.registered_lakes import home_folder
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS
from tests.object_store.gateway import Gateway, upload
from tests.spark.cycle import AS_OF_MS

pytestmark = pytest.mark.object_store

SAMPLES = ["codecs-v2-4.3.1", "transactions-4.4.0", "damaged", "internal-topics-4.4.0", "timestamps-v2-4.4.0"]
OF_FILES = {"stopped_file", "modified_ms", "etag", "finding_id"}
"""Columns that depend on when a file was written, and the digest of such a text."""
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")


def turn(lake: str, source: str, run_id: str, **ingest: Any) -> list[JobReport]:
    configs = (
        IngestConfig(lake, (source,), run_id, AS_OF_MS, **ingest),
        ValidateConfig(lake, run_id, AS_OF_MS),
        PublishConfig(lake, run_id, AS_OF_MS),
    )
    return [launch.run(config, engine="local") for config in configs]


def rows(lake: str, name: str, source: str = "no place") -> list[dict[str, Any]]:
    """Rows without what depends on the place and the time of files."""
    table = open_table(lake, name)
    if table is None:
        return []

    def plain(value: Any) -> Any:
        return TIME.sub("TIME", value.replace(source, "SOURCE")) if isinstance(value, str) else value

    found = open_dataset(lake, name, table).to_table().to_pylist()
    kept = [{key: plain(value) for key, value in row.items() if key not in OF_FILES} for row in found]
    return sorted(kept, key=repr)


def versions(lake: str) -> dict[str, int]:
    return {name: table.version() for name in TABLES if (table := open_table(lake, name)) is not None}


def of_log(lake: str, topic_partition: str) -> dict[str, Any]:
    topic, _, partition = topic_partition.rpartition("-")
    (row,) = [each for each in rows(lake, "logs") if (each["topic"], each["partition"]) == (topic, int(partition))]
    return row


def published(lake: str) -> list[tuple[str, int, int, bytes | None]]:
    return sorted((row["topic"], row["partition"], row["offset"], row["value"]) for row in rows(lake, "records"))


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLES)
def test_tables_of_a_source_and_a_lake_in_a_bucket_equal_local_ones(name, gateway_bucket, tmp_path, sample):
    logdir, source = str(sample(name).logdir), f"{gateway_bucket}/broker/logs"
    upload(sample(name).logdir, source)
    remote, local = f"{gateway_bucket}/lake", str(tmp_path / "lake")
    turn(local, logdir, "run-1")
    turn(remote, source, "run-1")
    for table in TABLES:
        assert rows(remote, table, source) == rows(local, table, logdir), table
    assert rows(remote, "segments")
    for segment in rows(remote, "segments"):
        assert storage.read(f"{remote}/{segment['path']}") == Path(local, segment["path"]).read_bytes()
    before = versions(remote)
    turn(remote, source, "run-2")
    assert versions(remote) == before


@pytest.mark.long
@pytest.mark.parametrize("name", ["codecs-v2-4.3.1", "transactions-4.4.0"])
def test_in_reference_mode_objects_are_registered_with_their_etag(name, gateway_bucket, tmp_path, sample):
    logdir, source = str(sample(name).logdir), f"{gateway_bucket}/logs"
    upload(sample(name).logdir, source)
    remote, local = f"{gateway_bucket}/lake", str(tmp_path / "lake")
    turn(local, logdir, "run-1", mode="reference")
    turn(remote, source, "run-1", mode="reference")
    for table in TABLES:
        assert rows(remote, table, source) == rows(local, table, logdir), table
    table = open_table(remote, "segments")
    assert table is not None
    listed = {f"s3://{source.split('/')[2]}/{each.key}": each.etag for each in listing.whole_listing(source)}
    registered = open_dataset(remote, "segments", table).to_table(columns=["path", "etag"]).to_pylist()
    assert registered
    assert all(row["etag"] == listed[row["path"]] and row["etag"].strip('"') for row in registered)
    assert not [file for file in storage.files_below(f"{remote}/archive") if file.path.endswith(".log")]


@pytest.mark.long
def test_growth_that_a_sync_brings_is_taken_from_where_the_archive_ends(gateway: Gateway, gateway_bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(40, per_batch=1, tag=b"x" * 50_000)
    logs.high_watermarks(orders_0=40)
    source, lake = f"{gateway_bucket}/logs", f"{gateway_bucket}/lake"
    upload(logs.path, source)
    turn(lake, source, "run-1")
    orders.append(2, per_batch=1, tag=b"y" * 50_000)
    orders.roll()
    orders.append(3)
    logs.high_watermarks(orders_0=45)
    upload(logs.path, source)
    turn(lake, source, "run-2")
    assert published(lake) == [("orders", 0, offset, value) for offset, (_, value) in sorted(orders.rows.items())]
    slices = [(row["base_offset"], row["origin_position"] > 0) for row in rows(lake, "segments")]
    assert sorted(slices) == [(0, False), (40, True), (42, False)]


@pytest.mark.long
def test_a_run_with_nothing_new_lists_the_source_and_reads_no_object(gateway: Gateway, gateway_bucket, tmp_path):
    """With an unfinished batch at the end of a log too."""
    logs = LogDirectory(tmp_path / "source")
    for number in range(30):
        partition = logs.partition(f"orders-{number}")
        partition.append(5)
        partition.roll()
        partition.append(5)
    logs.partition("torn-0").append(5)
    logs.partition("torn-0").write(b"torn")
    logs.partition("unwritten-0").roll(0)
    logs.high_watermarks(**{f"orders_{number}": 10 for number in range(30)}, torn_0=5, unwritten_0=0)
    source, lake = f"{gateway_bucket}/logs", str(tmp_path / "lake")
    upload(logs.path, source)
    turn(lake, source, "run-1")
    for attempt in (2, 3):
        before = gateway.requests(gateway_bucket.removeprefix("s3://"))
        turn(lake, source, f"run-{attempt}")
        assert gateway.requests(gateway_bucket.removeprefix("s3://")) - before == {"ListObjectsV2": 1}


def test_no_value_of_a_record_is_kept_in_the_home(gateway_bucket, tmp_path):
    """Of a batch that was being written, more than its header was kept once."""
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(5, tag=b"secret")
    orders.write(orders.segments()[0].read_bytes()[:-3])
    logs.high_watermarks(orders_0=5)
    source, lake = f"{gateway_bucket}/logs", str(tmp_path / "lake")
    upload(logs.path, source)
    for number in (1, 2):
        turn(lake, source, f"run-{number}")
    (kept,) = (Path(home_folder()) / "source_reads").glob(f"{key_of(lake)}.arrow")
    with pa.ipc.open_stream(kept.read_bytes()) as stream:
        contents = stream.read_all()["content"].to_pylist()
    assert contents
    assert not any(b"secret" in content for content in contents)
    assert kept.parent.stat().st_mode & 0o077 == 0


def test_what_was_remembered_of_another_object_is_not_used(gateway_bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(10)
    logs.high_watermarks(orders_0=5)
    source, lake = f"{gateway_bucket}/logs", str(tmp_path / "lake")
    upload(logs.path, source)
    turn(lake, source, "run-1")
    assert len(published(lake)) == 5
    logs.high_watermarks(orders_0=8)
    upload(logs.path, source)
    turn(lake, source, "run-2")
    assert len(published(lake)) == 8


def test_a_damaged_memory_costs_requests_and_nothing_else(gateway: Gateway, gateway_bucket, tmp_path, sample):
    source, lake = f"{gateway_bucket}/logs", str(tmp_path / "lake")
    upload(sample("transactions-4.4.0").logdir, source)
    turn(lake, source, "run-1")
    memories = list(Path(os.environ["LOGLAKE_HOME"], "source_reads").glob("lake-*.arrow"))
    assert memories
    for content in (b"", b"damaged", memories[0].read_bytes()[:-40]):
        for memory in memories:
            memory.write_bytes(content)
        before = versions(lake)
        turn(lake, source, "run-2")
        assert versions(lake) == before


def test_a_registered_object_that_is_replaced_stops_its_log_and_no_other(gateway_bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    for name in ("orders-0", "orders-1"):
        logs.partition(name).append(10)
    logs.high_watermarks(orders_0=10, orders_1=10)
    source, lake = f"{gateway_bucket}/logs", str(tmp_path / "lake")
    upload(logs.path, source)
    turn(lake, source, "run-1", mode="reference")
    before = published(lake)
    kept = (logs.path / "orders-0" / f"{0:020d}.log").read_bytes()
    for name in ("orders-0", "orders-1"):
        logs.path.joinpath(name, f"{0:020d}.log").write_bytes(kept if name == "orders-1" else kept[:-1] + b"?")
    orders_1 = logs.partition("orders-1")
    orders_1.next_offset = 10
    orders_1.roll()
    orders_1.append(5)
    shutil.copy(logs.path / "orders-1" / f"{10:020d}.log", tmp_path / "more")
    upload(logs.path, source)
    turn(lake, source, "run-2", mode="reference")
    stopped = of_log(lake, "orders-0")
    assert stopped["stopped"] == "source-changed"
    assert f"{source}/orders-0/{0:020d}.log was registered at its source" in stopped["stopped_because"]
    assert of_log(lake, "orders-1")["stopped"] is None
    assert published(lake)[: len(before)] == before


@pytest.mark.parametrize("is_requested", [False, True])
def test_a_log_whose_registered_objects_are_gone_is_not_moved(gateway_bucket, tmp_path, is_requested):
    directory, lake = LogDirectory(tmp_path / "logs"), str(tmp_path / "lake")
    directory.partition("orders-0").append(20)
    for place in ("before", "now"):
        upload(directory.path, f"{gateway_bucket}/{place}")
    turn(lake, f"{gateway_bucket}/before", "a", mode="reference")
    for each in list(storage.files_below(f"{gateway_bucket}/before")):
        storage.delete(each.path)
    moved = f"{gateway_bucket}/now"
    config = IngestConfig(lake, (moved,), "b", AS_OF_MS, mode="reference", move_source=is_requested)
    [said] = [finding for finding in ingest.plan(config).of_paths if finding.rule == "source-gone"]
    assert f"Put all of them back where they were registered, in {gateway_bucket}/before/orders-0," in said.message
    assert "mv " not in said.message
    assert of_log(lake, "orders-0")["source"] == f"{gateway_bucket}/before/orders-0"
    upload(directory.path, f"{gateway_bucket}/before")
    assert not [finding for finding in ingest.plan(config).of_paths if finding.rule == "source-gone"]


def test_lake_and_source_must_lie_apart(gateway_bucket, tmp_path, sample):
    upload(sample("timestamps-v2-4.4.0").logdir, f"{gateway_bucket}/logs")
    source = f"{gateway_bucket}/logs"
    for lake in (f"{source}/lake", source):
        with pytest.raises(UsageError, match="lies inside"):
            launch.check_run(lake, [source], [], NO_POLICIES)
    with pytest.raises(UsageError, match="lies inside"):
        launch.check_run(f"{gateway_bucket}/lake", [f"{gateway_bucket}/lake/archive"], [], NO_POLICIES)
    partition = next(path.name for path in sorted(sample("timestamps-v2-4.4.0").logdir.iterdir()) if path.is_dir())
    with pytest.raises(UsageError, match=f"lies inside the source {source}. "):
        launch.check_run(f"{source}/lake", [f"{source}/{partition}"], [], NO_POLICIES)
    turn(f"{gateway_bucket}/lake", source, "run-1")
    with pytest.raises(UsageError, match="lies inside the lake"):
        launch.check_run(str(tmp_path / "other"), [f"{gateway_bucket}/lake/archive"], [], NO_POLICIES)
    with pytest.raises(JobError, match=r"does not exist\. Nothing was made or changed"):
        launch.check_run(str(tmp_path / "other"), [f"{gateway_bucket}/nothing"], [], NO_POLICIES)
    launch.check_run(f"{gateway_bucket}/lake", [source], [], NO_POLICIES)


def test_a_source_can_move_from_a_disk_to_an_object_store(gateway_bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(10)
    logs.high_watermarks(orders_0=10)
    source, lake = f"{gateway_bucket}/logs", str(tmp_path / "lake")
    turn(lake, str(logs.path), "run-1")
    orders.append(10)
    logs.high_watermarks(orders_0=20)
    upload(logs.path, source)
    turn(lake, source, "run-2")
    assert len(published(lake)) == 10  # another copy of a log is left alone
    turn(lake, source, "run-3", move_source=True)
    assert len(published(lake)) == 20
    assert of_log(lake, "orders-0")["source"] == f"{source}/orders-0"


def test_lost_offsets_are_filled_from_an_object_store(gateway_bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(10)
    logs.high_watermarks(orders_0=20)
    upload(logs.path, f"{gateway_bucket}/other")
    first = logs.path / "orders-0" / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[-3] ^= 1
    first.write_bytes(content)
    lake = str(tmp_path / "lake")
    turn(lake, str(logs.path), "run-1")
    assert len(published(lake)) < 20
    turn(lake, str(logs.path), "run-2", fill_from=(f"{gateway_bucket}/other",))
    turn(lake, str(logs.path), "run-3")
    assert published(lake) == [("orders", 0, offset, value) for offset, (_, value) in sorted(orders.rows.items())]


def test_the_digests_of_a_source_change_with_every_object_and_cost_one_listing(
    gateway: Gateway, gateway_bucket, tmp_path
):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(10)
    logs.high_watermarks(orders_0=10)
    source = f"{gateway_bucket}/logs"
    upload(logs.path, source)
    name = gateway_bucket.removeprefix("s3://")
    before = gateway.requests(name)
    digest, state = listing_digest([source]), source_state([source])
    assert listing_digest([source]) == digest
    assert source_state([source]) == state
    assert gateway.requests(name) - before == {"ListObjectsV2": 4, "GetObject": 2}  # the high watermarks
    orders.append(1)
    upload(logs.path, source)
    grown = source_state([source])
    assert listing_digest([source]) != digest
    assert (grown.closed, grown.everything == state.everything) == (state.closed, False)
    orders.roll()
    orders.append(1)
    upload(logs.path, source)
    assert source_state([source]).closed != state.closed
    assert listing_digest([f"{source}/orders-0"]) != listing_digest([f"{source}/orders-1"])


@pytest.mark.long
@pytest.mark.dagster
def test_the_command_reads_a_bucket_into_a_bucket_and_says_nothing_new_the_second_time(
    gateway: Gateway, gateway_bucket, tmp_path, sample
):
    source, lake = f"{gateway_bucket}/broker", f"{gateway_bucket}/lake"
    upload(sample("transactions-4.4.0").logdir, source)
    variables = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "dagster")}
    command = [sys.executable, "-m", "logcore.cli.main", "run", source, "--lake", lake]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)

    first = run()
    assert first.returncode == 1, first.stderr  # the broker left transactions open
    consumed = sample("transactions-4.4.0").consumed()
    found = [(row["topic"], row["partition"], row["offset"]) for row in rows(lake, "records")]
    assert sorted(found) == sorted((row["topic"], row["partition"], row["offset"]) for row in consumed)
    before = gateway.requests("broker/")
    second = run()
    assert second.stdout.splitlines()[-1] == (
        "nothing new; open: 4 logs with an open transaction, failed checks: no_hanging_transaction"
    )
    assert gateway.requests("broker/") - before == {"ListObjectsV2": 1}
    home = "".join(path.read_text(errors="replace") for path in (tmp_path / "home").rglob("*.json"))
    assert source in home
    assert "not-secret" not in home
