"""`ledger` says of every offset what became of it."""

import json
import os
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.unit.logcore.cli import conftest as made

COUNTS = ("records", "gaps", "markers")
Captured = pytest.CaptureFixture[str]


def reported(capsys: Captured, *arguments: str, code: int = 0) -> list[tuple]:
    assert main(["ledger", "--format", "jsonl", *arguments]) == code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = ("start_offset", "end_offset", "state", "records", "gaps", "evidence")
    return [tuple(line[name] for name in names) for line in lines]


def orders(root: Path, base: int) -> Path:
    return root / "orders-0" / f"{base:020d}.log"


def test_every_offset_has_a_state_and_its_evidence(root: Path, capsys: Captured) -> None:
    assert reported(capsys, str(root)) == [
        (0, 3, "present", 3, 0, "batches"),
        (3, 4, "aborted", 1, 0, "abort-marker"),
        (4, 5, "control", 1, 0, "control-batches"),
        (5, 8, "present", 2, 1, "batches"),
    ]


def test_a_line_has_the_keys_of_the_contract_in_their_order(root: Path, capsys: Captured) -> None:
    assert main(["ledger", "--format", "jsonl", str(root)]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[1])
    assert list(line) == ["topic", "partition", "directory", "start_offset", "end_offset", "state", *COUNTS, "evidence"]
    assert (line["topic"], line["partition"]) == ("orders", 0)


def test_the_text_is_for_people(root: Path, capsys: Captured) -> None:
    assert main(["ledger", str(root)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        *["orders-0", "[0,", "3)", "present", "batches", "3", "records"],
    ]


@pytest.mark.parametrize(("high_watermark", "open_from"), [("7", 7), ("6", 5), ("4", 3), ("0", 0)])
def test_what_is_not_committed_everywhere_or_not_decided_is_open(
    root: Path, capsys: Captured, high_watermark: str, open_from: int
) -> None:
    ranges = reported(capsys, str(root), "--high-watermark", high_watermark)
    assert min(r[0] for r in ranges if r[2] == "open") == open_from
    assert {r[5] for r in ranges if r[0] >= int(high_watermark)} == {"high-watermark"}


def test_without_a_high_watermark_the_log_end_is_used(root: Path, capsys: Captured) -> None:
    (root / "replication-offset-checkpoint").unlink()
    assert reported(capsys, str(root), code=1)[-1] == (5, 8, "present", 2, 1, "batches")
    assert reported(capsys, str(root), "--high-watermark", "log-end")[-1][2] == "present"


def test_offsets_below_the_high_watermark_that_the_log_does_not_reach_are_missing(root: Path, capsys: Captured) -> None:
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=11)
    assert reported(capsys, str(root), code=2)[-2:] == [
        (5, 8, "present", 2, 1, "batches"),
        (8, 11, "missing", 0, 0, "high-watermark"),
    ]


def test_a_torn_tail_below_the_high_watermark_is_missing(root: Path, capsys: Captured) -> None:
    orders(root, 5).write_bytes(made.ACTIVE[:-1])
    assert reported(capsys, str(root), code=2)[-1] == (7, 8, "missing", 0, 0, "high-watermark")
    assert reported(capsys, str(root), "--high-watermark", "7")[-1] == (5, 7, "present", 1, 1, "batches")


def test_offsets_missing_at_the_end_are_reported_once_with_the_times_of_both_files(
    root: Path, capsys: Captured
) -> None:
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=9)
    os.utime(root / "replication-offset-checkpoint", ns=(0, 1_700_000_005_000_000_000))
    os.utime(orders(root, 5), ns=(0, 1_700_000_001_250_000_000))
    for command in ("ledger", "transactions", "verify"):
        assert main([command, str(root)]) == 2
        captured = capsys.readouterr()
        (line,) = [each for each in (captured.out + captured.err).splitlines() if "committed offsets" in each]
        assert "replication-offset-checkpoint was written at 2023-11-14T22:13:25.000Z" in line
        assert f"{orders(root, 5).name} changed last at 2023-11-14T22:13:21.250Z" in line


def test_a_high_watermark_that_is_given_has_no_file(root: Path, capsys: Captured) -> None:
    assert main(["ledger", str(root), "--high-watermark", "9"]) == 2
    captured = capsys.readouterr()
    assert "[8, 9)" in captured.out
    assert "replication-offset-checkpoint" not in captured.err


def test_offsets_after_an_unreadable_last_segment_are_not_reported_as_committed_and_lost(
    root: Path, capsys: Captured
) -> None:
    orders(root, 5).unlink()
    orders(root, 5).mkdir()
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=9)
    assert main(["ledger", str(root)]) == 3
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1].split()[1:] == ["[5,", "9)", "missing", "unreadable"]
    assert "committed" not in captured.err


def test_damage_at_the_end_reaches_up_to_the_high_watermark(root: Path, capsys: Captured) -> None:
    junk = struct.pack(">qiib", 7, 20, 3, 9) + bytes(range(1, 16))  # a magic that no batch has: no write under way
    orders(root, 5).write_bytes(made.COMMITTED + made.COMMIT + junk)
    assert reported(capsys, str(root), code=2)[-1] == (7, 8, "corrupt", 0, 0, "MAGIC")


def test_files_named_one_by_one_say_nothing_about_later_offsets(root: Path, capsys: Captured) -> None:
    given = [str(orders(root, 0)), "--high-watermark", "8"]
    assert reported(capsys, *given)[-1] == (4, 5, "control", 1, 0, "control-batches")


def test_offsets_below_the_log_start_are_trimmed(root: Path, capsys: Captured) -> None:
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=2)
    assert reported(capsys, str(root))[:2] == [
        (0, 2, "trimmed", 0, 0, "log-start-offset"),
        (2, 3, "present", 1, 0, "batches"),
    ]


def test_a_gap_is_a_loss_unless_the_topic_is_cleaned(root: Path, capsys: Captured) -> None:
    orders(root, 5).write_bytes(made.COMMIT + made.LAST)
    gap = (5, 6, "missing", 0, 0, "no-explanation")
    assert reported(capsys, str(root), code=2)[3] == gap
    cleaned = reported(capsys, str(root), "--config", "cleanup.policy=compact,delete")
    assert cleaned[3] == (5, 6, "compacted", 0, 0, "cleanup-policy")
    made.write_checkpoint(root, "cleaner-offset-checkpoint", orders=6)
    assert reported(capsys, str(root))[3] == (5, 6, "compacted", 0, 0, "cleaner-checkpoint")


def test_topics_that_brokers_always_compact_need_no_policy(root: Path, capsys: Captured) -> None:
    group = root / "__consumer_offsets-0"
    group.mkdir()
    (group / f"{0:020d}.log").write_bytes(handmade.simple_batch(4, [(b"k", b"v")]))
    made.identify(group)
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=8, __consumer_offsets=5)
    given = [str(group)]
    assert reported(capsys, *given)[0] == (0, 4, "compacted", 0, 0, "cleanup-policy")
    assert reported(capsys, *given, "--config", "cleanup.policy=delete", code=2)[0][2] == "missing"


def test_damage_is_a_range_up_to_the_next_batch_that_can_be_trusted(root: Path, capsys: Captured) -> None:
    content = bytearray(made.SEALED)
    content[len(made.FIRST) + 40] ^= 1
    orders(root, 0).write_bytes(bytes(content))
    assert reported(capsys, str(root), code=2)[1] == (3, 4, "corrupt", 0, 0, "CRC")


def test_a_transaction_whose_marker_was_lost_is_unknown_once_its_producer_went_on(root: Path, capsys: Captured) -> None:
    content = bytearray(made.SEALED)
    content[len(made.FIRST) + len(made.ABORTED) + 40] ^= 1
    orders(root, 0).write_bytes(bytes(content))
    assert reported(capsys, str(root), code=2)[1:4] == [
        (3, 4, "unknown", 1, 0, "marker-lost"),
        (4, 5, "corrupt", 0, 0, "CRC"),
        (5, 8, "present", 2, 1, "batches"),
    ]


def test_files_named_one_by_one_say_what_was_not_named(root: Path, capsys: Captured) -> None:
    last = handmade.simple_batch(8, [(b"k", b"v")])
    orders(root, 8).write_bytes(last)
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=1)
    ranges = reported(capsys, str(orders(root, 0)), str(orders(root, 8)), code=2)
    assert ranges[-2:] == [(5, 8, "missing", 0, 0, "not-named"), (8, 9, "present", 1, 0, "batches")]
    assert reported(capsys, str(orders(root, 5)))[0] == (0, 5, "trimmed", 0, 0, "log-start-offset")


def test_a_batch_with_gaps_is_read_where_the_log_start_cuts_it(root: Path, capsys: Captured) -> None:
    thin = [handmade.record(delta, b"k", b"v") for delta in (0, 3, 5)]
    orders(root, 5).write_bytes(handmade.batch(thin, base_offset=5, last_offset_delta=5))
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=7)
    assert reported(capsys, str(root), "--high-watermark", "9") == [
        (0, 7, "trimmed", 0, 0, "log-start-offset"),
        (7, 9, "present", 1, 1, "batches"),
        (9, 11, "open", 1, 1, "high-watermark"),
    ]


def test_an_unreadable_segment_is_a_gap_with_its_reason(root: Path, capsys: Captured) -> None:
    orders(root, 5).unlink()
    orders(root, 5).mkdir()
    orders(root, 8).write_bytes(handmade.simple_batch(8, [(b"k", b"v")]))
    ranges = reported(capsys, str(root), "--high-watermark", "log-end", code=3)
    assert ranges[-2:] == [(5, 8, "missing", 0, 0, "unreadable"), (8, 9, "present", 1, 0, "batches")]


@pytest.mark.parametrize("setting", ["retention.ms=1", "cleanup.policy=compress", "cleanup.policy="])
def test_settings_that_play_no_part_are_wrong_usage(root: Path, setting: str) -> None:
    assert main(["ledger", str(root), "--config", setting]) == 64


def test_old_messages_are_batches_like_others(root: Path, capsys: Captured) -> None:
    old = b"".join(handmade.message_v1(5 + n, 1000 + n, b"k", b"v") for n in range(3))
    orders(root, 5).write_bytes(old)
    assert reported(capsys, str(root))[-1] == (5, 8, "present", 3, 0, "batches")


def test_a_transactional_batch_without_a_producer_belongs_to_no_transaction(root: Path, capsys: Captured) -> None:
    # No broker takes one from a producer. A consumer asks for the outcome of a producer id, finds none, and shows it.
    strange = handmade.simple_batch(5, [(b"k", b"v")], attributes=handmade.TRANSACTIONAL, leader_epoch=3)
    orders(root, 5).write_bytes(strange)
    found = reported(capsys, "--high-watermark", "6", str(root))
    assert found[-1] == (5, 6, "present", 1, 0, "batches")


def test_the_picture_names_the_damaged_offsets_of_each_log(root: Path, tmp_path: Path, capsys: Captured) -> None:
    segment = orders(root, 0)
    content = bytearray(segment.read_bytes())
    content[-20] ^= 1
    segment.write_bytes(content)
    drawing = tmp_path / "ledger.svg"

    lines = reported(capsys, str(root), "--svg", str(drawing), code=2)

    assert [line[:2] for line in lines if line[2] == "corrupt"] == [(4, 5)]
    assert "offset 4 corrupt" in drawing.read_text()
    assert "orders-0" in drawing.read_text()


def test_the_picture_is_no_file_of_a_source_and_replaces_no_file(root: Path, tmp_path: Path, capsys: Captured) -> None:
    kept = tmp_path / "kept.svg"
    kept.write_text("kept")
    before = sorted(root.rglob("*"))

    assert main(["ledger", str(root), "--svg", str(root / "orders-0" / "ledger.svg")]) == 64
    assert "which is only read" in capsys.readouterr().err
    assert main(["ledger", str(root), "--svg", str(kept)]) != 0
    assert sorted(root.rglob("*")) == before
    assert kept.read_text() == "kept"


@pytest.mark.parametrize("command", ["ls", "ledger"])
@pytest.mark.parametrize("harm", ["a flipped bit", "a lost segment", "a high watermark above the end"])
def test_every_finding_names_its_file(command: str, harm: str, tmp_path: Path, capsys: Captured) -> None:
    source = LogDirectory(tmp_path / "source")
    log = source.partition("orders-0")
    for _ in range(3):
        log.roll()
        log.append(10)
    source.high_watermarks(orders_0=40 if harm == "a high watermark above the end" else 30)
    second = log.segments()[1]
    if harm == "a flipped bit":
        second.write_bytes(handmade.flip(second.read_bytes(), 80))
    elif harm == "a lost segment":
        second.unlink()
    assert main([command, str(source.path)]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error ")]
    assert errors
    assert all(str(log.path) in line for line in errors), errors
    if harm == "a flipped bit":
        assert f"{second}: 121 bytes from position 0" in errors[0]
