"""Changes of single files of a lake, one at a time, and what ``verify LAKE`` says of each.

``python -m tests.harm.changes LAKE EARLIER`` reads a line of JSON for each :class:`Change`, makes it, proves the lake
in this process, takes it back, and answers with a line. A process of its own, because damaged bytes may end one;
the process that waits for the answer then knows by which change.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.daemons import WAIT_SECONDS

SECONDS = 60
"""A proof of this small lake takes a tenth of one."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one file."""

    path: str
    """Relative to the lake."""
    kind: str
    """remove, empty, cut, flip (a bit of the byte `at`), swap (content of `other`), earlier (what this file held in the
    earlier lake), repeat (its content again as `other`, which is not there)."""
    at: int = 0
    other: str = ""

    def __str__(self) -> str:
        more = f" at {self.at}" if self.kind == "flip" else f" {self.other}" if self.other else ""
        return f"{self.kind} {self.path}{more}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a change."""

    code: int
    names_it: bool
    """Whether a finding that is a warning or an error names the file, or its table, or all."""
    same: bool
    """Whether all that can be read is as it was; looked at only where nothing was found."""
    said: str


class Prover:
    """The process that makes changes, as its user sees it; started again where a change ended it."""

    def __init__(self, lake: Path, earlier: Path, scratch: Path) -> None:
        self._lake, self._earlier, self._scratch = lake, earlier, scratch
        self._started = 0
        self._begin()

    def _begin(self) -> None:
        self._started += 1
        self._errors = (self._scratch / f"errors-{self._started}").open("wb")
        copy = Path(shutil.copytree(self._lake, self._scratch / f"lake-{self._started}"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harm.changes", str(copy), str(self._earlier)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def make(self, change: Change) -> Answer:
        """One change, proved and taken back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(change)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line:
            return Answer(**json.loads(line))
        code = self._process.wait(timeout=WAIT_SECONDS)
        errors = Path(self._errors.name).read_text(errors="replace")[-500:]
        self._begin()
        return Answer(code, names_it=False, same=False, said=f"the process ended with {code}: {errors}")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=WAIT_SECONDS)
        self._errors.close()


@contextlib.contextmanager
def changed(lake: Path, earlier: Path, change: Change) -> Iterator[None]:
    """The lake with the change in it; its size and times are kept where that can be."""
    path = lake / change.path
    status, data = path.stat(), path.read_bytes()
    times = (status.st_atime_ns, status.st_mtime_ns)
    added = None
    if change.kind == "remove":
        path.unlink()
    elif change.kind == "repeat":
        added = lake / change.other
        assert not added.exists()
        added.write_bytes(data)
    else:
        path.write_bytes(_content(lake, earlier, change, data))
        os.utime(path, ns=times)
    try:
        yield
    finally:
        if added is not None:
            added.unlink()
        else:
            path.write_bytes(data)
            os.utime(path, ns=times)


def _content(lake: Path, earlier: Path, change: Change, data: bytes) -> bytes:
    if change.kind == "empty":
        return b""
    if change.kind == "cut":
        return data[: len(data) // 2]
    if change.kind == "flip":
        flipped = data[change.at] ^ (1 << (change.at % 8))
        return data[: change.at] + bytes([flipped]) + data[change.at + 1 :]
    if change.kind == "swap":
        return (lake / change.other).read_bytes()
    assert change.kind == "earlier"
    return (earlier / change.path).read_bytes()


def verify(lake: Path) -> tuple[int, str]:
    """``loglake verify LAKE`` in this process: its exit code and what it prints."""
    from logcore.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["verify", str(lake), "--format", "jsonl"])
    return code, out.getvalue() + err.getvalue()


def names_it(said: str, change: Change) -> bool:
    """Whether a finding that is an error or a warning names what was changed: the file, or its table."""
    parts = Path(change.path).parts
    table = parts[1] if parts[0] == "tables" else None
    for line in said.splitlines():
        try:
            finding = json.loads(line)
        except ValueError:
            if parts[-1] in line or (table and re.search(rf"\b{table}\b", line)):  # an error in words
                return True
            continue
        if finding.get("severity") not in ("error", "warning"):
            continue
        if change.path == "tables.json" and finding.get("table"):
            return True  # what it remembers of a table is compared with that table
        text = json.dumps(finding)
        if change.path in text or parts[-1] in text or (table and re.search(rf"\b{table}\b", text)):
            return True
    return False


def readable(lake: Path) -> dict[str, Any]:
    """All that a reader of the lake can see: rows, schemas, settings, frontiers, statistics, archived bytes."""
    found: dict[str, Any] = {}
    for folder in sorted((lake / "tables").iterdir()):
        found[f"tables/{folder.name}"] = _table(folder)
    for path in sorted((lake / "archive").rglob("*")):
        if path.is_file():
            found[str(path.relative_to(lake))] = path.read_bytes()
    found["lake.json"] = json.loads((lake / "lake.json").read_text())
    return found


def _table(folder: Path) -> dict[str, Any]:
    import pyarrow as pa
    from deltalake import DeltaTable

    table = DeltaTable(folder)
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    metadata, protocol = table.metadata(), table.protocol()
    return {
        "version": table.version(),
        "schema": json.loads(table.schema().to_json()),
        "settings": (metadata.id, metadata.name, metadata.partition_columns, metadata.configuration),
        "protocol": (protocol.min_reader_version, protocol.min_writer_version),
        "features": (protocol.reader_features, protocol.writer_features),
        "rows": sorted(map(repr, table.to_pyarrow_table().to_pylist())),
        "files": sorted(repr({k: v for k, v in each.items() if k != "modification_time"}) for each in adds),
        "frontiers": _frontiers(folder, table),
        "statistics": {each["path"]: _statistics(folder / each["path"]) for each in adds},
    }


def _frontiers(folder: Path, table: Any) -> dict[str, int | None]:
    logs = [path.read_text() for path in sorted((folder / "_delta_log").glob("*.json"))]
    actions = [json.loads(line) for text in logs for line in text.splitlines()]
    names = {action["txn"]["appId"] for action in actions if "txn" in action}
    return {name: table.transaction_version(name) for name in sorted(names)}


def _statistics(path: Path) -> list[Any]:
    """What engines skip row groups by."""
    import pyarrow.parquet as pq

    found = []
    file = pq.read_metadata(path)
    for number in range(file.num_row_groups):
        group = file.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            stated = column.statistics
            bounds = None if stated is None else (stated.min, stated.max, stated.null_count, stated.num_values)
            found.append((group.num_rows, column.path_in_schema, repr(bounds)))
    return found


def answer(lake: Path, earlier: Path, before: dict[str, Any], change: Change) -> Answer:
    """Make a change, prove, and look whether anything readable changed where nothing was found."""
    with changed(lake, earlier, change):
        code, said = verify(lake)
        named = code >= 1 and names_it(said, change)
        same = False
        if not code:
            try:
                same = readable(lake) == before
            except BaseException as error:  # noqa: BLE001 - Rust's panics too: it cannot be read, so it is not the same
                said += f"\nreading it: {type(error).__name__}: {error}"
    return Answer(code, named, same, said[-2000:])


def serve(lake: Path, earlier: Path) -> None:
    """Answer each change on the input."""
    import signal

    answers = os.dup(1)
    os.dup2(2, 1)
    before = readable(lake)
    for line in sys.stdin:
        signal.alarm(SECONDS)
        made = answer(lake, earlier, before, Change(**json.loads(line)))
        signal.alarm(0)
        os.write(answers, (json.dumps(asdict(made)) + "\n").encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """The process that makes changes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("lake", type=Path)
    parser.add_argument("earlier", type=Path)
    options = parser.parse_args(arguments)
    serve(options.lake, options.earlier)


if __name__ == "__main__":
    main()
