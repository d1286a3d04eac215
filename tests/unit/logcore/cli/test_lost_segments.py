"""Segments that a power cut emptied, and a log whose newest segments are gone: every command says what is lost."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from logcore import DamageFound, open_partition
from logcore.cli.main import main
from logcore.reading import segment_reading
from tests import handmade
from tests.broker_directory import LogDirectory

Captured = pytest.CaptureFixture[str]


def ranges(capsys: Captured, path: Path) -> tuple[int, list[tuple[int, int, str]]]:
    code = main(["ledger", "--format", "jsonl", str(path)])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, [(row["start_offset"], row["end_offset"], row["state"]) for row in rows]


@pytest.mark.parametrize(("emptied", "lost"), [(1, (10, 20)), (2, (20, 30))])
def test_an_emptied_segment_is_a_loss(tmp_path: Path, capsys: Captured, emptied: int, lost: tuple[int, int]) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    for _ in range(3):
        orders.roll()
        orders.append(10)
    orders.segments()[emptied].write_bytes(b"")
    root.high_watermarks(orders_0=30)
    code, found = ranges(capsys, root.path)
    assert code == 2
    assert [each[:2] for each in found if each[2] == "missing"] == [lost]
    assert sum(end - start for start, end, state in found if state == "present") == 20
    assert main(["verify", str(root.path)]) == 2
    assert main(["recover", "--plan", "--out", str(tmp_path / "new"), str(orders.path)]) == 2


def test_a_log_that_ends_below_its_log_start_is_a_loss(tmp_path: Path, capsys: Captured) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    orders.append(20)
    root.checkpoint("log-start", orders_0=40)
    root.high_watermarks(orders_0=60)
    # A broker drops the segments below the log start, and begins an empty log there (LogLoader.recoverLog). So did the
    # classes of Kafka 3.9.2, 4.1.2 and 4.4.0, after a clean and an unclean stop.
    assert ranges(capsys, root.path) == (2, [(0, 40, "trimmed"), (40, 60, "missing")])
    said = "the log has no batch from its start at offset 40 on; committed offsets from there on are missing: 20"
    for command in (["verify"], ["ls"], ["transactions"], ["offsets", "--at", "latest"], ["dump"]):
        assert main([*command, str(root.path)]) == 2
        captured = capsys.readouterr()
        assert said in captured.out + captured.err
    assert captured.out == ""
    assert "shows offsets none of [0, 40) (log start 40, high watermark 40)" in captured.err
    assert main(["recover", str(orders.path), "--plan"]) == 2
    losses = json.loads(capsys.readouterr().out)["losses"]
    assert [(each["first_offset"], each["last_offset"]) for each in losses if each["kind"] == "missing"] == [(40, 59)]


READERS = {
    "ls": ["ls"],
    "transactions": ["transactions"],
    "offsets": ["offsets", "--at", "0ms"],
    "dump": ["dump"],
    "dump of csv": ["dump", "--format", "csv"],
    "dump with a limit": ["dump", "--limit", "1000"],
    "dump of a range": ["dump", "--offsets", "12..28"],
    "dump of batches": ["dump", "--batches"],
}


def with_a_hole(folder: Path, *, emptied: bool = False) -> LogDirectory:
    """A log of offsets [0, 40) in four segments; the third is gone, or empty."""
    root = LogDirectory(folder / "logs")
    orders = root.partition("orders-0")
    for _ in range(4):
        orders.roll()
        orders.append(10)
    gone = orders.segments()[2]
    gone.unlink()
    if emptied:
        gone.touch()
    root.high_watermarks(orders_0=40)
    return root


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("engine", ["kernels", "reference"])
@pytest.mark.parametrize("name", READERS)
def test_every_command_that_reads_past_a_lost_segment_says_it_once(
    name: str, engine: str, emptied: bool, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    code, said = said_by(capsys, *READERS[name], str(with_a_hole(tmp_path, emptied=emptied).path))
    assert code == 2
    assert said.count(" missing-offsets: ") == 1
    assert "orders-0: offsets [20, 30) are missing: 000000000000000000" in said


def with_a_hole_inside(folder: Path, tail: int = 20) -> LogDirectory:
    """A log of offsets [0, 40) in two segments; the batches [25, 30) are missing in the second one."""
    root = LogDirectory(folder / "logs")
    orders = root.partition("orders-0")
    orders.append(tail)
    orders.roll()
    whole = orders.append(20)
    batch = len(whole) // 4
    orders.segments()[1].write_bytes(whole[:batch] + whole[2 * batch :])
    root.high_watermarks(orders_0=40)
    return root


@pytest.mark.parametrize("engine", ["kernels", "reference"])
@pytest.mark.parametrize("name", READERS)
def test_every_command_that_reads_past_a_hole_inside_of_a_segment_says_it_once(
    name: str, engine: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    code, said = said_by(capsys, *READERS[name], str(with_a_hole_inside(tmp_path).path))
    assert code == 2
    assert said.count(" missing-offsets: ") == 1
    assert "orders-0: offsets [25, 30) are missing: the batch at position " in said
    assert "of 00000000000000000020.log begins at offset 30, not at 25" in said


@pytest.mark.parametrize("engine", ["kernels", "reference"])
def test_a_hole_inside_of_a_segment_that_cleaning_or_damage_explains_is_not_said(
    engine: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    root = with_a_hole_inside(tmp_path)
    for name, offset in (("cleaner", 30), ("log-start", 33)):
        root.checkpoint(name, orders_0=offset)
        for words in READERS.values():
            assert said_by(capsys, *words, str(root.path))[1].count("missing-offsets") == 0, (name, words)
        (root.path / f"{name}-offset-checkpoint").unlink()
    for offsets in ("0..20", "20..25"):  # a read that ends before the hole
        assert said_by(capsys, "dump", "--offsets", offsets, str(root.path)) == (0, ""), offsets
    segment = next(root.path.glob("orders-0/*20.log"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 3 + 30] ^= 1  # the batch after the hole
    segment.write_bytes(content)
    for words in READERS.values():
        code, said = said_by(capsys, *words, str(root.path))
        assert (code, said.count("missing-offsets"), said.count("corrupt-bytes")) == (2, 0, 1), words


def test_very_many_holes_are_counted(tmp_path: Path, capsys: Captured) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    batches = [handmade.simple_batch(offset, [(b"k", b"v")]) for offset in range(0, 404, 2)]
    orders.roll()
    orders.write(b"".join(batches))
    code, said = said_by(capsys, "ls", str(root.path))
    assert (code, said.count(" missing-offsets: ")) == (2, 101)
    assert "and 101 more of these in the same segment" in said


def said_by(capsys: Captured, *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(list(words))
    return code, capsys.readouterr().err


def test_gaps_that_are_ordinary_or_below_the_log_start_are_no_loss(tmp_path: Path, capsys: Captured) -> None:
    root = with_a_hole(tmp_path)
    for name, offset in (("cleaner", 30), ("log-start", 33)):
        root.checkpoint(name, orders_0=offset)
        for words in READERS.values():
            assert said_by(capsys, *words, str(root.path))[1].count("missing-offsets") == 0, (name, words)
        (root.path / f"{name}-offset-checkpoint").unlink()
    assert said_by(capsys, "transactions", "--config", "cleanup.policy=compact", str(root.path))[0] == 0
    # Only the cleaner leaves a batch with fewer records than offsets.
    sparse = handmade.simple_batch(40, [(b"k", b"v"), (b"l", b"w")], leader_epoch=0, last_offset_delta=4)
    root.partition("orders-0").write(sparse)
    for words in READERS.values():
        assert said_by(capsys, *words, str(root.path))[1].count("missing-offsets") == 0, words


def test_a_range_beside_a_lost_segment_is_read_without_a_word(tmp_path: Path, capsys: Captured) -> None:
    root = with_a_hole(tmp_path)
    for offsets in ("0..10", "5..15", "0..20", "30..40"):
        assert said_by(capsys, "dump", "--offsets", offsets, str(root.path)) == (0, ""), offsets


END_READERS = {
    **{name: words for name, words in READERS.items() if name != "dump of a range"},
    "ledger": ["ledger"],
} | {
    "offsets of the latest": ["offsets", "--at", "latest"],
    "verify": ["verify"],
}


@pytest.mark.parametrize(
    ("engine", "lost"),
    [("kernels", "segment"), ("reference", "bytes"), ("kernels", "half a batch"), ("reference", "all segments")],
)
@pytest.mark.parametrize("name", END_READERS)
def test_every_command_that_reads_to_the_log_end_says_that_committed_offsets_after_it_are_lost(
    name: str, engine: str, lost: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    capsys.readouterr()
    assert main([*END_READERS[name], str(without_an_end(tmp_path, lost).path)]) == 2
    captured = capsys.readouterr()
    said = captured.out if name == "verify" else captured.err
    assert said.count("error high-watermark-beyond-log-end: ") == 1
    end = 0 if lost == "all segments" else 20
    assert f"the log ends at offset {end}; committed offsets from there on are missing: {30 - end}" in said


@pytest.mark.parametrize("lost", ["segment", "all segments"])
@pytest.mark.parametrize("words", [["--plan"], ["--plan", "--salvage"]])
def test_a_recovery_counts_committed_offsets_after_the_log_end_as_lost(
    words: list[str], lost: str, tmp_path: Path, capsys: Captured
) -> None:
    capsys.readouterr()
    assert main(["recover", *words, str(without_an_end(tmp_path, lost).path)]) == 2
    [loss] = json.loads(capsys.readouterr().out)["losses"]
    assert (loss["kind"], loss["first_offset"], loss["last_offset"]) == ("missing", 0 if "all" in lost else 20, 29)


@pytest.mark.parametrize("words", [["dump", "--high-watermark", "log-end"], ["dump", "--offsets", "0..12"]])
def test_a_read_up_to_the_log_end_or_before_it_loses_nothing(
    words: list[str], tmp_path: Path, capsys: Captured
) -> None:
    assert said_by(capsys, *words, str(without_an_end(tmp_path, "segment").path)) == (0, "")


def test_the_library_reads_to_a_log_end_that_was_asked_for(tmp_path: Path) -> None:
    directory = without_an_end(tmp_path, "segment").path / "orders-0"
    asked = open_partition(directory, high_watermark="log-end")
    assert (sum(1 for _ in asked.records()), asked.end_offset()) == (20, 20)
    with pytest.raises(DamageFound, match="committed offsets from there on are missing: 10"):
        list(open_partition(directory).records())


def without_an_end(folder: Path, lost: str) -> LogDirectory:
    """A log of committed offsets [0, 30) in three segments, of which the last lost its bytes, or is gone."""
    root = LogDirectory(folder / "logs")
    orders = root.partition("orders-0")
    for _ in range(3):
        orders.roll()
        orders.append(10)
    root.high_watermarks(orders_0=30)
    last = orders.segments()[2]
    if lost == "all segments":
        for path in orders.segments():
            path.unlink()
    elif lost == "segment":
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[: 0 if lost == "bytes" else 70])
    return root


@pytest.mark.parametrize("suffix", [".bak", ".gz"])
def test_the_advice_for_a_lost_segment_is_the_command_that_brings_it_back(
    suffix: str, tmp_path: Path, capsys: Captured
) -> None:
    root = with_a_hole(tmp_path)
    lost = handmade.simple_batch(20, [(b"k", b"v")] * 10, leader_epoch=0)
    name = root.path / "orders-0" / f"{20:020d}.log"
    aside = name.with_name(name.name + suffix)
    aside.write_bytes(gzip.compress(lost) if suffix == ".gz" else lost)
    assert main(["verify", str(root.path)]) != 0
    said = capsys.readouterr().out
    [text] = [line for line in said.splitlines() if line.startswith("What to do about missing-offsets")]
    command = text.split("`")[1]
    assert "No command" not in said
    assert command in said.split("What to do")[0]
    subprocess.run(command, shell=True, check=True)
    if suffix == ".gz":
        aside.unlink()
    assert main(["verify", str(root.path)]) < 2, capsys.readouterr().out


def test_the_advice_for_another_hole_is_not_a_file_of_some_segment(tmp_path: Path, capsys: Captured) -> None:
    root = with_a_hole(tmp_path)
    other = root.partition("others-0")
    other.append(10)
    segment = other.segments()[0]
    segment.rename(segment.with_name(segment.name + ".bak"))
    assert main(["verify", str(root.path)]) != 0
    assert "missing-offsets of orders-0: No command brings them back" in capsys.readouterr().out
