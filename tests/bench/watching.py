"""The row about `loglake watch`: how long after a checkpoint covers a batch its rows can be read.

A writer appends 10 MB/s to a log, as a broker does: batches, and ten times a second the high watermark checkpoint.
The reader looks for new commits of the table `records` as any Delta reader would, by the files in its log.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from tests import handmade
from tests.bench.corpora import home
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, seconds
from tests.bench.totals import Differ
from tests.bench.whole_runs import same_rows
from tests.broker_directory import LogDirectory

LATENCY = "watch-latency"
_TICK_S = 0.1
_BYTES_A_TICK = 1_000_000
_SEGMENT_BYTES = 64 << 20
_ROWS = 150
_MOST_WAIT_S = 120.0


class _Commits:
    """The commits of a table in the order of their versions: when each was seen, and the end of what it added."""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._version = 0
        self.end = 0
        self.seen: list[tuple[int, float]] = []
        """End offset and time, ascending."""

    def look(self) -> None:
        """Read the commits that came since the last look."""
        while (commit := self._log / f"{self._version:020d}.json").exists():
            now = time.monotonic()
            for line in commit.read_text().splitlines():
                added = json.loads(line).get("add")
                if added is not None:
                    self.end = max(self.end, json.loads(added["stats"])["maxValues"]["offset"] + 1)
            self._version += 1
            if not self.seen or self.seen[-1][0] < self.end:
                self.seen.append((self.end, now))


def lines(length_s: float) -> Iterator[Line]:
    """Watch a log that grows for so many seconds.

    :raises Differ: the watch ended, or the table does not hold all records.
    """
    with tempfile.TemporaryDirectory(prefix="watching-", dir=home()) as scratch:
        source, lake = Path(scratch, "source"), Path(scratch, "lake")
        directory = LogDirectory(source)
        log = directory.partition("watched-0")
        path = log.roll(0)
        rows = [(b"user-%08d" % number, (b"%016d" % (number * 2654435761 % 10**16)) * 6) for number in range(_ROWS)]
        batch = handmade.simple_batch(0, rows, base_timestamp=1_700_000_000_000, leader_epoch=0)
        next_offset, size = 0, 0

        def append() -> None:
            nonlocal next_offset, size, path
            if size >= _SEGMENT_BYTES:
                path, size = log.roll(next_offset), 0
            count = _BYTES_A_TICK // len(batch)
            content = b"".join((next_offset + at * _ROWS).to_bytes(8, "big") + batch[8:] for at in range(count))
            with path.open("ab") as stream:
                stream.write(content)
            next_offset, size = next_offset + count * _ROWS, size + len(content)
            directory.high_watermarks(watched_0=next_offset)

        append()
        command = [str(Path(sys.executable).with_name("loglake")), "watch", str(source), "--lake", str(lake)]
        process = subprocess.Popen(
            command, cwd=scratch, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        commits = _Commits(lake / "tables" / "records")
        marks: list[tuple[int, float]] = []
        try:
            _until(commits, next_offset, process)  # it has started
            begun = time.monotonic()
            for tick in range(int(length_s / _TICK_S)):
                append()
                marks.append((next_offset, time.monotonic()))
                while time.monotonic() < begun + (tick + 1) * _TICK_S:
                    commits.look()
                    time.sleep(0.01)
            _until(commits, next_offset, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_MOST_WAIT_S)
        same_rows(lake, next_offset)
    ends = [end for end, _ in commits.seen]
    waited = [commits.seen[bisect_left(ends, end)][1] - at for end, at in marks]
    rate = len(marks) * _BYTES_A_TICK / (marks[-1][1] - marks[0][1] + _TICK_S) / 1e6
    yield Line(
        f"{LATENCY}: from the checkpoint that covers a batch to its rows in `records`, 95th percentile",
        "",
        Unit.SECONDS,
        quantiles(waited, n=20)[-1],
        min(waited),
        max(waited),
        f"median {seconds(median(waited))}, {len(commits.seen)} commits",
        f"{rate:.1f} MB/s for {length_s:.0f} s",
        3,
        1,
    )


def _until(commits: _Commits, end: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + _MOST_WAIT_S
    while commits.end < end:
        if process.poll() is not None or time.monotonic() > limit:
            raise Differ(f"the watch published {commits.end} of {end} offsets")
        commits.look()
        time.sleep(0.01)
