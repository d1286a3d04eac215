"""Log directories packed by hand, and both engines to read them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from logcore import Finding
from logcore.columns.engines import Engine
from tests import handmade
from tests.broker_directory import LogDirectory, Partition

T = 1_700_000_000_000
"""Epoch milliseconds of offset 0 of `orders-0`."""


@dataclass
class Findings:
    """Takes findings as `on_finding`."""

    all: list[Finding] = field(default_factory=list)

    def __call__(self, finding: Finding) -> None:
        self.all.append(finding)

    @property
    def rules(self) -> list[str]:
        return [finding.rule for finding in self.all]


@pytest.fixture
def findings() -> Findings:
    return Findings()


@pytest.fixture(params=list(Engine))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Each engine in turn."""
    monkeypatch.setenv("LOGLAKE_ENGINE", request.param)
    chosen: Engine = request.param
    return chosen


def segment(directory: Path, base_offset: int, content: bytes | Sequence[bytes]) -> Path:
    """Write a segment file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(content if isinstance(content, bytes) else b"".join(content))
    return path


@pytest.fixture
def logdir(tmp_path: Path) -> LogDirectory:
    """A log directory without any log."""
    return LogDirectory(tmp_path / "logs")


@pytest.fixture
def orders(logdir: LogDirectory) -> Partition:
    """`orders-0`: 60 records in three segments of four batches each, all below the high watermark. The record at each
    offset is 100 ms later than the one before."""
    partition = logdir.partition("orders-0")
    for _ in range(3):
        partition.roll()
        for _ in range(4):
            base = partition.next_offset
            rows = [(b"k%d" % (offset % 7), b"v%d" % offset) for offset in range(base, base + 5)]
            records = [
                handmade.record(delta, key, value, timestamp_delta=100 * delta)
                for delta, (key, value) in enumerate(rows)
            ]
            first = T + 100 * base
            partition.write(handmade.batch(records, base_offset=base, base_timestamp=first, max_timestamp=first + 400))
            partition.rows.update(enumerate(rows, base))
            partition.next_offset += 5
    logdir.high_watermarks(orders_0=60)
    return partition
