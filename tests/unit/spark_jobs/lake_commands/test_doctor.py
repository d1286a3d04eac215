"""`loglake doctor --lake`: a lake, its registered sources, the home's Java, and Dagster's home."""

from __future__ import annotations

import json
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from spark_jobs.lake_commands import doctor as lake_doctor
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.spark.cycle import Lake

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of ten records, and its source."""
    folder = tmp_path_factory.mktemp("doctor")
    source = LogDirectory(folder / "source")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    with without_spark():
        Lake(folder / "lake").turn(source.path)
    return folder


@pytest.fixture
def lake(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    for name in ("DAGSTER_HOME", "LOGLAKE_SPARK_MASTER", "LOGLAKE_JOB_ENGINE", "LOGLAKE_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(made_once / "source", tmp_path / "source")
    return Path(shutil.copytree(made_once / "lake", tmp_path / "lake"))


def doctor(capsys: Captured, *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit code, and checks by name."""
    capsys.readouterr()
    code = main(["doctor", "--format", "jsonl", *arguments])
    found: dict[str, list[dict[str, Any]]] = {}
    for line in capsys.readouterr().out.splitlines():
        check = json.loads(line)
        found.setdefault(check["check"], []).append(check)
    return code, found


def test_a_lake_in_order_is_clean(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    code, found = doctor(capsys, "--lake", str(lake), str(tmp_path / "source"))
    assert code == 0
    assert {found[name][0]["state"] for name in ("lake", "lake-disk", "source")} == {"ok"}


@pytest.mark.usefixtures("lake")
def test_a_package_of_the_extra_in_another_version_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip check` compares no package that only an extra requires."""
    code, found = doctor(capsys)
    assert (code, [each["state"] for each in found["extra lake"]]) == (0, ["ok"])
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "3.0.1" if name == "pandas" else version(name))
    code, found = doctor(capsys)
    assert (code, [each["state"] for each in found["extra lake"]]) == (1, ["warning"])
    assert "pandas 3.0.1 instead of <3,>=2.3" in found["extra lake"][0]["text"]


@pytest.mark.parametrize("harmed", ["segments/_delta_log/*.json", "offset_ledger/*.parquet", "records"])
def test_a_lake_with_a_table_that_cannot_be_read_is_named_with_the_table(
    harmed: str, lake: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is damaged, a file of rows is gone, the user may not read a directory."""
    for path in (lake / "tables").glob(harmed):
        if path.is_dir():
            monkeypatch.setattr(os, "access", lambda place, _: "/records/" not in str(place))
        elif path.suffix == ".json":
            path.write_text("{")
        else:
            path.unlink()
    code, found = doctor(capsys, "--lake", str(lake))
    assert (code, found["lake"][0]["state"]) == (3, "failed")
    assert f"Table {harmed.split('/')[0]}: {lake}/tables/" in found["lake"][0]["text"]
    assert "can't be read" in found["lake"][0]["text"]


def test_a_table_of_a_topic_that_cannot_be_read_is_named(lake: Path, capsys: Captured) -> None:
    shutil.copytree(lake / "tables" / "records", lake / "tables" / "decoded" / "orders")
    assert doctor(capsys, "--lake", str(lake))[0] == 0
    for path in (lake / "tables" / "decoded" / "orders" / "_delta_log").iterdir():
        path.write_text("{")
    code, found = doctor(capsys, "--lake", str(lake))
    assert code == 3
    assert "Table decoded/orders: " in found["lake"][0]["text"]


def test_it_changes_nothing_in_lake_and_home(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*"))
    doctor(capsys, "--lake", str(lake))
    assert sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*")) == before
    assert not (tmp_path / "home").exists()


def test_a_folder_that_is_no_lake_cannot_work(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    for path in (tmp_path / "source", tmp_path / "nothing"):
        code, found = doctor(capsys, "--lake", str(path))
        assert code == 3
        assert "is no lake" in found["lake"][0]["text"]
        assert "lake-disk" not in found


def test_a_lake_of_a_newer_layout_cannot_work(lake: Path, capsys: Captured) -> None:
    (lake / "lake.json").write_text('{"layout": 99, "cluster": null}')
    code, found = doctor(capsys, "--lake", str(lake))
    assert code == 3
    assert "layout 99" in found["lake"][0]["text"]


def test_registered_lakes_and_sources_that_are_gone_are_named(lake: Path, tmp_path: Path, capsys: Captured) -> None:
    registry.remember(str(lake), Intake(sources=(str(tmp_path / "source"),)))
    assert doctor(capsys)[0] == 0
    shutil.rmtree(tmp_path / "source")
    code, found = doctor(capsys)
    assert (code, found["lake"][0]["state"], found["source"][0]["state"]) == (3, "ok", "failed")
    shutil.rmtree(lake)
    code, found = doctor(capsys)
    assert (code, found["lake"][0]["state"]) == (3, "failed")
    registration = next((tmp_path / "home" / "registered").glob("*.json"))
    registration.write_text("{")
    code, found = doctor(capsys)
    assert code == 3
    assert str(registration) in found["registered"][0]["text"]


def test_java_is_needed_for_spark_only(
    lake: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho '    java.specification.version = 1.8'\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("spark_jobs.engine.java._packaged_java", lambda rejected: None)
    code, found = doctor(capsys)
    assert (code, found["java"][0]["state"]) == (0, "info")
    monkeypatch.setenv("LOGLAKE_JOB_ENGINE", "spark")
    code, found = doctor(capsys)
    assert (code, found["java"][0]["state"]) == (3, "failed")
    assert "is Java 8" in found["java"][0]["text"]


def test_a_home_inside_a_lake_is_refused(lake: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(lake / "home"))
    code, found = doctor(capsys)
    assert code == 3
    assert "lies inside the lake" in found["home"][0]["text"]


def test_an_unforeseen_error_of_one_check_is_that_check_and_the_others_go_on(
    lake: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(lake, tmp_path / "other"))
    for each in (lake, other):
        registry.remember(str(each), Intake(sources=(str(tmp_path / "source"),)))
    check = lake_doctor.lake_check

    def failing(path: str, now_ms: int) -> object:
        if path == str(lake):
            raise RuntimeError("planted-text")
        return check(path, now_ms)

    monkeypatch.setattr(lake_doctor, "lake_check", failing)
    code, found = doctor(capsys)
    assert code == 3
    assert [each["state"] for each in found["lake"]] == ["failed", "ok"]
    assert [each["state"] for each in found["source"]] == ["ok", "ok"]
    assert "dagster" in found
    assert "RuntimeError" in found["lake"][0]["text"]
    assert "planted" not in json.dumps(found)


def test_a_home_of_dagster_that_cannot_be_written_is_a_warning(
    lake: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container it may be read-only: the history is in a database then."""
    monkeypatch.setenv("DAGSTER_HOME", "/proc/dagster")
    code, found = doctor(capsys)
    assert (code, found["dagster"][0]["state"]) == (1, "warning")
    assert "database" in found["dagster"][0]["advice"]
