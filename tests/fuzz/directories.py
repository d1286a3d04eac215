"""Damaged log directories through `verify`, `recover --salvage` and `ledger`: none hangs, none takes much memory.

    python -m tests.fuzz.directories --cases 100000 --seed 20261123

The commands run in a process of their own, one case after another, and another process watches: processor time, real
time and resident memory of each command. (The address space is no measure: room for a whole file is reserved, and only
what is read is used.) A command that is killed, that ends with an exit code of no meaning or with an unexpected error,
whose bytes or ranges do not add up, that leaves damage in what it salvaged, or that changes its source, is a line that
names seed and number; `--first N --cases 1` makes that case again. Exits 1 if there is one.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import queue
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.directory_mutants import NAME, make

PROCESSOR_SECONDS = 10.0
REAL_SECONDS = 180.0
"""For what waits and works not: a machine may be busy."""
RESIDENT_BYTES = 768 << 20
"""Of the whole process, of which the interpreter and the compiled kernels are some 200 MiB."""
_LOOK_SECONDS = 0.2
_MEMORY = "/dev/shm"
_DAMAGE = frozenset({"corrupt-bytes", "tail-hides-batches", "zero-tail", "torn-tail", "zero-padding"})
_OF_CONTENT = re.compile(r"\((?!CRC|OFFSET_ORDER|MAGIC|LENGTH\))[A-Z_]+\)|: a record's offset ")
"""A batch whose checksum is right and whose records are none is kept as it is: whoever wrote it wrote it so."""


@dataclass(slots=True)
class Results:
    """What a campaign found. `wrong` is empty, or something is."""

    seed: int
    cases: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    """Commands with their exit codes."""
    slowest_seconds: float = 0.0
    """Processor time of one command, at most."""
    largest_bytes: int = 0
    """Resident memory, at most, as far as it was seen."""
    wrong: list[str] = field(default_factory=list)


def run(seed: int, count: int, *, first: int = 0, keep: int = 50) -> Results:
    """Try so many cases from number `first` on; ends early when so many are wrong."""
    results = Results(seed)
    following, end = first, first + count
    while following < end and len(results.wrong) < keep:
        following = _Watched(seed, following, end, results).until_it_ends()
    results.cases = min(following, end) - first
    return results


class _Watched:
    """A process that works on cases, and its watch."""

    def __init__(self, seed: int, first: int, end: int, results: Results) -> None:
        arguments = ["--worker", "--seed", str(seed), "--first", str(first), "--cases", str(end - first)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.directories", *arguments], stdout=subprocess.PIPE, text=True
        )
        self._results, self._number, self._what, self._end = results, first, "start", end
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._since = time.monotonic(), 0.0

    def until_it_ends(self) -> int:
        """Watch; the number of the next case."""
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        try:
            while True:
                try:
                    line = self._lines.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    if (why := self._exceeded()) is not None:
                        return self._given_up(why)
                    continue
                if line is None:
                    code = self._process.wait()
                    return self._end if code == 0 else self._given_up(f"the process ended with {code}")
                self._take(json.loads(line))
        finally:
            self._process.kill()
            self._process.wait()
            reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _take(self, line: dict[str, object]) -> None:
        if "begin" in line:
            self._number, self._what = int(str(line["number"])), str(line["begin"])
            self._since = time.monotonic(), self._processor_seconds()
            return
        results = self._results
        results.codes[f"{self._what} {line['code']}"] += 1
        results.slowest_seconds = max(results.slowest_seconds, float(str(line["seconds"])))
        results.largest_bytes = max(results.largest_bytes, int(str(line["bytes"])))
        if line["wrong"]:
            self._say(str(line["wrong"]))

    def _exceeded(self) -> str | None:
        began, worked = self._since
        if self._processor_seconds() - worked > PROCESSOR_SECONDS:
            return f"more than {PROCESSOR_SECONDS:.0f} s of processor time"
        if time.monotonic() - began > REAL_SECONDS:
            return f"more than {REAL_SECONDS:.0f} s"
        resident = _kib(self._process.pid, "VmRSS") << 10
        return f"{resident >> 20} MiB of memory" if resident > RESIDENT_BYTES else None

    def _given_up(self, why: str) -> int:
        self._say(why)
        return self._number + 1

    def _say(self, why: str) -> None:
        self._results.wrong.append(f"seed {self._results.seed}, case {self._number}, {self._what}: {why}")

    def _processor_seconds(self) -> float:
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kib(pid: int | str, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


# -- the process that works


def work(seed: int, first: int, count: int) -> None:
    """Run the commands on cases, and report each in lines of JSON."""
    out = os.fdopen(os.dup(1), "w")
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for number in range(first, first + count):
            root = Path(folder, "logs")
            ways = make(seed, number, root)
            Path(folder, "salvaged").mkdir(exist_ok=True)
            os.environ["LOGLAKE_ENGINE"] = "kernels" if number % 2 else "reference"
            for name in ("verify", "recover", "ledger"):
                _report(out, begin=name, number=number)
                _report(out, **_outcome_of(name, root, Path(folder, "salvaged", NAME), ways))
            shutil.rmtree(root)


def _report(out: io.TextIOWrapper, **line: object) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def _outcome_of(name: str, root: Path, new: Path, ways: list[str]) -> dict[str, object]:
    from logcore.cli.main import main

    arguments = {
        "verify": ["verify", "--format", "jsonl", str(root)],
        "recover": ["recover", "--salvage", str(root / NAME), "--out", str(new)],
        "ledger": ["ledger", "--format", "jsonl", str(root)],
    }[name]
    before, worked = _seen(root), _worked()
    said, errors = io.StringIO(), io.StringIO()
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    with redirect_stdout(said), redirect_stderr(errors):
        code = main(arguments)
    seconds, peak = _worked() - worked, _kib("self", "VmHWM") << 10
    wrong = list(_complaints(name, code, said.getvalue(), errors.getvalue()))
    if _seen(root) != before:
        wrong.append("the source was changed")
    if seconds > PROCESSOR_SECONDS:
        wrong.append(f"{seconds:.1f} s of processor time")
    if peak > RESIDENT_BYTES:
        wrong.append(f"{peak >> 20} MiB of memory")
    if name == "recover" and code < 3:
        wrong += _damage_in(new)
    shutil.rmtree(new, ignore_errors=True)
    return {"code": code, "seconds": seconds, "bytes": peak, "wrong": "; ".join(wrong) and f"{wrong} after {ways}"}


def _damage_in(new: Path) -> list[str]:
    """What `verify` finds damaged in a log that was salvaged; nothing may be."""
    from logcore.cli.main import main

    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        main(["verify", "--format", "jsonl", str(new)])
    lines = [json.loads(line) for line in said.getvalue().splitlines() if line.startswith("{")]
    if not lines or not lines[-1]["summary"]["files"]:
        return ["nothing was salvaged"]
    messages = [str(line["message"]) for line in lines if line.get("rule") in _DAMAGE]
    return [f"salvaged, and still: {message}" for message in messages if not _OF_CONTENT.search(message)]


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _seen(root: Path) -> list[tuple[str, int, int, int]]:
    found = []
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            seen = os.lstat(os.path.join(folder, name))
            found.append((os.path.join(folder, name), seen.st_size, seen.st_mtime_ns, seen.st_mode))
    return found


def _complaints(name: str, code: int, said: str, errors: str) -> Iterator[str]:
    if code not in (0, 1, 2, 3):
        yield f"exit code {code}"
    if "mistake in Loglake" in errors or "Traceback" in errors or "cannot be written" in errors:
        yield errors.strip()[-500:]
    if not said or name == "recover":
        return
    lines = [json.loads(line) for line in said.splitlines()]
    if name == "verify":
        summary = lines[-1].get("summary", {})
        parts = ("valid_bytes", "quarantined_bytes", "unreadable_bytes", "tail_bytes", "padding_bytes")
        if summary and sum(summary[part] for part in parts) != summary["bytes"]:
            yield f"bytes do not add up: {summary}"
        return
    ends: dict[tuple[str, int], int] = {}
    for line in lines:
        log = line["topic"], line["partition"]
        if line["start_offset"] != ends.get(log, 0) or line["end_offset"] <= line["start_offset"]:
            yield f"ranges do not tile the log: {line} behind {ends.get(log)}"
            return
        ends[log] = line["end_offset"]


def main(arguments: list[str] | None = None) -> int:
    """Run, and say what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.directories", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        work(options.seed, options.first, options.cases)
        return 0
    results = run(options.seed, options.cases, first=options.first)
    print(*results.wrong, sep="\n")
    print(
        f"{results.cases} directories of seed {results.seed}: {len(results.wrong)} wrong; at most "
        f"{results.slowest_seconds:.1f} s and {results.largest_bytes >> 20} MiB; {dict(sorted(results.codes.items()))}"
    )
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
