"""A reader at work beside the jobs, as a process of its own: ``python -m tests.crash.reader LAKE SIGNALS``.

It uses only what the docs promise about a lake, with `deltalake` and DuckDB: a version of ``segments`` is a snapshot,
and its live rows name files. A reader of a snapshot may read these files for as long as a run may take. So this reader
looks repeatedly, and keeps every new snapshot until a line arrives on its input. ``SIGNALS/looks`` counts the looks.

Its output has a line of JSON for every new snapshot. The last line is a list of sentences: what went wrong.
"""

from __future__ import annotations

import hashlib
import json
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class Snapshot:
    """live: (log, base offset, segment id) of the live rows, ascending. cleaned: how far each log was, by log. records:
    what DuckDB makes of the files that ``records`` names, by log id: rows, sum of offsets and of the keys' hashes."""

    live: tuple[tuple[str, int, str], ...]
    cleaned: dict[str, int | None]
    records: dict[str, list[int]]


class Reader:
    """The process, as the test sees it."""

    def __init__(self, lake: Path, signals: Path) -> None:
        signals.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.reader", str(lake), str(signals)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.first = _snapshot(self._process.stdout.readline())

    def end(self) -> tuple[list[Snapshot], list[str]]:
        """The snapshots that it saw, in order, and what went wrong."""
        out, _ = self._process.communicate("end\n", timeout=WAIT_SECONDS)
        assert self._process.returncode == 0
        *seen, wrong = out.splitlines()
        return [self.first, *map(_snapshot, seen)], json.loads(wrong)


def _snapshot(line: str) -> Snapshot:
    value = json.loads(line)
    live = tuple((log, base, identity) for log, base, identity in value["live"])
    return Snapshot(live, value["cleaned"], value["records"])


def snapshot(lake: Path) -> tuple[Snapshot, list[dict[str, Any]], list[str]]:
    """What the lake shows now, with its live rows and its Parquet files."""
    segments = DeltaTable(str(lake / "tables" / "segments"))
    rows = [row for row in segments.to_pyarrow_table().to_pylist() if row["retired_ms"] is None]
    parquet = DeltaTable(str(lake / "tables" / "records")).file_uris()
    logs = sorted({row["log"] for row in rows})
    seen = Snapshot(
        tuple(sorted((row["log"], row["base_offset"], row["segment_id"]) for row in rows)),
        {log: segments.transaction_version(f"cleaned/{log}") for log in logs},
        _counted(parquet),
    )
    return seen, rows, parquet


def _counted(parquet: list[str]) -> dict[str, list[int]]:
    found = duckdb.read_parquet(parquet).query(
        "records", 'SELECT log_id, count(*), sum("offset"), sum(hash(key) % 1000000) FROM records GROUP BY log_id'
    )
    return {log_id: list(map(int, numbers)) for log_id, *numbers in found.fetchall()}


def _not_whole(lake: Path, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Files of live rows that are not there, or not what the rows say."""
    for row in rows:
        try:
            content = (lake / row["path"]).read_bytes()
        except FileNotFoundError:
            yield f"{row['path']} is not there"
            continue
        if len(content) != row["size"] or hashlib.sha256(content).hexdigest() != row["digest"]:
            yield f"{row['path']} holds other bytes"


def _held(lake: Path, snapshots: list[tuple[Snapshot, list[dict[str, Any]], list[str]]]) -> Iterator[str]:
    for number, (seen, rows, parquet) in enumerate(snapshots):
        yield from (f"snapshot {number}: {each}" for each in _not_whole(lake, rows))
        try:
            if _counted(parquet) != seen.records:
                yield f"snapshot {number}: the records are others"
        except duckdb.IOException as error:
            yield f"snapshot {number}: {error}"


def main(lake: Path, signals: Path) -> None:
    """Look until there is a line on the input."""
    snapshots: list[tuple[Snapshot, list[dict[str, Any]], list[str]]] = []
    wrong: list[str] = []
    looks = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        now = snapshot(lake)
        if not snapshots or snapshots[-1][0] != now[0]:
            snapshots.append(now)
            print(json.dumps(asdict(now[0])), flush=True)
        wrong += [f"at a look: {each}" for each in _not_whole(lake, now[1])]
        looks += 1
        whole = signals / "looks.new"
        whole.write_text(str(looks))
        whole.replace(signals / "looks")
    print(json.dumps([*wrong, *_held(lake, snapshots)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
