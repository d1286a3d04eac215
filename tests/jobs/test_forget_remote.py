"""`--forget-remote`: a lake forgets the remote storage that earlier runs named, unless it refers to bytes there."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import Intake
from spark_jobs.errors import UsageError
from spark_jobs.lake.setup import registry
from tests.broker_directory import LogDirectory
from tests.jobs.tiered_lake import turn
from tests.remote_storage import RemoteStorage, tiered
from tests.spark.cycle import Lake


@pytest.fixture
def storage(source: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteStorage:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return tiered(source, tmp_path / "remote")


def remembered(lake: Lake, source: LogDirectory, storage: RemoteStorage) -> Intake:
    intake = Intake((str(source.path),), remote=(str(storage.path),))
    registry.remember(str(lake.path), intake)
    return intake


def test_a_lake_with_copies_forgets_its_remote_storage_and_keeps_what_it_has(
    source: LogDirectory, lake: Lake, storage: RemoteStorage
) -> None:
    turn(lake, source, storage)
    intake = remembered(lake, source, storage)
    assert launch.forget_remote(str(lake.path), intake) == (str(storage.path),)
    assert [each.remote for each in registry.recall(str(lake.path)).intakes] == [()]
    turn(lake, source)
    assert lake.published("orders") == storage.partition.rows


def test_a_lake_that_refers_to_remote_storage_does_not_forget_it(
    source: LogDirectory, lake: Lake, storage: RemoteStorage
) -> None:
    turn(lake, source, storage, mode="reference")
    intake = remembered(lake, source, storage)
    with pytest.raises(UsageError, match=r"3 segments of the lake are registered.* offsets \[0, 10\) of orders-0"):
        launch.forget_remote(str(lake.path), intake)
    assert [each.remote for each in registry.recall(str(lake.path)).intakes] == [intake.remote]


def test_every_registration_of_the_sources_is_looked_at(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    """Two of them name the source, each with other remote storage, and both would be forgotten."""
    turn(lake, source, storage, mode="reference")
    path = str(source.path)
    registry.remember(str(lake.path), Intake((path, str(tmp_path / "more")), remote=(str(tmp_path / "empty"),)))
    remembered(lake, source, storage)
    intake = registry.as_remembered(str(lake.path), Intake((path,)))
    with pytest.raises(UsageError, match="3 segments of the lake are registered there"):
        launch.forget_remote(str(lake.path), intake)


def test_storage_whose_name_only_begins_alike_is_forgotten(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    turn(lake, source, storage, mode="reference")
    other = Intake((str(source.path),), remote=(str(tmp_path / "rem"),))
    assert launch.forget_remote(str(lake.path), other) == (str(tmp_path / "rem"),)


def test_the_option_forgets_for_this_run_and_later_ones(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", str(source.path), "--lake", str(lake.path)]
    assert main([*command, "--remote", str(storage.path)]) <= 1
    assert main([*command, "--forget-remote"]) <= 1
    assert f"note: the remote storage {storage.path} is forgotten" in capsys.readouterr().err
    assert [each.remote for each in registry.recall(str(lake.path)).intakes] == [()]
    assert main([*command, "--forget-remote"]) <= 1
    assert "note: no remote storage is remembered" in capsys.readouterr().err
    assert main([*command, "--forget-remote", "--remote", str(storage.path)]) == 64


def test_the_note_names_the_storage_of_every_registration_once_and_in_order(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", str(source.path), "--lake", str(lake.path)]
    for name, remote in (("more", ("zz", "aa")), ("others", ("aa",))):
        paths, places = (str(source.path), str(tmp_path / name)), tuple(str(tmp_path / each) for each in remote)
        registry.remember(str(lake.path), Intake(paths, remote=places))
    assert main([*command, "--remote", str(storage.path)]) <= 1
    capsys.readouterr()
    assert main([*command, "--forget-remote"]) <= 1
    notes = [line for line in capsys.readouterr().err.splitlines() if "forgotten" in line]
    assert notes == [
        f"note: the remote storage {tmp_path / 'aa'}, {storage.path}, {tmp_path / 'zz'} is forgotten",
    ]
    assert {each.remote for each in registry.recall(str(lake.path)).intakes} == {()}
