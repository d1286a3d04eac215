"""A batch with a right checksum that cannot be decoded, or contradicts itself, is corrupt for every command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import logcore
from logcore.cli.main import main
from logcore.logs.model.findings import Finding
from logcore.reading import segment_reading
from tests import handmade
from tests.property.reading.broken_inside import (
    CONTRADICTING,
    START_MS,
    UNDECODABLE,
    BrokenLog,
    broken_log,
    crc_is_right,
    stored_directory,
)

SEED = 20261128
KINDS = pytest.mark.parametrize("ways", [UNDECODABLE, CONTRADICTING], ids=["undecodable", "contradicting"])
Captured = pytest.CaptureFixture[str]


def by_kernels(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read half of the logs by the kernels, however small they are."""
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0 if number % 2 else 1 << 20)


def printed(capsys: Captured, *arguments: str, code: int = 2) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main([*arguments, "--format", "jsonl"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def places(findings: list[Finding]) -> set[tuple[str, int, int]]:
    return {
        (Path(each.file or "").name, each.position or 0, each.nbytes or 0)
        for each in findings
        if each.rule == "corrupt-bytes"
    }


def check(log: BrokenLog, root: Path, capsys: Captured) -> None:
    directory = log.write(root)
    assert all(crc_is_right(each.content) for each in log.batches)
    found = [line for line in printed(capsys, "verify", str(root)) if line.get("rule") == "corrupt-bytes"]
    assert {(Path(str(line["file"])).name, line["position"], line["nbytes"]) for line in found} == log.places

    joined: list[tuple[object, object, object]] = []
    for line in printed(capsys, "ledger", str(root)):
        start = line["start_offset"]
        if joined and joined[-1][0] == line["state"]:
            start = joined.pop()[1]
        joined.append((line["state"], start, line["end_offset"]))
    assert [each for each in joined if each[0] != "trimmed"] == log.ranges

    (summary,) = printed(capsys, "transactions", str(root))
    good_end = max(each.end for each in log.good)
    last_base = log.segments[-1]
    assert summary["summary"]["log_end_offset"] == max(good_end, last_base)  # type: ignore[index]
    (line,) = printed(capsys, "ls", str(root))
    assert (line["batches"], line["records"]) == (len(log.good), sum(each.count for each in log.good))
    assert line["log_end_offset"] == max(good_end, last_base)
    answers = printed(capsys, "offsets", str(root), "--at", str(START_MS))
    assert [answer["offset"] for answer in answers] == [log.good[0].base]
    dumped = [line["offset"] for line in printed(capsys, "dump", str(root))]
    assert dumped == [offset for each in log.good for offset in range(each.base, each.end)]

    opened = logcore.open_partition(directory)
    for read in (opened.batches, opened.ledger, opened.transactions, opened.records, lambda **on: opened.validate()):
        said: list[Finding] = []
        result = read(on_finding=said.append)
        list(result) if hasattr(result, "__next__") else None
        said += getattr(result, "findings", ())
        assert places(said) == log.places

    for command, *options in (
        ("recover",),
        ("reindex",),
        ("retain", "--config", "retention.ms=-1"),
        ("compact", "--config", "cleanup.policy=compact"),
    ):
        check_copy(log, root, capsys, command, *options)
    check_salvage(log, root, capsys)


def check_copy(log: BrokenLog, root: Path, capsys: Captured, command: str, *options: str) -> None:
    """A command that keeps what a broker does not look at says so, and keeps it."""
    source, out = root / "orders-0", root.with_name(f"{root.name}-{command}")
    says_losses = command in ("recover", "reindex")
    capsys.readouterr()
    for target in (("--plan",), ("--out", str(out))):
        assert main([command, str(source), *target, *options]) == 2
        said = capsys.readouterr()
        assert f"`loglake recover {source} --out new/orders-0 --checkpoints-out new --salvage`" in said.err
        if says_losses and target[0] == "--plan":
            kept = [loss for loss in json.loads(said.out)["losses"] if loss["kind"] == "damage-kept"]
            assert {(loss["file"], loss["position"], loss["nbytes"]) for loss in kept} == log.places
        else:
            error = r"damage-kept: orders-0/(\S+)," if says_losses else r"corrupt-bytes: (\S+): \d+ bytes at"
            named = re.findall(rf"error {error} position (\d+)", said.out + said.err)
            assert sorted((file, int(at)) for file, at in named) == sorted((file, at) for file, at, _ in log.places)
    if command != "compact":
        assert stored_directory(out) == stored_directory(source)


def check_salvage(log: BrokenLog, root: Path, capsys: Captured) -> None:
    out = root.with_name(root.name + "-out") / "orders-0"
    out.parent.mkdir()
    assert main(["recover", "--salvage", str(root / "orders-0"), "--out", str(out)]) == 2
    said = capsys.readouterr()
    lost = {
        (match[1], int(match[2]))
        for match in re.finditer(r"error cut: \S*?(\d{20}\.log), position (\d+)", said.out + said.err)
    }
    assert lost == {(file, position) for file, position, _ in log.places}
    kept = {
        f"{segment:020d}.log": b"".join(each.content for each in log.good if each.segment == segment)
        for segment in log.segments
    }
    assert stored_directory(out) == {name: content for name, content in kept.items() if content}
    rules = {each.rule for each in logcore.open_partition(out).validate().findings if each.severity == "error"}
    assert rules <= {"missing-offsets"}  # at the beginning of a segment: these offsets are gone, and were named


@KINDS
@pytest.mark.parametrize("number", range(4))
def test_every_command_says_that_a_batch_broken_inside_a_right_crc_is_corrupt(
    ways: tuple[str, ...], number: int, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_kernels(number, monkeypatch)
    check(broken_log(ways, SEED, number), tmp_path / "logs", capsys)


def _control(record: bytes, **fields: int) -> bytes:
    attributes = handmade.CONTROL | handmade.TRANSACTIONAL
    return handmade.batch([record], base_offset=1, attributes=attributes, producer_id=7, producer_epoch=0, **fields)


COMMIT = handmade.record(0, b"\0\0\0\1", b"\0\0\0\0\0\0")
BROKEN_CONTROL = {
    "no key": _control(handmade.record(0, None, b"")),
    "short key": _control(handmade.record(0, b"\0\0\1", b"")),
    "version": _control(handmade.record(0, b"\xff\xff\0\1", b"")),
    "count": _control(COMMIT, count=2),
    "extra byte": _control(COMMIT + b"\0"),
    "record length": _control(b"\x0e" + COMMIT[1:]),
}


@pytest.mark.parametrize("content", BROKEN_CONTROL.values(), ids=BROKEN_CONTROL)
@pytest.mark.parametrize("form", ["text", "jsonl", "csv", "arrow"])
@pytest.mark.parametrize("engine", ["reference", "kernels"])
def test_a_control_batch_that_is_broken_inside_ends_a_read_like_a_data_batch(
    content: bytes, form: str, engine: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "kernels":
        monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    assert crc_is_right(content)
    before, after = handmade.simple_batch(0, [(b"k", b"v")]), handmade.simple_batch(2, [(b"k", b"w")])
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(before + content + after)
    assert main(["dump", str(directory), "--format", form, "-o", str(tmp_path / "out"), "--all"]) == 2
    assert f"{len(content)} bytes from position {len(before)}, where offset 1" in capsys.readouterr().err
    first = ["-o", str(tmp_path / "first"), "--offsets", "0..1"]
    assert main(["dump", str(directory), "--format", form, "--all", *first]) == 0
    said: list[Finding] = []
    opened = logcore.open_partition(directory, show_all=True)
    assert [record.offset for record in opened.records(on_finding=said.append)] == [0, 2]
    assert places(said) == {(f"{0:020d}.log", len(before), len(content))}


@pytest.mark.long
@KINDS
def test_a_thousand_logs_broken_inside_a_right_crc_are_corrupt_for_every_command(
    ways: tuple[str, ...], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        by_kernels(number, monkeypatch)
        check(broken_log(ways, SEED, number), tmp_path / str(number), capsys)
