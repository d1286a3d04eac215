"""A lake is data: nothing that lies in one is executed, configures a process, or says what a job reads or deletes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES

from pipelines.sensors import evaluate
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.identity import claim
from spark_jobs.lake.setup.lake_names import RESERVED
from spark_jobs.lake.setup.registry import RegistryError, hinted, lake_around, remember
from spark_jobs.lake.setup.registry import home as home_of
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory
from tests.dagster.conftest import Define, Execute, loglake, night, tick
from tests.dagster.fake_jobs import World, seed

pytestmark = pytest.mark.dagster

NIGHT = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
NOON = 1_800_000_000_000


@pytest.fixture
def received(tmp_path: Path, world: World) -> Path:
    """A lake with one log that somebody else made, with settings of theirs."""
    lake = tmp_path / "received"
    world.ends = {"orders-0": 3}
    seed(world, str(lake))
    taken = tmp_path / "private"
    (taken / "orders-0").mkdir(parents=True)
    intake = {"sources": [str(taken)], "policies": str(tmp_path / "delete.yaml")}
    (tmp_path / "delete.yaml").write_text('topics: {"*": {cleanup.policy: delete, retention.ms: 1}}')
    content = {"version": 2, "intakes": [intake]}
    (lake / "sources.json").write_text(json.dumps(content))
    world.asked.clear()
    return lake


@pytest.mark.long
def test_a_dagster_yaml_in_a_lake_runs_nothing(tmp_path: Path) -> None:
    source, lake, witness = LogDirectory(tmp_path / "kafka-logs"), tmp_path / "lake", tmp_path / "executed"
    source.partition("orders-0").append(3)
    claim(str(lake), None)
    (lake / ".dagster").mkdir()
    handler = {"()": "subprocess.Popen", "args": ["touch", str(witness)]}
    handlers = {"handlers": {"x": handler}}
    (lake / ".dagster" / "dagster.yaml").write_text(json.dumps({"python_logs": {"dagster_handler_config": handlers}}))
    source.high_watermarks(orders_0=3)
    command = ("run", source.path, "--lake", lake)

    plain = loglake(*command, LOGLAKE_HOME=str(tmp_path / "home"))
    named = loglake(*command, LOGLAKE_HOME=str(tmp_path / "home"), DAGSTER_HOME=str(lake / ".dagster"))

    assert not witness.exists()
    assert plain.returncode == 0, plain.stderr
    assert (tmp_path / "home" / "dagster" / "dagster.yaml").exists()
    assert named.returncode == 64
    assert f"is inside the lake {lake}" in named.stderr
    assert f"mv {lake / '.dagster'}" in named.stderr


def test_the_nightly_job_reads_and_deletes_nothing_by_settings_of_a_received_lake(
    define: Define, instance: dg.DagsterInstance, world: World, home: Path, received: Path
) -> None:
    unknown = define().schedules or []
    remember(str(received), Intake(("/my/logs",)))
    (request,) = night(define(), instance, "received__nightly_maintenance", NIGHT)
    job = define().resolve_job_def("received__maintenance")
    job.execute_in_process(instance=instance, run_config=request.run_config)

    assert unknown == []
    asked = [config for config in world.asked if hasattr(config, "apply")]
    assert len(asked) == 5
    assert world.of("ingest") == []
    assert all(getattr(config, "policies", NO_POLICIES) == NO_POLICIES for config in world.asked)


def test_a_run_of_a_lake_that_is_not_registered_takes_in_nothing_that_the_lake_names(
    execute: Execute, world: World, home: Path, received: Path
) -> None:
    result = execute(lake=str(received), sources=[])

    assert not result.success
    assert world.of("ingest") == []
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    said = failure.step_failure_data.user_failure_data.description
    private, policies = received.parent / "private", received.parent / "delete.yaml"
    assert f"loglake run {private} --lake {received} --policies {policies}" in said


@pytest.mark.parametrize("job", ["intake", "maintenance"])
def test_a_run_in_a_home_without_the_policies_that_tables_need_fails_before_it_does_anything(
    execute: Execute, world: World, home: Path, received: Path, job: str
) -> None:
    tables = {"version": 1, "tables": ["decoded/orders"]}
    (received / "topic_tables.json").write_text(json.dumps(tables))

    options = {"apply": True} if job == "maintenance" else {"sources": ["/my/logs"]}
    result = execute(job, lake=str(received), **options)

    assert not result.success
    assert world.asked == []
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    said = failure.step_failure_data.user_failure_data.description
    assert "decoded/orders" in said
    assert "no policies file is registered" in said
    assert (
        f"loglake run {received.parent / 'private'} --lake {received} --policies {received.parent / 'delete.yaml'}; or"
        in said
    )


def test_no_run_overwrites_the_hint_of_another_operator(home: Path, received: Path) -> None:
    before = (received / "sources.json").read_bytes()
    remember(str(received), Intake(("/my/logs",)))

    assert (received / "sources.json").read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"version": 3, "intakes": []}',
        '{"version": 1, "intakes": [{"sources": ["/x"]}]}',
        '{"version": 2, "intakes": {"sources": "/x"}}',
        '{"version": 2, "intakes": [{"sources": "/x"}]}',
        '{"version": 2, "intakes": [{"sources": [1]}]}',
        '{"version": 2, "intakes": [{"sources": ["/x"], "mode": 5}]}',
        '{"version": 2, "intakes": [{"sources": ["/x"], "more": 5}]}',
    ],
)
def test_a_hint_that_is_not_one_is_none(content: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "sources.json").write_text(content)
    assert hinted(str(tmp_path)) == ()


def test_lakes_at_any_path_and_on_object_stores_have_sensors_and_schedules(
    define: Define, instance: dg.DagsterInstance, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = tmp_path / "logs" / "orders-0" / f"{0:020d}.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"x")
    monkeypatch.setattr("spark_jobs.lake.setup.registry.hinted", lambda lake: (Intake(("/of/others",)),))
    lakes = [str(tmp_path / "far" / "away"), "s3://bucket/lakes/shop"]
    for lake in lakes:
        remember(lake, Intake((str(tmp_path / "logs"),)))
    Path(lakes[0]).mkdir(parents=True)
    (Path(lakes[0]) / "sources.json").write_text("the hint of others")

    for name in ("away", "shop"):
        assert len(night(define(), instance, f"{name}__nightly_maintenance", NIGHT)) == 1
        assert len(tick(define(), instance, f"{name}__new_segments").run_requests or []) == 1


def test_lakes_with_names_that_dagster_reserves_have_definitions(define: Define, tmp_path: Path) -> None:
    segment = tmp_path / "logs" / "orders-0" / f"{0:020d}.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"x")
    for name in ("meta", "meta_lake", "class"):
        (tmp_path / name).mkdir()
        remember(str(tmp_path / name), Intake((str(tmp_path / "logs"),)))

    names = {job.name for job in define().resolve_all_job_defs()}

    assert {"meta_lake__intake", "class_lake__intake"} <= names
    assert len([name for name in names if name.endswith("__intake")]) == 3
    assert RESERVED >= DISALLOWED_NAMES


def test_a_broken_lake_is_named_and_the_others_go_on(
    define: Define, instance: dg.DagsterInstance, home: Path, tmp_path: Path
) -> None:
    segment = tmp_path / "logs" / "orders-0" / f"{0:020d}.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"x")
    good, gone, lost, unmounted = (str(tmp_path / name) for name in ("good", "gone", "lost", "unmounted"))
    for lake in (good, gone, lost, unmounted):
        remember(lake, Intake((str(tmp_path / "logs"),)))
    remember(lost, Intake((str(tmp_path / "logs"),), policies=str(tmp_path / "not-there.yaml")))
    (Path(gone) / "sources.json").unlink()
    Path(gone).rmdir()
    (Path(unmounted) / "sources.json").unlink()

    ticks = [evaluate(lake, "{}", NOON, lambda run_key: None) for lake in (good, gone, unmounted)]
    nightly = [
        night(define(), instance, f"{name}__nightly_maintenance", NIGHT) for name in ("good", "gone", "unmounted")
    ]

    assert [len(each.run_requests or []) for each in ticks] == [1, 0, 0]
    assert gone in ticks[1].skip_reason.skip_message
    assert ticks[1].cursor == "{}"
    assert [len(requests) for requests in nightly] == [1, 0, 0]
    with pytest.raises(dg.DagsterUserCodeExecutionError) as failed:
        night(define(), instance, "lost__nightly_maintenance", NIGHT)
    assert f"Nothing is started for the lake {lost}: The policies " in str(failed.value.user_exception)
    with pytest.raises(dg.Failure, match=f"Nothing is started for the lake {lost}: The policies "):
        tick(define(), instance, "lost__new_segments", "{}")
    assert not Path(gone).exists()
    assert not list(Path(unmounted).iterdir())


def test_a_home_inside_a_lake_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(str(tmp_path / "lake"), None)
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "lake" / ".loglake"))

    with pytest.raises(RegistryError, match="LOGLAKE_HOME"):
        home_of()
    assert lake_around(str(tmp_path)) is None
