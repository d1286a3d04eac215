"""`latest`: the newest row of each key, as a replay in plain Python has it, after any history of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import JobReport, LatestConfig, ReplaceConfig
from spark_jobs.errors import ConcurrentChange, JobError
from spark_jobs.latest import latest_job, latest_task
from spark_jobs.latest.latest_job import plan
from spark_jobs.newest import hash_ranges
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.jobs.test_late_segments import damaged
from tests.jobs.test_state import replay, rows_of
from tests.sampling import chance
from tests.spark.archived import Keyed
from tests.spark.cycle import AS_OF_MS, Lake

Shown = dict[bytes, tuple[int, bytes | None]]


class Kept:
    """A lake with a topic of two partitions, and a policy."""

    def __init__(self, tmp_path: Path, policy: str = "delete") -> None:
        self.source, self.lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
        self.logs = [self.source.partition(f"orders-{number}") for number in range(2)]
        self.policies = tmp_path / "policies.yaml"
        self.state_policy(policy)

    def state_policy(self, policy: str) -> None:
        self.policies.write_text(f'topics: {{"*": {{latest: {policy}, salvage: permissive}}}}')

    def append(self, partition: int, rows: Sequence[Keyed]) -> None:
        """Write one batch."""
        log: Partition = self.logs[partition]
        if not log.segments():
            log.roll()
        log.write(handmade.simple_batch(log.next_offset, list(rows), base_timestamp=1_700_000_000_000, leader_epoch=0))
        for row in rows:
            log.rows[log.next_offset] = row
            log.next_offset += 1

    def publish(self, **ingest: Any) -> None:
        self.source.high_watermarks(orders_0=self.logs[0].next_offset, orders_1=self.logs[1].next_offset)
        self.lake.turn(self.source.path, policies=str(self.policies), **ingest)

    def run(self, **options: Any) -> JobReport:
        return launch.run(
            LatestConfig(str(self.lake.path), "latest", AS_OF_MS, read_policies(str(self.policies)), **options),
        )

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.lake.path / "tables" / "latest" / "orders"))

    def rows(self) -> list[dict[str, Any]]:
        return self.table.to_pyarrow_table().to_pylist()

    def shown(self, partition: int = 0) -> Shown:
        rows = [row for row in self.rows() if row["partition"] == partition]
        shown = {row["key"]: (row["offset"], row["value"]) for row in rows}
        assert len(shown) == len(rows), "a key has two rows"
        assert all(row["is_deleted"] is (row["value"] is None) for row in rows)
        return shown

    def commit_of_records(self, what: str) -> None:
        DeltaTable(str(self.lake.path / "tables" / "records")).delete(what)


@pytest.fixture
def lake(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture(params=["one map", "full maps", "many tasks"])
def keys_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The option of a run in which newest rows are found in this way."""
    if request.param == "one map":
        return 1_000
    monkeypatch.setattr(latest_task, "PART_BYTES", 500)
    monkeypatch.setattr(hash_ranges, "SAMPLED", 0)
    if request.param == "full maps":  # only the kernels find newest offsets in many tasks
        monkeypatch.setattr(latest_job, "is_chosen", lambda _: False)
    return 2


@pytest.mark.long
@pytest.mark.parametrize("policy", ["delete", "soft-delete"])
def test_after_each_of_many_runs_it_is_what_a_replay_has(tmp_path: Path, policy: str, keys_in_memory: int) -> None:
    lake = Kept(tmp_path, policy)
    rng = chance(f"latest {policy} {keys_in_memory}")
    for number in range(8):
        for partition in range(2):
            if number == 0 or rng.random() < 0.7:
                rows = rows_of(rng.randrange(1 << 20), rng.randint(1, 30), 9)
                lake.append(partition, [*rows, (None, b"nothing"), (b"once-%d" % number, b"v")])
        lake.publish()
        lake.run(keys_in_memory=keys_in_memory)
        for partition in range(2):
            kept = replay(lake.logs[partition].rows, 1 << 40, keeps_tombstones=policy == "soft-delete")
            assert lake.shown(partition) == kept, number


def test_a_row_has_the_columns_of_its_record(lake: Kept) -> None:
    lake.append(0, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
    lake.publish()
    report = lake.run()
    published = {row["offset"]: row for row in lake.lake.rows("records")}
    for row in lake.rows():
        same = published[row["offset"]]
        assert row == {name: same[name] for name in row if name != "is_deleted"} | {"is_deleted": False}
    assert report.metrics == {"rows_read": 3, "waiting": 0}


def test_a_second_run_writes_nothing(lake: Kept) -> None:
    lake.append(0, [(b"a", b"1")])
    lake.publish()
    lake.run()
    before = lake.table.version()
    assert lake.run().changed == ()
    assert lake.table.version() == before


def test_rows_of_an_earlier_run_are_counted_once(lake: Kept) -> None:
    for number in range(3):
        lake.append(0, [(b"a", b"%d" % number), (b"b", b"v")])
        lake.publish()
        report = lake.run()
        assert report.metrics["rows_read"] == 2
        assert report.plan.topics[0].note is None
    assert lake.shown() == {b"a": (4, b"2"), b"b": (5, b"v")}


def test_the_same_plan_is_carried_out_once(lake: Kept) -> None:
    lake.append(0, [(b"a", b"1"), (b"b", b"2")])
    lake.publish()
    config = LatestConfig(str(lake.lake.path), "latest", AS_OF_MS, read_policies(str(lake.policies)))
    planned = launch.plan(config)
    latest_job.apply(planned, config, None)
    before = lake.table.version()
    with pytest.raises(ConcurrentChange):
        latest_job.apply(planned, config, None)
    assert lake.table.version() == before
    assert lake.shown() == {b"a": (0, b"1"), b"b": (1, b"2")}


def test_a_topic_waits_if_the_workers_of_a_large_log_die(lake: Kept) -> None:
    class Dying:
        def run(self, work: object, tasks: Sequence[object], sizes: object = None) -> list[Any]:
            if tasks:
                raise JobError("two workers died")
            return []

    lake.append(0, [(b"a", b"1"), (b"b", b"2")])
    lake.publish()
    policies = read_policies(str(lake.policies))
    config = LatestConfig(str(lake.lake.path), "latest", AS_OF_MS, policies, keys_in_memory=1)
    report = latest_job.apply(plan(config), config, Dying())
    said = str(report.plan.topics[0].waits)
    assert "the worker of partition 0 did not finish (two workers died)" in said
    assert "--keys-in-memory" in said
    assert not (lake.lake.path / "tables" / "latest").exists()


@pytest.mark.parametrize("command", ["latest", "state"])
def test_no_key_in_memory_is_wrong_usage(lake: Kept, capsys: pytest.CaptureFixture[str], command: str) -> None:
    more = ["orders", "--out", "out.parquet"] if command == "state" else []
    assert main.main([command, str(lake.lake.path), *more, "--keys-in-memory", "0"]) == 64
    assert "--keys-in-memory: '0' is not a whole number of at least 1" in capsys.readouterr().err


def test_files_without_a_changed_key_stay_as_they_are(lake: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_task, "FILE_BYTES", 1)  # no file is small
    for number in range(5):
        lake.append(0, [(b"%d-%d" % (number, n), b"v") for n in range(10)])
        lake.publish()
        lake.run()
    before = set(lake.table.file_uris())
    lake.append(0, [(b"2-3", b"new")])
    lake.publish()
    lake.run()
    assert len(before - set(lake.table.file_uris())) == 1
    assert lake.shown() == replay(lake.logs[0].rows, 1 << 40)


def test_files_are_read_from_the_newest_one_on_until_each_new_key_is_found(
    lake: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_task, "FILE_BYTES", 1)
    written: list[set[str]] = [set()]
    for number in range(4):
        lake.append(0, [(b"%d-%d" % (number, n), b"v") for n in range(10)])
        lake.publish()
        lake.run()
        written.append(set(lake.table.file_uris()))
    [first] = written[1]
    Path(first).unlink()
    lake.append(0, [(b"3-3", b"new"), (b"1-2", b"new"), (b"3-3", b"newer")])
    lake.publish()
    assert lake.run().metrics["waiting"] == 0
    left = set(lake.table.file_uris())
    assert (first in left, len(written[4] - left)) == (True, 2)
    lake.append(0, [(b"in no file", b"v")])
    lake.publish()
    assert lake.run().metrics["waiting"] == 1


@pytest.mark.parametrize("policy", ["delete", "soft-delete"])
def test_changes_of_known_keys_alone_give_what_a_replay_has(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_task, "FILE_BYTES", 1)
    lake, rng = Kept(tmp_path, policy), chance(f"known keys {policy}")
    keys = [b"%d" % number for number in range(30)]
    for number in range(11):
        # The first six runs write a file each.
        chosen = keys[5 * number : 5 * number + 5] if number < 6 else rng.choices(keys, k=rng.randint(1, 3))
        lake.append(0, [(key, None if number > 5 and rng.random() < 0.2 else b"%d" % number) for key in chosen])
        lake.publish()
        lake.run()
        kept = replay(lake.logs[0].rows, 1 << 40, keeps_tombstones=policy == "soft-delete")
        assert lake.shown() == kept, number


@pytest.mark.long
def test_small_files_are_joined(lake: Kept) -> None:
    for number in range(30):
        lake.append(0, [(b"%d" % number, b"v")])
        lake.publish()
        lake.run()
    assert len(lake.table.file_uris()) <= 6
    assert lake.shown() == replay(lake.logs[0].rows, 1 << 40)


def test_another_policy_waits_for_its_replacement(lake: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append(0, [(b"a", b"1"), (b"b", None)])
    lake.publish()
    lake.run()
    lake.state_policy("soft-delete")
    arguments = ["latest", str(lake.lake.path), "--policies", str(lake.policies)]
    assert main.main(arguments) == 1
    assert "--replace orders" in capsys.readouterr().out
    assert lake.shown() == {b"a": (0, b"1")}
    assert main.main([*arguments, "--replace", "orders"]) == 0
    assert capsys.readouterr().out == "orders: 2 records read, 2 rows written, 1 tombstones, 0 records without a key\n"
    assert lake.shown() == {b"a": (0, b"1"), b"b": (1, None)}


def test_what_is_filled_below_the_frontier_is_computed_again(tmp_path: Path) -> None:
    lake = Kept(tmp_path)
    orders, replica = damaged(lake.source, tmp_path, 3)  # offsets 15..19; keys repeat every seven offsets
    policies = str(lake.policies)
    lake.lake.turn(lake.source.path, policies=policies)
    lake.run()
    holed = {offset: row for offset, row in orders.rows.items() if not 15 <= offset < 20}
    assert lake.shown() == replay(holed, 1 << 40) != replay(orders.rows, 1 << 40)
    lake.lake.turn(lake.source.path, policies=policies, fill_from=(str(replica),))
    launch.run(ReplaceConfig(str(lake.lake.path), "late", AS_OF_MS, policies=read_policies(policies)))
    report = lake.run()
    assert "computed again" in report.plan.topics[0].note
    assert lake.shown() == replay(orders.rows, 1 << 40)
    before = lake.table.version()
    lake.run()
    assert lake.table.version() == before


def test_rows_that_are_deleted_bring_earlier_ones_back(lake: Kept) -> None:
    lake.append(0, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)])
    lake.publish()
    lake.run()
    assert lake.shown() == {b"a": (2, b"3")}
    lake.commit_of_records("offset = 3")
    lake.run()
    assert lake.shown() == {b"a": (2, b"3"), b"b": (1, b"2")}


def test_without_a_policy_there_is_no_table(lake: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append(0, [(b"a", b"1")])
    lake.publish()
    lake.policies.write_text('topics: {"*": {salvage: permissive}}')
    assert main.main(["latest", str(lake.lake.path), "--policies", str(lake.policies)]) == 0
    assert "set it to delete or soft-delete" in capsys.readouterr().out
    assert not (lake.lake.path / "tables" / "latest").exists()
    assert main.main(["latest", str(lake.lake.path), "--policies", str(lake.policies), "--replace", "orders"]) == 64


def test_a_damaged_table_waits_and_is_made_again_without_its_directory(
    lake: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.append(0, [(b"a", b"1"), (b"b", b"2")])
    lake.publish()
    lake.run()
    for path in (lake.lake.path / "tables" / "latest" / "orders").glob("*.parquet"):
        path.write_bytes(path.read_bytes()[:50])
    lake.append(0, [(b"a", b"3")])
    lake.publish()
    arguments = ["latest", str(lake.lake.path), "--policies", str(lake.policies)]
    assert main.main(arguments) == 1
    assert "loglake latest" in capsys.readouterr().out
    assert main.main([*arguments, "--replace", "orders"]) == 0
    assert lake.shown() == {b"b": (1, b"2"), b"a": (2, b"3")}


def test_a_query_sees_the_table_as_a_view(lake: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append(0, [(b"a", b"1"), (b"a", b"2")])
    lake.publish()
    lake.run()
    sql = 'select decode(key) k, decode(value) v, "offset" from latest_orders'
    assert main.main(["query", str(lake.lake.path), sql, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["k,v,offset", "a,2,1"]
