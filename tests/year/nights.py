"""The nights of a simulated year: what happens, what the operator's commands say, and what the lake must hold then."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable

from logcore.cli import main
from tests.in_process import without_spark
from tests.year.source import DAY_MS, RECORDS, Row, Source

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
HOURS = 3
"""Runs of a day, besides that of the night. A real schedule has 24; the others would find nothing new, as most do."""
POLICIES = """topics:
  "events*":
    cleanup.policy: delete
    retention.ms: 864000000
    file.delete.delay.ms: 60000
    records.retention.ms: 1728000000
  "users*":
    cleanup.policy: compact
    min.cleanable.dirty.ratio: 0
    latest: delete
"""
EXPIRES_MS = 20 * DAY_MS
"""Age at which rows of events leave the tables."""


class Disagreed(AssertionError):
    """The lake does not hold what the model says."""


@dataclass(frozen=True, slots=True)
class Night:
    """What a night left. Sizes are in bytes, times in seconds."""

    number: int
    events: tuple[str, ...]
    rows: int
    live_files: int
    log_bytes: int
    state_bytes: int
    seconds: float
    idle_seconds: float | None
    """Of a run without new data, as a process; measured on some nights."""
    idle_bytes: int | None
    """Its largest resident memory."""


class Year:
    """A source, its lake, and the model.

    Args:
        folder: Where both go.
        seed: Of everything random.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._folder = folder
        self.lake = folder / "lake"
        self.source = Source(folder / "source", self._random)
        self._withdrawn: set[tuple[str, int]] = set()
        self._floors: dict[str, int] = {}
        """First offset that has not expired, by log."""
        self._now_ms = START_MS
        self._seen: dict[str, dict[int, Row]] = {}
        self._policies = folder / "policies.yaml"
        self._policies.write_text(POLICIES)

    def nights(self, count: int, idle_every: int = 10) -> Iterator[Night]:
        """Live through so many nights.

        Raises:
            Disagreed: After a night the lake does not hold what the model says; the text names seed-independent facts.
        """
        with without_spark():
            for number in range(1, count + 1):
                yield self._night(number, number % idle_every == 0)

    def _night(self, number: int, is_measured: bool) -> Night:
        events = list(self._events(number))
        begin_ms = START_MS + number * DAY_MS
        self.source.day(begin_ms)
        for hour in range(HOURS):
            self._now_ms = begin_ms + (hour + 1) * DAY_MS // (HOURS + 2)
            self.source.hour(self._now_ms, RECORDS // HOURS)
            self._run("run", allowed=(0, 1))
        if "kill" in events:
            self._killed_run()
        if "clock steps back" in events:
            self._now_ms -= 2 * 3_600_000
        begun = time.perf_counter()
        self._run("run", "--maintain", "--apply", allowed=(0, 1))
        seconds = time.perf_counter() - begun
        self.check(number)
        if number % 10 == 0:
            self._run("verify", allowed=(0, 1))
        idle = self._idle() if is_measured else (None, None)
        tables = [path.parent for path in self.lake.glob("tables/**/_delta_log")]
        files = {path: DeltaTable(str(path)) for path in tables}
        state = [path for path in tables if path.name != "records"]
        return Night(
            number,
            tuple(events),
            sum(at >= self._floors.get(name, 0) for name, rows in self._seen.items() for at in rows),
            sum(len(table.file_uris()) for table in files.values()),
            _size(*(path / "_delta_log" for path in tables)),
            _size(*state),
            seconds,
            *idle,
        )

    def _events(self, number: int) -> Iterator[str]:
        """What happens today, besides records; each is undone or part of the model before the night ends."""
        chance = self._random.random
        if chance() < 0.05:
            yield f"new topic {self.source.create()}"
        if chance() < 0.04 and (topic := self.source.delete()):
            yield f"topic {topic} deleted"
        if number > 1 and chance() < 0.06:
            DeltaTable(str(self._table("records"))).optimize.compact()
            yield "another engine's OPTIMIZE"
        if number > 1 and chance() < 0.04:
            yield from self._foreign_delete()
        if number > 1 and chance() < 0.05:
            yield from self._vanished_source()
        if number > 1 and chance() < 0.06:
            yield "kill"
        if chance() < 0.03:
            yield "clock steps back"
        if chance() < 0.02:
            self._policies.write_text(POLICIES.replace("864000000", self._random.choice(("432000000", "864000000"))))
            yield "a policy changes"

    def _foreign_delete(self) -> Iterator[str]:
        """Another engine deletes rows on purpose, and the operator withdraws them."""
        name = self._random.choice(list(self._seen))
        topic, _, partition = name.rpartition("-")
        gone = {offset for log, offset in self._withdrawn if log == name}
        offsets = sorted({at for at in self._seen[name] if at >= self._floors.get(name, 0)} - gone)
        if len(offsets) < 10:
            return
        first = offsets[self._random.randrange(len(offsets) - 3)]
        table = DeltaTable(str(self._table("records")))
        table.delete(f"topic = '{topic}' AND partition = {partition} AND offset >= {first} AND offset < {first + 3}")
        self._withdrawn |= {(name, offset) for offset in range(first, first + 3)}
        chosen = ("--topic", topic, "--partition", partition, "--offsets", f"{first}..{first + 3}")
        self._command("withdraw", str(self.lake), *chosen, "--apply", allowed=(0,))
        yield f"withdrawn {name} [{first}, {first + 3})"

    def _vanished_source(self) -> Iterator[str]:
        """The disk is not there for one run."""
        aside = self.source.path.with_name("unmounted")
        self.source.path.rename(aside)
        self._run("run", allowed=(1, 3))
        aside.rename(self.source.path)
        yield "the source vanished for a run"

    def _killed_run(self) -> None:
        command = [sys.executable, "-m", "logcore.cli.main", *self._arguments("run", "--maintain", "--apply")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(self._random.uniform(0.3, 3.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _idle(self) -> tuple[float, int]:
        """Seconds and memory of a run without new data, as a user starts it."""
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "logcore.cli.main", *self._arguments("run")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            raise Disagreed(f"a run without new data ended with {process.returncode}")
        return time.perf_counter() - begun, usage.ru_maxrss * 1024

    def _arguments(self, command: str, *options: str) -> list[str]:
        if command == "verify":
            return ["verify", str(self.lake)]
        as_of = datetime.fromtimestamp(self._now_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
        policies = ("--policies", str(self._policies))
        return [command, str(self.source.path), "--lake", str(self.lake), *policies, "--as-of", as_of, *options]

    def _run(self, command: str, *options: str, allowed: tuple[int, ...]) -> None:
        self._command(*self._arguments(command, *options), allowed=allowed)

    def _command(self, *arguments: str, allowed: tuple[int, ...]) -> None:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main.main(list(arguments))
        if code not in allowed:
            said = f"{out.getvalue()[-1500:]}\n{err.getvalue()[-1500:]}"
            raise Disagreed(f"`loglake {' '.join(arguments)}` ended with {code}:\n{said}")

    def _table(self, name: str) -> Path:
        return self.lake / "tables" / name

    def check(self, number: int) -> None:
        """Every record that was ever written is a row once, unless it was withdrawn or has expired.

        Raises:
            Disagreed: It is not so.
        """
        for name, each in (*self.source.partitions.items(), *self.source.gone.items()):
            self._seen[name] = each.rows
            if name.startswith("events"):
                floor = each.expired_below(self._now_ms - EXPIRES_MS)
                self._floors[name] = max(floor, self._floors.get(name, 0))
        columns = ["topic", "partition", "offset", "key", "value"]
        found: dict[str, dict[int, Row]] = {name: {} for name in self._seen}
        for row in _rows(self._table("records"), columns):
            log = f"{row['topic']}-{row['partition']}"
            if row["offset"] in found[log]:
                raise Disagreed(f"night {number}: {log} has offset {row['offset']} twice")
            found[log][row["offset"]] = (row["key"], row["value"])
        for name, rows in self._seen.items():
            floor = self._floors.get(name, 0)
            wanted = {at: row for at, row in rows.items() if at >= floor and (name, at) not in self._withdrawn}
            if found[name] != wanted:
                lost, added = sorted(set(wanted) - set(found[name])), sorted(set(found[name]) - set(wanted))
                raise Disagreed(f"night {number}: {name} lacks {lost[:5]} and has {added[:5]} that it should not have")


def _rows(table: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    for batch in DeltaTable(str(table)).to_pyarrow_dataset().to_batches(columns=columns):
        yield from batch.to_pylist()


def _size(*folders: Path) -> int:
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
