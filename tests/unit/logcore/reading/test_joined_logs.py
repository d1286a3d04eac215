"""Local and remote segments as one log: every offset once and no gap, however leaders cut and copied segments."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from logcore.reading.chosen_logs import find_logs
from logcore.reading.read_options import Notes, ReadOptions
from tests import handmade
from tests.broker_directory import TOPIC_ID
from tests.tiered_log import DELETE_STARTED, STARTED, TieredLog, run

CHOSEN = ("--topic", "orders")


@pytest.fixture(params=[True, False], ids=["metadata", "listing"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> TieredLog:
    """An empty log; with and without `__remote_log_metadata`."""
    return TieredLog(tmp_path, with_metadata=request.param)


def dumped(log: TieredLog) -> list[tuple[object, object]]:
    """The records of the joined log."""
    said = run("dump", log, *CHOSEN)
    assert said.code == (0 if log.with_metadata else 1), said.errors
    return said.rows


def test_a_local_log_that_begins_inside_of_a_remote_segment_continues_it(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 12)
    log.copy(12, 25)
    log.elect()
    log.append(2)
    log.write(18, bases=[25])
    assert dumped(log) == log.expected(0)
    ledger = run("ledger", log, *CHOSEN)
    assert ledger.ranges == [("present", 0, 27)]


def test_remote_segments_of_two_leaders_that_overlap_are_read_once(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 12)
    log.elect()
    log.append(5, 5)
    log.copy(7, 30)
    log.copy(3, 18)
    log.copy(30, 35)
    log.write(35)
    assert dumped(log) == log.expected(0)
    said = [line for line in run("remote", log).errors.splitlines() if "more than one" in line]
    assert said == [
        "info remote-overlap: orders-0: offsets between 3 and 17 are in more than one remote segment. "
        f"Each offset is read once. Segments that begin inside of others: 2. ({log.remote})"
    ]


def test_after_an_unclean_election_the_records_of_the_new_leader_are_read(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 7)
    lost = log.copy(7, 25)
    log.elect(at=12)
    log.append(6, 6, 6)
    log.copy(12, 24)
    log.write(24)
    rows = dumped(log)
    assert rows == log.expected(0)
    assert (13, "13 in epoch 0") not in rows
    (segment,) = [each for each in run("remote", log).lines if each.get("segment_id") == lost.text]
    assert segment["status"] == "counts"
    assert (segment["end_offset"], segment["lineage_end_offset"]) == (25, 12)


def test_a_segment_that_only_a_replaced_leader_had_is_not_read(log: TieredLog) -> None:
    log.append(3, 4, 5, 6)
    log.copy(0, 7)
    log.copy(12, 18)
    log.elect(at=12)
    log.append(6, 6)
    log.copy(7, 18)
    log.write(18)
    assert dumped(log) == log.expected(0)
    by_start = {each["start_offset"]: each["status"] for each in run("remote", log).lines if "segment_id" in each}
    assert by_start == {0: "counts", 12: "not-in-lineage", 7: "counts"}


def test_a_log_start_inside_of_a_remote_segment_hides_the_records_before_it(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 12)
    log.copy(7, 18)
    log.write(12, log_start=5)
    assert dumped(log) == log.expected(5)
    assert run("ledger", log, *CHOSEN).ranges == [("trimmed", 0, 5), ("present", 5, 25)]


def test_a_gap_between_remote_segments_stays_remote(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 3)
    log.copy(7, 18)
    log.write(12)
    said = run("ledger", log, *CHOSEN)
    assert said.ranges == [("remote", 0, 7), ("present", 7, 25)]
    assert said.code == 1
    assert "not all segments up to there can be used" in said.errors


def test_a_segment_that_would_be_cut_inside_of_a_batch_is_not_used(log: TieredLog) -> None:
    log.append(3, 4, 5, 6)
    log.copy(0, 12)
    log.write(12)
    local = log.logs / "orders-0"
    for file in local.glob(f"{12:020d}.*"):  # an index that is left would show the right name
        file.rename(file.with_stem(f"{9:020d}"))
    said = run("ledger", log, *CHOSEN)
    assert said.ranges[0] == ("remote", 0, 9)
    assert "begins at offset 9, which is inside of a batch of it" in said.errors
    assert said.code == 3


def test_of_two_copies_of_a_segment_the_one_that_can_be_used_is_taken(log: TieredLog) -> None:
    log.append(3, 4, 5, 6)
    log.copy(0, 12)
    for _ in range(2):
        log.copy(0, 18)
    log.write(12)
    for copied in log.copied[1:]:  # nothing of the bytes before the cut can be read
        content = copied.log.read_bytes()
        copied.log.write_bytes(b"\xff" * 61 + content[61:])
        copied.log.with_suffix(".index").write_bytes(b"")
    said = run("dump", log, *CHOSEN)
    assert said.rows == log.expected(0)
    assert ("nothing can be read from position 0" in said.errors) is log.with_metadata


@pytest.mark.parametrize("place", [-1, 5, 1 << 20, "the last batch"])
def test_an_index_that_is_wrong_or_goes_past_the_end_hides_no_record(log: TieredLog, place: int | str) -> None:
    log.append(3, 4, 5, 6, 7)
    copied = log.copy(0, 25)
    log.write(12, bases=[18])
    position = place if isinstance(place, int) else sum(len(each.content) for each in log.batches[:-1])
    copied.log.with_suffix(".index").write_bytes(
        b"".join(struct.pack(">ii", offset, position) for offset in (6, 11, 17))
    )
    assert dumped(log) == log.expected(0)


def test_verify_checks_the_bytes_of_the_joined_log(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 12)
    other = log.copy(7, 25)
    log.write(18)
    whole = run("verify", log, *CHOSEN)
    (*_, summary) = whole.lines
    assert whole.code == (0 if log.with_metadata else 1), whole.lines
    assert summary["summary"]["records"] == 25
    assert summary["summary"]["files"] == 3
    content = bytearray(other.log.read_bytes())
    content[70] ^= 1
    other.log.write_bytes(content)
    damaged = run("verify", log, *CHOSEN)
    assert damaged.code == 2
    assert [each for each in damaged.lines if each.get("rule") == "corrupt-bytes" and str(other.log) == each["file"]]


def test_ls_shows_the_joined_log(log: TieredLog) -> None:
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 12)
    log.copy(7, 25)
    log.write(18)
    (line,) = run("ls", log, *CHOSEN).lines
    assert (line["log_start_offset"], line["log_end_offset"], line["records"], line["segments"]) == (0, 25, 25, 3)
    assert line["bytes"] == sum(len(each.content) for each in log.batches)


def test_without_leader_epochs_nothing_is_joined_and_the_range_stays_remote(log: TieredLog) -> None:
    log.append(3, 4, 5, 6)
    log.copy(0, 12)
    log.write(12, epochs=False)
    said = run("ledger", log, *CHOSEN)
    assert said.ranges == [("remote", 0, 12), ("present", 12, 18)]
    assert said.lines[0]["evidence"] == "no-leader-epochs"
    assert said.code == 1
    assert "are in the remote tier or were deleted; leader-epoch-checkpoint" in said.errors
    (segment, _) = run("remote", log).lines
    assert (segment["status"], segment["lineage_checked"]) == ("counts", False)


def test_segments_may_lie_in_several_places(log: TieredLog, tmp_path: Path) -> None:
    log.append(3, 4, 5, 6)
    log.copy(0, 7)
    moved = log.copy(7, 12)
    log.write(12)
    elsewhere = tmp_path / "elsewhere" / moved.log.parent.name
    elsewhere.mkdir(parents=True)
    for part in moved.log.parent.glob(f"{moved.log.stem}.*"):
        part.rename(elsewhere / part.name)
    both = [log.remote, tmp_path / "elsewhere"]
    said = run("remote", log, remotes=both)
    assert [each.get("status") for each in said.lines] == ["counts", "counts", None]
    assert said.lines[-1]["summary"]["remote"] == ", ".join(map(str, both))
    assert run("dump", log, *CHOSEN, remotes=both).rows == log.expected(0)


def test_many_segments_are_joined_in_one_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from logcore.reading import joined_logs

    passes = []
    real = joined_logs.joined
    monkeypatch.setattr(joined_logs, "joined", lambda *given: (passes.append(1), real(*given))[1])
    log = TieredLog(tmp_path)
    log.append(*[1] * 41)
    for start in range(40):
        log.copy(start, start + 1)
    log.write(40)
    assert run("dump", log, *CHOSEN).rows == log.expected(0)
    assert len(passes) <= 3


def test_a_replica_that_diverged_gets_no_segment_of_the_new_leader(tmp_path: Path) -> None:
    old = TieredLog(tmp_path)
    old.append(3, 4, 5, 6, 7)
    old.copy(0, 7)
    old.write(18)
    (tmp_path / "logs").rename(tmp_path / "old")
    old.elect(at=12)
    old.append(6, 6)
    old.copy(7, 18)
    old.write(18)
    options = ReadOptions(paths=(str(tmp_path / "old"), str(old.logs)), remotes=(str(old.remote),))
    logs = [log for log in find_logs(options, Notes()) if log.topic_partition.topic == "orders"]
    assert [(log.directory, log.log_start_offset, log.remote) for log in logs] == [
        (str(tmp_path / "old" / "orders-0"), 18, (0, 18, "remote-tier")),
        (str(old.logs / "orders-0"), 0, None),
    ]


class TestMetadata:
    """What only the metadata topic can say."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> TieredLog:
        log = TieredLog(tmp_path)
        log.append(3, 4, 5, 6)
        return log

    def test_a_short_log_file_does_not_count(self, log: TieredLog) -> None:
        log.copy(0, 7)
        short = log.copy(7, 12)
        log.write(12)
        content = short.log.read_bytes()
        for changed in (content[:-1], content + b"\0"):
            short.log.write_bytes(changed)
            said = run("remote", log)
            assert [each.get("status") for each in said.lines[:2]] == ["counts", "other-size"]
            assert f"it has {len(changed)} of the {len(content)} bytes that the metadata states" in said.errors
            assert said.code == 3
            ledger = run("ledger", log, *CHOSEN)
            assert (ledger.ranges[0], ledger.code) == (("remote", 0, 12), 3)

    def test_only_segments_of_chosen_logs_are_reported(self, log: TieredLog) -> None:
        lost = log.copy(0, 7)
        log.write(7)
        lost.log.unlink()
        assert lost.text in run("dump", log, *CHOSEN).errors
        said = run("dump", log, "--topic", "__remote_log_metadata")
        assert (said.code, said.errors) == (0, "")

    @pytest.mark.parametrize("state", [STARTED, DELETE_STARTED])
    def test_half_copies_and_segments_that_are_being_deleted_are_not_read(self, log: TieredLog, state: int) -> None:
        log.copy(0, 12, state)
        log.write(12)
        assert run("ledger", log, *CHOSEN).ranges[0] == ("remote", 0, 12)
        assert run("dump", log, *CHOSEN).rows == log.expected(12)

    def test_the_latest_tiered_offset_is_that_of_the_metadata_also_without_objects(self, log: TieredLog) -> None:
        log.copy(0, 7)
        gone = log.copy(7, 12)
        log.write(12)
        for part in gone.log.parent.glob(f"{gone.log.stem}.*"):
            part.unlink()
        (line,) = run("offsets", log, "--at", "latest-tiered", *CHOSEN).lines
        assert line["offset"] == 11
        (line,) = run("offsets", log, "--at", "earliest-pending-upload", *CHOSEN).lines
        assert line["offset"] == 12

    def test_after_an_unclean_election_the_latest_tiered_offset_is_below_it(self, log: TieredLog) -> None:
        log.copy(0, 12)
        log.elect(at=7)
        log.append(2)
        log.write(7)
        (line,) = run("offsets", log, "--at", "latest-tiered", *CHOSEN).lines
        assert (line["offset"], line["leader_epoch"]) == (6, 0)

    def test_a_topic_made_again_under_its_name_takes_no_segment_of_the_first(self, log: TieredLog) -> None:
        log.copy(0, 12)
        log.write(12)
        other = "CCCCCCCCCCCCCCCCCCCCCw"
        (log.logs / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {other}")
        assert other != TOPIC_ID
        assert run("dump", log, *CHOSEN).rows == log.expected(12)
        assert run("ledger", log, *CHOSEN).ranges[0] == ("remote", 0, 12)

    def test_a_segment_that_lies_twice_with_other_bytes_is_not_used(self, log: TieredLog) -> None:
        copied = log.copy(0, 12)
        log.write(12)
        twin = log.remote / "again" / copied.log.parent.name / copied.log.name
        twin.parent.mkdir(parents=True)
        content = copied.log.read_bytes()
        twin.write_bytes(handmade.flip(content, 70))
        said = run("ledger", log, *CHOSEN)
        assert (said.ranges[0], said.code) == (("remote", 0, 12), 3)
        assert "a part of it lies in two places" in said.errors

    def test_an_object_that_vanishes_after_the_listing_is_named_and_nothing_is_made_up(
        self, log: TieredLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.copy(0, 7)
        gone = log.copy(7, 12)
        log.write(12)
        from logcore.reading import joined_logs

        real = joined_logs.join_remote

        def vanishing(*arguments: object) -> object:
            joined = real(*arguments)
            gone.log.unlink(missing_ok=True)
            return joined

        monkeypatch.setattr(joined_logs, "join_remote", vanishing)
        said = run("dump", log, *CHOSEN)
        assert said.rows == [row for row in log.expected(0) if not 7 <= row[0] < 12]
        assert said.code == 3
        assert os.path.basename(gone.log) in said.errors

    def test_two_clusters_in_one_bucket_do_not_disturb_each_other(self, log: TieredLog) -> None:
        log.copy(0, 12)
        log.write(12)
        foreign = log.remote / "orders-0-CCCCCCCCCCCCCCCCCCCCCw"
        foreign.mkdir()
        for part in log.copied[0].log.parent.glob("*"):
            (foreign / part.name).write_bytes(b"bytes of another cluster")
        said = run("dump", log, *CHOSEN)
        assert (said.rows, said.code) == (log.expected(0), 0)
        segments = run("remote", log).lines[:-1]
        assert [each["status"] for each in segments] == ["counts", "not-covered"]
        assert not any(each["orphaned"] for each in segments)
