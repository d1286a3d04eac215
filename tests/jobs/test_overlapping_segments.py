"""Bytes after the last offset of a closed segment: without a good batch they are left out, else they are damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import logcore
from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import RetentionConfig, TidyArchiveConfig
from spark_jobs.lake.view.alarms import damage_of
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.policies.policies_file import parse_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.jobs.test_cut_back import feeding_bytes
from tests.spark.cycle import AS_OF_MS, Lake

Harm = Callable[[Path, Path], None]
"""Changes the first of two segments."""
WARNING = "bytes-after-segment"


def add(*parts: bytes) -> Harm:
    def harm(first: Path, _: Path) -> None:
        first.write_bytes(first.read_bytes() + b"".join(parts))

    return harm


def add_part_of_next(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + second.read_bytes()[:100])


def add_damaged_next(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + handmade.flip(second.read_bytes(), 70))


HARMLESS: dict[str, Harm] = {
    "zeros": add(bytes(5000)),
    "rubbish": add(b"\x17" * 100),
    "a part of the next segment": add_part_of_next,
    "the next segment, damaged": add_damaged_next,
}


def log_of_two(source: LogDirectory) -> Partition:
    log = source.partition("a-0")
    log.append(4)
    log.append(3)
    log.roll()
    log.append(5)
    source.high_watermarks(a_0=12)
    return log


def of_lake(lake: Lake) -> tuple[object, ...]:
    """What a lake says of the log, but its history."""
    counted = ("verdict", "batches", "records", "quarantined_bytes", "padding_bytes", "file_bytes", "digest")
    validations = sorted(tuple(row[name] for name in counted) for row in lake.rows("validations"))
    return lake.published("a"), lake.ledger("a"), validations


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("mode", ["copy", "reference"])
@pytest.mark.parametrize("name", HARMLESS)
def test_bytes_after_the_last_offset_of_a_closed_segment_are_a_warning_and_leave_no_trace(
    name: str, mode: str, source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    log = log_of_two(source)
    whole = Lake(tmp_path / "whole")
    whole.turn(source.path, mode=mode)
    HARMLESS[name](*log.segments())
    report = logcore.open_partition(log.path).validate()
    said = [(each.rule, str(each.severity)) for each in report.findings if each.severity != "info"]
    assert said == [(WARNING, "warning")]
    lake.turn(source.path, mode=mode)
    assert [(row["rule"], row["severity"]) for row in lake.rows("findings")] == [(WARNING, "warning")]
    assert lake.rows("quarantine") == []
    assert of_lake(lake) == of_lake(whole)


@pytest.mark.parametrize("name", ["zeros", "the next segment, damaged"])
def test_one_run_after_a_warning_about_such_bytes_everything_is_in_order(
    name: str, source: LogDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, lake = log_of_two(source), tmp_path / "lake"
    whole = log.segments()[0].read_bytes()
    HARMLESS[name](*log.segments())
    assert said(capsys, "verify", log.path)[0] == 1
    code, printed = said(capsys, "run", source.path, "--lake", lake)
    assert code == 1
    assert "follow the last batch of the segment" in printed
    log.segments()[0].write_bytes(whole)
    for command in (("run", source.path, "--lake", lake), ("status", lake), ("verify", lake), ("verify", log.path)):
        assert said(capsys, *command)[0] == 0, command


@pytest.mark.parametrize("name", HARMLESS)
def test_such_bytes_are_left_out_where_a_segment_grew_before_it_was_closed(
    name: str, source: LogDirectory, lake: Lake
) -> None:
    log = source.partition("a-0")
    log.append(4)
    source.high_watermarks(a_0=4)
    lake.turn(source.path)
    log.append(3)
    source.high_watermarks(a_0=7)
    lake.turn(source.path)
    log.roll()
    log.append(5)
    HARMLESS[name](*log.segments())
    source.high_watermarks(a_0=12)
    lake.turn(source.path)
    lake.turn(source.path)
    assert [row["message"] for row in lake.rows("findings") if row["severity"] == "error"] == []
    assert set(lake.published("a")) == set(range(12))
    assert lake.rows("quarantine") == []
    assert set(lake.stopped().values()) == {None}


@pytest.mark.parametrize("again", ["the last batch", "the next segment"])
def test_offsets_that_two_segments_have_are_published_once(source: LogDirectory, lake: Lake, again: str) -> None:
    log = source.partition("a-0")
    log.append(4)
    last = log.append(3)
    log.roll()
    log.append(5)
    first, second = log.segments()
    if again == "the last batch":
        first.with_name(f"{4:020d}.log").write_bytes(last)
    else:
        first.write_bytes(first.read_bytes() + second.read_bytes())
    source.high_watermarks(a_0=12)
    lake.turn(source.path)
    assert sorted(lake.published("a")) == list(range(12))
    assert lake.ledger("a") == [(0, 12, "present")]


def add_last_batch_as_a_segment(first: Path, _: Path) -> None:
    data = first.read_bytes()
    first.with_name(f"{4:020d}.log").write_bytes(data[handmade.size_of(data, 0) :])


def put_between_batches(first: Path, _: Path) -> None:
    data = first.read_bytes()
    size = handmade.size_of(data, 0)
    first.write_bytes(data[:size] + b"\x17" * 100 + data[size:])


def add_next(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + second.read_bytes())


DAMAGE_WITHOUT_LOSS: dict[str, Harm] = {
    "the next segment": add_next,
    "the next segment and rubbish": lambda first, second: add(second.read_bytes(), b"\x17" * 100)(first, second),
    "the last batch as a segment": add_last_batch_as_a_segment,
    "bytes between batches": put_between_batches,
}
"""Bytes that cannot be trusted, while other batches have all offsets."""


@pytest.mark.parametrize("keeps_time", [False, True])
@pytest.mark.parametrize("name", DAMAGE_WITHOUT_LOSS)
def test_one_run_after_the_source_is_whole_damage_that_hid_no_offset_is_history(
    name: str, keeps_time: bool, source: LogDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, lake, never_harmed = log_of_two(source), Lake(tmp_path / "lake"), Lake(tmp_path / "whole")
    assert said(capsys, "run", source.path, "--lake", never_harmed.path)[0] == 0
    whole = {path: (path.read_bytes(), path.stat()) for path in log.segments()}
    DAMAGE_WITHOUT_LOSS[name](*log.segments())
    for _ in range(2):
        assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 2
    for path in log.segments():
        path.unlink()
    for path, (content, before) in whole.items():
        path.write_bytes(content)
        if keeps_time:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for command in (("run", source.path, "--lake", lake.path), ("status", lake.path), ("verify", lake.path)):
        code, printed = said(capsys, *command)
        assert code == 0, printed
    assert lake.published("a") == never_harmed.published("a")
    assert lake.ledger("a") == never_harmed.ledger("a")
    assert feeding_bytes(lake) == feeding_bytes(never_harmed)
    versions = lake.versions()
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 0
    assert lake.versions() == versions
    log.append(5)
    source.high_watermarks(a_0=17)
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 0
    assert lake.published("a") == log.rows


@pytest.mark.parametrize("name", ["the next segment", "the last batch as a segment", "bytes between batches"])
def test_such_damage_ends_where_the_bytes_lie_at_the_source(
    name: str, source: LogDirectory, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_of_two(source)
    whole = {path: path.read_bytes() for path in log.segments()}
    DAMAGE_WITHOUT_LOSS[name](*log.segments())
    lake.turn(source.path, mode="reference")
    assert damage_of(read_state(str(lake.path))) != ()
    for path in set(log.segments()) - whole.keys():
        path.unlink()
    log.segments()[0].write_bytes(whole[log.segments()[0]])
    lake.turn(source.path, mode="reference")
    assert damage_of(read_state(str(lake.path))) == ()
    assert lake.ledger("a") == [(0, 12, "present")]
    assert lake.published("a") == log.rows
    for command in ("status", "verify"):
        code, printed = said(capsys, command, lake.path)
        assert code == 0, printed


@pytest.mark.parametrize("bounds", [[0, 7], [0, 4], [0]])
def test_what_was_registered_is_found_where_the_log_is_restored_with_other_segments(
    bounds: list[int], source: LogDirectory, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    log = source.partition("a-0")
    for at, count in enumerate((4, 3, 2, 3)):
        if at in (0, 1, 3):
            log.roll()
        log.append(count)
    source.high_watermarks(a_0=12)
    run = ("run", source.path, "--lake", lake.path, "--mode", "reference")
    assert said(capsys, *run)[0] == 0
    assert [path.name[18:20] for path in log.segments()] == ["00", "04", "09"]
    content = b"".join(path.read_bytes() for path in log.segments())
    for path in log.segments():
        path.unlink()
    batches = {0: 0, 4: handmade.size_of(content)}
    batches[7] = batches[4] + handmade.size_of(content, batches[4])
    batches[9] = batches[7] + handmade.size_of(content, batches[7])
    ends = [*(batches[bound] for bound in bounds[1:]), len(content)]
    for bound, end in zip(bounds, ends, strict=True):
        (log.path / f"{bound:020}.log").write_bytes(content[batches[bound] : end])
    for command in (run, ("status", lake.path), ("verify", lake.path)):
        code, printed = said(capsys, *command)
        assert code == 0, printed
    versions = lake.versions()
    assert said(capsys, *run)[0] == 0
    assert lake.versions() == versions
    assert lake.published("a") == log.rows


@pytest.mark.parametrize("is_deleted", [False, True])
def test_damage_of_a_segment_that_retention_retired_is_history_and_the_segment_does_not_come_back(
    is_deleted: bool, source: LogDirectory, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_of_two(source)
    whole = {path: path.read_bytes() for path in log.segments()}
    DAMAGE_WITHOUT_LOSS["the next segment"](*log.segments())
    lake.turn(source.path)
    topic = "a: {cleanup.policy: delete, retention.ms: 1000, file.delete.delay.ms: 0}"
    policies = parse_policies(f"topics: {{{topic}}}", "policies")
    launch.run(RetentionConfig(str(lake.path), "retain", AS_OF_MS, policies, apply=True))
    if is_deleted:
        later = AS_OF_MS + 10**10
        launch.run(TidyArchiveConfig(str(lake.path), "tidy", later, policies, apply=True, force=True))
    before = sorted((row["segment_id"], row["retired_because"]) for row in lake.rows("segments"))
    for path, content in whole.items():
        path.write_bytes(content)
    report = lake.turn(source.path)["ingest"]
    assert report.findings == ()
    assert sorted((row["segment_id"], row["retired_because"]) for row in lake.rows("segments")) == before
    assert damage_of(read_state(str(lake.path))) == ()
    assert said(capsys, "status", lake.path)[0] == 0
    code, printed = said(capsys, "verify", lake.path)
    assert code == 0, printed


@pytest.mark.parametrize("parts", [[], [4], [2, 2]])
def test_where_the_bytes_lie_at_the_source_later_parts_of_the_file_are_registered_where_they_lie_too(
    parts: list[int], source: LogDirectory, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    log, rubbish = source.partition("a-0"), b"\x17" * 100
    for count in parts:
        log.append(count)
        source.high_watermarks(a_0=log.next_offset)
        lake.turn(source.path, mode="reference")
    log.append(1)
    log.write(rubbish)
    for count in (3, 2, 1):
        log.append(count)
        source.high_watermarks(a_0=log.next_offset)
        lake.turn(source.path, mode="reference")
    assert damage_of(read_state(str(lake.path))) != ()
    [path] = log.segments()
    path.write_bytes(path.read_bytes().replace(rubbish, b""))
    lake.turn(source.path, mode="reference")
    assert damage_of(read_state(str(lake.path))) == ()
    code, printed = said(capsys, "verify", lake.path)
    assert code == 0, printed
    log.append(2)
    source.high_watermarks(a_0=log.next_offset)
    lake.turn(source.path, mode="reference")
    assert lake.published("a") == log.rows
    assert said(capsys, "verify", lake.path)[0] == 0


def test_such_damage_stays_where_a_run_reads_another_segment_alone(
    source: LogDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, lake = log_of_two(source), Lake(tmp_path / "lake")
    DAMAGE_WITHOUT_LOSS["the next segment"](*log.segments())
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 2
    assert said(capsys, "run", log.segments()[1], "--lake", lake.path)[0] == 2
    assert [row["retired_because"] for row in lake.rows("segments")] == [None, None]


def test_two_values_of_one_offset_are_damage_until_the_source_agrees_with_what_is_published(
    source: LogDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, lake = log_of_two(source), Lake(tmp_path / "lake")
    first, second = log.segments()
    whole, other = first.read_bytes(), handmade.simple_batch(7, [(b"other", b"value")] * 5, leader_epoch=0)
    first.write_bytes(whole + other)
    log.append(1)
    log.roll()
    log.append(1)
    source.high_watermarks(a_0=log.next_offset)
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 2
    kept = second.read_bytes()
    second.unlink()
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 2
    assert lake.published("a") == log.rows
    second.write_bytes(kept)
    first.write_bytes(whole)
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 0
    assert lake.published("a") == log.rows


RESTS = ["an earlier part", "an earlier part, closed", "a later part", "the middle", "nothing"]
"""What the next segment has of the batches that the first one holds."""
FILLED = ("a later part", "the middle")
"""Here the damage lies in the gap that is filled."""


def log_with_the_only_copy(rest: str, source: LogDirectory) -> tuple[Partition, list[bytes]]:
    """The next segment has the name of offset 7, and lacks batches that the first one holds."""
    log = log_of_two(source)
    first, second = log.segments()
    batches = [handmade.simple_batch(offset, [(b"k", b"v%d" % offset)]) for offset in range(7, 12)]
    log.rows.update({offset: (b"k", b"v%d" % offset) for offset in range(7, 12)})
    first.write_bytes(first.read_bytes() + b"".join(batches))
    if rest == "an earlier part, closed":
        log.roll()
        log.append(1)
        source.high_watermarks(a_0=13)
    kept = {"a later part": batches[3:], "the middle": batches[2:3], "nothing": []}.get(rest, batches[:1])
    second.write_bytes(b"".join(kept))
    return log, batches


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("rest", RESTS)
def test_one_run_after_the_segment_is_whole_its_offsets_are_there_and_the_damage_is_history(
    rest: str, is_cut: bool, source: LogDirectory, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    log, batches = log_with_the_only_copy(rest, source)
    assert said(capsys, "run", source.path, "--lake", lake.path)[0] == 2
    first, second = log.segments()[:2]
    second.write_bytes(b"".join(batches))
    if is_cut:
        first.write_bytes(first.read_bytes()[: -sum(map(len, batches))])
    code, printed = said(capsys, "run", source.path, "--lake", lake.path)
    assert code == (0 if is_cut or rest in FILLED else 2), printed
    assert lake.published("a") == log.rows
    assert lake.ledger("a") == [(0, log.next_offset, "present")]
    assert said(capsys, "verify", lake.path)[0] == 0


@pytest.mark.parametrize("rest", RESTS)
def test_the_only_good_copy_of_offsets_is_damage_that_nothing_drops(
    rest: str, source: LogDirectory, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, batches = log_with_the_only_copy(rest, source)
    first = log.segments()[0]
    code, printed = said(capsys, "verify", log.path)
    assert code == 2
    assert WARNING not in printed
    compacted = ("compact", log.path, "--config", "cleanup.policy=compact", "--out", tmp_path / "new" / "a-0")
    assert said(capsys, *compacted)[0] == 2
    lake.turn(source.path)
    archived = b"".join(path.read_bytes() for path in lake.path.rglob("*.log"))
    assert all(batch in archived for batch in batches)
    first.write_bytes(first.read_bytes()[: -sum(map(len, batches))])
    lake.turn(source.path)
    live = [s["path"] for s in lake.rows("segments") if s["retired_ms"] is None]
    archived = b"".join((lake.path / path).read_bytes() for path in live)
    assert all(batch in archived for batch in batches)
    assert damage_of(read_state(str(lake.path))) != ()


@pytest.mark.parametrize("begins_at_first_byte", [False, True])
@pytest.mark.parametrize("rest", ["an earlier part", "nothing"])
def test_filling_a_gap_before_the_only_good_copy_of_offsets_keeps_them(
    rest: str, begins_at_first_byte: bool, source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    log, batches = log_with_the_only_copy(rest, source)
    first = log.segments()[0]
    data = first.read_bytes()
    good = data[: -sum(map(len, batches))]
    replica = tmp_path / "replica"
    shutil.copytree(log.path, replica / "a-0")
    (replica / "a-0" / first.name).write_bytes(good)
    at = 0 if begins_at_first_byte else handmade.size_of(data, 0)
    while at < len(good):
        data = handmade.flip(data, at + 70)
        at += handmade.size_of(data, at)
    first.write_bytes(data)
    lake.turn(source.path)
    findings = lake.turn(source.path, fill_from=(str(replica),))["ingest"].findings
    end = 7 if rest == "nothing" else 8
    refused = [each.finding.start_offset for each in findings if each.finding.rule == "range-not-filled"]
    if begins_at_first_byte:  # no part of the segment stays that could keep them
        assert refused == [0]
        assert lake.ledger("a")[0] == (0, 7, "corrupt")
    else:
        assert refused == []
        assert lake.ledger("a") == [(0, end, "present")]
    live = [s["path"] for s in lake.rows("segments") if s["retired_ms"] is None]
    archived = b"".join((lake.path / path).read_bytes() for path in live)
    assert all(batch in archived for batch in batches)
    assert damage_of(read_state(str(lake.path))) != ()
    if begins_at_first_byte and rest == "nothing":
        return  # the archive has no good batch, so nothing shows that the repaired source is of the same history
    first.write_bytes(good)
    log.segments()[1].write_bytes(b"".join(batches))
    lake.turn(source.path)
    lake.turn(source.path)
    assert damage_of(read_state(str(lake.path))) == ()
    assert lake.published("a") == log.rows


@pytest.mark.parametrize("rest", ["zeros", "rubbish"])
def test_a_gap_that_cleaning_explains_is_none_of_such_bytes(
    rest: str, source: LogDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A transaction is open across the gap: its records count as without the bytes."""
    log = source.partition("a-0")
    of_producer = {"producer_id": 9, "producer_epoch": 0, "attributes": handmade.TRANSACTIONAL}
    log.append(6)
    log.write(handmade.simple_batch(6, [(b"k", b"in the transaction")], base_sequence=0, leader_epoch=0, **of_producer))
    log.roll(7)
    log.write(handmade.marker(9, handmade.COMMIT, producer_id=9, leader_epoch=0))
    log.write(handmade.simple_batch(10, [(b"k", b"last")], leader_epoch=0))
    source.high_watermarks(a_0=11)
    source.checkpoint("cleaner", a_0=11)
    commands = (("ledger", log.path), ("transactions", log.path), ("dump", log.path, "--format", "jsonl"))
    before = {command[0]: main([str(word) for word in command]) for command in commands}
    printed = capsys.readouterr().out
    HARMLESS[rest](*log.segments())
    after = {command[0]: main([str(word) for word in command]) for command in commands}
    assert capsys.readouterr().out == printed
    assert {name: code for name, code in after.items() if code > max(before[name], 1)} == {}


def test_a_batch_of_a_lower_offset_after_the_last_one_is_damage(source: LogDirectory) -> None:
    """The last offset may be a flipped bit: then the offsets before it are lost."""
    log = log_of_two(source)
    first, _ = log.segments()
    data = first.read_bytes()
    first.write_bytes(data + data[: handmade.size_of(data, 0)])
    report = logcore.open_partition(log.path).validate()
    assert [each.rule for each in report.findings if each.severity == "error"] == ["corrupt-bytes"]
