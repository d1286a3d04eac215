"""Lakes whose status is asked: sound, damaged, loaded by a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from tests.broker_directory import LogDirectory
from tests.in_process import unreported, without_spark
from tests.spark.cycle import Lake
from tests.unit.pipelines.command.asked_status import NOW_MS, POLICIES, Captured, Status


@pytest.fixture(scope="module")
def history() -> Iterator[None]:
    """No claim here is about Dagster."""
    with unreported():
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`sound` has ten records; in `damaged` a batch of five cannot be trusted."""
    folder = tmp_path_factory.mktemp("status")
    for name in ("sound", "damaged"):
        source = LogDirectory(folder / f"{name}-source")
        orders = source.partition("orders-0")
        orders.append(10)
        if name == "damaged":
            orders.append(5)
            segment = orders.segments()[0]
            content = bytearray(segment.read_bytes())
            content[-1] ^= 0xFF
            segment.write_bytes(content)
            orders.append(5)
        source.high_watermarks(orders_0=orders.next_offset)
        with without_spark():
            Lake(folder / name).turn(source.path)
    return folder


@pytest.fixture
def lakes(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("sound", "damaged"):
        shutil.copytree(made_once / name, tmp_path / name)
        registry.remember(str(tmp_path / name), Intake((str(made_once / f"{name}-source"),)))
    (tmp_path / "policies.yaml").write_text(POLICIES)
    return tmp_path


@pytest.fixture
def status(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Status:
    def call(*arguments: Path | str, now_ms: int = NOW_MS) -> tuple[int, str]:
        monkeypatch.setattr("time.time_ns", lambda: now_ms * 1_000_000)
        capsys.readouterr()
        code = main(["status", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


@pytest.fixture
def loaded(tmp_path: Path, status: Status, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake that `loglake run` made, alone in its home."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "loaded"
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(lake)]) == 0
    assert status(lake)[0] == 0
    return lake
