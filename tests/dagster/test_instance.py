"""The instance of the command line: where it is, and that a killed run leaves nothing in the way of the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from pipelines.command.history import settings_file
from pipelines.command.instance import HOST_TAG, PROCESS_TAG, end_dead_runs, open_instance, process_tags
from pipelines.definitions import build_definitions
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.dagster, pytest.mark.stored]


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    """The definitions of one lake."""
    return build_definitions([RegisteredLake("/lakes/shop", "shop")])


def started(definitions: dg.Definitions, instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.DagsterRun:
    """A run that is recorded as being at work, with the one place of its pool taken."""
    run = instance.create_run_for_job(
        job_def=definitions.resolve_job_def("shop__intake"), status=dg.DagsterRunStatus.STARTED, tags=tags
    )
    instance.event_log_storage.initialize_concurrency_limit_to_default("spark")
    claim = instance.event_log_storage.claim_concurrency_slot("spark", run.run_id, "shop.ingest")
    assert claim.is_claimed
    return run


def tags_of_a_process_that_has_ended() -> dict[str, str]:
    """What such a process reported about itself while it ran."""
    code = "import json; from pipelines.command.instance import process_tags; print(json.dumps(process_tags()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_run_whose_process_was_killed_is_ended_and_its_place_in_the_pool_freed(
    definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    dead = started(definitions, instance, tags_of_a_process_that_has_ended())

    end_dead_runs(instance)

    assert instance.get_run_by_id(dead.run_id).status is dg.DagsterRunStatus.FAILURE
    started(definitions, instance, process_tags())


@pytest.mark.parametrize("whose", ["this process", "another host", "nobody said"])
def test_a_run_that_may_be_alive_is_left_alone(
    whose: str, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    tags = {
        "this process": process_tags(),
        "another host": tags_of_a_process_that_has_ended() | {HOST_TAG: "elsewhere"},
        "nobody said": {},
    }[whose]
    run = started(definitions, instance, tags)

    end_dead_runs(instance)

    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.STARTED


def test_a_number_that_another_process_has_now_does_not_keep_a_dead_run_alive(
    definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    run = started(definitions, instance, process_tags() | {PROCESS_TAG: f"{os.getpid()} 12345"})

    end_dead_runs(instance)

    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE


def test_a_run_of_the_command_line_is_never_started_again_by_the_daemon() -> None:
    assert process_tags()["dagster/max_retries"] == "0"


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
