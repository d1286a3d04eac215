"""`loglake run`: what it refuses, and before what."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from pipelines import cli
from pipelines.cli import run_command
from spark_jobs.lake.store.lease import hold
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.dagster.conftest import loglake

pytestmark = pytest.mark.dagster


def test_a_lake_that_is_being_worked_on_is_left_alone_and_its_holder_named(tmp_path: Path) -> None:
    source = LogDirectory(tmp_path / "kafka-logs")
    source.partition("orders-0").append(3)
    with hold(str(tmp_path / "lake"), "the test"):
        done = loglake("run", source.path, "--lake", tmp_path / "lake")

    assert done.returncode == 3
    assert "the test" in done.stderr
    assert str(os.getpid()) in done.stderr
    assert not (tmp_path / "lake" / "tables").exists()


@pytest.mark.long
def test_a_first_table_of_uncommitted_records_is_new_and_the_same_again_is_not(tmp_path: Path) -> None:
    source = LogDirectory(tmp_path / "kafka-logs")
    orders = source.partition("orders-0")
    orders.append(3)
    orders.append(2, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    source.high_watermarks(orders_0=5)
    run = ("run", source.path, "--lake", tmp_path / "lake")
    uncommitted = (*run, "--isolation.level", "read_uncommitted")
    said = [loglake(*arguments).stdout for arguments in (run, uncommitted, uncommitted)]
    assert ["nothing new" in each for each in said] == [False, False, True]
    assert DeltaTable(str(tmp_path / "lake" / "tables" / "records_uncommitted")).to_pyarrow_table().num_rows == 5


def test_a_missing_path_is_reported_by_every_run_and_its_exit_code(tmp_path: Path) -> None:
    done = [loglake("run", tmp_path / "gone", "--lake", tmp_path / "lake") for _ in range(2)]

    assert [each.returncode for each in done] == [3, 3]
    assert [each.stderr.count(f"{tmp_path / 'gone'} does not exist") for each in done] == [1, 1]


@pytest.mark.long
def test_a_machine_without_llvm_is_reported_once_at_the_start(tmp_path: Path) -> None:
    package = tmp_path / "packages" / "llvmlite"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libLLVM is missing')")
    path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    source = LogDirectory(tmp_path / "kafka-logs")
    done = loglake("run", source.path, "--lake", tmp_path / "lake", PYTHONPATH=path)

    assert "no log was found" in done.stdout
    assert done.stderr.count("The compiled engine is not available on this machine") == 1
    assert "libLLVM is missing): the reference engine is used" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "P", "--lake", "gs://bucket/lake"], 64, "s3://bucket/prefix"),
        (["run", "P", "--lake", "L", "--replace", "2..1"], 64, "ends before it begins"),
        (["run", "P", "--lake", "L", "--replace", "5"], 64, "A..B"),
        (["run", "P", "--lake", "L", "--since", "0ms"], 64, "--replace .. with them"),
        (["run", "P", "--lake", "L", "--isolation.level", "committed"], 64, "read_uncommitted"),
        (["run", "P", "--lake", "L", "--partition", "orders"], 64, "like orders-0"),
        (["run", "P", "--lake", "L", "--partition", "0", "--partition", "orders-0"], 64, "not both"),
        (["run", "P", "--lake", "L", "--high-watermark", "high"], 64, "checkpoint"),
        (["run", "P", "--lake", "L", "--as-of", "yesterday"], 64, "ISO-8601"),
        (["run", "P", "--lake", "L", "--apply"], 64, "--maintain"),
        (["run", "P"], 64, "--lake"),
        (["run", "--lake", "L"], 64, "PATH"),
        (["run", "P", "--lake", "L", "--policies", "not-there.yaml"], 64, "not-there.yaml"),
    ],
)
def test_what_is_not_understood_is_refused_before_anything_is_begun(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    from logcore.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_help_names_every_option_of_the_contract(capsys) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    run_command(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    said = capsys.readouterr().out
    options = (
        "lake policies as-of topic partition isolation.level mode high-watermark include-internal replace maintain "
        "since until fill-from remote forget-remote forget-source move-source"
    )
    for option in [*options.split(" "), "apply", "log-level"]:
        assert f"--{option}" in said, option


def test_a_second_run_in_one_process_keeps_nothing_from_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = SimpleNamespace(run_lake=lambda options: gc.get_freeze_count())
    monkeypatch.setitem(sys.modules, "pipelines.command.run_lake", loaded)
    before = gc.get_freeze_count()
    assert cli._run_lake(argparse.Namespace(lake="lake", sources=[])) == before
    assert gc.isenabled()
