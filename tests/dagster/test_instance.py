"""The instance of the command line: where it is, and that it is whole."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as db

from pipelines.command.dagster_history import open_instance
from pipelines.command.history import settings_file
from spark_jobs.errors import UsageError
from tests.dagster.conftest import Execute
from tests.dagster.fake_jobs import World

pytestmark = [pytest.mark.dagster, pytest.mark.stored]


def test_a_new_instance_has_the_settings_of_make_ui_and_an_old_one_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    with open_instance(str(tmp_path / "new")) as made:
        assert made.root_directory == str(tmp_path / "new")
        assert not made.telemetry_enabled
    assert (tmp_path / "new" / "dagster.yaml").read_bytes() == settings_file().read_bytes()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "old"))
    with open_instance(str(tmp_path / "new")) as kept:
        assert kept.root_directory == str(tmp_path / "old")
    assert (tmp_path / "old" / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


@pytest.mark.parametrize("how", ["by DAGSTER_HOME", "by the home", "by a link"])
def test_an_instance_inside_a_lake_is_refused_before_anything_in_it_is_read(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    inside = lake / ".dagster"
    inside.mkdir(parents=True)
    (lake / "lake.json").write_text("{}")
    (inside / "dagster.yaml").write_text("no: [valid")
    (tmp_path / "link").symlink_to(inside)
    folder = tmp_path / "link" if how == "by a link" else inside
    monkeypatch.setenv("DAGSTER_HOME", "" if how == "by the home" else str(folder))

    with pytest.raises(UsageError, match=r"inside the lake .*lake\. .* mv "):
        open_instance(str(inside if how == "by the home" else tmp_path / "elsewhere"))

    assert (inside / "dagster.yaml").read_text() == "no: [valid"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("table", ["runs", "dynamic_partitions", "job_ticks", "alembic_version"])
def test_after_a_kill_while_the_databases_were_created_the_history_is_whole(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    child = os.fork()
    if child == 0:

        @db.event.listens_for(db.Engine, "before_cursor_execute")
        def _kill(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if f"CREATE TABLE {table} " in statement.replace("\n", " "):
                os.kill(os.getpid(), signal.SIGKILL)

        open_instance(str(tmp_path))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    with open_instance(str(tmp_path)) as instance:
        instance.add_dynamic_partitions("logs", ["orders-0"])
        instance.report_runless_asset_event(dg.AssetMaterialization("records", partition="orders-0"))
        assert instance.get_dynamic_partitions("logs") == ["orders-0"]
        assert instance.get_latest_materialization_event(dg.AssetKey("records")) is not None
        assert instance.get_runs() == []
        assert instance.all_instigator_state() == []


def test_a_run_writes_no_line_of_debug_on_stderr_and_its_page_has_every_event(
    execute: Execute, world: World, instance: dg.DagsterInstance, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.ends = {"orders-0": 9}

    result = execute(lake=str(home / "lakes" / "shop"))

    written = capsys.readouterr().err
    assert "clock" in written
    assert "DEBUG" not in written
    assert logging.DEBUG in {entry.level for entry in instance.all_logs(result.run_id)}
