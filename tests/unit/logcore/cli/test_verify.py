"""`verify` says every finding in a line, and at the end where all bytes went."""

import json
import re
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.logs.rules import RULES
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]


def verified(capsys: Captured, *arguments: str, code: int = 0) -> tuple[list[dict], dict]:
    assert main(["verify", "--format", "jsonl", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    *lines, last = [json.loads(line) for line in captured.out.splitlines()]
    summary = last["summary"]
    parts = ("valid_bytes", "tail_bytes", "padding_bytes", "quarantined_bytes", "unreadable_bytes")
    assert sum(summary[part] for part in parts) == summary["bytes"]
    assert sum(summary["findings"].values()) == len(lines)
    return lines, summary


def logs_of(**verdicts: int) -> dict[str, int]:
    names = ("clean", "tail only", "warnings only", "damaged", "missing", "not checked")
    return {name: verdicts.get(name.replace(" ", "_"), 0) for name in names}


@pytest.fixture
def log(root: Path) -> Path:
    """The log directory with indexes that fit and all a broker keeps beside a log."""
    orders = root / "orders-0"
    (orders / f"{0:020d}.index").write_bytes(struct.pack(">ii", 3, len(made.FIRST)))
    (orders / f"{0:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 3, 4, 5))
    (orders / f"{5:020d}.index").touch()
    (orders / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 1_700_000_000_200, 4))
    (orders / f"{5:020d}.timeindex").touch()
    return root


def segment(log: Path, base: int) -> Path:
    return log / "orders-0" / f"{base:020d}.log"


def test_a_log_without_a_fault_is_only_counted(log: Path, capsys: Captured) -> None:
    size = len(made.SEALED) + len(made.ACTIVE)
    assert verified(capsys, str(log)) == (
        [],
        {
            "files": 2,
            "bytes": size,
            "valid_bytes": size,
            "tail_bytes": 0,
            "padding_bytes": 0,
            "quarantined_bytes": 0,
            "unreadable_bytes": 0,
            "batches": 6,
            "records": 6,
            "findings": {"info": 0, "warning": 0, "error": 0},
            "logs": logs_of(clean=1),
        },
    )


def test_a_directory_that_cannot_be_opened_counts_as_not_checked(log: Path, capsys: Captured) -> None:
    """A log in a log directory, and a log directory: the volume of each is not mounted."""
    for place in (log / "payments-0", log.parent / "disk2"):
        place.symlink_to(log.parent / "not mounted")
    lines, summary = verified(capsys, str(log), code=3)
    assert [line["rule"] for line in lines] == ["unreadable"]
    assert summary["logs"] == logs_of(clean=1, not_checked=1)
    _, summary = verified(capsys, str(log), str(log.parent / "disk2"), code=3)
    assert summary["logs"] == logs_of(clean=1, not_checked=2)


def test_a_segment_that_cannot_be_opened_counts_its_log_once(log: Path, capsys: Captured) -> None:
    segment(log, 0).unlink()
    segment(log, 0).symlink_to(log / "not mounted")
    _, summary = verified(capsys, str(log), code=3)
    assert summary["logs"] == logs_of(not_checked=1)


def test_the_advice_to_list_names_the_path(log: Path, capsys: Captured) -> None:
    assert main(["verify", "--topic", "other", str(log)]) == 3
    assert f"`loglake ls {log}` lists what there is." in capsys.readouterr().out


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("log_start", [0, 5, 7, 9, 12])
def test_a_gap_counts_from_the_log_start_on_as_in_the_ledger(
    rolls: bool, log_start: int, tmp_path: Path, capsys: Captured
) -> None:
    """Offsets [5, 9) are gone, inside a segment or before the next one; a broker never reads below the log start."""
    orders = LogDirectory(tmp_path).partition("orders-0")
    orders.append(5)
    orders.next_offset = 9
    if rolls:
        orders.roll()
    orders.append(10)
    LogDirectory(tmp_path).high_watermarks(orders_0=19)
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {log_start}\n")
    main(["ledger", "--format", "jsonl", str(tmp_path)])
    ranges = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    missing = [(each["start_offset"], each["end_offset"]) for each in ranges if each["state"] == "missing"]
    assert missing == ([(max(5, log_start), 9)] if log_start < 9 else [])
    main(["verify", "--format", "jsonl", str(tmp_path)])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]
    gaps = [each["offset"] for each in found if each["rule"] == "missing-offsets"]
    assert gaps == [start for start, _ in missing]


def test_a_finding_has_the_keys_of_the_contract_in_their_order(log: Path, capsys: Captured) -> None:
    content = handmade.flip(made.SEALED, len(made.FIRST) + 40)
    segment(log, 0).write_bytes(content)
    lines, summary = verified(capsys, str(log), code=2)
    assert list(lines[0]) == ["rule", "severity", "file", "position", "nbytes", "offset", "message"]
    assert {**lines[0], "message": ""} == {
        "rule": "corrupt-bytes",
        "severity": "error",
        "file": str(segment(log, 0)),
        "position": len(made.FIRST),
        "nbytes": len(made.ABORTED),
        "offset": 3,
        "message": "",
    }
    assert summary["quarantined_bytes"] == len(made.ABORTED)
    assert summary["findings"]["error"] == 1


@pytest.mark.parametrize(("tail", "part", "code"), [(made.UNDER_WAY, "tail_bytes", 0), (bytes(77), "padding_bytes", 0)])
def test_a_write_under_way_and_room_reserved_are_information(
    log: Path, capsys: Captured, tail: bytes, part: str, code: int
) -> None:
    segment(log, 5).write_bytes(made.ACTIVE + tail)
    lines, summary = verified(capsys, str(log), code=code)
    assert [line["severity"] for line in lines] == ["info"]
    assert summary[part] == len(tail)


def test_side_files_are_compared_with_the_log(log: Path, capsys: Captured) -> None:
    orders = log / "orders-0"
    (orders / f"{0:020d}.index").write_bytes(struct.pack(">ii", 2, len(made.FIRST)))
    (orders / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 1_700_000_000_201, 4))
    (orders / f"{0:020d}.txnindex").unlink()
    (orders / f"{5:020d}.snapshot").write_bytes(b"\0\1")
    (orders / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    made.write_checkpoint(log, "recovery-point-offset-checkpoint", orders=9)
    lines, _ = verified(capsys, str(log), code=1)
    assert {line["rule"] for line in lines} == {
        "offset-index-differs",
        "time-index-differs",
        "transaction-index-differs",
        "broken-snapshot",
        "leader-epoch-differs",
        "checkpoint-beyond-log-end",
    }


def test_a_missing_high_watermark_is_a_warning(log: Path, capsys: Captured) -> None:
    (log / "replication-offset-checkpoint").unlink()
    assert [line["rule"] for line in verified(capsys, str(log), code=1)[0]] == ["no-high-watermark"]


def test_a_gap_is_legal_where_the_topic_is_cleaned(log: Path, capsys: Captured) -> None:
    segment(log, 5).write_bytes(made.COMMITTED + made.LAST)
    assert [line["rule"] for line in verified(capsys, str(log), code=2)[0]] == ["missing-offsets"]
    verified(capsys, str(log), "--config", "cleanup.policy=compact")


def test_a_segment_that_cannot_be_read_is_reported_and_the_rest_continues(log: Path, capsys: Captured) -> None:
    segment(log, 0).unlink()
    segment(log, 0).mkdir()
    lines, summary = verified(capsys, str(log), code=3)
    assert "not-a-segment" in {line["rule"] for line in lines}
    assert summary["files"] == 1


def test_a_directory_that_is_named_like_a_segment_bounds_nothing(tmp_path: Path, capsys: Captured) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    orders.append(20)
    root.high_watermarks(orders_0=20)
    (orders.path / f"{11:020d}.log").mkdir()  # a broker lists files only (LogLoader.loadSegmentFiles)
    lines, summary = verified(capsys, str(root.path), code=3)
    assert [line["rule"] for line in lines if line["severity"] == "error"] == ["not-a-segment"]
    assert summary["valid_bytes"] == summary["bytes"]


def test_a_file_named_alone_is_checked_with_its_side_files(log: Path, capsys: Captured) -> None:
    verified(capsys, str(segment(log, 5)))
    (log / "orders-0" / f"{5:020d}.index").write_bytes(struct.pack(">ii", 1, 10_000))
    assert [line["rule"] for line in verified(capsys, str(segment(log, 5)), code=1)[0]] == ["index-past-end"]


def test_the_text_is_for_people(log: Path, capsys: Captured) -> None:
    segment(log, 0).write_bytes(handmade.flip(made.SEALED, len(made.FIRST) + 40))
    assert main(["verify", str(log)]) == 2
    first, advice, totals, verdicts, counts = capsys.readouterr().out.splitlines()
    command = f"`loglake recover {log / 'orders-0'} --out new/orders-0 --checkpoints-out new --salvage`"
    assert advice.startswith(f"What to do about corrupt-bytes of orders-0: {command} writes a copy")
    assert first.startswith(f"error corrupt-bytes: {segment(log, 0)}, position {len(made.FIRST)}, offset 3: ")
    size = len(made.SEALED) + len(made.ACTIVE)
    assert totals == (
        f"2 files, 5 batches, 5 records; {size} bytes: {size - len(made.ABORTED)} valid, "
        f"{len(made.ABORTED)} quarantined, 0 unreadable, 0 tail, 0 padding"
    )
    assert verdicts == "logs: 1 damaged"
    assert counts == "findings: 1 error, 0 warning, 0 info"


def test_each_warning_about_a_lost_or_broken_file_says_what_to_do(tmp_path: Path, capsys: Captured) -> None:
    source = LogDirectory(tmp_path / "logs", cluster=None)
    source.partition("orders-0").append(5)
    source.partition("empty-0")
    (source.path / "orders-0/partition.metadata").write_text("version: 7\ntopic_id: x")
    source.high_watermarks(orders_0=5, gone_0=5)
    assert main(["verify", str(source.path)]) == 1
    said = capsys.readouterr().out
    (source.path / "replication-offset-checkpoint").write_text("junk")
    assert main(["verify", str(source.path)]) == 1
    said += capsys.readouterr().out
    rules = ("broken-partition-file", "no-meta-properties", "no-segments", "log-directory-missing")
    for rule in (*rules, "broken-root-file", "no-high-watermark"):
        text = RULES[rule].for_logs or RULES[rule].what_to_do
        assert re.search(f"What to do about {rule}( of [a-z]+-0)?: {re.escape(text)}\n", said), rule


def test_advice_for_warnings_takes_no_place_of_advice_for_errors(tmp_path: Path, capsys: Captured) -> None:
    source = LogDirectory(tmp_path / "logs")
    for number in range(12):
        partition = source.partition(f"a-{number}")
        partition.append(5)
        (partition.path / f"{0:020d}.index").write_bytes(struct.pack(">iiii", 3, 9, 2, 8))
    names = ("b-0", "b-1", "b-2")
    for name in names:
        source.partition(name).append(15)
        file = source.path / name / f"{0:020d}.log"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    source.high_watermarks(**{f"a_{n}": 5 for n in range(12)}, **{f"b_{n}": 15 for n in range(3)})
    assert main(["verify", str(source.path)]) == 2
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("What to do")]
    logs = [re.sub("What to do about [a-z-]+ of ([ab]-[0-9]+): .*", r"\1", line) for line in lines[:-1]]
    rest = [log for log in logs if log not in names]
    assert logs == [*names, *rest]
    assert rest[0].startswith("a-")
    assert len(logs) == 10
    assert lines[-1] == "What to do about further findings: repeat the command after these."


def test_the_summary_counts_logs_by_the_worst_that_was_found(tmp_path: Path, capsys: Captured) -> None:
    batches = [handmade.simple_batch(offset, [(b"k", b"v")]) for offset in range(4)]
    good = b"".join(batches)
    contents = {
        "clean": {0: good},
        "idle": {0: b""},
        "tail": {0: good + handmade.simple_batch(4, [(b"k", b"v")])[:-1]},
        "padding": {0: good + bytes(100)},
        "warned": {0: good},
        "damaged": {0: handmade.flip(good, 65)},
        "missing": {0: good, 9: b""},
        "unread": {0: good, 4: None},
        "worst": {0: handmade.flip(good, 65), 9: b""},
    }
    for topic, segments in contents.items():
        directory = tmp_path / f"{topic}-0"
        directory.mkdir()
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        for base, content in segments.items():
            path = directory / f"{base:020d}.log"
            path.mkdir() if content is None else path.write_bytes(content)
            if content is not None:
                (directory / f"{base:020d}.index").touch()
                (directory / f"{base:020d}.timeindex").touch()
    (tmp_path / "warned-0" / f"{0:020d}.index").write_bytes(struct.pack(">ii", 2, 10_000))
    made.write_checkpoint(tmp_path, "replication-offset-checkpoint", **dict.fromkeys(contents, 0))
    _, summary = verified(capsys, str(tmp_path), code=3)
    assert summary["logs"] == logs_of(clean=2, tail_only=2, warnings_only=1, damaged=1, missing=2, not_checked=1)


def test_topics_can_be_chosen(log: Path, capsys: Captured) -> None:
    assert verified(capsys, str(log), "--topic", "ord*")[1]["files"] == 2
    lines, summary = verified(capsys, str(log), "--topic", "nothing", code=3)
    assert ([line["rule"] for line in lines], summary["files"]) == (["nothing-chosen"], 0)


def test_names_on_disk_reach_no_terminal_unescaped(tmp_path: Path, capsys: Captured) -> None:
    directory = tmp_path / "evil\x1b[31m" / "orders-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(handmade.flip(made.FIRST, 40) + made.ABORTED)
    assert main(["verify", str(directory)]) == 2
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b" in out


def test_a_line_about_a_file_names_its_path_once(tmp_path: Path, capsys: Captured) -> None:
    source = LogDirectory(tmp_path / "logs")
    source.partition("orders-0").append(5)
    (source.path / "orders-0/partition.metadata").write_text("version: 7\ntopic_id: x")
    (source.path / "replication-offset-checkpoint").write_text("junk")
    (source.path / f"orders-0/{0:020d}.log.deleted").touch()
    assert main(["verify", str(source.path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    for rule, path in (
        ("broken-root-file", source.path / "replication-offset-checkpoint"),
        ("broken-partition-file", source.path / "orders-0/partition.metadata"),
        ("no-high-watermark", source.path),
    ):
        (line,) = [line for line in lines if f"warning {rule}: " in line]
        assert line.count(str(path)) == 1
    assert any(" contains 1 file left over " in line for line in lines)


@pytest.mark.parametrize("command", ["verify", "ls", "ledger"])
def test_lost_properties_of_a_log_directory_are_one_warning(root: Path, capsys: Captured, command: str) -> None:
    (root / "log-start-offset-checkpoint").write_text("0\n0\n")
    main([command, str(root)])
    assert "no-meta-properties" not in "".join(capsys.readouterr())
    (root / "meta.properties").write_text("#\n#Mon Nov 30 04:40:00 UTC 2026\nnode.id=1\nversion=1\n")
    assert main([command, str(root)]) == 1
    said = "".join(capsys.readouterr())
    assert said.count(f"warning no-meta-properties: {root}/meta.properties states no cluster.id.") == 1
    main(["dump", str(root)])
    assert "no-meta-properties" not in capsys.readouterr().err
