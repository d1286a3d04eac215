"""Workers that have another Python and none of our packages: all that they run comes with the job.

The archive is the one that the command of docs/deploy.md writes. A worker's own Python is a script that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.broker_directory import LogDirectory
from tests.cluster.standalone import CONF, StandaloneCluster

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long]

LOGLAKE = str(Path(sys.executable).with_name("loglake"))
SECONDS = 300
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value"]

PROBE = """
import json, sys
from spark_jobs.engine.session import get_session, stop_session

def said(chunks):
    import logcore, spark_jobs.ingest.segment_copy
    import pyarrow as pa
    from logcore.columns.kernels.families import FAMILIES
    from logcore.columns.kernels.library import library
    for chunk in chunks:
        where = json.dumps([sys.executable, logcore.__file__, pa.__file__, len(library().missing(FAMILIES))])
        yield pa.RecordBatch.from_pylist([{"said": where}] * chunk.num_rows)

spark = get_session()
rows = spark.range(0, 4, 1, 4).mapInArrow(said, "said string").collect()
print(json.dumps([json.loads(row.said) for row in rows]))
stop_session()
"""

DATA_SOURCE = """
import json, sys
from pyspark_loglake import register
from spark_jobs.engine.session import get_session, stop_session

spark = get_session()
register(spark)
rows = spark.read.format("loglake").option("subscribe", "orders").load(sys.argv[1]).select("offset", "value")
print(json.dumps(sorted((row.offset, bytes(row.value).decode()) for row in rows.collect())))
stop_session()
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("environment") / "loglake.tar.gz"
    command = [sys.executable, "-m", "spark_jobs.engine.worker_environment", str(path)]
    subprocess.run(command, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    other = folder / "other"
    other.mkdir()
    for name in ("python", "python3", f"python{sys.version_info.major}.{sys.version_info.minor}"):
        (other / name).write_text("#!/bin/sh\necho 'the Python of the worker was started' >&2\nexit 9\n")
        (other / name).chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{other}{os.pathsep}{before}"
    try:
        running = StandaloneCluster(folder)
        running.__enter__()
    finally:
        os.environ["PATH"] = before
    try:
        yield running
    finally:
        running.stop()


def on(cluster: StandaloneCluster, archives: str, cwd: Path) -> Mapping[str, object]:
    """Arguments of `subprocess.run` for a process whose jobs run on the cluster with that archive."""
    unwanted = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    variables = {name: value for name, value in os.environ.items() if name not in unwanted} | {
        "LOGLAKE_JOB_ENGINE": "spark",
        "LOGLAKE_SPARK_MASTER": cluster.address,
        "LOGLAKE_SPARK_CONF": json.dumps(CONF | {"spark.archives": archives}),
    }
    return {"env": variables, "cwd": cwd, "timeout": SECONDS, "capture_output": True, "text": True}


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    made = LogDirectory(tmp_path / "source")
    for number in range(3):
        partition = made.partition(f"orders-{number}")
        partition.append(40, tag=f"p{number}-".encode())
        partition.roll()
        partition.append(20, tag=f"q{number}-".encode())
    made.high_watermarks(orders_0=60, orders_1=60, orders_2=60)
    return made


def rows(lake: Path) -> list[dict[str, object]]:
    table = DeltaTable(str(lake / "tables" / "records")).to_pyarrow_table(columns=COLUMNS)
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()


def test_python_packages_and_kernels_of_a_task_come_from_the_archive(cluster, archive, tmp_path):
    run = subprocess.run([sys.executable, "-c", PROBE], **on(cluster, f"{archive}#loglake", tmp_path))
    assert run.returncode == 0, run.stderr[-3000:] + cluster.logs()
    for python, ours, arrow, kernels_to_compile in json.loads(run.stdout.splitlines()[-1]):
        for path in (python, ours, arrow):
            assert path.startswith(str(cluster.folder / "work-")), path
        assert kernels_to_compile == 0


def test_a_run_with_shipped_packages_writes_the_rows_of_a_local_run(cluster, archive, source, tmp_path):
    command = [LOGLAKE, "run", str(source.path), "--lake"]
    run = subprocess.run([*command, str(tmp_path / "lake")], **on(cluster, f"{archive}#loglake", tmp_path))
    assert run.returncode == 0, run.stderr[-3000:] + cluster.logs()
    local = os.environ | {"LOGLAKE_JOB_ENGINE": "local"}
    subprocess.run([*command, str(tmp_path / "local")], check=True, env=local, timeout=SECONDS, capture_output=True)
    assert rows(tmp_path / "lake") == rows(tmp_path / "local")
    assert len(rows(tmp_path / "lake")) == 180


def test_the_data_source_reads_with_shipped_packages_where_the_driver_has_them_too(cluster, archive, source, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "loglake", filter="tar")
    given = on(cluster, f"{archive}#loglake", tmp_path)
    run = subprocess.run([sys.executable, "-c", DATA_SOURCE, str(source.path)], **given)
    assert run.returncode == 0, run.stderr[-3000:] + cluster.logs()
    values = json.loads(run.stdout.splitlines()[-1])
    assert len(values) == 180
    assert [value for _, value in values if value.startswith("p2-")] != []


def test_an_archive_that_is_cut_ends_the_run_with_one_clear_error(cluster, archive, source, tmp_path):
    cut = tmp_path / "cut.tar.gz"
    with archive.open("rb") as whole:
        cut.write_bytes(whole.read(30 << 20))
    command = [
        str(Path(sys.executable).with_name("loglake")),
        "run",
        str(source.path),
        "--lake",
        str(tmp_path / "lake"),
    ]
    run = subprocess.run(command, **on(cluster, f"{cut}#loglake", tmp_path))
    assert run.returncode == 3, run.stdout + run.stderr[-3000:]
    last = run.stderr.splitlines()[-1]
    assert last.startswith("error: Spark could not finish"), run.stderr
    assert "./loglake/bin/python" in last, run.stderr
