"""`loglake state`: the newest row of each key below an offset or a time, as a replay in plain Python has it."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.spark.archived import Keyed, append_segment
from tests.spark.cycle import AS_OF_MS, Lake

KEYLESS_ID = "DDDDDDDDDDDDDDDDDDDDDA"
FIRST_MS = 1_700_000_001_000
Shown = dict[bytes, tuple[int, bytes | None]]


def rows_of(seed: int, count: int, keys: int) -> list[Keyed]:
    """Values, empty values and tombstones over a few keys, one of them empty."""
    rng = random.Random(seed)
    names = [b"", *(b"key-%d" % n for n in range(keys - 1))]
    return [(rng.choice(names), rng.choice([None, b"", b"value-%d" % n])) for n in range(count)]


def replay(rows: dict[int, Keyed], end: int, *, keeps_tombstones: bool = False) -> Shown:
    """Every record below an offset, one after the other, into a dictionary."""
    state: Shown = {}
    for offset in sorted(rows):
        key, value = rows[offset]
        if offset >= end or key is None:
            continue
        if value is None and not keeps_tombstones:
            state.pop(key, None)
        else:
            state[key] = (offset, value)
    return state


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Partition, Partition, Partition]:
    """customers: 110 records in four segments; ledgers: committed and aborted transactions; keyless: null keys."""
    folder = tmp_path_factory.mktemp("state")
    source = LogDirectory(folder / "source")
    customers = source.partition("customers-0")
    append_segment(customers, rows_of(1, 40, 9), FIRST_MS, per_batch=8)
    append_segment(customers, [(b"once-%d" % n, b"v") for n in range(20)], FIRST_MS + 1000)
    append_segment(customers, rows_of(2, 40, 9), FIRST_MS + 2000, per_batch=8)
    append_segment(customers, rows_of(3, 10, 9), FIRST_MS + 3000)
    ledgers = source.partition("ledgers-0", OTHER_TOPIC_ID)
    for number, kind in enumerate((handmade.COMMIT, handmade.ABORT, handmade.COMMIT)):
        before = dict(ledgers.rows)
        sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 10 * number}
        ledgers.append(10, per_batch=10, tag=b"%d-" % number, attributes=handmade.TRANSACTIONAL, **sequence)
        if kind == handmade.ABORT:
            ledgers.rows = before
        ledgers.marker(7, kind)
    keyless = source.partition("keyless-0", KEYLESS_ID)
    append_segment(keyless, [(b"k", b"1"), (None, b"2"), (b"k", b"3"), (None, None)], FIRST_MS)
    source.high_watermarks(customers_0=110, ledgers_0=ledgers.next_offset, keyless_0=4)
    lake = Lake(folder / "lake")
    lake.turn(source.path)
    return lake, customers, ledgers, keyless


@pytest.fixture
def lake(built: tuple[Lake, Partition, Partition, Partition], tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(built[0].path, tmp_path / "lake")))


def state(lake: Lake, topic: str, at: str, *options: str) -> tuple[int, Shown, list[dict[str, Any]]]:
    """Exit code, and the rows; the file is removed again."""
    path = lake.path.parent / "state"
    code = main.main(["state", str(lake.path), topic, "--at", at, "--out", str(path), *options])
    if not path.exists():
        return code, {}, []
    if path.is_dir():
        rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        shutil.rmtree(path)
    else:
        rows = pq.read_table(path).to_pylist()
        path.unlink()
    shown = {row["key"]: (row["offset"], row["value"]) for row in rows}
    assert len(shown) == len(rows), "a key has two rows"
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
    assert all(row["is_deleted"] is (row["value"] is None) for row in rows)
    return code, shown, rows


@pytest.mark.long
@pytest.mark.parametrize("topic", ["customers", "ledgers", "keyless"])
@pytest.mark.parametrize("compacted", [False, True], ids=["archive as taken", "archive cleaned"])
def test_every_seventh_offset_is_what_a_replay_has(built, lake: Lake, topic: str, compacted: bool) -> None:
    rows = {"customers": built[1], "ledgers": built[2], "keyless": built[3]}[topic]
    if compacted:
        policies = lake.path.parent / "policies.yaml"
        policies.write_text('topics: {"*": {cleanup.policy: compact, min.cleanable.dirty.ratio: 0.01}}')
        report = launch.run(CompactionConfig(str(lake.path), "c", AS_OF_MS, read_policies(str(policies)), apply=True))
        assert report.changed or topic != "customers"
    for end in [*range(0, rows.next_offset, 7), rows.next_offset]:
        at = f"{topic}-0:{end}"
        assert state(lake, topic, at)[:2] == (0, replay(rows.rows, end)), end
        kept = replay(rows.rows, end, keeps_tombstones=True)
        assert state(lake, topic, at, "--keep-tombstones", "--format", "delta")[:2] == (0, kept), end
        assert state(lake, topic, at, "--keys-in-memory", "2")[1] == replay(rows.rows, end), end


def test_a_row_has_its_coordinates_and_its_log_has_a_line(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, (row,) = state(lake, "keyless", "keyless-0:4")
    assert code == 0
    published = {r["offset"]: r for r in lake.rows("records") if r["topic"] == "keyless"}[2]
    assert row == {name: published[name] for name in row if name != "is_deleted"} | {"is_deleted": False}
    line, last = capsys.readouterr().out.splitlines()
    assert line == "keyless-0: below offset 4: 1 rows, 0 deleted keys left out, 2 records without a key"
    assert last.endswith("state: 1 rows, complete")


def test_a_time_is_the_first_offset_that_is_not_before_it(built, lake: Lake) -> None:
    rows = built[1].rows
    for moment, end in ((0, 0), (FIRST_MS, 0), (FIRST_MS + 1, 40), (FIRST_MS + 1000, 40), (FIRST_MS + 2001, 100)):
        assert state(lake, "customers", f"{moment}ms")[:2] == (0, replay(rows, end)), moment
    assert state(lake, "customers", "2100-01-01")[:2] == (0, replay(rows, 110))
    for before in ("0001-01-01", "0001-01-01T00:00+14:00"):
        assert state(lake, "customers", before)[:2] == (0, {}), before
    for after in ("9999-12-31T23:59:59.999", "253402300800000", f"{10**18 - 1}"):
        assert state(lake, "customers", after)[:2] == (0, replay(rows, 110)), after


def test_the_first_late_record_is_the_cut_also_if_earlier_ones_follow_it(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    for timestamp in (5_000, 9_000, 4_000, 7_000):
        append_segment(orders, [(b"k", b"%d" % timestamp)], timestamp)
    source.high_watermarks(orders_0=4)
    lake.turn(source.path)
    assert state(lake, "orders", "-6000ms")[:2] == (0, {})
    assert state(lake, "orders", "6000ms")[:2] == (0, {b"k": (0, b"5000")})
    assert state(lake, "orders", "9000ms")[:2] == (0, {b"k": (0, b"5000")})
    assert state(lake, "orders", "9001ms")[:2] == (0, {b"k": (3, b"7000")})


def test_partitions_that_are_not_stated_are_left_out(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    for number in range(2):
        source.partition(f"orders-{number}").append(10)
    source.high_watermarks(orders_0=10, orders_1=10)
    lake.turn(source.path)
    assert {row["partition"] for row in state(lake, "orders", "orders-1:5")[2]} == {1}
    path = tmp_path / "both"
    assert main.main(["state", str(lake.path), "orders", "--at", "orders-1:5, orders-0:3", "--out", str(path)]) == 0
    rows = pq.read_table(path).to_pylist()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (p, o) for p, n in ((0, 3), (1, 5)) for o in range(n)
    ]
    said = {name.decode(): text.decode() for name, text in pq.read_metadata(path).metadata.items()}
    assert said["loglake.complete"] == "true"
    assert [(each["partition"], each["end"]) for each in json.loads(said["loglake.cuts"])] == [(0, 3), (1, 5)]


def compacted_at_source(source: LogDirectory) -> Partition:
    """Offsets 0..9, then 12, 13 and 15 in a batch over 12..16, after cleaning by the broker."""
    orders = source.partition("orders-0")
    orders.append(10)
    records = [handmade.record(delta, b"k%d" % delta, b"v") for delta in (0, 1, 3)]
    orders.write(handmade.batch(records, base_offset=12, last_offset_delta=4, leader_epoch=0, base_timestamp=FIRST_MS))
    orders.next_offset = 17
    orders.append(5)
    source.checkpoint("cleaner", orders_0=17)
    source.high_watermarks(orders_0=orders.next_offset)
    return orders


def test_an_answer_is_incomplete_from_where_the_source_was_cleaned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    compacted_at_source(source)
    policies = tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {cleanup.policy: compact}}')
    lake.turn(source.path, policies=str(policies))
    assert ("compacted" in {what for _, _, what in lake.ledger("orders")}) is True
    assert state(lake, "orders", "orders-0:10")[0] == 0
    capsys.readouterr()
    assert state(lake, "orders", "orders-0:11")[0] == 1
    line, last = capsys.readouterr().out.splitlines()
    assert line.endswith("incomplete: offsets [10, 11) compacted")
    assert last.endswith("incomplete")
    assert state(lake, "orders", "orders-0:12")[0] == 1
    for form in ("parquet", "delta"):
        path = tmp_path / form
        arguments = ["state", str(lake.path), "orders", "--at", "orders-0:22", "--out", str(path), "--format", form]
        assert main.main(arguments) == 1
    said = {name.decode(): text.decode() for name, text in pq.read_metadata(tmp_path / "parquet").metadata.items()}
    properties = DeltaTable(str(tmp_path / "delta")).metadata().configuration
    for found in (said, properties):
        assert found["loglake.complete"] == "false"
        first, *_ = json.loads(found["loglake.incomplete"])
        assert (first["start"], first["why"]) == (10, "compacted")


def test_gaps_inside_a_batch_count_from_the_first_of_them(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.append(5)
    records = [handmade.record(delta, b"k%d" % delta, b"v") for delta in (0, 1, 3)]
    orders.write(handmade.batch(records, base_offset=5, last_offset_delta=4, leader_epoch=0, base_timestamp=FIRST_MS))
    orders.next_offset = 10
    orders.append(5)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert [state(lake, "orders", f"orders-0:{end}")[0] for end in (5, 7, 8, 9, 10, 15)] == [0, 0, 1, 1, 1, 1]


def test_offsets_that_are_not_published_make_it_incomplete(built, lake: Lake) -> None:
    assert state(lake, "customers", "customers-0:111")[:2] == (1, replay(built[1].rows, 110))


def test_missing_offsets_make_it_incomplete(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.append(10)
    orders.next_offset = 15
    orders.append(5)
    source.high_watermarks(orders_0=20)
    policies = tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {salvage: permissive}}')
    lake.turn(source.path, policies=str(policies))
    assert (10, 15, "missing") in lake.ledger("orders")
    assert [state(lake, "orders", f"orders-0:{end}")[0] for end in (10, 11, 20)] == [0, 1, 1]


def test_a_damaged_table_is_exit_code_3_and_leaves_nothing(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted((lake.path / "tables" / "records" / "topic=customers").glob("*.parquet"))
    whole = files[0].read_bytes()
    before = sorted(path.name for path in lake.path.parent.iterdir())
    for form in ("parquet", "delta"):
        files[0].write_bytes(whole[: len(whole) // 2])
        assert state(lake, "customers", "customers-0:110", "--format", form)[0] == 3
        assert f"--lake {lake.path} --replace .." in capsys.readouterr().err
        files[0].unlink()
        assert state(lake, "customers", "customers-0:110", "--format", form)[0] == 3
    assert sorted(path.name for path in lake.path.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("topic", "at", "out", "what"),
    [
        ("nothing", "2020-01-01", "new", "has no topic"),
        ("customers", "soon", "new", "neither"),
        ("customers", "orders-0:5", "new", "partition of orders"),
        ("customers", "customers-7:5", "new", "no partition 7"),
        ("customers", "customers-0:5,customers-0:6", "new", "twice"),
        ("customers", "customers-0:5", "lake", "exists already"),
        ("customers", "customers-0:5", "lake/tables/mine", "in the lake"),
        ("customers", "customers-0:5", "s3://bucket/state", "local disk"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage_and_writes_nothing(
    lake: Lake, capsys: pytest.CaptureFixture[str], topic: str, at: str, out: str, what: str
) -> None:
    before = sorted(str(path) for path in lake.path.parent.rglob("*"))
    path = out if out.startswith("s3:") else str(lake.path.parent / out)
    assert main.main(["state", str(lake.path), topic, "--at", at, "--out", path]) == 64
    assert what in capsys.readouterr().err
    assert sorted(str(path) for path in lake.path.parent.rglob("*")) == before
