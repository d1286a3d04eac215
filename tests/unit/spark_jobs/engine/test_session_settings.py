"""The settings of Spark, checked without a Spark session."""

from __future__ import annotations

import re

import pytest

from spark_jobs.engine import session
from spark_jobs.engine.session import session_settings
from spark_jobs.errors import UsageError


@pytest.fixture(autouse=True)
def bare_environment(tmp_path, monkeypatch):
    for name in ("LOGLAKE_SPARK_MASTER", "LOGLAKE_SPARK_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session, "delta_jars", lambda: (tmp_path / "a.jar", tmp_path / "b.jar"))


def test_out_of_the_box_it_is_this_machine_with_delta_on(tmp_path):
    settings = session_settings("/lakes/orders")
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.app.name"] == "loglake orders"
    assert settings["spark.jars"] == f"{tmp_path}/a.jar,{tmp_path}/b.jar"
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert "-XX:TieredStopAtLevel=1" in settings["spark.driver.extraJavaOptions"]


def test_a_cluster_keeps_its_own_java_options(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_MASTER", "spark://somewhere:7077")
    settings = session_settings()
    assert settings["spark.master"] == "spark://somewhere:7077"
    assert settings["spark.driver.extraJavaOptions"].split() == [session._LOGGING]


def test_an_object_in_the_environment_adds_and_replaces(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_CONF", '{"spark.sql.shuffle.partitions": 64, "spark.driver.memory": "3g"}')
    settings = session_settings()
    assert (settings["spark.sql.shuffle.partitions"], settings["spark.driver.memory"]) == ("64", "3g")


def test_a_file_in_the_environment_reads_as_spark_defaults_do(tmp_path, monkeypatch):
    file = tmp_path / "spark.conf"
    file.write_text(
        "# a comment\n\nspark.driver.memory   3g\nspark.a = b=c\nspark.driver.extraJavaOptions -Xss4m -Dx=y\n"
    )
    monkeypatch.setenv("LOGLAKE_SPARK_CONF", str(file))
    settings = session_settings()
    assert (settings["spark.driver.memory"], settings["spark.a"]) == ("3g", "b=c")
    assert settings["spark.driver.extraJavaOptions"] == f"{session._LOGGING} -Xss4m -Dx=y"


def test_the_caller_has_the_last_word(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_CONF", '{"spark.master": "local[1]"}')
    assert session_settings(conf={"spark.master": "local[3]"})["spark.master"] == "local[3]"


@pytest.mark.parametrize("given", ["{not json", "/no/such/file"])
def test_settings_that_cannot_be_read_are_the_callers_mistake(monkeypatch, given):
    monkeypatch.setenv("LOGLAKE_SPARK_CONF", given)
    with pytest.raises(UsageError, match="LOGLAKE_SPARK_CONF"):
        session_settings()


def test_workers_of_a_cluster_receive_packages_and_kernels_and_no_setting_holds_a_credential(monkeypatch, tmp_path):
    monkeypatch.setenv("LOGLAKE_SPARK_MASTER", "spark://127.0.0.1:7077")
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/packages")
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("LOGLAKE_SPARK_CONF", '{"spark.executorEnv.LOGLAKE_ENGINE": "kernels"}')
    prefix = "spark.executorEnv."
    settings = {k.removeprefix(prefix): v for k, v in session_settings().items() if k.startswith(prefix)}
    expected = {
        "LOGLAKE_HOME": str(tmp_path),
        "PYTHONPATH": "/packages",
        "LOGLAKE_ENGINE": "kernels",
    }
    assert {name: settings[name] for name in expected} == expected
    assert not any(name.startswith(("LOGLAKE_SPARK_", "LOGLAKE_JARS_", "LOGLAKE_IVY_", "AWS_")) for name in settings)
    assert "very-secret" not in session_settings().values()
    monkeypatch.setenv("LOGLAKE_SPARK_MASTER", "local[2]")
    assert "spark.executorEnv.PYTHONPATH" not in session_settings()


@pytest.mark.parametrize(
    "name",
    [
        "spark.executorEnv.AWS_ACCESS_KEY_ID",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "spark.executorEnv.AWS_SESSION_TOKEN",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.ssl.keyPassword",
    ],
)
def test_names_of_secret_settings_are_redacted_by_spark(name):
    assert re.search(session_settings()["spark.redaction.regex"], name)


def test_names_of_other_settings_are_not_redacted():
    pattern = session_settings()["spark.redaction.regex"]
    assert [name for name in session_settings() if re.search(pattern, name)] == []
