"""A published range is published again only where it differs, or the refusal names the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_jobs import launch
from spark_jobs.contracts import JobReport, PublishConfig, ReplaceConfig, ValidateConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.table_specs import OFFSET_LEDGER
from spark_jobs.launch import run
from spark_jobs.replace import replace_job as replace
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, OF_OURS, Lake

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Partition]:
    """Offsets 0-29 of orders-0 in three files of ten, 30-39 not below the high watermark; payments-0 beside it."""
    folder = tmp_path_factory.mktemp("published")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    payments.append(10)
    for end in (10, 20, 30):
        orders.append(10 if end < 30 else 20, per_batch=1)
        source.high_watermarks(orders_0=end, payments_0=10)
        lake.turn(source.path)
    return folder, orders


@pytest.fixture
def orders(made_once: tuple[Path, Partition]) -> Partition:
    return made_once[1]


@pytest.fixture
def published(made_once: tuple[Path, Partition], tmp_path: Path) -> Lake:
    """A copy of that lake."""
    return Lake(Path(shutil.copytree(made_once[0] / "lake", tmp_path / "lake")))


def ask(lake: Lake, **request: Any) -> JobReport:
    return run(config(lake, **request))


def config(lake: Lake, **request: Any) -> ReplaceConfig:
    return ReplaceConfig(str(lake.path), "replace", AS_OF_MS, **request)


def spoil(lake: Lake, where: str, topic: str = "orders") -> None:
    """Change rows of the table, which is forbidden."""
    table = DeltaTable(str(lake.path / "tables" / "records"))
    table.update(predicate=f"topic = '{topic}' AND {where}", updates={"leader_epoch": "77"})


def lose(lake: Lake, where: str) -> None:
    DeltaTable(str(lake.path / "tables" / "records")).delete(f"topic = 'orders' AND {where}")


def spoiled(lake: Lake, topic: str = "orders") -> set[int]:
    return {row["offset"] for row in lake.rows("records") if row["topic"] == topic and row["leader_epoch"] == 77}


def files(lake: Lake) -> dict[str, tuple[int, int]]:
    """Least and greatest offset by file of orders-0."""
    actions = pa.table(DeltaTable(str(lake.path / "tables" / "records")).get_add_actions(flatten=True)).to_pylist()
    mine = [a for a in actions if a["partition.topic"] == "orders"]
    return {a["path"]: (a["min.offset"], a["max.offset"]) for a in mine}


def change_ledger(lake: Lake, start: int, end: int, **columns: Any) -> None:
    """Say something else of offsets [start, end) of orders-0, as if its ledger had been cut there."""
    log = next(row["log"] for row in lake.rows("offset_ledger") if row["topic"] == "orders")
    rows = []
    for row in frontier.read_ledger(str(lake.path), [log])[log]:
        for low, high in ((0, start), (start, end), (end, 1000)):
            low, high = max(low, row.start_offset), min(high, row.end_offset)
            if low < high:
                records = high - low if row.records else 0
                changed = columns if (low, high) == (start, end) else {}
                rows.append(vars_of(row) | {"start_offset": low, "end_offset": high, "records": records} | changed)
    table = pa.Table.from_pylist(rows, schema=OFFSET_LEDGER)
    commits.replace(str(lake.path), "offset_ledger", ("log", [log]), table, "test")


def vars_of(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in OFFSET_LEDGER.names}


def test_exactly_the_named_range_is_as_the_archive_has_it_and_the_rest_stays_as_it_is(published, orders):
    spoil(published, "offset >= 5 AND offset < 25")
    report = ask(published, start_offset=8, end_offset=22)
    assert spoiled(published) == {5, 6, 7, 22, 23, 24}
    assert {offset: row for offset, row in published.published("orders").items() if 8 <= offset < 22} == {
        offset: orders.rows[offset] for offset in range(8, 22)
    }
    assert set(published.published("orders")) == set(range(30))
    assert [(c.topic_partition, c.metrics["start_offset"], c.metrics["end_offset"]) for c in report.changed] == [
        ("orders-0", 8, 22)
    ]


def test_what_does_not_differ_makes_no_new_version_and_keeps_its_files(published):
    before, versions = files(published), published.versions()
    report = ask(published, start_offset=0, end_offset=30)
    assert report.changed == ()
    assert published.versions() == versions
    spoil(published, "offset = 15")
    ask(published, start_offset=0, end_offset=30)
    kept = {path for path, span in before.items() if span != (10, 19)}
    assert kept <= set(files(published))
    assert sorted(files(published).values()) == sorted(before.values())
    assert spoiled(published) == set()
    versions = published.versions()
    ask(published, start_offset=0, end_offset=30)
    assert published.versions() == versions


def test_rows_come_out_in_offset_order_and_equal_in_every_column(published):
    def rows() -> list[dict[str, Any]]:
        return sorted(
            (row for row in published.rows("records") if row["topic"] == "orders"), key=lambda row: row["offset"]
        )

    before = rows()
    spoil(published, "offset IN (3, 4, 17)")
    lose(published, "offset = 12")
    ask(published, start_offset=0)
    assert rows() == before
    for path in files(published):
        import pyarrow.parquet as pq

        offsets = pq.read_table(published.path / "tables" / "records" / path)["offset"].to_pylist()
        assert offsets == sorted(offsets)


def test_rows_that_the_archive_does_not_have_leave_with_their_range(published):
    table = str(published.path / "tables" / "records")
    strange = next(row for row in published.rows("records") if row["topic"] == "orders" and row["offset"] == 4)
    schema = pa.schema(DeltaTable(table).schema().to_arrow())
    write_deltalake(table, pa.Table.from_pylist([strange], schema=schema), mode="append")
    assert sum(row["offset"] == 4 for row in published.rows("records") if row["topic"] == "orders") == 2
    ask(published, start_offset=4, end_offset=5)
    assert set(published.published("orders")) == set(range(30))


def test_a_request_ends_at_the_frontier_and_says_so(published):
    spoil(published, "offset = 29")
    ask(published, start_offset=25, end_offset=40)
    assert spoiled(published) == set()
    assert set(published.published("orders")) == set(range(30))
    refused = [row for row in published.rows("findings") if row["rule"] == "replacement-refused"]
    assert [(row["topic"], row["start_offset"], row["end_offset"]) for row in refused] == [("orders", 30, 40)]
    versions = published.versions()
    assert ask(published, start_offset=25, end_offset=40).findings == ()
    assert published.versions() == versions


@pytest.mark.parametrize(
    "said", [{"archived": "retained-away"}, {"archived": "compacted-away"}, {"state": "corrupt", "records": 0}]
)
def test_offsets_that_the_archive_does_not_have_as_published_are_refused_by_name_and_their_rows_stay(published, said):
    change_ledger(published, 10, 20, **said)
    spoil(published, "offset IN (9, 15, 20)")
    ask(published, start_offset=5, end_offset=25)
    assert spoiled(published) == {15}
    assert set(published.published("orders")) == set(range(30))
    refused = next(row for row in published.rows("findings") if row["rule"] == "replacement-refused")
    assert (refused["start_offset"], refused["end_offset"]) == (10, 20)
    assert "orders-0: offsets [10, 20) are not replaced" in refused["message"]


def test_only_offsets_filled_below_the_frontier_are_published_as_a_replacement(published, orders):
    lose(published, "offset >= 12 AND offset < 18")
    spoil(published, "offset = 3")
    change_ledger(published, 12, 18, published=False)
    change_ledger(published, 0, 12, published=True)
    report = ask(published)
    assert report.metrics["records"] == 6
    assert spoiled(published) == {3}
    assert {o: r for o, r in published.published("orders").items() if o != 3} == {
        o: r for o, r in orders.rows.items() if o < 30 and o != 3
    }
    ledger = [row for row in published.rows("offset_ledger") if row["topic"] == "orders"]
    assert all(row["published"] for row in ledger if row["end_offset"] <= 30)
    assert not ask(published).used_executor


@pytest.mark.parametrize("dies_at", ["before the commit", "behind the commit"])
def test_a_run_that_dies_around_its_commit_is_completed_by_the_next(published, orders, monkeypatch, dies_at):
    lose(published, "offset >= 12 AND offset < 18")
    change_ledger(published, 12, 18, published=False)
    made = (commits, "rewrite_files") if dies_at == "before the commit" else (commits, "replace")
    with monkeypatch.context() as dying:
        dying.setattr(*made, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            ask(published)
    ask(published)
    assert published.published("orders") == {o: r for o, r in orders.rows.items() if o < 30}
    assert not ask(published).used_executor


def test_of_two_requests_planned_at_one_version_the_second_finds_what_the_first_did(published, orders):
    spoil(published, "offset >= 5 AND offset < 25")
    one, two = config(published, start_offset=0, end_offset=20), config(published, start_offset=10, end_offset=30)
    first, second = replace.plan(one), replace.plan(two)
    executor = launch.start_executor(one.lake)
    replace.apply(first, one, executor)
    version = published.versions()["records"]
    replace.apply(second, two, executor)
    assert published.versions()["records"] == version + 1
    assert published.published("orders") == {o: r for o, r in orders.rows.items() if o < 30}
    replace.apply(first, one, executor)
    assert published.versions()["records"] == version + 1


def _merge_all(lake: Lake) -> None:
    DeltaTable(str(lake.path / "tables" / "records")).optimize.compact()


def _grow(lake: Lake) -> None:
    """Publish what has come to lie below the high watermark."""
    logs = DeltaTable(str(lake.path / "tables" / "logs"))
    logs.update(
        predicate="topic = 'orders'", updates={"high_watermark": "40"}, commit_properties=CommitProperties(OF_OURS)
    )
    run(ValidateConfig(str(lake.path), "grown", AS_OF_MS))
    run(PublishConfig(str(lake.path), "grown", AS_OF_MS))


@pytest.mark.parametrize("other", [_merge_all, _grow])
def test_a_commit_that_comes_between_makes_it_look_again(published, orders, monkeypatch, other: Callable[[Lake], None]):
    spoil(published, "offset >= 5 AND offset < 25")
    rewrite = commits.rewrite_files

    def overtaken(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(commits, "rewrite_files", rewrite)
        other(published)
        rewrite(*args, **kwargs)

    monkeypatch.setattr(commits, "rewrite_files", overtaken)
    ask(published, start_offset=0, end_offset=30)
    end = 40 if other is _grow else 30
    assert published.published("orders") == {o: r for o, r in orders.rows.items() if o < end}


def test_times_choose_whole_batches_of_every_log(tmp_path):
    lake, source = Lake(tmp_path / "lake"), LogDirectory(tmp_path / "source")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    for log in (orders, payments):
        log.roll()
        for at in range(6):
            rows = [(b"k", b"%d" % (log.next_offset + i)) for i in range(5)]
            time = START_MS + at * HOUR_MS
            log.write(handmade.simple_batch(log.next_offset, rows, base_timestamp=time, leader_epoch=0))
            for row in rows:
                log.rows[log.next_offset] = row
                log.next_offset += 1
    source.high_watermarks(orders_0=30, payments_0=30)
    lake.turn(source.path)
    for topic in ("orders", "payments"):
        spoil(lake, "offset >= 0", topic)
    version = lake.versions()["records"]
    ask(lake, since_ms=START_MS + 2 * HOUR_MS, until_ms=START_MS + 4 * HOUR_MS)
    assert spoiled(lake) == spoiled(lake, "payments") == {*range(10), *range(20, 30)}
    assert lake.versions()["records"] == version + 2  # one commit a topic
