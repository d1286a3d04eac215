"""A broker's start over directories packed by hand, and the report of what it loses."""

import struct

import crc32c
import pytest

from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.logs.recovery.segment_recovery import (
    IndexRules,
    OffsetsDoNotRise,
    OffsetsOverflow,
    WouldNotStart,
    recover_segment,
)
from logcore.records import batch as batch_module
from logcore.segments.filenames import TopicPartition
from tests import handmade

AS_OF = 5_000
EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")
FAR = 2**31 + 5


def name(base: int, suffix: str = ".log") -> str:
    return f"{base:020d}{suffix}"


def batch(offset: int, timestamp: int = 1000, count: int = 1, **fields: int) -> bytes:
    rows = [(b"k", b"v")] * count
    return handmade.simple_batch(offset, rows, base_timestamp=timestamp, max_timestamp=timestamp, **fields)


def directory(files: dict[str, bytes], **state: int | bool) -> PartitionDirectory:
    held = {file: PartitionFile(file, content, 77) for file, content in files.items()}
    held.setdefault(
        "partition.metadata", PartitionFile("partition.metadata", b"version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA", 77)
    )
    return PartitionDirectory(TopicPartition("orders", 0), held, **state)


def planned(files: dict[str, bytes], *, salvage: bool = False, as_of: int = AS_OF, **state: int | bool) -> RecoveryPlan:
    config = TopicConfig(index_interval_bytes=0)
    source = directory(files, **state)
    return plan_recovery(source, config, as_of_ms=as_of, salvage=salvage, heeds_clean_mark=True)


def made(plan: RecoveryPlan, files: dict[str, bytes]) -> dict[str, bytes]:
    found = {}
    for file, proposed in plan.files.items():
        match proposed:
            case Keep(source):
                found[file] = files.get(source, b"")
            case Cut(source, size, _):
                found[file] = files[source][:size]
            case Write(content, _):
                found[file] = content
    return found


def kinds(plan: RecoveryPlan) -> list[str]:
    return [loss.kind for loss in plan.losses]


# -- one segment


def test_entries_name_the_last_offset_and_the_first_batch_with_the_greatest_timestamp() -> None:
    one, two, three = batch(10, 500, 3), batch(13, 500, 2), batch(15, 400)
    result = recover_segment(one + two + three, 10, IndexRules(0))
    assert result.offset_index == struct.pack(">iiii", 4, len(one), 5, len(one) + len(two))
    assert result.time_index == struct.pack(">qi", 500, 2)
    assert (result.next_offset, result.max_timestamp, result.stopped_by) == (16, 500, None)


def test_the_interval_must_be_exceeded() -> None:
    content = batch(0) + batch(1) + batch(2)
    size = len(batch(0))
    assert recover_segment(content, 0, IndexRules(size)).offset_index == struct.pack(">ii", 2, 2 * size)
    assert recover_segment(content, 0, IndexRules(size - 1)).offset_index == struct.pack(">iiii", 1, size, 2, 2 * size)


def test_an_unknown_magic_and_a_flipped_leader_epoch_survive() -> None:
    strange = batch(1, magic=0x58)
    result = recover_segment(batch(0) + strange + batch(2, leader_epoch=9), 0)
    assert (result.next_offset, result.is_odd) == (3, True)
    assert [entry.epoch for entry in result.epochs] == [0, 9]


def test_a_compressed_message_is_not_looked_into() -> None:
    wrapped = handmade.wrapper_v0([3, 4, 5])
    broken = handmade.fix_message_crc(wrapped[:-3] + b"\xff\xff\xff")
    for content in (wrapped, broken):
        result = recover_segment(content, 0)
        assert (result.valid_bytes, result.next_offset, result.replayed_to) == (len(content), 6, None)


def test_a_control_record_that_cannot_be_read_ends_the_segment_after_it() -> None:
    control = handmade.control_batch(1, b"\0", b"", producer_id=4, producer_epoch=0)
    result = recover_segment(batch(0) + control + batch(2), 0)
    assert result.valid_bytes == len(batch(0)) + len(control)
    assert result.stopped_by is not None


@pytest.mark.parametrize("tail", [b"\1" * 17, batch(1)[:-1], batch(1)[:20]])
def test_a_batch_that_is_not_whole_is_no_error(tail: bytes) -> None:
    result = recover_segment(batch(0) + tail, 0)
    assert (result.valid_bytes, result.stopped_by) == (len(batch(0)), None)


def test_offsets_that_do_not_rise_at_an_entry_are_an_error_and_elsewhere_not() -> None:
    content = batch(5) + batch(6) + batch(6)
    with pytest.raises(OffsetsDoNotRise):
        recover_segment(content, 0, IndexRules(0))
    assert recover_segment(content, 0).is_odd


def test_offsets_too_far_above_the_base_are_an_error() -> None:
    with pytest.raises(OffsetsOverflow):
        recover_segment(batch(0) + batch(FAR), 0)
    with pytest.raises(OffsetsOverflow):
        recover_segment(batch(9), 10)
    assert recover_segment(batch(2**31 - 1), 0).next_offset == 2**31


def test_an_index_that_would_be_full_keeps_the_broker_from_starting() -> None:
    content = b"".join(batch(n, 1000 + n) for n in range(6))
    assert len(recover_segment(content, 0, IndexRules(0, 72)).offset_index) == 40
    with pytest.raises(WouldNotStart, match="time index would be full"):
        recover_segment(content, 0, IndexRules(0, 60))


# -- passes of a start


def test_a_missing_index_is_made_again_and_a_missing_time_index_is_left_empty() -> None:
    files = {name(0): batch(0) + batch(1), name(0, ".index"): b"", name(2): batch(2)}
    plan = planned(files, recovery_point=2)
    assert made(plan, files)[name(0, ".timeindex")] == b""
    assert made(plan, files)[name(2, ".timeindex")] == struct.pack(">qi", 1000, 0)
    assert kinds(plan) == ["time-index-empty"]
    assert plan.exit_code == 1


def with_indexes(files: dict[str, bytes]) -> dict[str, bytes]:
    """And empty indexes beside each segment."""
    sides = {file.replace(".log", side): b"" for file in files for side in (".index", ".timeindex") if ".log" in file}
    return sides | files


DAMAGED = {name(0): batch(0), name(1): batch(1) + b"\1" * 30, name(2): batch(2)}


def test_a_tail_full_of_what_looks_like_batches_costs_few_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths of half a MiB and magic 2, every five bytes: each may be a batch until its checksum is computed."""
    summed = []

    def counted(data: bytes, crc: int = 0) -> int:
        summed.append(len(data))
        return crc32c.crc32c(data, crc)

    monkeypatch.setattr(batch_module, "_crc32c", lambda: counted)
    tail = (bytes([0, 8, 0, 2, 0]) * (1 << 18))[: 1 << 20]
    plan = planned(with_indexes({name(0): batch(0) + tail}))
    assert kinds(plan) == ["cut"]
    assert 0 < sum(summed) < 100 << 20


def test_segments_after_a_cut_are_dropped_with_their_files() -> None:
    plan = planned(with_indexes(DAMAGED))
    assert {name(2), name(2, ".index"), name(2, ".timeindex")} == set(plan.dropped)
    assert plan.log_end_offset == 2
    assert kinds(plan) == ["cut", "dropped-segment"]


def test_a_segment_cut_for_want_of_an_index_costs_no_later_one() -> None:
    """It is recovered when it is opened; when the log is recovered nothing is left to cut."""
    plan = planned(DAMAGED)
    assert plan.dropped == {}
    assert plan.log_end_offset == 3
    assert kinds(plan) == ["cut"]


def test_a_segment_whose_offsets_do_not_rise_is_emptied() -> None:
    files = with_indexes({name(0): batch(0), name(1): batch(1) + batch(5) + batch(5)})
    plan = planned(files)
    assert made(plan, files)[name(1)] == b""
    assert plan.log_end_offset == 1
    assert kinds(plan) == ["cut"]


def test_a_log_that_ends_below_its_start_becomes_empty_at_its_start() -> None:
    files = {name(0): batch(0), name(0, ".index"): b"", "leader-epoch-checkpoint": b"0\n1\n3 0\n"}
    plan = planned(files, log_start_offset=50)
    assert made(plan, files) == {
        name(50): b"",
        name(50, ".index"): b"",
        name(50, ".timeindex"): b"",
        "leader-epoch-checkpoint": b"0\n0\n",
        "partition.metadata": b"",
    }
    assert (plan.log_start_offset, plan.log_end_offset) == (50, 50)
    assert kinds(plan) == ["dropped-segment"]


def test_leader_epochs_that_loading_drops_are_gone_from_the_file_if_one_begins_at_the_log_start() -> None:
    """Kafka removes the entry at the log start and adds it again, and so writes the file (found by random logs)."""
    files = {name(0): batch(0) + batch(1), "leader-epoch-checkpoint": b"0\n3\n1 69\n1 99\n3 0\n"}
    assert made(planned(files), files)["leader-epoch-checkpoint"] == b"0\n1\n3 0\n"


def test_leader_epochs_that_begin_at_or_above_the_end_of_the_log_are_forgotten() -> None:
    files = {name(0): batch(0) + batch(1), "leader-epoch-checkpoint": b"0\n3\n0 0\n3 2\n4 9\n"}
    assert made(planned(files), files)["leader-epoch-checkpoint"] == b"0\n1\n0 0\n"


def test_without_segments_an_empty_one_is_made() -> None:
    plan = planned({}, log_start_offset=7)
    assert {name(7), name(7, ".index"), name(7, ".timeindex")} < set(plan.files)
    assert plan.exit_code == 0


def test_a_segment_too_wide_is_split_and_keeps_its_time_of_change() -> None:
    files = {name(0): batch(0) + batch(FAR) + batch(FAR + 1), name(0, ".index"): b"", name(0, ".timeindex"): b""}
    plan = planned(files)
    result = made(plan, files)
    assert result[name(0)] == batch(0)
    assert result[name(FAR)] == batch(FAR) + batch(FAR + 1)
    assert result[name(FAR, ".index")] == struct.pack(">ii", 1, len(batch(FAR)))
    assert isinstance(proposed := plan.files[name(FAR)], Write)
    assert proposed.modified_ms == 77


def test_an_interrupted_cleaning_is_finished_and_a_younger_one_undone() -> None:
    files = {
        name(0): batch(0) + batch(1),
        name(0, ".log.swap"): batch(1),
        name(0, ".index.swap"): b"",
        name(2): batch(2),
        name(2, ".log.swap"): batch(2) + batch(3),
        name(2, ".log.cleaned"): b"",
    }
    plan = planned(files)
    result = made(plan, files)
    assert result[name(0)] == batch(1)
    assert result[name(2)] == batch(2)
    assert plan.dropped[name(2, ".log.swap")].endswith("did not finish renaming")


@pytest.mark.parametrize("odd", ["junk.swap", "5.log.swap", "junk.cleaned"])
def test_a_name_that_only_looks_like_a_cleanings_output_is_a_refusal_and_what_salvage_leaves_out(odd: str) -> None:
    files = {name(0): batch(0), odd: batch(9)}
    refusal = planned(files).refusal
    assert refusal is not None
    assert odd in refusal
    plan = planned(files, salvage=True)
    assert odd in plan.dropped
    assert list(plan.files) == [file for file in plan.files if odd not in file]


def test_a_middle_segment_that_is_missing_is_a_gap() -> None:
    files = {name(0): batch(0), name(9): batch(9)}
    plan = planned(files)
    assert plan.log_end_offset == 10
    assert kinds(plan) == []


def test_an_empty_segment_above_the_end_moves_the_end() -> None:
    files = {name(0): batch(0), name(900): b""}
    plan = planned(files)
    assert plan.log_end_offset == 900
    assert kinds(plan) == ["end-jumps"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({name(0): batch(0), "leader-epoch-checkpoint": b"0\n1\nx 0\n"}, "leader-epoch-checkpoint"),
        ({name(0): batch(0), "partition.metadata": b"junk"}, "partition.metadata"),
        ({name(0): batch(0), name(0, ".index"): b"", name(0, ".txnindex"): b"\0\1" + bytes(32)}, "version 1"),
    ],
)
def test_what_a_broker_does_not_start_with_is_a_refusal(files: dict[str, bytes], why: str) -> None:
    plan = planned(files)
    assert plan.refusal is not None
    assert why in plan.refusal
    assert plan.exit_code == 3
    assert plan.files == {}


def test_a_write_outside_of_an_open_transaction_is_a_refusal() -> None:
    fields = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}
    opened = batch(0, attributes=handmade.TRANSACTIONAL, **fields)
    plan = planned({name(0): opened + batch(1, **fields)})
    assert plan.refusal is not None
    assert "outside of its transaction" in plan.refusal


def test_a_transaction_index_that_ends_below_its_segment_is_made_again() -> None:
    low = struct.pack(">hqqqq", 0, 1, 0, 1, 2)
    files = {name(5): batch(5), name(5, ".index"): b"", name(5, ".timeindex"): b"", name(5, ".txnindex"): low}
    plan = planned(files, is_clean=True)
    assert made(plan, files)[name(5, ".txnindex")] == b""
    assert made(plan, files)[name(5, ".timeindex")] == struct.pack(">qi", 1000, 0)


# -- producers


def entry(producer: int, timestamp: int, offset: int) -> bytes:
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", producer, 0, 0, offset, 0, timestamp, -1, -1)
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


def test_producers_silent_for_too_long_are_forgotten_when_a_snapshot_is_loaded() -> None:
    day = 86_400_000
    written = batch(0, 1000, producer_id=4, producer_epoch=0, base_sequence=0)
    files = {name(0): written, name(1): batch(1)}
    kept, forgotten = (made(planned(files, as_of=as_of), files) for as_of in (999 + day, 1000 + day))
    assert kept[name(1, ".snapshot")] == forgotten[name(1, ".snapshot")] == entry(4, 1000, 0)
    assert kept[name(2, ".snapshot")] == entry(4, 1000, 0)
    assert forgotten[name(2, ".snapshot")] == EMPTY_SNAPSHOT


def test_a_snapshot_at_or_below_the_start_of_the_log_goes_and_one_above_it_stays() -> None:
    files = with_indexes({name(2): batch(2), name(3): batch(3)}) | {
        name(at, ".snapshot"): EMPTY_SNAPSHOT for at in (1, 2, 3)
    }
    plan = planned(files, log_start_offset=2)
    assert {file for file in plan.files if file.endswith(".snapshot")} == {name(3, ".snapshot"), name(4, ".snapshot")}
    assert {name(1, ".snapshot"), name(2, ".snapshot")} <= set(plan.dropped)


def test_a_clean_start_without_snapshots_forgets_all_producers() -> None:
    written = batch(0, producer_id=4, producer_epoch=0, base_sequence=0)
    files = {name(0): written, name(0, ".index"): b"", name(0, ".timeindex"): b""}
    plan = planned(files, is_clean=True)
    assert made(plan, files)[name(1, ".snapshot")] == EMPTY_SNAPSHOT
    assert kinds(plan) == ["producers-forgotten"]


def test_a_clean_start_keeps_a_torn_tail_and_does_not_start_on_zeros() -> None:
    side = {name(0, ".index"): b"", name(0, ".timeindex"): b"", name(1, ".snapshot"): EMPTY_SNAPSHOT}
    torn = {name(0): batch(0) + bytes(17), **side}
    plan = planned(torn, is_clean=True)
    assert plan.files[name(0)] == Keep(name(0))
    zeros = planned({name(0): batch(0) + bytes(18), **side}, is_clean=True)
    assert zeros.refusal is not None


# -- salvage


def test_salvage_keeps_good_batches_after_damage_and_all_later_segments() -> None:
    damaged = handmade.flip(batch(1), 65)
    files = {name(0): batch(0) + damaged + batch(2), name(3): batch(3), name(4): batch(4) + batch(5)[:50]}
    plan = planned(files, salvage=True)
    result = made(plan, files)
    assert result[name(0)] == batch(0) + batch(2)
    assert result[name(0, ".index")] == struct.pack(">ii", 2, len(batch(0)))
    assert (result[name(3)], result[name(4)]) == (batch(3), batch(4))
    assert kinds(plan) == ["cut", "torn-tail"]
    assert plan.log_end_offset == 5


def test_salvage_never_takes_an_offset_twice() -> None:
    files = {name(0): batch(0) + batch(1) + batch(1) + batch(2), name(2): batch(2) + batch(3)}
    plan = planned(files, salvage=True)
    assert made(plan, files)[name(0)] == batch(0) + batch(1)
    assert made(plan, files)[name(2)] == batch(2) + batch(3)


def test_salvage_leaves_out_a_segment_without_a_good_batch() -> None:
    files = {name(0): batch(0), name(1): b"\1" * 300, name(9): batch(9)}
    plan = planned(files, salvage=True)
    assert [file for file in plan.files if file.endswith(".log")] == [name(0), name(9)]
    assert name(1) in plan.dropped
    alone = {name(1): b"\1" * 300}
    assert made(planned(alone, salvage=True), alone)[name(1)] == b""


def test_salvage_begins_a_new_file_where_an_index_cannot_reach() -> None:
    files = {name(0): batch(0) + batch(FAR) + handmade.flip(batch(FAR + 1), 65) + batch(FAR + 2)}
    result = made(planned(files, salvage=True), files)
    assert result[name(0)] == batch(0)
    assert result[name(FAR)] == batch(FAR) + batch(FAR + 2)


def test_salvage_cuts_out_a_batch_that_claims_its_successor_s_offsets_and_begins_no_file_with_it() -> None:
    files = {name(0): batch(0) + batch(9) + batch(2), name(12): batch(12)}
    result = made(planned(files, salvage=True), files)
    assert result[name(0)] == batch(0) + batch(2)
    assert [file for file in result if file.endswith(".log")] == [name(0), name(12)]


def test_salvage_of_a_whole_log_is_a_recovery() -> None:
    files = {name(0): batch(0) + batch(1), name(2): batch(2), "leader-epoch-checkpoint": b"0\n1\n0 0\n"}
    plain, salvaged = planned(files), planned(files, salvage=True)
    assert made(salvaged, files) == made(plain, files)
    assert (salvaged.losses, salvaged.root) == (plain.losses, plain.root)
