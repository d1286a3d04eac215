"""Our verifier against Kafka's dump tool, on damaged copies of what a broker wrote: neither may see less."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.kafka.conftest import SEEDS, Produced
from tests.kafka.dump_log_segments import Dump, dump_log_segments

pytestmark = pytest.mark.kafka

COPIES = 80
"""For every seed."""
HEADER = 61
LARGEST = 100_000
BLIND = {*range(8), *range(12, 17)}
"""Bytes of a batch that its CRC does not cover and the tool does not look at: base offset, leader epoch, and the magic
byte, for any magic above 2 is read like 2 from a file. A consumer refuses it."""
NOT_OF_BYTES = {"index-missing", "no-high-watermark", "no-log-start", "missing-offsets"}
"""Rules about what lies around a segment: these copies are a segment each, without a broker's other files."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A copy and what was done to it."""

    path: Path
    what: str
    at: int
    """Byte that was flipped, or where the file now ends or once ended."""
    in_batch: int
    """The same, counted from the start of its batch."""


def batch_starts(content: bytes) -> list[int]:
    starts = []
    position = 0
    while position < len(content):
        starts.append(position)
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return starts


def damage(content: bytes, chance: random.Random) -> tuple[bytes, str, int, int]:
    starts = batch_starts(content)
    kind = chance.choice(["header", "header", "any", "any", "cut", "zeros", "garbage"])
    start = chance.choice(starts)
    if kind == "header":
        at = start + chance.randrange(HEADER)
    else:
        at = chance.randrange(len(content))
    start = max(each for each in starts if each <= at)
    if kind == "cut":
        return content[:at], kind, at, at - start
    if kind == "zeros":
        return content + bytes(chance.randrange(1, 5000)), kind, len(content), 0
    if kind == "garbage":
        return content + chance.randbytes(chance.randrange(1, 500)), kind, len(content), 0
    flipped = bytearray(content)
    flipped[at] ^= 1 << chance.randrange(8)
    return bytes(flipped), "flip", at, at - start


@pytest.fixture(scope="module")
def damaged(produced: Produced, tmp_path_factory: pytest.TempPathFactory) -> list[Damaged]:
    folder = tmp_path_factory.mktemp("damaged")
    copies = []
    for seed in SEEDS:
        chance = random.Random(int(seed))
        own = [path for path in produced.segments() if re.search(rf"-{seed}-\d+$", path.parent.name)]
        small = [path for path in own if 0 < path.stat().st_size < LARGEST]
        for _ in range(COPIES):
            source = chance.choice(small)
            content, what, at, in_batch = damage(source.read_bytes(), chance)
            directory = folder / f"seed{seed}.{len(copies)}-0"
            directory.mkdir()
            (directory / source.name).write_bytes(content)
            copies.append(Damaged(directory / source.name, what, at, in_batch))
    return copies


@pytest.fixture(scope="module")
def dumps(damaged: list[Damaged], tmp_path_factory: pytest.TempPathFactory) -> list[Dump]:
    return dump_log_segments([copy.path for copy in damaged], tmp_path_factory.mktemp("dumps"), "--deep-iteration")


@dataclass(frozen=True, slots=True)
class Verified:
    """What ``loglake verify`` said."""

    code: int
    findings: dict[str, list[dict[str, Any]]]
    """By file."""
    summary: dict[str, Any]


def verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> Verified:
    code = main(["verify", "--format", "jsonl", str(folder)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    findings: dict[str, list[dict[str, Any]]] = {}
    for line in lines[:-1]:
        if line["rule"] not in NOT_OF_BYTES:
            findings.setdefault(line["file"], []).append(line)
    return Verified(code, findings, lines[-1]["summary"])


def first_bad_position(dump: Dump) -> int | None:
    """Where the tool first says that something is wrong: a batch's start, or the end of the last good one."""
    end = 0
    for batch in re.finditer(
        r"^baseOffset: .* position: (\d+) .* size: (\d+) .* isvalid: (\w+)$", dump.text, re.MULTILINE
    ):
        if batch[3] == "false":
            return int(batch[1])
        end = int(batch[1]) + int(batch[2])
    return end if "invalid bytes at the end" in dump.text or dump.ended != "0" else None


def test_where_the_tool_first_complains_we_do(
    damaged: list[Damaged], dumps: list[Dump], capsys: pytest.CaptureFixture[str]
) -> None:
    """And where it is silent and we are not, what was flipped is no matter of checksums."""
    verified = verify(damaged[0].path.parent.parent, capsys)
    complaints = 0
    for copy, dump in zip(damaged, dumps, strict=True):
        findings = verified.findings.get(str(copy.path), [])
        ours = min((line["position"] for line in findings if line["position"] is not None), default=None)
        theirs = first_bad_position(dump)
        told = f"{copy.what} of byte {copy.at} ({copy.in_batch} of its batch): {theirs} and {ours}, {findings}"
        if theirs is not None:
            complaints += 1
            assert ours == theirs, told
        elif findings:
            assert copy.what == "flip", told
            assert copy.in_batch in BLIND, told
    assert complaints > len(damaged) / 2


def test_every_byte_of_every_copy_is_accounted_for(damaged: list[Damaged], capsys: pytest.CaptureFixture[str]) -> None:
    summary = verify(damaged[0].path.parent.parent, capsys).summary
    parts = (summary[f"{name}_bytes"] for name in ("valid", "tail", "padding", "quarantined"))
    assert sum(parts) == summary["bytes"] == sum(copy.path.stat().st_size for copy in damaged)
    assert summary["files"] == len(damaged)


def test_a_brokers_own_directory_is_clean(produced: Produced, capsys: pytest.CaptureFixture[str]) -> None:
    """Its segments, indexes, snapshots and checkpoints, by every rule there is; the internal topics too."""
    code = main(["verify", "--format", "jsonl", str(produced.log_dir)])
    *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (code, findings) == (0, [])
    # KRaft's snapshots are files of batches too; other checkpoints are text
    snapshots = produced.log_dir.glob("__cluster_metadata-0/*-*.checkpoint")
    formatted = produced.log_dir.glob("bootstrap.checkpoint")
    judged = [*produced.segments(), *snapshots, *formatted]
    assert last["summary"]["valid_bytes"] == sum(path.stat().st_size for path in judged)


@pytest.fixture(scope="module")
def damaged_indexes(produced: Produced, tmp_path_factory: pytest.TempPathFactory) -> list[Damaged]:
    """Copies of segments with their indexes, one bit of one index wrong in each."""
    folder = tmp_path_factory.mktemp("indexes")
    chance = random.Random(SEEDS[0])
    segments = [path for path in produced.segments() if not path.parent.name.startswith("__")]
    indexes = [path.with_suffix(suffix) for path in segments for suffix in (".index", ".timeindex")]
    indexes = [path for path in indexes if path.stat().st_size > 0]
    copies = []
    for number in range(COPIES):
        source = chance.choice(indexes)
        directory = folder / f"copy{number}-0"
        directory.mkdir()
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy2(source.with_suffix(suffix), directory)
        content = bytearray(source.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        path = directory / source.name
        path.write_bytes(content)
        copies.append(Damaged(path, "flip", at, at % (8 if source.suffix == ".index" else 12)))
    return copies


def test_a_wrong_index_entry_is_seen_by_both_or_is_one_that_older_brokers_wrote(
    damaged_indexes: list[Damaged], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = verify(damaged_indexes[0].path.parent.parent, capsys).findings
    dumps = dump_log_segments([copy.path for copy in damaged_indexes], tmp_path)
    seen = 0
    for copy, dump in zip(damaged_indexes, dumps, strict=True):
        theirs = dump.ended != "0" or re.search(
            r"^(Mismatches in|Found |The following indexed)", dump.text, re.MULTILINE
        )
        ours = findings.get(str(copy.path), [])
        told = f"byte {copy.at} of {copy.path.name}: {dump.ended} {dump.text[-400:]} and {ours}"
        if ours:
            assert theirs, told
            seen += 1
        elif theirs:
            first, last = entry_may_say(copy)
            assert first <= entry_says(copy) <= last, told
    assert seen > len(damaged_indexes) / 2


def entry_says(copy: Damaged) -> int:
    """The offset of the entry that was changed."""
    content = copy.path.read_bytes()
    size, field = (8, 0) if copy.path.suffix == ".index" else (12, 8)
    at = copy.at - copy.at % size + field
    return int(copy.path.stem) + int.from_bytes(content[at : at + 4], "big")


def entry_may_say(copy: Damaged) -> tuple[int, int]:
    """Offsets that brokers of some age write into an entry like the one that was changed: of an offset index, any of
    the batches appended in one call; of a time index, the record's own in a batch that is not compressed."""
    content, log = copy.path.read_bytes(), copy.path.with_suffix(".log").read_bytes()
    bounds = list(batch_bounds(log))
    if copy.path.suffix == ".index":
        at = copy.at - copy.at % 8
        position = int.from_bytes(content[at + 4 : at + 8], "big")
        following = content[at + 12 : at + 16]
        stop = int.from_bytes(following, "big") if following else len(log)
        within = [(first, last) for start, first, last, _ in bounds if position <= start < stop]
        assert within
        assert position in [start for start, *_ in bounds]
        return within[0][0], within[-1][1]
    at = copy.at - copy.at % 12
    timestamp = int.from_bytes(content[at : at + 8], "big", signed=True)
    of_it = [(first, last) for _, first, last, greatest in bounds if greatest == timestamp]
    assert of_it
    return of_it[0][0], of_it[-1][1]


def batch_bounds(log: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Of every batch: position, base offset, last offset, greatest timestamp."""
    for start in batch_starts(log):
        base = int.from_bytes(log[start : start + 8], "big")
        last = base + int.from_bytes(log[start + 23 : start + 27], "big")
        yield start, base, last, int.from_bytes(log[start + 35 : start + 43], "big", signed=True)
