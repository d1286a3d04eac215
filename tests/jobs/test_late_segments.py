"""Offsets that are missing or corrupt in the archive, and turn up later at the source or in a copy that is named."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, ReplaceConfig
from spark_jobs.ingest import ingest_job
from spark_jobs.lake.view.alarms import damage_of
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.jobs.test_cut_back import archived, feeding_bytes, put_back
from tests.spark.cycle import AS_OF_MS, Lake, states


def batches(data: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(data):
        found.append(data[position : position + handmade.size_of(data, position)])
        position += len(found[-1])
    return found


def injure(path: Path, *numbers: int) -> None:
    """Flip a bit in the records of these batches."""
    parts = batches(path.read_bytes())
    path.write_bytes(b"".join(handmade.flip(b, 65) if at in numbers else b for at, b in enumerate(parts)))


def copy_of(partition: Partition, directory: Path, tmp_path: Path) -> Path:
    """The partition as it is now, in another log directory."""
    shutil.copytree(partition.path, directory / partition.path.name)
    return directory


def damaged(source: LogDirectory, tmp_path: Path, *numbers: int, count: int = 20) -> tuple[Partition, Path]:
    """A log of a damaged sealed segment and a good one, and a replica of it without the damage."""
    orders = source.partition("orders-0")
    orders.append(count)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=count + 5)
    replica = copy_of(orders, tmp_path / "replica", tmp_path)
    injure(orders.segments()[0], *numbers)
    return orders, replica


def idle(lake: Lake, *sources: Path, **ingest: Any) -> None:
    versions = lake.versions()
    reports = lake.turn(*sources, **ingest)
    assert not any(report.used_executor or report.changed for report in reports.values())
    assert lake.versions() == versions


def filled(lake: Lake) -> list[tuple[int, int]]:
    rows = [row for row in lake.rows("findings") if row["rule"] == "range-filled"]
    return sorted((row["start_offset"], row["end_offset"]) for row in rows)


def test_a_damaged_batch_is_filled_from_a_replica_that_is_named_and_later_offsets_are_published(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1)
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 10, "corrupt"), (10, 25, "present")]
    assert set(lake.published("orders")) == set(range(5))

    looked = ingest_job.plan(IngestConfig(str(lake.path), (str(source.path), str(replica)), "look", AS_OF_MS))
    [said] = [each.finding.message for each in looked.findings if "left alone" in each.finding.message]
    assert f"only it has [5, 10). `loglake run {orders.path} --lake {lake.path} --fill-from {replica}/orders-0`" in said
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.published("orders") == orders.rows
    assert states(lake.ledger("orders")) == {"present": 25}
    assert archived(lake) == [(0, 5, None), (5, 10, None), (10, 20, None), (20, 25, None), (0, 20, "filled")]
    good = (replica / "orders-0" / f"{0:020d}.log").read_bytes()
    assert feeding_bytes(lake) == good + orders.segments()[1].read_bytes()
    segments = {(s["base_offset"], s["retired_because"]): s for s in lake.rows("segments")}
    filler, behind = segments[5, None], segments[10, None]
    size = len(batches(good)[0])
    assert (filler["origin_file"], filler["origin_position"]) == (str(replica / "orders-0" / f"{0:020d}.log"), size)
    assert (behind["origin_file"], behind["origin_position"]) == (str(orders.segments()[0]), 2 * size)
    assert filled(lake) == [(5, 10)]
    assert lake.stopped() == {"orders-0": None}
    idle(lake, source.path, fill_from=(str(replica),))
    orders.append(5)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows


@pytest.mark.parametrize("numbers", [(0,), (3,), (1, 2), (0, 3), (0, 1, 2, 3)])
def test_damage_anywhere_in_a_segment_is_filled(source, lake, tmp_path, numbers: Sequence[int]):
    orders, replica = damaged(source, tmp_path, *numbers)
    lake.turn(source.path)
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.published("orders") == orders.rows
    good = (replica / "orders-0" / f"{0:020d}.log").read_bytes()
    assert feeding_bytes(lake) == good + orders.segments()[1].read_bytes()
    orders.append(5)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows


@pytest.mark.parametrize("batches_of_middle", [1, 3])
def test_a_filled_middle_has_the_same_ends_other_bytes_and_an_id_of_its_own(source, lake, tmp_path, batches_of_middle):
    """Log, base offset, next offset, size and generation of both segments are equal: only their bytes differ."""
    orders = source.partition("orders-0")
    orders.append(5)
    orders.roll()
    orders.append(5 * batches_of_middle)
    orders.roll()
    orders.append(5)
    end = orders.next_offset
    source.high_watermarks(orders_0=end)
    replica = copy_of(orders, tmp_path / "replica", tmp_path)
    middle = orders.segments()[1]
    good = middle.read_bytes()
    injure(middle, *range(batches_of_middle))
    policies = tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {salvage: permissive}}')
    lake.turn(source.path, policies=str(policies))
    (bad,) = [row for row in lake.rows("segments") if row["base_offset"] == 5]
    assert set(lake.published("orders")) == {*range(5), *range(end - 5, end)}

    lake.turn(source.path, policies=str(policies), fill_from=(str(replica),))
    launch.run(ReplaceConfig(str(lake.path), "late", AS_OF_MS, policies=read_policies(str(policies))))
    before, after = sorted(
        (row for row in lake.rows("segments") if row["base_offset"] == 5), key=lambda row: row["retired_ms"] is None
    )
    same = ("log", "base_offset", "next_offset", "size", "start", "generation")
    assert [before[name] for name in same] == [after[name] for name in same]
    assert (before["segment_id"], before["retired_because"]) == (bad["segment_id"], "filled")
    assert before["segment_id"] != after["segment_id"]
    assert before["path"] != after["path"]
    for row, content in ((before, middle.read_bytes()), (after, good)):
        assert (lake.path / row["path"]).read_bytes() == content
        assert row["digest"] == hashlib.sha256(content).hexdigest()
    named = {row["segment_id"] for row in lake.rows("records") if 5 <= row["offset"] < end - 5}
    assert named == {after["segment_id"]}
    for table in ("batches", "validations"):
        of_each = [row["verdict"] for row in lake.rows(table) if row["segment_id"] == after["segment_id"]]
        assert set(of_each) == {"ok" if table == "batches" else "clean"}
    assert lake.published("orders") == orders.rows
    assert main(["verify", str(lake.path)]) == 0


def test_a_file_that_was_repaired_at_the_source_itself_fills_the_hole(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1)
    lake.turn(source.path)
    idle(lake, source.path)
    shutil.copy(replica / "orders-0" / f"{0:020d}.log", orders.segments()[0])
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert filled(lake) == [(5, 10)]
    idle(lake, source.path)


def test_a_lost_segment_that_comes_back_fills_the_gap_and_its_evidence_goes(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    orders.roll()
    orders.append(10)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=25)
    away = tmp_path / "away"
    away.mkdir()
    lost = [Path(shutil.move(path, away / path.name)) for path in orders.segments()[:2]]
    source.checkpoint("log-start", orders_0=20)
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 10, "present"), (10, 20, "missing"), (20, 25, "present")]
    assert [row["gaps"] for row in lake.rows("logs")] == ['[[10, 20, "trimmed-before-ingest"]]']
    assert [alarm.rule for alarm in damage_of(read_state(str(lake.path)))] == ["trimmed-before-ingest"]

    for path in lost:
        shutil.move(path, orders.path / path.name)
    (source.path / "log-start-offset-checkpoint").unlink()
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert states(lake.ledger("orders")) == {"present": 25}
    assert [row["gaps"] for row in lake.rows("logs")] == ["[]"]
    assert damage_of(read_state(str(lake.path))) == (), "a finding about a gap that is filled counted for ever"
    assert archived(lake) == [(0, 10, None), (10, 20, None), (20, 25, None)]
    idle(lake, source.path)


def test_a_part_of_a_hole_is_filled_and_the_rest_stays_what_it_was(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1, 2)
    injure(replica / "orders-0" / f"{0:020d}.log", 2)
    lake.turn(source.path)
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.ledger("orders")[-2:] == [(10, 15, "corrupt"), (15, 25, "present")]
    assert states(lake.ledger("orders")) == {"present": 20, "corrupt": 5}
    assert set(lake.published("orders")) == set(range(10))
    idle(lake, source.path, fill_from=(str(replica),))
    second = copy_of(source.partition("orders-0"), tmp_path / "second", tmp_path)
    (second / "orders-0" / f"{0:020d}.log").write_bytes(b"".join(rebuilt(orders, 20)))
    lake.turn(source.path, fill_from=(str(second),))
    assert lake.published("orders") == orders.rows


def rebuilt(partition: Partition, count: int) -> list[bytes]:
    rows = [partition.rows[offset] for offset in range(count)]
    return [
        handmade.simple_batch(at, rows[at : at + 5], base_timestamp=1_700_000_000_000, leader_epoch=0)
        for at in range(0, count, 5)
    ]


def test_batches_that_reach_over_the_edge_of_a_hole_are_refused(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1)
    rows = [orders.rows[offset] for offset in range(20)]
    wide = [(0, 5), (5, 12), (12, 15), (15, 20)]
    (replica / "orders-0" / f"{0:020d}.log").write_bytes(
        b"".join(handmade.simple_batch(a, rows[a:b], base_timestamp=1_700_000_000_000, leader_epoch=0) for a, b in wide)
    )
    lake.turn(source.path)
    lake.turn(source.path, fill_from=(str(replica),))
    assert filled(lake) == []
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 10, "corrupt"), (10, 25, "present")]


def test_another_history_fills_nothing(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1)
    lake.turn(source.path)
    other = LogDirectory(tmp_path / "other").partition("orders-0")
    other.append(5)
    other.append(20, tag=b"other")
    later = LogDirectory(tmp_path / "later").partition("orders-0")
    later.append(5)
    later.append(5, leader_epoch=2, tag=b"later")
    foreign = LogDirectory(tmp_path / "foreign").partition("orders-0", OTHER_TOPIC_ID)
    foreign.append(25)
    fill_from = tuple(str(each.path.parent) for each in (other, later, foreign))
    lake.turn(source.path, fill_from=fill_from)
    assert filled(lake) == []
    idle(lake, source.path, fill_from=fill_from)
    lake.turn(source.path, fill_from=(*fill_from, str(replica)))
    assert lake.published("orders") == orders.rows


@pytest.mark.parametrize("is_first", [True, False])
def test_two_copies_with_different_batches_for_a_hole_fill_it_only_when_one_is_named(source, lake, tmp_path, is_first):
    orders, replica = damaged(source, tmp_path, 1)
    lake.turn(source.path)
    other = LogDirectory(tmp_path / "other").partition("orders-0")
    other.append(5)
    other.append(5, tag=b"other")
    paths = (str(replica), str(other.path.parent))
    lake.turn(source.path, fill_from=paths if is_first else paths[::-1])
    assert filled(lake) == []
    (said,) = [row["message"] for row in lake.rows("findings") if row["rule"] == "copies-undecided"]
    assert "the copies part at offset 5" in said
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.published("orders") == orders.rows


def test_a_run_that_died_after_the_fill_is_completed_to_the_same_tables(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    orders.append(10)
    replica = copy_of(orders, tmp_path / "replica", tmp_path)
    for path in orders.segments():
        path.unlink()
    orders.roll()
    orders.append(5)
    source.checkpoint("log-start", orders_0=25)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path)
    assert (15, 25, "missing") in lake.ledger("orders")
    before = lake.rows("logs")[0]
    lake.turn(source.path, fill_from=(str(replica),), publish=False)
    after, segments = lake.rows("logs"), sorted(lake.rows("segments"), key=lambda row: row["segment_id"])
    assert after[0]["gaps"] == "[]"
    put_back(lake, before)
    config = IngestConfig(str(lake.path), (str(source.path),), "again", AS_OF_MS, fill_from=(str(replica),))
    assert not launch.run(config).used_executor
    assert lake.rows("logs") == after
    assert sorted(lake.rows("segments"), key=lambda row: row["segment_id"]) == segments
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows


def test_bytes_in_place_are_filled_in_place(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1)
    lake.turn(source.path, mode="reference")
    lake.turn(source.path, mode="reference", fill_from=(str(replica),))
    assert lake.published("orders") == orders.rows
    assert list((lake.path / "archive").rglob("*.log")) == []


def test_a_lost_marker_that_is_found_decides_what_was_unknown(source, lake, tmp_path):
    orders = source.partition("orders-0")
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(5)
    orders.append(5, **transactional)
    orders.marker(7, handmade.ABORT)
    orders.append(5, **transactional | {"base_sequence": 5})
    orders.marker(7, handmade.COMMIT)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=22)
    replica = copy_of(orders, tmp_path / "replica", tmp_path)
    injure(orders.segments()[0], 2)
    lake.turn(source.path)
    assert states(lake.ledger("orders"))["unknown"] == 5
    assert set(lake.published("orders")) == set(range(5))
    lake.turn(source.path, fill_from=(str(replica),))
    assert states(lake.ledger("orders")) == {"present": 16, "aborted": 5, "control": 1}
    assert set(lake.published("orders")) == {*range(5), *range(11, 16), *range(17, 22)}
    assert {(t["first_offset"], t["state"]) for t in lake.rows("transactions")} == {(5, "aborted"), (11, "committed")}


def test_what_is_filled_below_the_frontier_is_published_as_a_replacement(source, lake, tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {salvage: permissive}}')
    orders, replica = damaged(source, tmp_path, 1)
    lake.turn(source.path, policies=str(policies))
    assert set(lake.published("orders")) == {*range(5), *range(10, 25)}
    lake.turn(source.path, policies=str(policies), fill_from=(str(replica),))
    assert set(lake.published("orders")) == {*range(5), *range(10, 25)}
    replace = ReplaceConfig(str(lake.path), "late", AS_OF_MS, policies=read_policies(str(policies)))
    launch.run(replace)
    assert lake.published("orders") == orders.rows
    assert all(row["published"] for row in lake.rows("offset_ledger"))
    versions = lake.versions()
    launch.run(replace)
    assert lake.versions() == versions


def test_growth_continues_after_damage_at_the_archives_end_that_was_filled_from_elsewhere(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(20)
    orders.roll()
    source.high_watermarks(orders_0=20)
    replica = copy_of(orders, tmp_path / "replica", tmp_path)
    sealed = orders.segments()[0]
    *kept, last = batches(sealed.read_bytes())
    sealed.write_bytes(b"".join(kept) + bytes(len(last)))  # read back as zeros: not even a header is left
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 15, "present"), (15, 20, "missing")]
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.published("orders") == orders.rows
    assert archived(lake) == [(0, 15, None), (15, 20, None), (0, 20, "filled")]
    orders.append(5)
    source.high_watermarks(orders_0=25)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": None}
    assert lake.published("orders") == orders.rows
    idle(lake, source.path, fill_from=(str(replica),))


def test_batches_that_are_missing_between_two_of_a_segment_are_put_between_them(source, lake, tmp_path):
    orders, replica = damaged(source, tmp_path, 1)
    good = batches((replica / "orders-0" / f"{0:020d}.log").read_bytes())
    orders.segments()[0].write_bytes(b"".join([good[0], *good[3:]]))
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 15, "missing"), (15, 25, "present")]
    lake.turn(source.path, fill_from=(str(replica),))
    assert lake.published("orders") == orders.rows
    assert feeding_bytes(lake) == b"".join(good) + orders.segments()[1].read_bytes()
    assert archived(lake)[-1] == (0, 20, "filled")
    idle(lake, source.path, fill_from=(str(replica),))


def test_what_was_filled_and_is_not_validated_yet_is_not_filled_again_from_another_copy(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    orders.append(10)
    replica = copy_of(orders, tmp_path / "replica", tmp_path)
    second = copy_of(orders, tmp_path / "second", tmp_path)
    orders.segments()[0].unlink()
    orders.roll()
    orders.append(5)
    source.checkpoint("log-start", orders_0=20)
    source.high_watermarks(orders_0=25)
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 10, "present"), (10, 20, "missing"), (20, 25, "present")]
    for run, copy in (("one", replica), ("two", second)):
        launch.run(IngestConfig(str(lake.path), (str(source.path),), run, AS_OF_MS, fill_from=(str(copy),)))
    assert archived(lake) == [(0, 10, None), (10, 20, None), (20, 25, None)]
    assert filled(lake) == [(10, 20)]
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
