"""Each repair command in an error or a finding works when it is pasted, and the next run makes the table whole."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import RetentionConfig, TidyArchiveConfig
from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.tables.snapshots import open_table, read_rows
from spark_jobs.lake_commands import repair
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.spark.archived import append_segment
from tests.spark.cycle import AS_OF_MS, Lake

Captured = pytest.CaptureFixture[str]
OF_THE_ARCHIVE = ("validations", "batches", "offset_ledger")
ALL = set(range(20))
POLICY = "topics: {orders: {cleanup.policy: delete, retention.ms: 1, file.delete.delay.ms: 1000}}"
RETAINED_AT = 1_700_000_001_500
"""Only the first segment is due then."""


class Made:
    """A published source of 20 records, and the lake of it in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        self.source = LogDirectory(folder / "source")
        self.lake = Lake(folder / "our lake")
        self.path = str(self.lake.path)

    def turn(self) -> set[int]:
        """A run; returns the offsets that are published after it."""
        self.lake.turn(self.source.path)
        return set(self.lake.published("orders"))

    def table(self, name: str) -> str:
        return str(self.lake.path / "tables" / name)

    def damage_log(self, name: str) -> None:
        """The newest commit of a table is not JSON any more."""
        newest = max((Path(self.table(name)) / "_delta_log").glob("*.json"))
        newest.write_text("{not json\n")

    def findings(self, capsys: Captured) -> list[str]:
        """The messages of `loglake verify`."""
        capsys.readouterr()
        main(["verify", self.path, "--format", "jsonl"])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [line["message"] for line in lines if "message" in line]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advised")
    made = Made(folder)
    orders = made.source.partition("orders-0")
    for time_ms in (1_700_000_001_000, 1_700_000_002_000):
        append_segment(orders, [(b"k%d" % n, b"v") for n in range(10)], time_ms)
    made.source.high_watermarks(orders_0=20)
    assert made.turn() == ALL
    return folder


@pytest.fixture
def made(made_once: Path, tmp_path: Path) -> Made:
    copy = Made(made_once)
    copy.lake = Lake(Path(shutil.copytree(made_once / "our lake", tmp_path / "our lake")))
    copy.path = str(copy.lake.path)
    return copy


def pasted(message: str) -> list[int]:
    """The exit codes of the repair commands in a text."""
    commands = re.findall(r"loglake (repair .+? --apply)", message)
    assert commands, message
    return [main(shlex.split(command)) for command in commands]


@pytest.mark.parametrize("name", ["records", "logs", "segments", *OF_THE_ARCHIVE])
def test_a_table_whose_log_cannot_be_read_is_made_again(made: Made, name: str) -> None:
    made.damage_log(name)
    with pytest.raises(TableUnreadable) as unreadable:
        open_table(made.path, name)
    assert pasted(str(unreadable.value)) == [0]
    assert made.turn() == ALL
    assert open_table(made.path, name) is not None


@pytest.mark.parametrize("name", ["logs", "segments", *OF_THE_ARCHIVE])
def test_a_table_with_a_damaged_file_is_made_again(made: Made, name: str) -> None:
    for file in newest_files(made.path, name):
        Path(made.table(name), file.path).write_bytes(b"")
    with pytest.raises(TableUnreadable) as unreadable:
        read_rows(made.path, name)
    assert pasted(str(unreadable.value)) == [0]
    assert made.turn() == ALL


@pytest.mark.parametrize("name", ["records", *OF_THE_ARCHIVE])
def test_a_finding_about_the_log_of_a_table_names_a_command_that_works(made: Made, name: str, capsys: Captured) -> None:
    made.damage_log(name)
    assert [message for message in made.findings(capsys) if f"able {name} cannot be read" in message]
    main(["verify", made.path])
    assert pasted(capsys.readouterr().out)[-1] == 0
    assert made.turn() == ALL
    assert made.findings(capsys) == []


@pytest.mark.parametrize("name", OF_THE_ARCHIVE)
def test_a_finding_about_lost_rows_names_a_command_that_works(made: Made, name: str, capsys: Captured) -> None:
    DeltaTable(made.table(name)).delete()
    messages = [message for message in made.findings(capsys) if "repair" in message]
    assert messages
    for message in messages:
        assert set(pasted(message)) == {0}
    assert made.turn() == ALL


def test_a_table_of_records_that_is_gone_is_published_again(made: Made) -> None:
    shutil.rmtree(made.table("records"))
    assert main(["repair", made.path, "--rebuild", "records"]) == 1
    assert main(["repair", made.path, "--rebuild", "records", "--apply"]) == 0
    assert made.turn() == ALL


def test_withdrawn_rows_stay_withdrawn_when_records_are_published_again(made: Made) -> None:
    DeltaTable(made.table("records")).delete("offset = 3")
    assert main(["withdraw", made.path, "--apply"]) == 0
    made.damage_log("records")
    assert main(["repair", made.path, "--rebuild", "records", "--apply"]) == 0
    assert (made.lake.path / "tables" / ".records-before-1" / "_delta_log").is_dir()
    assert made.turn() == ALL - {3}


def retain(made: Made) -> None:
    """Retire the first segment: the archive keeps its file until it is tidied."""
    policies = made.lake.path.parent / "policies.yaml"
    policies.write_text(POLICY)
    config = RetentionConfig(made.path, "retain", RETAINED_AT, read_policies(str(policies)), apply=True)
    assert launch.run(config).metrics["due_segments"] == 1


def test_rows_of_retired_segments_are_published_again(made: Made) -> None:
    retain(made)
    made.damage_log("records")
    assert main(["repair", made.path, "--rebuild", "records", "--apply"]) == 0
    assert made.turn() == ALL


def test_records_that_the_archive_no_longer_has_are_not_put_aside(made: Made, capsys: Captured) -> None:
    retain(made)
    config = TidyArchiveConfig(
        made.path, "tidy", AS_OF_MS, policies=read_policies(str(made.lake.path.parent / "policies.yaml"))
    )
    assert launch.run(replace(config, apply=True, force=True, orphan_after_ms=0)).changed
    made.damage_log("records")
    before = sorted(Path(made.table("records")).rglob("*"))
    for apply in ([], ["--apply"]):
        assert main(["repair", made.path, "--rebuild", "records", *apply]) == 3
        assert "Restore it from a backup" in capsys.readouterr().err
    assert sorted(Path(made.table("records")).rglob("*")) == before


@pytest.mark.parametrize("name", ["segments", "logs"])
def test_rows_of_a_file_with_a_changed_byte_are_never_copied(made, name, capsys):
    assert repair.plan(made.path, name).copies
    [path] = [Path(made.table(name), file.path) for file in newest_files(made.path, name)]
    whole = path.read_bytes()
    for at in range(4, len(whole), len(whole) // 40):
        path.write_bytes(handmade.flip(whole, at))
        assert not repair.plan(made.path, name).copies, at
    assert "cannot be read" in capsys.readouterr().err
