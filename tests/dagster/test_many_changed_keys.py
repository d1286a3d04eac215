"""Materializations of very many keys: the same rows as Dagster stores one by one, for a fraction of the time."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from pipelines.command.instance import open_instance
from pipelines.event_log import repeated_events, transactions
from pipelines.event_log.repeated_events import KeyEvent
from pipelines.event_log.transactions import few_transactions, log_materializations
from pipelines.metadata.values import PathValue
from tests.dagster.conftest import Execute, materialized
from tests.dagster.fake_jobs import World

pytestmark = pytest.mark.dagster

ASSET = dg.AssetKey("records")
ODD = 'quotes " and \\ and \n and ü and \u2028 and {} and %s'
EVENTS = [
    KeyEvent("orders-0", {"this run": "1 segment", "segments": 1, "lake": PathValue("/lakes/a")}),
    KeyEvent("orders-1", {"this run": ODD, "segments": -(2**62), "lake": PathValue(ODD)}),
    KeyEvent("orders-2", {"this run": "", "segments": 0, "lake": PathValue("/lakes/a")}),
    KeyEvent("orders-3", {"this run": "", "stopped": "diverged: at 7", "segments": 0, "lake": PathValue("/lakes/a")}),
    KeyEvent("orders-4", {"this run": "3", "segments": "unknown", "lake": PathValue("/lakes/a")}),
    KeyEvent("orders-5", {"this run": "3", "segments": None, "lake": PathValue("/lakes/a"), "is": True}),
    KeyEvent("orders-6", {"this run": "3", "segments": None, "lake": PathValue("/lakes/a"), "is": False}),
    *(KeyEvent(f"more-{n}", {"this run": f"{n} segments", "segments": n, "lake": PathValue("/b")}) for n in range(20)),
]


@pytest.fixture
def persistent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setattr(transactions, "STATEMENT_EVENTS", 8)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "history"))
    opened = open_instance(str(tmp_path / "history"))
    yield opened
    opened.dispose()


@dg.op
def one_by_one(context: dg.OpExecutionContext) -> None:
    for event in EVENTS:
        metadata = repeated_events.as_metadata(event.metadata)
        context.log_event(dg.AssetMaterialization(ASSET, partition=event.key, metadata=metadata))


@dg.op
def all_together(context: dg.OpExecutionContext) -> None:
    log_materializations(context, ASSET, EVENTS)


def rows_of(instance: dg.DagsterInstance, op: dg.OpDefinition, shard: str) -> list[tuple]:
    """What one run of the op stored: every column but ids, times and the name of op and run."""

    @dg.job(name="a_job")
    def a_job() -> None:
        op()

    result = a_job.execute_in_process(instance=instance)
    assert result.success
    storage = instance.event_log_storage
    path = storage.path_for_shard(result.run_id if shard == "run" else shard)
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "select event, dagster_event_type, step_key, asset_key, partition, timestamp from event_logs"
            " where run_id = ? and dagster_event_type = 'ASSET_MATERIALIZATION' order by id",
            [result.run_id],
        ).fetchall()
    comparable = []
    for content, *others, time in rows:
        assert time
        event = json.loads(content)
        assert isinstance(event.pop("timestamp"), float)
        assert event.pop("run_id") == event["dagster_event"]["logging_tags"].pop("run_id") == result.run_id
        comparable.append(
            (json.dumps(event).replace(op.name, "op"), *(str(each).replace(op.name, "op") for each in others))
        )
    return comparable


@pytest.mark.parametrize("shard", ["run", "index"])
def test_many_are_stored_as_dagster_stores_them_one_by_one(persistent, shard):
    slow, fast = (rows_of(persistent, op, shard) for op in (one_by_one, all_together))
    assert len(slow) == len(EVENTS)
    assert fast == slow


def test_dagster_makes_every_event_itself_if_a_copy_would_differ(persistent, monkeypatch):
    right = rows_of(persistent, all_together, "index")
    monkeypatch.setattr(repeated_events, "_mark", lambda at, value: value)  # a value that is no mark occurs twice
    assert rows_of(persistent, all_together, "index") == right


def test_the_partitions_of_an_asset_are_those_of_all_events_and_its_latest_event_is_the_last(persistent):
    rows_of(persistent, all_together, "index")
    assert persistent.get_materialized_partitions(ASSET) == {event.key for event in EVENTS}
    latest = persistent.get_latest_materialization_event(ASSET)
    assert latest.asset_materialization.partition == EVENTS[-1].key
    assert latest.asset_materialization.metadata["segments"].value == 19
    odd = persistent.fetch_materializations(
        dg.AssetRecordsFilter(ASSET, asset_partitions=["orders-1"]), limit=2
    ).records
    assert [record.asset_materialization.metadata["this run"].value for record in odd] == [ODD]
    entry = persistent.get_asset_records([ASSET])[0].asset_entry
    newest = persistent.fetch_materializations(ASSET, limit=1).records[0]
    assert entry.last_materialization_storage_id == newest.storage_id


def test_tags_of_a_materialization_are_stored_for_each_key(persistent):
    @dg.op
    def tagged(context: dg.OpExecutionContext) -> None:
        with few_transactions(context.instance.event_log_storage) as waiting:
            first = EVENTS[0]
            context.log_event(dg.AssetMaterialization(ASSET, partition=first.key, tags={"dagster/data_version": "7"}))
            waiting.repeat_last(EVENTS[1:4])

    rows_of(persistent, tagged, "index")
    with sqlite3.connect(persistent.event_log_storage.path_for_shard("index")) as connection:
        assert connection.execute("select count(*) from asset_event_tags where value = '7'").fetchone() == (4,)


def test_another_kind_of_storage_gets_every_event():
    with dg.DagsterInstance.ephemeral() as ephemeral:

        @dg.job
        def a_job() -> None:
            all_together()

        assert a_job.execute_in_process(instance=ephemeral).success
        assert ephemeral.get_materialized_partitions(ASSET) == {event.key for event in EVENTS}


@pytest.mark.stored
def test_very_many_changed_keys_have_a_summary_and_an_event_each(
    execute: Execute, world: World, instance: dg.DagsterInstance, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.assets.MANY_KEYS", 3)
    world.ends = {f"orders-{number}": 2 for number in range(4)}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert result.success
    for asset in ("archived_segments", "validated_segments", "records"):
        key = dg.AssetKey(["shop", asset])
        assert instance.get_materialized_partitions(key) == set(world.ends)
        (summary,) = instance.fetch_observations(key, limit=10).records
        observation = summary.event_log_entry.asset_observation
        assert observation.metadata["topic partitions"].value == 4
        assert instance.fetch_materializations(key, limit=1).records[0].storage_id > summary.storage_id


@pytest.mark.stored
def test_some_changed_keys_have_pictures_and_no_summary(
    execute: Execute, world: World, instance: dg.DagsterInstance, home: Path
) -> None:
    world.ends = {"orders-0": 2, "orders-1": 2}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert materialized(result, "validated_segments") == ["orders-0", "orders-1"]
    key = dg.AssetKey(["shop", "validated_segments"])
    metadata = instance.fetch_materializations(key, limit=1).records[0].asset_materialization.metadata
    assert {"picture", "offsets by state"} <= metadata.keys()
    assert not instance.fetch_observations(key, limit=10).records
