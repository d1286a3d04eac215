"""Commands that write say in one line which place cannot be written and what to do; they never end with exit code 0."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.broker_directory import LogDirectory
from tests.file_limits import largest_file
from tests.in_process import without_spark
from tests.spark.cycle import Lake

Captured = pytest.CaptureFixture[str]
POLICIES = "topics:\n  orders:\n    latest: delete\n    decode.value: json\n"
ON_A_LAKE = [
    "run {source} --lake {lake}",
    "latest {lake} --policies {policies}",
    "cluster {lake} --source {source}",
    "repair {lake} --frontiers --apply",
    "repair {lake} --archive --apply",
    "repair {lake} --rebuild findings --apply",
    "withdraw {lake} --reason GDPR --apply",
]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of ten records, and its source."""
    folder = tmp_path_factory.mktemp("unwritable")
    source = LogDirectory(folder / "source")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    with without_spark():
        Lake(folder / "lake").turn(source.path)
    (folder / "policies.yaml").write_text(POLICIES)
    return folder


@pytest.fixture
def place(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    shutil.copytree(made_once, tmp_path / "place")
    with without_spark():
        yield tmp_path / "place"


def typed(capsys: Captured, place: Path, line: str) -> tuple[int, str]:
    """Exit code and errors of a command line."""
    capsys.readouterr()
    names = {"lake": place / "lake", "source": place / "source", "policies": place / "policies.yaml", "here": place}
    code = main(shlex.split(line.format(**names)))
    return code, capsys.readouterr().err


@pytest.mark.parametrize("line", ON_A_LAKE)
def test_a_lake_whose_lease_cannot_be_written_is_named(line: str, place: Path, capsys: Captured) -> None:
    (place / "lake" / "lease.json").unlink()
    (place / "lake" / "lease.json").mkdir()
    code, said = typed(capsys, place, line)
    assert code == 3
    assert said == (
        f"error: The lake {place}/lake cannot be written: {place}/lake/lease.json: Is a directory. Remove the cause, "
        "and type the same command again.\n"
    )


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("repair {lake} --rebuild findings --apply", "lake"),
        ("metrics {lake} -o {here}/m.prom", ""),
        ("state {lake} orders --at orders-0:5 --out {here}/state.parquet", ""),
        ("state {lake} orders --at orders-0:5 --out {here}/state --format delta", "."),
        ("config set {here}/policies.yaml t salvage=permissive", ""),
    ],
)
def test_a_full_disk_is_named_with_its_place(line: str, where: str, place: Path, capsys: Captured) -> None:
    with largest_file(20 if line.startswith("config") else 100):
        code, said = typed(capsys, place, line)
    assert code == 3
    assert f"{place}{where and f'/{where}'}" in said
    assert "File too large" in said
    assert "Remove the cause" in said
    assert "Errno" not in said
    assert said.count("\n") == 1


def test_a_topic_that_waits_for_room_names_the_place(place: Path, capsys: Captured) -> None:
    (place / "policies.yaml").write_text("topics:\n  orders:\n    latest: delete\n")
    with largest_file(1000):
        code = main(["latest", str(place / "lake"), "--policies", str(place / "policies.yaml")])
    captured = capsys.readouterr()
    assert (code in (1, 3), f"{place}/lake/tables/latest/orders: File too large." in captured.out + captured.err) == (
        True,
        True,
    )
