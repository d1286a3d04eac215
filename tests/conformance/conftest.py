"""The corpus, unpacked once for all tests of this folder, and what our code and real tools say of it, read once."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import oracles, ours
from tests.conformance.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Corpus:
    """The unpacked cases. Shared by all tests: never write into it."""

    folder: Path
    _unpacked: dict[str, Path] = field(default_factory=dict)
    _logs: dict[Snapshot, dict[str, ours.Log]] = field(default_factory=dict)
    _listings: dict[Snapshot, dict[tuple[str, str], oracles.Listed]] = field(default_factory=dict)

    def case(self, snapshot: Snapshot) -> Path:
        """Folder of the snapshot's case: `case.json`, `oracle`, a folder for each snapshot."""
        if snapshot.case not in self._unpacked:
            with tarfile.open(snapshot.archive) as archive:
                archive.extractall(self.folder, filter="data")
            self._unpacked[snapshot.case] = self.folder / snapshot.case
        return self._unpacked[snapshot.case]

    def directory(self, snapshot: Snapshot) -> Path:
        """The snapshot's log directory."""
        return self.case(snapshot) / snapshot.name

    def oracle(self, snapshot: Snapshot, name: str = "") -> Path:
        """A file of `oracle`, or for modern cases one of the snapshot's own folder in it."""
        own = snapshot.name if snapshot.era == "modern" else ""
        return self.case(snapshot) / "oracle" / own / name

    def facts(self, snapshot: Snapshot) -> dict[str, Any]:
        """The case's own description."""
        return json.loads((self.case(snapshot) / "case.json").read_text())

    def logs(self, snapshot: Snapshot) -> dict[str, ours.Log]:
        """What our code reads of the snapshot, by partition directory."""
        if snapshot not in self._logs:
            self._logs[snapshot] = ours.logs(self.directory(snapshot))
        return self._logs[snapshot]

    def consumed(self, snapshot: Snapshot, isolation_level: str) -> dict[str, list[oracles.Consumed]]:
        """What a real consumer received, by topic partition."""
        return oracles.consumed(self.case(snapshot) / "oracle" / snapshot.consumer_file(isolation_level))

    def summary(self, snapshot: Snapshot, isolation_level: str) -> dict[str, dict[str, int]]:
        """Beginning, end and number of records of each log, as a modern consumer saw them."""
        return json.loads(self.oracle(snapshot, f"{isolation_level}.summary.json").read_text())["partitions"]

    def listing(self, snapshot: Snapshot) -> dict[tuple[str, str], oracles.Listed]:
        """What Kafka's FileRecords listed, by (directory, file)."""
        if snapshot not in self._listings:
            path = self.case(snapshot) / "oracle" / f"batches-{snapshot.name}.jsonl.gz"
            self._listings[snapshot] = oracles.listing(path)
        return self._listings[snapshot]

    def dumps(self, snapshot: Snapshot, suffix: str) -> dict[tuple[str, str], str]:
        """The dump tool's text on every file of a suffix (`.log`), by (partition directory, file)."""
        assert snapshot.dump is not None
        folder = self.case(snapshot) / "oracle" / snapshot.dump
        found = {}
        for path in sorted(folder.rglob(f"*{suffix}.txt")):
            with path.open(encoding="utf-8", newline="") as stream:  # values hold carriage returns
                found[str(path.parent.relative_to(folder)), path.name.removesuffix(".txt")] = stream.read()
        return found


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """All cases, each unpacked on first use."""
    return Corpus(tmp_path_factory.mktemp("corpus"))
