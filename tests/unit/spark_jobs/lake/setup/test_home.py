"""The operator's home is the same in every working directory, and what is missing in it is said."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.errors import UsageError
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.home import home_path, local_home
from spark_jobs.lake.view.registered_lakes import unused_home

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without Loglake's variables, whose environment names no home."""
    for name in ("LOGLAKE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "user/.local/share/loglake"),
        ({"XDG_DATA_HOME": "{0}/data"}, "data/loglake"),
        ({"XDG_DATA_HOME": "data"}, "user/.local/share/loglake"),  # the standard ignores relative paths
        ({"LOGLAKE_HOME": "{0}/mine", "XDG_DATA_HOME": "{0}/data"}, "mine"),
    ],
)
def test_the_home_is_the_same_in_every_working_directory(
    plain: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(plain))
    (plain / "elsewhere" / ".loglake").mkdir(parents=True)
    for folder in (plain, plain / "elsewhere"):
        monkeypatch.chdir(folder)
        assert home_path() == str(plain / expected)
        assert registry.home() == str(local_home()) == str(plain / expected)


def test_the_environment_of_a_clone_names_its_home(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = plain / "environment" / "share" / "loglake" / "home"
    named.parent.mkdir(parents=True)
    named.write_text(f"{plain}/clone/.loglake\n")
    assert home_path() == str(plain / "clone" / ".loglake")
    monkeypatch.setenv("LOGLAKE_HOME", str(plain / "mine"))
    assert home_path() == str(plain / "mine")


def test_a_user_without_a_home_directory_is_refused(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(UsageError, match="LOGLAKE_HOME"):
        home_path()


def test_a_folder_here_that_is_not_the_home_is_named_with_its_lakes(
    plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert unused_home() is None
    monkeypatch.setenv("LOGLAKE_HOME", str(plain / ".loglake"))
    registry.remember(str(plain / "shop"), Intake(("/kafka-logs",)))
    assert unused_home() is None
    monkeypatch.delenv("LOGLAKE_HOME")
    said = unused_home()
    assert said is not None
    for part in (home_path(), str(plain / "shop"), f"export LOGLAKE_HOME={plain}/.loglake"):
        assert part in said
    assert main(["status"]) == 64
    assert f"The {said.removeprefix('the ')}\n" in capsys.readouterr().err
    for lake in ("shop", "other"):
        assert main(["status", str(plain / lake)]) == 3
        assert capsys.readouterr().err.count(f"note: {said}\n") == (lake == "shop")
        assert main(["run", "/not/there", "--lake", str(plain / lake)]) == 3
        assert capsys.readouterr().err.count(f"note: {said}\n") == (lake == "shop")
    registry.remember(str(plain / "shop"), Intake(("/kafka-logs",)))
    assert unused_home() is None
