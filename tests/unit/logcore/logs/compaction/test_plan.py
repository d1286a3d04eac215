"""A round over a directory made by hand: where it begins and ends, what it goes by, what becomes of every file."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from logcore.errors import LogError
from logcore.logs.compaction.cleaner import PlainCleaner
from logcore.logs.compaction.cleaning_round import ActiveProducer, Uncleanable
from logcore.logs.compaction.compaction_plan import CompactionOutcome, CompactionPlan, plan_compaction, run_compaction
from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.segments.filenames import TopicPartition
from tests import handmade
from tests.handmade import TRANSACTIONAL, simple_batch

NOW = 1_700_000_000_000
Rows = list[tuple[bytes | None, bytes | None]]
NO_PRODUCERS = bytes.fromhex("000148674bc700000000")


def directory(segments: dict[int, list[bytes]], beside: dict[str, bytes] | None = None, **state: Any):
    """Segments by base offset, each changed a second after the one before; other files at 5."""
    files = {}
    for number, (base, batches) in enumerate(segments.items()):
        name = f"{base:020d}.log"
        files[name] = PartitionFile(name, b"".join(batches), NOW - 100_000 + 1000 * number)
    for name, content in (beside or {}).items():
        files[name] = PartitionFile(name, content, 5)
    return PartitionDirectory(TopicPartition("orders", 0), files, **state)


def rows(base: int, *keys: bytes, **fields: int) -> bytes:
    return simple_batch(base, [(key, b"v%d" % base) for key in keys], **({"base_timestamp": NOW - 50_000} | fields))


def planned(where: PartitionDirectory, upper_bound: int | None = None, **config: Any) -> CompactionPlan:
    plan = plan_compaction(where, TopicConfig(**config), line=BrokerLine.V4_4, as_of_ms=NOW, upper_bound=upper_bound)
    assert isinstance(plan, CompactionPlan), plan
    return plan


def refused(where: PartitionDirectory, upper_bound: int | None = None, **config: Any) -> str:
    plan = plan_compaction(where, TopicConfig(**config), line=BrokerLine.V4_4, as_of_ms=NOW, upper_bound=upper_bound)
    assert isinstance(plan, Refusal)
    assert plan.reason is RefusalReason.NOTHING_CLEANABLE
    return plan.message


def done(plan: CompactionPlan) -> tuple[CompactionOutcome, dict[str, bytes]]:
    """What comes of a plan, and the bytes of every file of the new directory."""
    written: dict[str, bytes] = {}

    @contextmanager
    def stream(name: str, modified_ms: int) -> Iterator[BytesIO]:
        sink = BytesIO()
        yield sink
        written[name] = sink.getvalue()
        times[name] = modified_ms

    times: dict[str, int] = {}
    outcome = run_compaction(plan, stream, PlainCleaner())
    for name, file in outcome.files.items():
        if isinstance(file, Keep):
            written[name] = bytes(plan.directory.files[file.source].content)
        else:
            assert isinstance(file, Write)
            written[name] = file.content
    return outcome, written


THREE = {0: [rows(0, b"a", b"b")], 2: [rows(2, b"a", b"c")], 4: [rows(4, b"c")]}


def test_all_but_the_active_segment_is_cleaned_from_the_first_on():
    plan = planned(directory(THREE))
    assert [each.base_offset for each in plan.segments] == [0, 2]
    assert (plan.round.first_dirty_offset, plan.round.upper_bound_offset) == (0, 4)
    outcome, files = done(plan)
    assert outcome.first_dirty_offset == outcome.root.first_dirty_offset == 4
    kept = handmade.batch([handmade.record(1, b"b", b"v0")], last_offset_delta=1, base_timestamp=NOW - 50_000)
    assert files == {
        f"{0:020d}.log": kept + THREE[2][0],
        f"{0:020d}.index": b"",
        f"{0:020d}.timeindex": struct.pack(">qi", NOW - 50_000, 1),
        f"{4:020d}.log": THREE[4][0],
    }
    assert outcome.replaced == ((0, 2),)


def test_a_group_takes_the_time_of_its_last_segment_and_the_name_of_its_first():
    plan = planned(directory(THREE))
    outcome, _ = done(plan)
    assert outcome.segments[0].modified_ms == NOW - 99_000
    file = outcome.files[f"{0:020d}.timeindex"]
    assert isinstance(file, Write)
    assert file.modified_ms == NOW - 99_000


def test_files_of_a_base_that_is_gone_go_and_all_others_are_kept():
    beside = {
        "leader-epoch-checkpoint": b"0\n1\n0 0\n",
        f"{2:020d}.snapshot": NO_PRODUCERS,
        f"{2:020d}.index": b"",
        f"{4:020d}.snapshot": NO_PRODUCERS,
        f"{4:020d}.index": b"",
        f"{9:020d}.log.deleted": b"old",
    }
    outcome, files = done(planned(directory(THREE, beside)))
    assert sorted(files) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{4:020d}.index",
        f"{4:020d}.log",
        f"{4:020d}.snapshot",
        "leader-epoch-checkpoint",
    ]
    assert outcome.removed[f"{2:020d}.snapshot"] == "it was cleaned into segment 0"
    assert f"{9:020d}.log.deleted" in outcome.removed


def test_the_checkpoint_says_where_the_dirty_part_begins():
    plan = planned(directory(THREE, first_dirty_offset=2))
    assert plan.round.first_dirty_offset == 2
    assert [each.base_offset for each in plan.dirty_segments] == [2]
    _, files = done(plan)
    assert files[f"{0:020d}.log"] != b"".join((THREE[0][0], THREE[2][0])), "what is older is cleaned by it too"


@pytest.mark.parametrize("first_dirty", [1, 99])
def test_a_checkpoint_outside_of_the_log_counts_as_none(first_dirty: int):
    moved = directory({2: THREE[2], 4: THREE[4]}, first_dirty_offset=first_dirty)
    assert planned(moved).round.first_dirty_offset == 2


def test_the_segment_of_an_open_transaction_and_all_later_ones_are_kept():
    pid = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    where = directory(
        {0: [rows(0, b"a")], 1: [rows(1, b"a"), rows(2, b"b", **pid)], 3: [rows(3, b"a")], 4: [rows(4, b"x")]}
    )
    plan = planned(where)
    assert (plan.last_stable_offset, plan.round.upper_bound_offset) == (2, 1)


def test_a_transaction_whose_marker_is_not_committed_is_open_too():
    pid = {"producer_id": 7, "producer_epoch": 0}
    data = rows(1, b"a", attributes=TRANSACTIONAL, base_sequence=0, **pid)
    marker = handmade.marker(2, handmade.COMMIT, base_timestamp=NOW, **pid)
    where = directory({0: [rows(0, b"a")], 1: [data, marker], 3: [rows(3, b"b")]}, high_watermark=2)
    assert planned(where).last_stable_offset == 1
    assert planned(replace(where, high_watermark=3)).last_stable_offset == 3


def test_the_requested_bound_is_rounded_down_to_a_segment():
    assert planned(directory(THREE), upper_bound=3).round.upper_bound_offset == 2
    assert "the requested bound is 1" in refused(directory(THREE), upper_bound=1)


def test_min_compaction_lag_keeps_the_first_dirty_segment_that_is_too_young_and_all_later_ones():
    young = directory({0: [rows(0, b"a")], 1: [rows(1, b"a", base_timestamp=NOW - 10)], 2: [rows(2, b"a")], 3: []})
    assert planned(young, min_compaction_lag_ms=1000).round.upper_bound_offset == 1
    assert "younger than min.compaction.lag.ms" in refused(young, min_compaction_lag_ms=60_000)


def test_a_log_that_is_not_dirty_enough_is_planned_and_the_plan_says_so():
    plan = planned(directory(THREE, first_dirty_offset=2))
    assert plan.why_not is not None
    assert plan.as_dict()["a_broker_would"] == "wait"
    assert planned(directory(THREE, first_dirty_offset=2), max_compaction_lag_ms=40_000).why_not is None
    assert planned(directory(THREE, first_dirty_offset=2), min_cleanable_dirty_ratio=0.4).why_not is None


def test_a_log_of_one_segment_has_nothing_to_clean():
    assert refused(directory({0: [rows(0, b"a")]})) == (
        "no whole segment can be cleaned at or above the first dirty offset 0: the active segment begins at 0"
    )
    assert refused(directory({})) == "there is no segment"


def test_producers_silent_for_too_long_are_not_known():
    pid = {"producer_epoch": 3, "base_sequence": 0}
    log = {
        0: [rows(0, b"a", producer_id=1, **pid), rows(1, b"a", producer_id=2, base_timestamp=NOW - 90_000, **pid)],
        2: [rows(2, b"a")],
    }
    assert planned(directory(log), producer_id_expiration_ms=90_000).round.producers == {1: ActiveProducer(3, 0)}


def test_aborted_transactions_are_those_of_the_markers_where_there_is_no_index():
    pid = {"producer_id": 7, "producer_epoch": 0}
    data = rows(1, b"a", attributes=TRANSACTIONAL, base_sequence=0, **pid)
    marker = handmade.marker(2, handmade.ABORT, base_timestamp=NOW, **pid)
    entry = struct.pack(">hqqqq", 0, 7, 1, 2, 3)
    log = {0: [rows(0, b"a"), data], 2: [marker], 3: [rows(3, b"b")]}
    outcome, files = done(planned(directory(log)))
    assert files[f"{0:020d}.txnindex"] == entry
    emptied = handmade.empty_batch(1, 0, attributes=TRANSACTIONAL, base_sequence=0, max_timestamp=NOW - 50_000, **pid)
    assert files[f"{0:020d}.log"] == log[0][0] + emptied + marker, "the last batch of an active producer stays"
    wrong = {
        f"{0:020d}.index": b"",
        f"{2:020d}.index": b"",
        f"{2:020d}.txnindex": struct.pack(">hqqqq", 0, 9, 0, 2, 3),
    }
    plan = planned(directory(log, wrong))
    assert [each.rule for each in plan.findings] == ["transaction-index-differs"]
    assert done(plan)[1][f"{0:020d}.txnindex"] == entry
    file = outcome.files[f"{0:020d}.txnindex"]
    assert isinstance(file, Write)
    assert file.modified_ms == NOW, "it alone does not take the source's time"


def test_a_map_that_is_full_ends_the_round_in_the_middle_of_a_batch():
    plan = planned(directory(THREE), log_cleaner_dedupe_buffer_size=24 * 3)
    assert plan.round.max_keys == 2
    outcome, files = done(plan)
    assert outcome.first_dirty_offset == 2
    assert files[f"{2:020d}.log"] == THREE[2][0], "a segment at the end of the map is not touched"
    assert outcome.replaced == ((0,),)


def damaged() -> PartitionDirectory:
    broken = handmade.flip(rows(2, b"c", b"a"), 70)
    return directory({0: [rows(0, b"a", b"b")], 2: [broken, rows(4, b"t")], 5: [rows(5, b"b")], 6: [rows(6, b"t")]})


def test_a_group_with_a_damaged_segment_stays_and_garbage_above_it_too():
    plan = planned(damaged(), segment_bytes=14)
    assert plan.round.frozen_from == 2
    assert [(group["segments"], group["action"]) for group in plan.as_dict()["groups"]] == [
        ([0], "clean"),
        ([2], "keep"),
        ([5], "clean"),
    ]
    assert [(each.rule, each.file, each.position, each.start_offset) for each in plan.findings] == [
        ("corrupt-bytes", f"{2:020d}.log", 0, 2)
    ]
    outcome, files = done(plan)
    assert files[f"{2:020d}.log"] == bytes(damaged().files[f"{2:020d}.log"].content)
    kept = handmade.batch([handmade.record(0, b"a", b"v0")], last_offset_delta=1, base_timestamp=NOW - 50_000)
    assert files[f"{0:020d}.log"] == kept, "b is replaced by a readable newer record, a only by one that is not"
    assert outcome.first_dirty_offset == 2


def test_a_plan_is_plain_values():
    told = planned(damaged()).as_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["frozen_from"] == 2
    assert told["first_dirty_offset"] == {"before": 0, "after": 0, "is_exact": True}


def test_what_stays_as_it_is_beside_damage_stays_dirty():
    """Else a tombstone in it would go at its horizon, and no later round would take away what it is for."""
    plan = planned(damaged())
    assert [group.refusal is None for group in plan.groups()] == [False]
    assert plan.next_first_dirty(plan.round.upper_bound_offset) == plan.segments[0].base_offset == 0


def test_a_log_start_after_the_end_is_refused():
    with pytest.raises(LogError, match="begin with an empty log"):
        planned(directory(THREE, log_start_offset=9))
    assert "no whole segment" in refused(directory({4: THREE[4]}, log_start_offset=5)), "it is the end: an empty log"


def test_the_last_segment_before_the_dirty_part_gives_the_horizon_of_old_tombstones():
    plan = planned(directory(THREE, first_dirty_offset=2), delete_retention_ms=10)
    assert plan.round.legacy_horizon_ms == NOW - 100_000 - 10
    assert planned(directory(THREE)).round.legacy_horizon_ms == 0


def test_the_map_begins_where_the_offset_index_says():
    size = len(rows(0, b"a"))
    log = {0: [rows(0, b"a"), rows(1, b"b"), rows(2, b"c")], 3: [rows(3, b"a")]}
    index = {f"{0:020d}.index": struct.pack(">iiii", 1, size, 2, 2 * size)}
    plan = planned(directory(log, index, first_dirty_offset=2))
    assert [each.dirty_position for each in plan.segments] == [2 * size]
    assert planned(directory(log, first_dirty_offset=2)).segments[0].dirty_position == 0


@pytest.mark.parametrize("entry", [(1, 1), (1, -3), (0, 2)], ids=["behind one", "in front", "too far on"])
def test_an_entry_of_the_offset_index_that_would_leave_dirty_records_out_is_not_believed(entry: tuple[int, int]):
    size = len(rows(0, b"a"))
    log = {0: [rows(0, b"a"), rows(1, b"b"), rows(2, b"c")], 3: [rows(3, b"a")]}
    offset, at = entry
    index = {f"{0:020d}.index": struct.pack(">ii", offset, 2 * size if at == 2 else size + at)}
    assert planned(directory(log, index, first_dirty_offset=1)).segments[0].dirty_position == 0


def test_a_transaction_that_ended_above_the_high_watermark_is_open_despite_a_later_snapshot():
    pid = {"producer_id": 7, "producer_epoch": 0}
    data = rows(1, b"a", attributes=TRANSACTIONAL, base_sequence=0, **pid)
    marker = handmade.marker(2, handmade.COMMIT, base_timestamp=NOW, **pid)
    where = directory(
        {0: [rows(0, b"a")], 1: [data, marker], 3: [rows(3, b"b")]},
        {f"{3:020d}.snapshot": NO_PRODUCERS},
        high_watermark=2,
    )
    assert planned(where).last_stable_offset == 1


def test_of_a_transaction_that_ended_above_the_high_watermark_only_what_is_in_the_log_is_open():
    """As for one without a marker: a broker's start begins its replay at the log start, or with a snapshot."""
    pid = {"producer_id": 7, "producer_epoch": 0}
    first = rows(0, b"a", attributes=TRANSACTIONAL, base_sequence=0, **pid)
    second = rows(2, b"a", attributes=TRANSACTIONAL, base_sequence=1, **pid)
    marker = handmade.marker(4, handmade.ABORT, base_timestamp=NOW, **pid)
    log = {0: [first], 1: [rows(1, b"b")], 2: [second], 3: [rows(3, b"b")], 4: [marker], 5: [rows(5, b"b")]}
    ended = directory(log, high_watermark=4, log_start_offset=1)
    assert planned(ended).last_stable_offset == 2
    assert planned(replace(ended, log_start_offset=3)).last_stable_offset == 4
    entry = struct.pack(">iqhiqiqiq", 1, 7, 0, 0, 0, 0, NOW - 50_000, -1, 0)
    still_open = struct.pack(">hI", 1, handmade.crc32c(entry)) + entry
    remembered = replace(ended, files=directory(log, {f"{2:020d}.snapshot": still_open}).files)
    assert "the last stable offset is 1" in refused(remembered)


def test_a_snapshot_with_the_next_transaction_of_a_producer_hides_none_that_ended_above_the_high_watermark():
    pid = {"producer_id": 7, "producer_epoch": 0}
    first, second = (
        rows(at, b"a", attributes=TRANSACTIONAL, base_sequence=number, **pid) for number, at in enumerate((1, 3))
    )
    marker = handmade.marker(2, handmade.COMMIT, base_timestamp=NOW, **pid)
    log = {0: [rows(0, b"b")], 1: [first], 2: [marker], 3: [second], 4: [rows(4, b"b")], 5: [rows(5, b"b")]}
    entry = struct.pack(">iqhiqiqiq", 1, 7, 0, 1, 3, 0, NOW - 50_000, -1, 3)
    open_from_3 = struct.pack(">hI", 1, handmade.crc32c(entry)) + entry
    for snapshots in ({}, {f"{4:020d}.snapshot": open_from_3}):
        assert planned(directory(log, snapshots, high_watermark=2)).last_stable_offset == 1


@pytest.mark.parametrize("kind", [handmade.COMMIT, handmade.ABORT])
def test_a_transaction_that_may_have_ended_in_damage_is_not_decided_by_a_later_marker(kind: int):
    """Its own marker is lost and may have been of the other kind. The next marker belongs to a later transaction."""
    pid = {"producer_id": 7, "producer_epoch": 0}
    first = rows(1, b"a", attributes=TRANSACTIONAL, base_sequence=0, **pid)
    lost = handmade.flip(handmade.marker(2, handmade.ABORT, base_timestamp=NOW, **pid), 70)
    second = rows(3, b"b", attributes=TRANSACTIONAL, base_sequence=1, **pid)
    marker = handmade.marker(4, kind, base_timestamp=NOW, **pid)
    log = {0: [rows(0, b"a")], 1: [first], 2: [lost, second], 4: [marker], 5: [rows(5, b"x")]}
    plan = planned(directory(log), segment_bytes=14)
    assert (plan.last_stable_offset, plan.round.upper_bound_offset) == (1, 1)
    assert [each.rule for each in plan.findings] == ["transaction-outcome-lost", "corrupt-bytes"]
    stated = {f"{base:020d}.index": b"" for base in log}
    stated[f"{2:020d}.txnindex"] = struct.pack(">hqqqq", 0, 7, 1, 2, 3)
    if kind == handmade.ABORT:
        stated[f"{4:020d}.txnindex"] = struct.pack(">hqqqq", 0, 7, 3, 4, 5)
    plan = planned(directory(log, stated), segment_bytes=14)
    assert plan.round.upper_bound_offset == 5, "where indexes say what was aborted nothing is in doubt"
    assert [each.rule for each in plan.findings] == ["corrupt-bytes"]


def indexed(count: int, **config: Any) -> int:
    """The size of the time index of a segment with this many batches, each with entries but the first."""
    batches = [rows(at, b"%d" % at, base_timestamp=NOW + at) for at in range(count)]
    plan = planned(directory({0: batches, count: []}), index_interval_bytes=0, **config)
    return len(done(plan)[1][f"{0:020d}.timeindex"])


def test_a_segment_that_fills_its_indexes_is_refused_as_a_broker_fails_at_it():
    # Ten batches: nine entries of 8 bytes, nine of 12, and room for one more that would close the index.
    assert indexed(10, segment_index_bytes=12 * 10) == 12 * 9
    with pytest.raises(Uncleanable, match=r"segment\.index\.bytes 119"):
        indexed(10, segment_index_bytes=119)
    with pytest.raises(Uncleanable, match=r"segment\.index\.bytes 12"):
        indexed(2, segment_index_bytes=12)
    assert indexed(1, segment_index_bytes=12) == 12
