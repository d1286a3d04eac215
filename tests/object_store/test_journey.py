"""The whole way with the lake on an object store: what comes out equals what comes out in a local directory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import (
    CompactionConfig,
    IngestConfig,
    PublishConfig,
    RebuildIndexesConfig,
    TidyArchiveConfig,
    ValidateConfig,
)
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.lease import hold
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS
from tests.spark.cycle import AS_OF_MS

pytestmark = [pytest.mark.object_store, pytest.mark.spark]


def turn(lake: str, source: Path, run_id: str) -> None:
    launch.run(IngestConfig(lake, (str(source),), run_id, AS_OF_MS))
    launch.run(ValidateConfig(lake, run_id, AS_OF_MS))
    launch.run(PublishConfig(lake, run_id, AS_OF_MS))


def rows(lake: str, name: str) -> list[dict[str, Any]]:
    table = open_table(lake, name)
    if table is None:
        return []
    return sorted(open_dataset(lake, name, table).to_table().to_pylist(), key=repr)


def versions(lake: str) -> dict[str, int]:
    return {name: table.version() for name in TABLES if (table := open_table(lake, name)) is not None}


def loglake(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a person types it, in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    command = [sys.executable, "-m", "logcore.cli.main", *arguments]
    given = clean | {"DAGSTER_HOME": str(home)} | environment
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


@pytest.mark.long
def test_every_table_equals_that_of_a_local_lake_and_a_second_turn_writes_nothing(bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(40)
    orders.append(5, attributes=0x10, producer_id=7)
    orders.marker(7, 1)
    orders.roll()
    orders.append(20)
    orders.write(b"torn")
    logs.partition("orders-1").append(3)
    logs.high_watermarks(orders_0=60, orders_1=3)
    remote, local = f"{bucket}/lake", str(tmp_path / "lake")
    for lake in (remote, local):
        turn(lake, logs.path, "run-1")
    appended = orders.next_offset
    orders.segments()[-1].write_bytes(orders.segments()[-1].read_bytes().removesuffix(b"torn"))
    orders.append(10)
    logs.high_watermarks(orders_0=appended + 2, orders_1=3)
    for lake in (remote, local):
        turn(lake, logs.path, "run-2")
    orders.truncate(appended + 5)
    orders.append(10, tag=b"of the next leader", leader_epoch=1)
    orders.epochs([(0, 0), (1, appended + 5)])
    logs.high_watermarks(orders_0=appended + 15, orders_1=3)
    for lake in (remote, local):
        turn(lake, logs.path, "run-3")

    for name in TABLES:
        assert rows(remote, name) == rows(local, name), name
    visible = [(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows(remote, "records")]
    assert sorted(visible) == [
        *(("orders", 0, offset, value) for offset, (_, value) in sorted(orders.rows.items())),
        *(("orders", 1, offset, b"v%d" % offset) for offset in range(3)),
    ]
    for segment in rows(remote, "segments"):
        assert storage.read(f"{remote}/{segment['path']}") == (Path(local) / segment["path"]).read_bytes()

    assert {segment["retired_because"] for segment in rows(remote, "segments")} == {None, "cut-back"}
    before = versions(remote)
    turn(remote, logs.path, "run-4")
    assert versions(remote) == before == versions(local)


def test_deltalake_duckdb_and_polars_read_the_records_where_they_lie(bucket, tmp_path, server):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(30)
    logs.high_watermarks(orders_0=30)
    turn(f"{bucket}/lake", logs.path, "run-1")
    expected = sorted((offset, value) for offset, (_, value) in orders.rows.items())
    uri = f"{bucket}/lake/tables/records"

    table = DeltaTable(uri).to_pyarrow_table(columns=["offset", "value"])
    assert sorted(zip(*(column.to_pylist() for column in table.columns), strict=True)) == expected
    records = open_dataset(f"{bucket}/lake", "records", DeltaTable(uri))
    assert duckdb.sql("SELECT \"offset\", value FROM records WHERE topic = 'orders' ORDER BY 1").fetchall() == expected
    assert isinstance(records.schema, pa.Schema)
    options = {name.lower(): os.environ[name] for name in os.environ if name.startswith("AWS_") and "CA" not in name}
    frame = pl.read_delta(uri, storage_options=options, columns=["offset", "value"])
    assert sorted(frame.rows()) == expected


@pytest.mark.long
def test_what_tends_the_archive_works_on_objects_too(bucket, tmp_path):
    logs = LogDirectory(tmp_path / "source")
    orders = logs.partition("orders-0")
    orders.append(20)
    orders.roll()
    orders.append(20)
    orders.roll()
    orders.append(5)
    logs.high_watermarks(orders_0=45)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  orders:\n    cleanup.policy: compact\n")
    lakes = (f"{bucket}/lake", str(tmp_path / "lake"))
    for lake in lakes:
        turn(lake, logs.path, "run-1")
        launch.run(CompactionConfig(lake, "run-2", AS_OF_MS, read_policies(str(policies)), apply=True))
        launch.run(RebuildIndexesConfig(lake, "run-3", AS_OF_MS))
        storage.put(storage.join(lake, "archive", "nobody", "knows"), b"this")
    remote, local = (sorted(_files(lake)) for lake in lakes)
    assert remote == local
    assert len([path for path, _ in remote if path.endswith(".index")]) >= 2
    for name in ("segments", "offset_ledger", "validations", "log_actions"):
        assert rows(lakes[0], name) == rows(lakes[1], name), name
    young = launch.run(TidyArchiveConfig(lakes[0], "run-4", AS_OF_MS)).plan
    assert young.orphans.files == ()
    clock_ms = storage.clock_ms(lakes[0])
    now = {"as_of_ms": clock_ms, "orphan_after_ms": 0, "force": True, "policies": read_policies(str(policies))}
    listed = launch.run(TidyArchiveConfig(lakes[0], "run-5", **now)).plan
    assert "archive/nobody/knows" in [file.path for file in listed.orphans.files]
    launch.run(TidyArchiveConfig(lakes[0], "run-6", apply=True, **now))
    assert not storage.exists(storage.join(lakes[0], "archive", "nobody", "knows"))
    left = [storage.join(lakes[0], s["path"]) for s in rows(lakes[0], "segments") if s["retired_ms"] is None]
    assert left
    assert all(storage.exists(path) for path in left)


def _files(lake: str) -> list[tuple[str, int]]:
    archive = storage.join(lake, "archive")
    return [(storage.relative(file.path, archive), file.size) for file in storage.files_below(archive)]


@pytest.mark.long
@pytest.mark.dagster
def test_the_command_makes_checked_tables_of_a_sample_and_a_second_run_finds_nothing_new(bucket, tmp_path, sample):
    source, lake = str(sample("transactions-4.4.0").logdir), f"{bucket}/lake"
    operator = str(tmp_path / "home")
    first = loglake("run", source, "--lake", lake, home=tmp_path / "dagster", LOGLAKE_HOME=operator)
    assert (first.returncode, first.stderr) == (1, "")  # the broker left transactions open
    assert f"{lake}/tables/records" in first.stdout
    consumed = sample("transactions-4.4.0").consumed()
    assert len(rows(lake, "records")) == len(consumed)
    assert storage.exists(f"{lake}/data_docs/index.html")
    (answers,) = Path(operator, "expectations").iterdir()
    assert '"success": true' in answers.read_text()
    before = versions(lake)
    second = loglake(
        "run", source, "--lake", f"{lake}/", home=tmp_path / "dagster", LOGLAKE_HOME=operator, JAVA_HOME="/not/there"
    )
    assert (second.returncode, second.stderr) == (1, "")
    assert "nothing new" in second.stdout
    assert versions(lake) == before
    with hold(lake, "the test"):
        refused = loglake("run", source, "--lake", lake, home=tmp_path / "dagster")
    assert refused.returncode == 3
    assert f"The lake {lake} is being worked on by 'the test' (process {os.getpid()} on" in refused.stderr


def test_an_endpoint_that_does_not_answer_is_one_paragraph_and_code_3(bucket, tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        refused = loglake(
            "run", str(tmp_path), "--lake", f"{bucket}/lake", home=tmp_path / "dagster", AWS_ENDPOINT_URL=endpoint
        )
    assert refused.returncode == 3
    assert refused.stdout == ""
    assert refused.stderr.startswith(f"error: {bucket}/lake/")
    assert f": the object store at {endpoint} cannot be reached" in refused.stderr
    assert refused.stderr.count("\n") == 1
