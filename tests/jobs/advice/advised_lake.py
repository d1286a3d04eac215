"""A lake of a small source, and the commands that are pasted from what Loglake prints about it."""

from __future__ import annotations

import shlex
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.pasted_advice import commands_in

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}


LATER_MS = time.time_ns() // 1_000_000 + 30 * 86_400_000
"""Orphans are old then."""


Captured = pytest.CaptureFixture[str]


def said(capsys: Captured, *arguments: str | Path) -> tuple[int, str]:
    code = main([str(word) for word in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def pasted(capsys: Captured, printed: str, *wanted: str) -> int:
    """Paste the printed commands that have these words; returns the worst exit code."""
    chosen = [line for line in commands_in(printed) if all(word in line for word in wanted)]
    assert chosen, f"no command with {wanted} in:\n{printed}"
    # The only word in capitals that may be left is what the operator alone knows.
    return max(said(capsys, *shlex.split(line)[1:])[0] for line in dict.fromkeys(chosen))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def log_of_segments(root: Path) -> Partition:
    log = LogDirectory(root).partition("orders-0")
    for _ in range(3):
        log.roll()
        log.append(10)
    LogDirectory(root).high_watermarks(orders_0=30)
    return log


def corrupt(log: Path) -> None:
    flip(log / f"{0:020d}.log", 200)


def tail(log: Path) -> None:
    with (log / f"{20:020d}.log").open("ab") as file:
        file.write(b"\x17" * 100)


def zeros(log: Path) -> None:
    path = log / f"{0:020d}.log"
    data = path.read_bytes()
    end = handmade.size_of(data, 0)
    path.write_bytes(data[:end] + bytes(len(data) - end))


def spare(log: Path) -> None:
    path = log / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(100))


def wrong_index(log: Path) -> None:
    (log / f"{0:020d}.index").write_bytes(struct.pack(">ii", 9, 3))


def zeroed_index(log: Path) -> None:
    (log / f"{0:020d}.index").write_bytes(bytes(16))


def broken_index(log: Path) -> None:
    (log / f"{0:020d}.index").write_bytes(struct.pack(">iiii", 9, 300, 5, 100))


def wrong_time_index(log: Path) -> None:
    (log / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 5, 4))


def wrong_transaction_index(log: Path) -> None:
    (log / f"{0:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 3, 4, 5))


def broken_snapshot(log: Path) -> None:
    (log / f"{30:020d}.snapshot").write_bytes(b"\x00\x01 no snapshot")


OF_LOGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "corrupt-bytes": (corrupt, "recover"),
    "tail-hides-batches": (tail, "recover"),
    "zero-tail": (zeros, "recover"),
    "bytes-after-segment": (spare, "recover"),
    "offset-index-differs": (wrong_index, "reindex"),
    "index-zeroed": (zeroed_index, "reindex"),
    "corrupt-index": (broken_index, "reindex"),
    "time-index-differs": (wrong_time_index, "reindex"),
    "transaction-index-differs": (wrong_transaction_index, "reindex"),
    "broken-snapshot": (broken_snapshot, "reindex"),
}


@dataclass
class Lake:
    """A source, and the lake that `loglake run` made of it."""

    path: Path
    source: LogDirectory
    log: Partition
    capsys: Captured

    def run(self, *more: str | Path) -> tuple[int, str]:
        return said(self.capsys, "run", self.source.path, "--lake", self.path, *more)

    def verify(self) -> tuple[int, str]:
        return said(self.capsys, "verify", self.path)

    def maintain(self) -> tuple[int, str]:
        return said(self.capsys, "run", "--lake", self.path, "--maintain", "--apply", "--as-of", f"{LATER_MS}ms")

    def archived(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.path / "archive").rglob("*.log")}

    def offsets(self, table: str = "records") -> set[int]:
        return set(DeltaTable(self.path / "tables" / table).to_pyarrow_table(columns=["offset"])["offset"].to_pylist())

    def uncommitted(self) -> dict[int, str]:
        """The transaction state of each offset of the table `records_uncommitted`."""
        rows = DeltaTable(self.path / "tables" / "records_uncommitted").to_pyarrow_table()
        return dict(zip(rows["offset"].to_pylist(), rows["transaction_state"].to_pylist(), strict=True))
