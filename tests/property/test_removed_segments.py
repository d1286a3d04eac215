"""Offsets below the first segment: what every command says of them, over random histories of a log.

Each history is packed here, and the test remembers who took the offsets away: the broker (retention), a remote tier,
or somebody who removed files. The expected state of each offset comes from that memory.
"""

from __future__ import annotations

import json
import random
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import sampling
from tests.broker_directory import LogDirectory, Partition

KINDS = ("retention", "stale line", "remote", "by hand", "by hand, indexes left", "by hand, epochs lost")


@dataclass(frozen=True)
class History:
    """A log as it was packed. `start`: where it begins for its users; `first`: its first segment; `end`: its end."""

    kind: str
    start: int
    first: int
    end: int
    has_line: bool

    @property
    def is_lost(self) -> bool:
        return self.kind.startswith("by hand") and self.start < self.first

    def state(self, offset: int) -> str:
        if offset >= self.first:
            return "present"
        if offset < self.start or self.kind in ("retention", "stale line"):
            return "trimmed"
        return "remote" if self.kind == "remote" else "missing"

    @property
    def earliest(self) -> int:
        """As Kafka's UnifiedLog and LogLoader: a tiered log begins at the line, another not below its segments."""
        return self.start if self.kind == "remote" else self.first


def pack(folder: Path, chance: random.Random) -> History:
    """Write the log directory of one history."""
    root = LogDirectory(folder)
    orders = root.partition("orders-0")
    bases, counts = [0], []
    for _ in range(chance.randint(3, 7)):
        counts.append(chance.randint(2, 9))
        bases.append(bases[-1] + counts[-1])
    end = bases.pop()
    for number, (base, count) in enumerate(zip(bases, counts, strict=True)):
        orders.roll(base)
        orders.append(count, per_batch=chance.randint(1, 4), leader_epoch=number // 2)
        for suffix in (".index", ".timeindex"):
            (orders.path / f"{base:020d}{suffix}").touch()
    kind = chance.choice(KINDS)
    gone = chance.randint(1, len(bases) - 1)
    first = bases[gone]
    # deleteRecords moved the log start into a segment that was still there; only then a broker writes a line.
    has_line = chance.random() < 0.5 or kind in ("stale line", "remote", "by hand, epochs lost")
    start = chance.randint(0 if kind == "remote" else 1, first - 1) if has_line else 0
    for base in bases[:gone]:
        for path in orders.path.glob(f"{base:020d}.*"):
            if kind != "by hand, indexes left" or path.suffix == ".log":
                path.unlink()
    begins = first if kind in ("retention", "stale line") else start
    epochs = [(number // 2, base) for number, base in enumerate(bases) if number % 2 == 0]
    lineage = [(epoch, max(at, begins)) for epoch, at in epochs]
    orders.epochs([entry for at, entry in enumerate(lineage) if at + 1 == len(lineage) or lineage[at + 1][1] > begins])
    if kind == "by hand, epochs lost":
        (orders.path / "leader-epoch-checkpoint").unlink()
    if kind == "remote":
        sign = chance.choice(("remote-log-index-cache", "__remote_log_metadata-7"))
        (folder / sign).mkdir()
        if sign.startswith("__"):
            Partition(folder / sign).append(1)
    if kind != "retention" and has_line:
        root.checkpoint("log-start", orders_0=start)
    root.high_watermarks(orders_0=end)
    return History(kind, start, first, end, has_line)


def said(*words: str) -> tuple[int, str]:
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main(list(words))
    return code, out.getvalue()


def check(folder: Path, chance: random.Random) -> str:
    made = pack(folder / "logs", chance)
    logs, partition = str(folder / "logs"), str(folder / "logs" / "orders-0")
    code, text = said("ledger", "--topic", "orders", "--format", "jsonl", logs)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    states = {offset: row["state"] for row in rows for offset in range(row["start_offset"], row["end_offset"])}
    assert states == {offset: made.state(offset) for offset in range(made.end)}, made
    assert code == (2 if made.is_lost else 1 if made.kind == "remote" else 0), text
    code, text = said("verify", "--topic", "orders", logs)
    lost = re.findall(r"missing-offsets: .*?offsets \[(\d+), (\d+)\)", text)
    assert lost == ([(str(made.start), str(made.first))] if made.is_lost else []), text
    assert (code >= 2) == made.is_lost, text
    _, text = said("offsets", "--at", "earliest", "--topic", "orders", "--format", "jsonl", logs)
    assert json.loads(text.splitlines()[-1])["offset"] == made.earliest, made
    code, text = said("recover", "--plan", "--out", str(folder / "new"), partition)
    losses = [loss for loss in json.loads(text)["losses"] if loss["kind"] == "missing"]
    spans = [(loss["first_offset"], loss["last_offset"] + 1) for loss in losses]
    assert spans == ([(made.start, made.first)] if made.is_lost else []), made
    code, text = said("retain", "--plan", "--out", str(folder / "new"), "--as-of", "0ms", partition)
    assert ("remote.storage.enable=true" in text) == (made.kind == "remote"), text
    return made.kind


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_offsets_below_the_first_segment_have_the_state_of_what_took_them_away(tmp_path: Path, count: int) -> None:
    seen = set()
    for number in range(count):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen.add(check(folder, sampling.chance(f"removed segments {number}")))
    assert len(seen) > len(KINDS) // 2
