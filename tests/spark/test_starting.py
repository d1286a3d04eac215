"""Spark starts from what this machine has, quietly, and fetches from a site's own repository."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine import jars
from spark_jobs.engine.jars import LockedJar, delta_jars
from spark_jobs.engine.session import get_session
from spark_jobs.errors import JobError
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS

pytestmark = pytest.mark.spark

FIRST_JOB = """
import sys
from pathlib import Path
from spark_jobs.engine.session import get_session, stop_session

def packages_of_a_worker(columns):
    import sys, logcore, spark_jobs
    import pyarrow as pa
    for _ in columns:
        yield pa.RecordBatch.from_pydict({"executable": [sys.executable]})

table = sys.argv[1]
spark = get_session(table)
spark.range(10).write.format("delta").save(table)
spark.range(10).write.format("delta").mode("append").save(table)
workers = spark.range(1).mapInArrow(packages_of_a_worker, "executable string").collect()
rows = spark.read.format("delta").load(table).count()
print(rows, workers[0].executable, spark.conf.get("spark.sql.session.timeZone"))
stop_session()
"""


def run_first_job(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A new process, elsewhere, that writes and reads a Delta table."""
    # the repository's folder on the path replaces the editable install
    settings = os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment
    command = [sys.executable, "-c", FIRST_JOB, str(tmp_path / "table")]
    return subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )


@pytest.mark.long
def test_a_first_job_writes_delta_and_says_nothing_on_the_console(tmp_path):
    done = run_first_job(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["20", sys.executable, "UTC"]
    assert done.stderr == ""


def test_a_table_made_by_the_session_is_readable_by_everyone(tmp_path, spark):
    from deltalake import DeltaTable

    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    table = DeltaTable(str(tmp_path / "table"))
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2]


def test_a_process_has_one_session(spark):
    assert get_session("elsewhere") is spark


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A Maven repository in a folder that holds one small jar, and a lock that asks for it."""
    artifact = tmp_path / "site" / "io" / "delta" / "delta-storage" / "0.1"
    artifact.mkdir(parents=True)
    (artifact / "delta-storage-0.1.jar").write_bytes(b"a small jar")
    (artifact / "delta-storage-0.1.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>io.delta</groupId><artifactId>delta-storage</artifactId>"
        "<version>0.1</version><dependencies><dependency><groupId>org.nowhere</groupId><artifactId>nothing</artifactId>"
        "<version>1</version></dependency></dependencies></project>"
    )
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="site"/><resolvers>'
        f'<ibiblio name="site" m2compatible="true" root="{(tmp_path / "site").as_uri()}/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("LOGLAKE_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LOGLAKE_JARS_DIR", raising=False)
    lock = (LockedJar("io.delta:delta-storage:0.1", hashlib.sha256(b"a small jar").hexdigest()),)
    monkeypatch.setattr(jars, "locked_jars", lambda: lock)
    return artifact


@pytest.mark.long
def test_jars_come_from_the_repository_a_site_has_named_without_their_dependencies(site, tmp_path):
    (jar,) = delta_jars()
    assert jar.read_bytes() == b"a small jar"
    assert [path.name for path in (tmp_path / "home" / "jars").iterdir()] == ["delta-storage-0.1.jar"]


@pytest.mark.long
def test_a_repository_that_serves_another_jar_leaves_no_file(site, tmp_path):
    (site / "delta-storage-0.1.jar").write_bytes(b"a swapped jar")
    with pytest.raises(JobError, match="is not the jar that"):
        delta_jars()
    assert list((tmp_path / "home" / "jars").iterdir()) == []


@pytest.mark.long
def test_a_repository_without_the_jar_is_an_error_that_says_what_can_be_configured(site):
    (site / "delta-storage-0.1.pom").unlink()
    (site / "delta-storage-0.1.jar").unlink()
    with pytest.raises(
        JobError, match=r"did not bring io\.delta:delta-storage:0\.1.*LOGLAKE_JARS_DIR.*LOGLAKE_IVY_SETTINGS"
    ):
        delta_jars()


SECRETS = """
import json, os, sys
from pathlib import Path
from spark_jobs.engine.session import get_session, stop_session

NAMES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")

def environment_of_a_worker(columns):
    import os
    import pyarrow as pa
    for _ in columns:
        yield pa.RecordBatch.from_pydict({"said": [" ".join(os.environ.get(name, "-") for name in NAMES)]})

def command_lines():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield (folder / "cmdline").read_bytes().replace(b"\\0", b" ").decode()
        except OSError:
            pass

def look():
    spark = get_session("lake")
    workers = spark.range(1).mapInArrow(environment_of_a_worker, "said string").collect()
    values = [os.environ[name] for name in NAMES] + ["settings-own-key"]
    print(json.dumps({
        "worker": workers[0].said.split(),
        "seen": [value for value in values if any(value in line for line in command_lines())],
        "java": any("SparkSubmit" in line for line in command_lines()),
        "kept": spark.conf.get("spark.hadoop.fs.s3a.secret.key"),
        "shown": [value for value in values if value in spark.sparkContext._conf.toDebugString()],
    }))

look()
stop_session()
os.environ.update({name: os.environ[name] + "-new" for name in NAMES})  # the JVM has the old ones
look()
stop_session()
"""


def run_secrets_script(
    folder: Path, conf: dict[str, str], **environment: str
) -> tuple[list[str], list[dict[str, Any]]]:
    """The values that were secret, and what the script saw with them and with new ones."""
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "hidden-secret-1f",
        "AWS_SESSION_TOKEN": "hidden-token-2e",
        "AWS_ACCESS_KEY_ID": "hidden-id-3d",
        "LOGLAKE_SPARK_CONF": json.dumps({"spark.hadoop.fs.s3a.secret.key": "settings-own-key", **conf}),
    }
    script = folder / "look_at_processes.py"  # not an argument: its text holds one of the values
    script.write_text(SECRETS)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | secrets | environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    given = [secrets[name] for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")]
    return given, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_secrets_are_on_no_command_line_and_workers_still_have_them(tmp_path):
    given, (first, second) = run_secrets_script(tmp_path, {})
    assert first["java"]  # the processes were looked at
    assert first["seen"] == second["seen"] == []
    assert first["worker"] == given
    assert second["worker"] == [f"{value}-new" for value in given]
    assert first["kept"] == second["kept"] == "settings-own-key"
    assert [value for value in first["shown"] if value in given] == []
