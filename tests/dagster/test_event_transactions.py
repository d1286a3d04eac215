"""Events of a finished run share transactions: all are stored, others can read and write meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest

from pipelines.command.instance import open_instance
from pipelines.event_log import connections
from pipelines.event_log.transactions import few_transactions

pytestmark = pytest.mark.dagster

KEYS = [f"orders-{number}" for number in range(40)]


@pytest.fixture
def instance(tmp_path: Path, monkeypatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "history"))
    opened = open_instance(str(tmp_path / "history"))
    yield opened
    opened.dispose()


@dg.op
def materializes(context: dg.OpExecutionContext) -> None:
    for key in KEYS:
        context.log_event(dg.AssetMaterialization("records", partition=key, metadata={"key": key}))
    context.log_event(dg.AssetObservation("records"))


@dg.job
def a_job() -> None:
    materializes()


def record(instance: dg.DagsterInstance) -> str:
    with few_transactions(instance.event_log_storage):
        result = a_job.execute_in_process(instance=instance)
    assert result.success
    return result.run_id


def seen(instance: dg.DagsterInstance, run_id: str) -> tuple[list[str], int]:
    """Partitions of the asset's events, by time; and the number of the run's events."""
    records = instance.fetch_materializations(dg.AssetKey("records"), limit=1000, ascending=True).records
    return [each.partition_key or "" for each in records], len(instance.all_logs(run_id))


def test_another_instance_reads_what_single_transactions_would_have_stored(tmp_path, instance):
    run_id = record(instance)
    other = dg.DagsterInstance.from_config(str(tmp_path / "history"))
    shared = seen(other, run_id)
    other.dispose()
    assert shared[0] == KEYS
    alone = a_job.execute_in_process(instance=instance)
    assert len(instance.all_logs(alone.run_id)) == shared[1]
    assert instance.get_run_by_id(run_id).status == dg.DagsterRunStatus.SUCCESS
    assert seen(instance, run_id)[0] == [*KEYS, *KEYS], "the storage works as before afterwards"


def asset_rows(instance: dg.DagsterInstance) -> list[tuple]:
    with instance.event_log_storage.index_connection() as connection:
        rows = connection.exec_driver_sql(
            "select asset_key, last_run_id, last_materialization, last_materialization_timestamp from asset_keys"
        ).fetchall()
    return [tuple(row) for row in rows]


def test_the_row_of_an_asset_has_its_latest_event_as_single_transactions_would_have_stored_it(instance):
    run_id = record(instance)
    ((asset, last_run, latest, timestamp),) = asset_rows(instance)
    assert (asset, last_run) == ('["records"]', run_id)
    assert KEYS[-1] in latest
    assert KEYS[-2] not in latest
    entry = instance.get_asset_records([dg.AssetKey("records")])[0].asset_entry
    newest = instance.fetch_materializations(dg.AssetKey("records"), limit=1).records[0]
    assert entry.last_materialization_storage_id == newest.storage_id
    alone = a_job.execute_in_process(instance=instance)
    ((_, last_run, _, later),) = asset_rows(instance)
    assert last_run == alone.run_id
    assert later > timestamp


def test_an_asset_is_updated_once_for_many_events(instance, monkeypatch):
    stored = []
    storage = instance.event_log_storage
    original = type(storage)._store_asset_event
    monkeypatch.setattr(
        type(storage), "_store_asset_event", lambda *given: (stored.append(given[2]), original(*given))[1]
    )
    record(instance)
    # Alone there are 41. A slow machine may need a second transaction.
    assert 1 < len(stored) <= 6, len(stored)


def test_few_transactions_are_made(instance, monkeypatch):
    connects = []
    original = connections.SQL.create_engine

    def create_engine(*arguments, **options):
        connects.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(connections.SQL, "create_engine", create_engine)
    record(instance)
    # For each of the two shards ours, and one of Dagster's that creates its tables. Alone there is one for each event.
    assert len(connects) <= 6, len(connects)


def test_another_thread_and_another_instance_store_events_meanwhile(tmp_path, instance, monkeypatch):
    monkeypatch.setattr(connections, "TRANSACTION_SECONDS", 0.05)
    other = dg.DagsterInstance.from_config(str(tmp_path / "history"))
    errors: list[BaseException] = []

    def store(into: dg.DagsterInstance) -> None:
        try:
            for _ in range(5):
                into.report_runless_asset_event(dg.AssetObservation("elsewhere"))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=store, args=(into,)) for into in (instance, other)]
    with few_transactions(instance.event_log_storage):
        for thread in threads:
            thread.start()
        a_job.execute_in_process(instance=instance)
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(instance.fetch_observations(dg.AssetKey("elsewhere"), limit=100).records) == 10
    assert seen(other, "")[0] == KEYS
    other.dispose()


def test_what_was_stored_before_an_error_outside_of_the_storage_stays(instance):
    with suppress(KeyError), few_transactions(instance.event_log_storage):
        run_id = a_job.execute_in_process(instance=instance).run_id
        raise KeyError("elsewhere")
    assert seen(instance, run_id)[0] == KEYS


def test_an_error_inside_a_transaction_is_raised_and_the_storage_goes_on(instance):
    storage = instance.event_log_storage
    with few_transactions(storage):
        with suppress(KeyError), storage.index_connection():
            raise KeyError("inside")
        a_job.execute_in_process(instance=instance)
    assert seen(instance, "")[0] == KEYS


def test_another_kind_of_storage_is_left_as_it_is():
    with dg.DagsterInstance.ephemeral() as ephemeral, few_transactions(ephemeral.event_log_storage):
        assert a_job.execute_in_process(instance=ephemeral).success
