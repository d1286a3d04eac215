"""The command rows: `loglake dump` and `loglake verify` against Kafka's `DumpLogSegments`, as whole processes.

Both start from nothing, read the same segment and end; the time is the wall's. Ours may use every core. Kafka's JVM
gets the settings of its own `kafka-dump-log.sh`. What they write goes to a file system in memory.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

from tests.bench.corpora import Segment, home, named, segment
from tests.bench.processes import environment
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ
from tests.kafka import distribution

DUMP, DUMP_TEXT, DUMP_ZSTD, VERIFY = "dump", "dump-text", "dump-zstd", "verify"
NAMES = (DUMP, DUMP_TEXT, DUMP_ZSTD, VERIFY)
_CORPUS = {DUMP_ZSTD: "medium-zstd-16k"}
_SAMPLE_EVERY = 997
_ROOM = 4 << 30
_SCRIPT_OPTIONS = (
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_RECORD = re.compile(
    rb"\| offset: (?P<offset>\d+) CreateTime: (?P<timestamp>\d+) keySize: (?P<key_size>-?\d+) "
    rb"valueSize: (?P<value_size>-?\d+) sequence: \d+ headerKeys: \[\]"
    rb"(?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?"
)
_TEXT_RECORD = re.compile(
    rb"\S+ offset (?P<offset>\d+)  (?P<timestamp>\S+)  CreateTime  "
    rb"key (?P<key>null|0x[0-9a-f]*|\".*?\")  value (?P<value>null|0x[0-9a-f]*|\".*\")"
)


def lines(name: str, mib: int, rounds: int) -> Iterator[Line]:
    """One of the two rows.

    :raises Differ: the outputs differ in content. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    made = segment(named(_CORPUS.get(name, "small-none-16k")), mib)
    with tempfile.TemporaryDirectory(prefix="loglake-commands-", dir=in_memory()) as folder:
        if name == VERIFY:
            yield _verify(made, Path(folder), rounds)
        elif name == DUMP:
            yield _dump(made, Path(folder), rounds)
        else:
            yield _dump_text(made, Path(folder), rounds)


def in_memory() -> Path:
    """A file system in memory, where there is one with room: what is measured are the commands, not a disk."""
    shared = Path("/dev/shm")
    if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > _ROOM:
        return shared
    return home()


def _dump(made: Segment, folder: Path, rounds: int) -> Line:
    our_file, their_file = folder / "ours.jsonl", folder / "theirs.txt"
    ours = process([*_loglake(), "dump", "--format", "jsonl", "-o", str(our_file), str(made.path)], None, our_file)
    theirs = process(_dump_log_segments(made, "--print-data-log"), their_file)
    ours(), theirs()  # the warm-up; what they wrote is compared
    check_dumps(made.totals.records, our_file, their_file, _our_record, _their_record)
    return _compared(
        "loglake dump --format jsonl -o FILE",
        "DumpLogSegments --print-data-log > FILE",
        ours,
        theirs,
        made,
        rounds,
        15,
        50,
    )


def _dump_text(made: Segment, folder: Path, rounds: int) -> Line:
    our_file, their_file = folder / "ours.txt", folder / "theirs.txt"
    ours = process([*_loglake(), "dump", "-o", str(our_file), str(made.path)], None, our_file)
    theirs = process(_dump_log_segments(made, "--print-data-log"), their_file)
    ours(), theirs()
    check_dumps(made.totals.records, our_file, their_file, _our_text_record, _their_record)
    return _compared(
        f"loglake dump -o FILE ({made.corpus.name})",
        "DumpLogSegments --print-data-log > FILE",
        ours,
        theirs,
        made,
        rounds,
        8,
        15,
    )


def _verify(made: Segment, folder: Path, rounds: int) -> Line:
    report, listing, nowhere = folder / "report.jsonl", folder / "listing.txt", Path("/dev/null")
    process([*_loglake(), "verify", "--format", "jsonl", str(made.path)], report)()
    process(_dump_log_segments(made, "--deep-iteration"), listing)()
    _check_verdicts(made, report, listing)
    ours = process([*_loglake(), "verify", str(made.path)], nowhere)
    theirs = process(_dump_log_segments(made, "--deep-iteration"), nowhere)
    return _compared(
        "loglake verify", "DumpLogSegments --deep-iteration > /dev/null", ours, theirs, made, rounds, 10, 40
    )


def _compared(
    our_name: str,
    their_name: str,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    made: Segment,
    rounds: int,
    must: float,
    aim: float,
) -> Line:
    contenders = [Contender(our_name, ours), Contender(their_name, theirs)]
    outcome = take_turns(contenders, rounds=rounds, warm_ups=0, sets=2)
    return compared(
        f"`{our_name}`",
        outcome,
        our_name,
        their_name,
        raw_bytes=made.raw_bytes,
        records=made.totals.records,
        must=must,
        aim=aim,
    )


def process(command: list[str], stdout: Path | None, replaces: Path | None = None) -> Callable[[], float]:
    """A function that runs the command to its end and returns the seconds. `replaces`: a file removed before."""

    def seconds() -> float:
        for path in (stdout, replaces):
            if path is not None and path.is_file():
                path.unlink()
        with (stdout or Path("/dev/null")).open("wb") as out:
            begun = time.perf_counter()
            done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=environment(), check=False)
            taken = time.perf_counter() - begun
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()
            raise Differ(f"{Path(command[0]).name} ended with exit code {done.returncode}: {said[-300:]}")
        return taken

    return seconds


def _loglake() -> list[str]:
    return [str(Path(sys.executable).with_name("loglake"))]


def _dump_log_segments(made: Segment, option: str) -> list[str]:
    return tool(made.path, option)


def tool(segment_file: Path, option: str) -> list[str]:
    """The command `kafka-dump-log` for a segment, with the settings of its script."""
    return distribution.command(
        "org.apache.kafka.tools.DumpLogSegments",
        "--files",
        str(segment_file),
        option,
        heap="256m",
        collector="G1",
        options=_SCRIPT_OPTIONS,
    )


def check_dumps(
    records: int,
    our_file: Path,
    their_file: Path,
    ours_of: Callable[[bytes], tuple[object, ...]],
    theirs_of: Callable[[bytes], tuple[object, ...]],
) -> None:
    """Both have a line for every record, and the first and the last of each 997 are the same in both.

    :raises Differ: they do not.
    """
    count = 0
    with our_file.open("rb") as ours, their_file.open("rb") as theirs:
        their_records = (line for line in theirs if line.startswith(b"| offset: "))
        while True:
            our_lines, their_lines = list(islice(ours, _SAMPLE_EVERY)), list(islice(their_records, _SAMPLE_EVERY))
            if len(our_lines) != len(their_lines):
                raise Differ("the dumps differ in their number of records")
            if not our_lines:
                break
            count += len(our_lines)
            for at in {0, len(our_lines) - 1}:
                if ours_of(our_lines[at]) != theirs_of(their_lines[at]):
                    raise Differ(f"the dumps differ near record {count - 1}")
    if count != records:
        raise Differ(f"the dumps have {count} records, {records} were written")


def _our_record(line: bytes) -> tuple[object, ...]:
    fields = json.loads(line)
    key, value = (None if fields[name] is None else base64.b64decode(fields[name]) for name in ("key", "value"))
    if fields["headers"] or fields["timestamp_type"] != "CreateTime":
        raise Differ("a record of the dump is not of this segment")
    return fields["offset"], fields["timestamp"], key, value


def _our_text_record(line: bytes) -> tuple[object, ...]:
    match = _TEXT_RECORD.fullmatch(line.rstrip(b"\n"))
    if match is None:
        raise Differ("a line of the text dump cannot be understood")
    timestamp = datetime.fromisoformat(match["timestamp"].decode())
    key, value = (_content(match[name]) for name in ("key", "value"))
    return int(match["offset"]), round(timestamp.timestamp() * 1000), key, value


def _content(text: bytes) -> bytes | None:
    if text.startswith(b"0x"):
        return bytes.fromhex(text[2:].decode())
    content: str | None = json.loads(text)
    return None if content is None else content.encode()


def _their_record(line: bytes) -> tuple[object, ...]:
    match = _RECORD.fullmatch(line.rstrip(b"\n"))
    if match is None:
        raise Differ("a line of DumpLogSegments cannot be understood")
    for part in ("key", "value"):
        if int(match[f"{part}_size"]) != (-1 if match[part] is None else len(match[part])):
            raise Differ("a line of DumpLogSegments contradicts itself")
    return int(match["offset"]), int(match["timestamp"]), match["key"], match["value"]


def _check_verdicts(made: Segment, report: Path, listing: Path) -> None:
    """Both saw every batch and every record, and found every checksum right.

    :raises Differ: they did not.
    """
    summary = json.loads(report.read_bytes().splitlines()[-1])["summary"]
    ours = (summary["valid_bytes"], summary["batches"], summary["records"], summary["findings"]["error"])
    batches = records = 0
    with listing.open("rb") as lines_of_tool:
        for line in lines_of_tool:
            records += line.startswith(b"| offset: ")
            batches += line.startswith(b"baseOffset: ") and b"isvalid: true" in line
    theirs = (made.size, batches, records, 0)
    if not ours == theirs == (made.size, made.batches, made.totals.records, 0):
        raise Differ(f"the verdicts differ: {ours} and {theirs}")
