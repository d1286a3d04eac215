"""Directories are packed by hand: segments of one record each batch, indexes by `struct`. The time is NOW."""

import struct
from dataclasses import replace

import pytest

from logcore.errors import LogError
from logcore.logs.checks.validation import Reader, read_plainly
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, PartitionFile, Write
from logcore.logs.model.topic_config import TopicConfig, topic_config
from logcore.logs.retention.retention_plan import RetentionPlan, plan_retention
from logcore.segments.filenames import TopicPartition
from tests import handmade

NOW = 1_700_000_000_000
HOUR = 3_600_000
FOREVER = {"retention.ms": "-1"}


def batch(offset: int, timestamp: int, **fields: int) -> bytes:
    return handmade.batch(
        [handmade.record(0, b"key", b"value")], base_offset=offset, base_timestamp=timestamp, leader_epoch=0, **fields
    )


SIZE = len(batch(0, 0))


class Files:
    """The files of a directory while they are put together."""

    def __init__(self) -> None:
        self.files: dict[str, PartitionFile] = {}

    def put(self, name: str, content: bytes, modified_ms: int = NOW) -> None:
        self.files[name] = PartitionFile(name, content, modified_ms)

    def segment(self, base: int, *timestamps: int, modified_ms: int = NOW, indexed: bool = True) -> bytes:
        """Batches of one record each from the base on; the time index has the closing entry alone."""
        content = b"".join(batch(base + number, at) for number, at in enumerate(timestamps))
        self.log(base, content, modified_ms)
        if indexed:
            greatest = max(timestamps, default=-1)
            entry = struct.pack(">qi", greatest, timestamps.index(greatest)) if greatest >= 0 else b""
            self.put(f"{base:020d}.index", b"")
            self.put(f"{base:020d}.timeindex", entry)
        return content

    def log(self, base: int, content: bytes, modified_ms: int = NOW) -> None:
        self.put(f"{base:020d}.log", content, modified_ms)

    def directory(self, **state: int | bool | None) -> PartitionDirectory:
        given = {"is_clean": True, "high_watermark": 10**9} | state
        return PartitionDirectory(TopicPartition("orders", 0), self.files, **given)


def plan(
    files: Files,
    values: dict[str, str],
    *,
    before: int | None = None,
    whole: Reader = read_plainly,
    **state: int | bool | None,
):
    given = {"high_watermark": None} | state
    return plan_retention(
        files.directory(**given),
        topic_config(values),
        line=BrokerLine.V4_4,
        as_of_ms=NOW,
        delete_records_before=before,
        read_whole=whole,
    )


def gone(made: RetentionPlan) -> list[int]:
    return [each.segment.base_offset for each in made.decision.deletions]


def three() -> Files:
    """Segments at 0, 2 and 4 with two batches each, an hour apart, the last ones at NOW."""
    files = Files()
    for number, base in enumerate((0, 2, 4)):
        at = NOW - (2 - number) * HOUR
        files.segment(base, at - 5, at)
    return files


def test_files_of_a_deleted_segment_go_and_all_others_are_kept() -> None:
    files = three()
    files.put(f"{0:020d}.txnindex", b"")
    for offset in (2, 4, 6):
        files.put(f"{offset:020d}.snapshot", bytes.fromhex("000148674bc700000000"))
    files.put("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    made = plan(files, {"retention.bytes": str(2 * SIZE)} | FOREVER)
    assert gone(made) == [0, 2]
    assert made.removed() == {
        name: "its segment is deleted by retention.bytes"
        for name in files.files
        if name.startswith((f"{0:020d}", f"{2:020d}"))
    }
    assert made.files == {name: Keep(name) for name in files.files if name not in made.removed()}
    assert made.new_log_start_offset == 4
    assert made.new_segment is None


def test_where_all_goes_an_empty_segment_with_its_snapshot_begins_at_the_log_end() -> None:
    files = Files()
    files.segment(0, NOW - 2 * HOUR)
    producing = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}
    content = batch(1, NOW - HOUR - 1, **producing)
    content += handmade.marker(2, handmade.COMMIT, producer_id=9, base_timestamp=NOW)
    files.log(1, content)
    assert gone(plan(files, {"retention.ms": str(HOUR)})) == [0]  # a marker's time is that of the wall, and counts
    made = plan(files, {"retention.bytes": "0"})
    assert gone(made) == [0, 1]
    assert made.new_segment == 3
    name = f"{3:020d}"
    assert {key: value for key, value in made.files.items() if not key.endswith("snapshot")} == {
        f"{name}.{suffix}": Write(b"", NOW) for suffix in ("log", "index", "timeindex")
    }
    snapshot = made.files[f"{name}.snapshot"]
    assert isinstance(snapshot, Write)
    producer = struct.pack(">qhiqiqiq", 7, 3, 11, 1, 0, NOW - HOUR - 1, -1, -1)
    assert struct.unpack_from(">i", snapshot.content, 6) == (2,)
    assert producer in snapshot.content
    assert struct.unpack_from(">I", snapshot.content, 2)[0] == handmade.crc32c(snapshot.content[6:])
    assert made.root.recovery_point == 3
    assert made.root.log_start_offset is None


def test_a_snapshot_at_the_log_end_is_the_one_of_the_new_segment() -> None:
    files = Files()
    files.segment(0, NOW)
    kept = bytes.fromhex("000148674bc700000000")
    files.put(f"{1:020d}.snapshot", kept, 77)
    made = plan(files, {"retention.bytes": "0"})
    assert made.files[f"{1:020d}.snapshot"] == Keep(f"{1:020d}.snapshot")
    files.put(f"{1:020d}.snapshot", kept[:-1] + b"\1", 77)
    made = plan(files, {"retention.bytes": "0"})
    assert made.files[f"{1:020d}.snapshot"] == Write(kept, NOW)


def test_a_producer_that_was_silent_for_too_long_is_not_in_the_new_segments_snapshot() -> None:
    def entry(producer: int, timestamp: int, opened: int) -> bytes:
        return struct.pack(">qhiqiqiq", producer, 0, 0, 0, 0, timestamp, -1, opened)

    day = 86_400_000
    entries = entry(1, NOW - day, -1) + entry(2, NOW - day + 1, -1) + entry(3, NOW - day, 0)
    body = struct.pack(">i", 3) + entries
    files = Files()
    files.segment(0, NOW)
    files.segment(1, NOW)
    files.put(f"{1:020d}.snapshot", struct.pack(">hI", 1, handmade.crc32c(body)) + body)
    made = plan(files, {"retention.bytes": "0"})
    snapshot = made.files[f"{2:020d}.snapshot"]
    assert isinstance(snapshot, Write)
    assert snapshot.content[10:] == entry(2, NOW - day + 1, -1) + entry(3, NOW - day, 0)


def test_an_empty_last_segment_is_never_rolled_again() -> None:
    files = three()
    files.segment(6)
    made = plan(files, {"retention.bytes": "0", "retention.ms": "0"})
    assert gone(made) == [0, 2, 4]
    assert made.new_segment is None
    assert made.decision.stays[0].why == ("it is the last segment and empty",)


def test_the_history_of_leaders_begins_where_the_log_does() -> None:
    files = three()
    files.put("leader-epoch-checkpoint", b"0\n3\n0 0\n3 1\n5 5\n", 77)
    made = plan(files, {"retention.bytes": str(2 * SIZE)} | FOREVER)
    assert made.files["leader-epoch-checkpoint"] == Write(b"0\n2\n3 4\n5 5\n", NOW)
    assert [(entry.epoch, entry.start_offset) for entry in made.leader_epochs or ()] == [(3, 4), (5, 5)]
    untouched = plan(files, FOREVER)
    assert untouched.files["leader-epoch-checkpoint"] == Keep("leader-epoch-checkpoint")


def test_a_history_that_cannot_be_read_is_kept_and_reported() -> None:
    files = three()
    files.put("leader-epoch-checkpoint", b"junk")
    made = plan(files, {"retention.bytes": str(2 * SIZE)} | FOREVER)
    assert made.files["leader-epoch-checkpoint"] == Keep("leader-epoch-checkpoint")
    assert [finding.rule for finding in made.findings] == ["broken-partition-file"]


@pytest.mark.parametrize(
    ("before", "start", "bases", "line"),
    [(1, 1, [], 1), (2, 2, [0], None), (3, 3, [0], 3), (6, 6, [0, 2], 6), (-1, 5, [0, 2], 5), (0, 0, [], None)],
)
def test_delete_records_moves_the_log_start_and_whole_segments_below_it_go(before, start, bases, line) -> None:
    committed = 5 if before == -1 else 6
    made = plan(three(), FOREVER, before=before, high_watermark=committed)
    assert (made.new_log_start_offset, gone(made), made.root.log_start_offset) == (start, bases, line)


def test_delete_records_below_the_log_start_changes_nothing() -> None:
    made = plan(three(), FOREVER, before=1, log_start_offset=3, high_watermark=6)
    assert (made.log_start_offset, made.new_log_start_offset) == (3, 3)


@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete", ""])
def test_delete_records_is_refused_where_the_topic_is_compacted_and_never_deleted_from(policy) -> None:
    config = {"cleanup.policy": policy} | FOREVER
    if policy == "compact":
        with pytest.raises(ValueError, match="PolicyViolation"):
            plan(three(), config, before=2, high_watermark=6)
    else:
        assert gone(plan(three(), config, before=2, high_watermark=6)) == [0]


@pytest.mark.parametrize(("before", "high_watermark"), [(6, 5), (7, None), (-2, None)])
def test_records_above_the_high_watermark_are_not_deleted(before, high_watermark) -> None:
    with pytest.raises(ValueError, match="OffsetOutOfRange"):
        plan(three(), FOREVER, before=before, high_watermark=high_watermark)


@pytest.mark.parametrize(
    ("policy", "bases"), [("delete", [0, 2]), ("compact,delete", [0, 2]), ("compact", [0]), ("", [0])]
)
def test_size_and_time_count_only_where_the_topic_is_deleted_from(policy, bases) -> None:
    made = plan(three(), {"cleanup.policy": policy, "retention.ms": "60000"}, log_start_offset=2)
    assert gone(made) == bases


def test_neither_recovery_point_nor_high_watermark_stays_below_a_log_start_that_moved() -> None:
    made = plan(three(), {"retention.ms": "60000"}, recovery_point=1, high_watermark=6, first_dirty_offset=1)
    assert gone(made) == [0, 2]
    assert (made.root.recovery_point, made.root.high_watermark, made.root.first_dirty_offset) == (4, 6, 1)


def test_a_high_watermark_beyond_the_end_or_below_the_start_is_taken_for_that() -> None:
    files = three()
    files.log(4, b"")
    made = plan(files, FOREVER, high_watermark=0, log_start_offset=3)
    assert made.high_watermark == 3
    made = plan(three(), FOREVER, high_watermark=2)
    assert made.high_watermark == 2


def test_without_a_time_in_any_batch_the_files_time_of_change_counts() -> None:
    files = Files()
    files.log(0, handmade.message_v0(0, b"k", b"v"), NOW - HOUR - 1)
    files.log(1, handmade.message_v0(1, b"k", b"v"), NOW - HOUR)
    made = plan(files, {"retention.ms": str(HOUR)})
    assert gone(made) == [0]
    assert made.as_dict()["segments"][0]["largest_timestamp_from"] == "time of change of the file"


@pytest.mark.parametrize(
    ("index", "state", "verdict"),
    [
        (None, "missing", "keep"),
        (b"", "empty", "keep"),
        (bytes(36), "ends in zeros", "delete"),
        (struct.pack(">qi", NOW - 3 * HOUR, 0), "does not end in its greatest timestamp", "delete"),
    ],
)
def test_a_time_index_that_a_broker_would_trust_and_we_do_not_is_reported(index, state, verdict) -> None:
    files = Files()
    files.segment(0, NOW - 2 * HOUR)
    files.segment(1, NOW)
    name = f"{0:020d}.timeindex"
    if index is None:
        del files.files[name]
    else:
        files.put(name, index)
    made = plan(files, {"retention.ms": str(HOUR)})
    assert gone(made) == [0]
    (finding,) = made.findings
    assert (finding.rule, finding.file) == ("time-index-differs", name)
    assert state in finding.message
    assert f"would {verdict} it" in finding.message
    # A broker's start rebuilds this file, so it does not use it either.
    assert plan(files, {"retention.ms": str(HOUR)}, is_clean=False).findings == ()
    assert plan(files, {"retention.ms": str(HOUR)}, is_clean=False, recovery_point=1).findings != ()
    del files.files[f"{0:020d}.index"]
    assert plan(files, {"retention.ms": str(HOUR)}).findings == ()


def test_a_segment_whose_time_index_ends_later_than_its_batches_may_have_lost_some() -> None:
    files = three()
    files.put(f"{0:020d}.timeindex", struct.pack(">qi", NOW - 30_000, 5))
    made = plan(files, {"retention.ms": "60000"})
    assert gone(made) == []
    (finding,) = made.findings
    assert "the segment may have been cut" in finding.message


def damaged(*, index: bytes | None = None) -> Files:
    """Three segments of which the first is damaged in its second batch, the newest of it."""
    files = three()
    files.log(0, handmade.flip(bytes(files.files[f"{0:020d}.log"].content), SIZE + 70))
    files.put(f"{0:020d}.timeindex", index or b"")
    return files


def test_a_damaged_segment_of_unknown_age_and_all_later_ones_are_kept() -> None:
    made = plan(damaged(), {"retention.ms": "60000"})
    assert gone(made) == []
    assert "it is damaged: the age of its latest record is unknown" in made.decision.stays[0].why
    (finding,) = (finding for finding in made.findings if finding.rule == "corrupt-bytes")
    assert (finding.file, finding.position, finding.nbytes) == (f"{0:020d}.log", SIZE, SIZE)


def test_a_damaged_segment_is_as_old_as_its_time_index_says() -> None:
    old, new = NOW - 2 * HOUR, NOW
    assert gone(plan(damaged(index=struct.pack(">qi", old, 1)), {"retention.ms": "60000"})) == [0, 2]
    assert gone(plan(damaged(index=struct.pack(">qi", new, 1)), {"retention.ms": "60000"})) == []


@pytest.mark.parametrize("index", [struct.pack(">qi", NOW - 3 * HOUR, 0), bytes(24), b"\xff" * 12])
def test_a_time_index_that_contradicts_what_can_be_read_does_not_make_a_damaged_segment_old(index) -> None:
    assert gone(plan(damaged(index=index), {"retention.ms": "60000"})) == []


def test_a_damaged_segment_below_the_log_start_goes_by_its_name_alone() -> None:
    assert gone(plan(damaged(), FOREVER, log_start_offset=2)) == [0]


def test_bytes_that_cannot_be_trusted_do_not_count_for_the_size() -> None:
    limit = {"retention.bytes": str(5 * SIZE)} | FOREVER
    files = three()
    files.log(4, bytes(files.files[f"{4:020d}.log"].content) + b"\x55" * 10 * SIZE)
    assert gone(plan(files, limit)) == []
    files = three()
    files.log(2, bytes(files.files[f"{2:020d}.log"].content) + b"\x55" * 10 * SIZE)
    assert gone(plan(files, limit)) == []


@pytest.mark.parametrize(
    "state", [{"is_clean": True}, {"is_clean": False, "high_watermark": 6}], ids=["stopped in order", "committed"]
)
def test_a_last_segment_that_lost_its_end_stays(state) -> None:
    files = three()
    files.log(4, handmade.flip(bytes(files.files[f"{4:020d}.log"].content), SIZE + 70))
    made = plan(files, {"retention.bytes": "0"}, **state)
    assert gone(made) == [0, 2]
    assert made.log_end_offset is None
    assert "the log end is unknown" in made.decision.stays[0].why[-1]


def test_a_torn_tail_of_a_broker_that_was_killed_is_no_damage() -> None:
    files = three()
    files.log(4, bytes(files.files[f"{4:020d}.log"].content)[:-3])
    made = plan(files, {"retention.bytes": "0"}, is_clean=False, high_watermark=5)
    assert gone(made) == [0, 2, 4]
    assert made.new_segment == 5


def test_a_log_that_starts_after_its_end_needs_a_recovery() -> None:
    with pytest.raises(LogError, match="after its log end 6"):
        plan(three(), FOREVER, log_start_offset=7)


def test_files_that_a_start_removes_are_left_out_and_reported() -> None:
    files = three()
    files.put(f"{0:020d}.log.deleted", b"x")
    files.put(f"{2:020d}.log.cleaned", b"x")
    files.put(f"{9:020d}.index", b"")
    made = plan(files, FOREVER)
    assert set(made.removed()) == {f"{0:020d}.log.deleted", f"{2:020d}.log.cleaned", f"{9:020d}.index"}
    assert set(made.files) == set(three().files)


def test_a_swapped_segment_counts_under_the_name_it_will_have() -> None:
    files = three()
    merged = bytes(files.files[f"{0:020d}.log"].content) + bytes(files.files[f"{2:020d}.log"].content)
    files.put(f"{0:020d}.log.swap", merged)
    made = plan(files, {"retention.bytes": str(2 * SIZE)} | FOREVER)
    assert gone(made) == [0]
    assert [each.segment.base_offset for each in made.decision.stays] == [4]
    kept = plan(files, FOREVER)
    assert kept.files[f"{0:020d}.log"] == Keep(f"{0:020d}.log.swap")
    assert kept.as_dict()["files"][f"{0:020d}.log"] == "keep, under its name without .swap"


def test_a_directory_without_segments_has_nothing_to_retain() -> None:
    files = Files()
    files.put("partition.metadata", b"")
    made = plan(files, {"retention.bytes": "0"})
    assert (gone(made), made.removed(), made.new_log_start_offset) == ([], {}, made.log_start_offset)
    assert made.files == {"partition.metadata": Keep("partition.metadata")}


def test_no_byte_is_read_for_the_decision_of_segments_after_the_first_that_stays() -> None:
    class Unread(bytes):
        def __getitem__(self, _):  # type: ignore[no-untyped-def]
            raise AssertionError("it was read")

    files = three()
    files.segment(6, NOW)
    held = files.files[f"{4:020d}.log"]
    files.files[held.name] = replace(held, held=Unread(bytes(held.content)))
    assert gone(plan(files, {"retention.ms": str(HOUR)}, whole=lambda *_: ())) == [0]


def test_the_default_configuration_keeps_a_week() -> None:
    assert TopicConfig().retention_ms == 7 * 24 * HOUR
    kept = plan(three(), {})
    assert (gone(kept), kept.removed(), kept.new_log_start_offset) == ([], {}, kept.log_start_offset)
