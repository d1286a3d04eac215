"""A source, the lake that real runs made of it, the operator's home: made once, copied for each case."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.commands import Commands, Done

Log = tuple[str, int]
Row = tuple[bytes | None, bytes | None]
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}


@dataclass
class Place:
    """One case: everything it may change is in its own folder, except the source, unless it asked for a copy."""

    folder: Path
    commands: Commands
    source: Path
    rows: dict[Log, dict[int, Row]]
    """What `records` has to hold, by log and offset: the test's own memory of what it appended."""
    done: list[Done] = field(default_factory=list)
    moved: tuple[str, ...] = ()
    """``--move-source`` where the source is a copy."""

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def table(self, name: str) -> Path:
        return self.lake / "tables" / name

    def loglake(self, *arguments: str | Path, **environment: str) -> Done:
        """Any command, with the home of this place."""
        done = self.commands.loglake(*arguments, home=self.home, **environment)
        self.done.append(done)
        return done

    def run(self, *more: str | Path) -> Done:
        """``loglake run`` on the source."""
        return self.loglake("run", self.source, "--lake", self.lake, *self.moved, *more)

    def verify(self, *more: str | Path) -> Done:
        """``loglake verify LAKE``."""
        return self.loglake("verify", self.lake, *more)

    def read(self) -> dict[Log, dict[int, Row]]:
        """Key and value by log and offset, through `deltalake`; an offset that is there twice fails here."""
        columns = ["topic", "partition", "offset", "key", "value"]
        found: dict[Log, dict[int, Row]] = {log: {} for log in self.rows}
        for row in DeltaTable(self.table("records")).to_pyarrow_table(columns=columns).to_pylist():
            rows = found.setdefault((row["topic"], row["partition"]), {})
            assert row["offset"] not in rows, f"offset {row['offset']} of {row['topic']}-{row['partition']} twice"
            rows[row["offset"]] = (row["key"], row["value"])
        return found

    def column(self, name: str) -> dict[tuple[str, int, int], Any]:
        """One column of `records` by topic, partition and offset."""
        columns = ["topic", "partition", "offset", name]
        rows = DeltaTable(self.table("records")).to_pyarrow_table(columns=columns).to_pylist()
        return {(row["topic"], row["partition"], row["offset"]): row[name] for row in rows}

    def evaluations(self, lake: Path | None = None) -> list[dg.AssetCheckEvaluation]:
        """The newest answers to the checks of a lake (this place's) that runs of the command line have reported."""
        with dg.DagsterInstance.from_config(str(self.home / "dagster")) as instance:
            digest = hashlib.sha256(os.fsencode(os.path.realpath(lake or self.lake))).hexdigest()[:12]
            [registered] = (self.home / "registered").glob(f"*-{digest}.json")
            name = json.loads(registered.read_text())["name"]
            events = instance.all_logs("", of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        found = [event.get_dagster_event().asset_check_evaluation_data for event in events]
        return list({each.check_name: each for each in found if each.asset_key.path[0] == name}.values())

    def failed_checks(self) -> dict[str, str]:
        """Failed checks of the newest run that are errors or warnings, with what they say."""
        return {each.check_name: each.description or "" for each in self.evaluations() if not each.passed}

    def versions(self) -> dict[str, int]:
        """Version of every table."""
        tables = sorted((self.lake / "tables").iterdir())
        return {path.name: DeltaTable(path).version() for path in tables if (path / "_delta_log").is_dir()}


@dataclass
class Broker:
    """The source's partitions, and what was appended by them."""

    source: LogDirectory
    logs: dict[Log, Partition] = field(default_factory=dict)
    aborted: dict[Log, set[int]] = field(default_factory=dict)

    @classmethod
    def begin(cls, path: Path) -> Broker:
        """Two partitions of a topic and a transactional log of another; all is decided, nothing is damaged."""
        made = cls(LogDirectory(path))
        for number in range(2):
            made.logs["orders", number] = made.source.partition(f"orders-{number}")
        made.logs["payments", 0] = payments = made.source.partition("payments-0", OTHER_TOPIC_ID)
        made.logs["orders", 0].append(12)
        made.logs["orders", 0].roll()
        made.logs["orders", 0].append(8)
        made.logs["orders", 1].append(10)
        payments.append(5)
        payments.append(5, **TRANSACTIONAL, base_sequence=0)
        payments.marker(7, handmade.COMMIT)
        payments.append(3, **TRANSACTIONAL, base_sequence=5)
        made.aborted["payments", 0] = {11, 12, 13}
        payments.marker(7, handmade.ABORT)
        made.settle()
        return made

    def grow(self) -> None:
        """Every log goes on."""
        for partition in self.logs.values():
            partition.append(6)
        self.settle()

    def settle(self) -> None:
        """Everything is committed by the cluster."""
        self.source.high_watermarks(**{f"{t}_{p}": log.next_offset for (t, p), log in self.logs.items()})

    def rows(self) -> dict[Log, dict[int, Row]]:
        """What a consumer that reads committed records would see."""
        gone = self.aborted
        return {
            log: {offset: row for offset, row in partition.rows.items() if offset not in gone.get(log, set())}
            for log, partition in self.logs.items()
        }

    def copied(self, path: Path) -> Broker:
        """The same at another place; the partitions remember what was appended."""
        shutil.copytree(self.source.path, path)
        made = Broker(LogDirectory(path, cluster=None), {}, self.aborted)
        for (topic, number), log in self.logs.items():
            copy = Partition.__new__(Partition)
            copy.path, copy.topic_id, copy.next_offset = path / f"{topic}-{number}", log.topic_id, log.next_offset
            copy.rows = dict(log.rows)
            made.logs[topic, number] = copy
        return made


@dataclass
class Original:
    """The lake that cases begin with."""

    place: Place
    broker: Broker

    @classmethod
    def make(cls, folder: Path, commands: Commands) -> Original:
        """Two runs: the second finds growth, so every log has two files in `records` and every table some commits."""
        broker = Broker.begin(folder / "source")
        place = Place(folder, commands, broker.source.path, {})
        for number in range(2):
            if number:
                broker.grow()
            done = place.run()
            assert done.code == 0, done.said
        place.rows = broker.rows()
        assert place.read() == place.rows
        return cls(place, broker)

    def case(self, folder: Path, *, own_source: bool = False) -> tuple[Place, Broker]:
        """A copy; with `own_source` also of the source, which then may grow."""
        folder.mkdir(parents=True)
        for name in ("lake", "home"):
            shutil.copytree(self.place.folder / name, folder / name, symlinks=True)
        broker = self.broker.copied(folder / "source") if own_source else self.broker
        moved = ("--move-source",) if own_source else ()
        return Place(folder, self.place.commands, broker.source.path, broker.rows(), moved=moved), broker
