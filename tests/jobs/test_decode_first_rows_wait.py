"""Topics whose first rows all wait: only tables that exist are remembered, and `verify` is clean, if killed too.

Rows are packed by hand. What is expected is computed from how they were packed: the rows of a log up to the first one
of another message than the policy names.
"""

from __future__ import annotations

import base64
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deltalake import DeltaTable
from google.protobuf import descriptor_pb2

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig
from spark_jobs.decode import decode_job
from spark_jobs.following import commits as topic_commits
from spark_jobs.lake.decoded.topic_tables import REMEMBERED_FILE
from spark_jobs.lake.delta.table import Table
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.jobs.registered_schemas import named, zigzag
from tests.spark.cycle import AS_OF_MS, Lake

TOPICS = 25
LAKES = int(os.environ.get("LOGLAKE_TEST_WAITING_LAKES", "40"))
SEED = 20261128
MESSAGES = 3
Row = tuple[int, int] | None
"""Index of the message and the number in it; None: a row without a value."""


def schema() -> str:
    """`message M0 { int64 id = 1; } …`, compiled, as a registry may have it."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="proto3")
    for number in range(MESSAGES):
        message = file.message_type.add(name=f"M{number}")
        message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    return base64.b64encode(file.SerializeToString()).decode()


def packed(row: Row) -> bytes | None:
    if row is None:
        return None
    index, number = row
    indexes = b"\0" if index == 0 else zigzag(1) + zigzag(index)
    return named(1, indexes + b"\x08" + bytes([number]))


@dataclass
class Topic:
    """A topic, and its rows by partition."""

    name: str
    message: int
    stops: bool
    rows: list[list[Row]] = field(default_factory=list)

    def decoded(self) -> list[dict[str, int] | None]:
        """Values that are decoded, of all partitions."""
        found: list[dict[str, int] | None] = []
        for log in self.rows:
            for row in log[: self.frontier(log)]:
                if row is None:
                    found.append(None)
                elif row[0] == self.message:
                    found.append({"id": row[1]})
        return found

    def frontier(self, log: list[Row]) -> int:
        """The offset at which a log waits."""
        waits = (at for at, row in enumerate(log) if row is not None and row[0] != self.message)
        return next(waits, len(log)) if self.stops else len(log)

    @property
    def has_tables(self) -> bool:
        return any(self.frontier(log) for log in self.rows)

    def policy(self) -> str:
        more = "" if self.stops else "    on_schema_change: undecoded\n"
        named_message = f"    decode.value.message: M{self.message}\n" if self.message else ""
        return f"  {self.name}:\n    decode.value: protobuf\n    decode.schemas: _schemas\n{named_message}{more}"


class Scene:
    """A lake of many topics of one schema."""

    def __init__(self, folder: Path, rng: random.Random, topics: int) -> None:
        self.rng = rng
        self.source, self.lake = LogDirectory(folder / "source"), Lake(folder / "lake")
        self.marks: dict[str, int] = {}
        self.topics = [
            Topic(f"t{number}", rng.randrange(MESSAGES), rng.random() < 0.8, [[] for _ in range(rng.choice((1, 1, 2)))])
            for number in range(topics)
        ]
        self.policies = folder / "policies.yaml"
        self.policies.write_text("topics:\n" + "".join(topic.policy() for topic in self.topics))
        text = schema()
        self.write(
            "_schemas-0",
            "_schemas",
            0,
            [
                (
                    json.dumps({"keytype": "SCHEMA", "subject": f"{topic.name}-value", "version": 1, "magic": 1}),
                    json.dumps(
                        {"subject": f"{topic.name}-value", "version": 1, "id": 1, "schema": text, "deleted": False}
                        | {"schemaType": "PROTOBUF"}
                    ),
                )
                for topic in self.topics
            ],
        )

    def write(self, name: str, topic: str, start: int, rows: list[tuple[str | None, str | bytes | None]]) -> None:
        topic_id = base64.urlsafe_b64encode(topic.ljust(16).encode()[:16]).decode().rstrip("=")
        partition = self.source.partition(name, topic_id)
        if not partition.segments():
            partition.roll()
        raw = [tuple(each.encode() if isinstance(each, str) else each for each in row) for row in rows]
        partition.write(handmade.simple_batch(start, raw, base_timestamp=1_700_000_000_000, leader_epoch=0))
        self.marks[name.replace("-", "_")] = start + len(rows)

    def grow(self) -> None:
        """Append rows to some logs; most first rows are of another message."""
        for topic in self.topics:
            for partition, log in enumerate(topic.rows):
                if log and self.rng.random() < 0.5:
                    continue
                rows: list[Row] = []
                for _ in range(self.rng.randrange(1, 4)):
                    likely = topic.message if log and self.rng.random() < 0.6 else self.rng.randrange(MESSAGES)
                    rows.append(None if self.rng.random() < 0.1 else (likely, self.rng.randrange(128)))
                self.write(f"{topic.name}-{partition}", topic.name, len(log), [(None, packed(row)) for row in rows])
                log += rows
        self.source.high_watermarks(**self.marks)
        self.lake.turn(self.source.path)

    def decode(self) -> None:
        launch.run(DecodeConfig(str(self.lake.path), "decode", AS_OF_MS, read_policies(str(self.policies))))

    def there(self) -> set[str]:
        """Directories of tables that exist."""
        found = (self.lake.path / "tables").glob("*/*/_delta_log")
        return {f"{path.parent.parent.name}/{path.parent.name}" for path in found if any(path.glob("*.json"))}

    def remembered(self) -> set[str]:
        path = self.lake.path / REMEMBERED_FILE
        return set(json.loads(path.read_text())["tables"]) if path.exists() else set()


def check(folder: Path, seed: int, topics: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Decode twice, killed once at a commit or at the file that remembers; return the number of topics that waited."""
    rng = random.Random(seed)
    scene = Scene(folder, rng, topics)
    scene.grow()
    killed_at, commits = rng.randrange(2 * topics), [0]
    real = Table.commit

    def commit(self: object, *arguments: object, **options: object) -> None:
        commits[0] += 1
        if commits[0] == killed_at:
            raise KeyboardInterrupt
        real(self, *arguments, **options)  # type: ignore[arg-type]

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(Table, "commit", commit)
        if killed_at % 3 == 0:
            dying.setattr(topic_commits, "remember_tables", dies)
        try:
            scene.decode()
        except KeyboardInterrupt:
            assert scene.remembered() <= scene.there()
            # No run is recorded in this lake, so a lease that was left would count as that of a killed first run.
            (scene.lake.path / "lease.json").unlink()
            assert main.main(["verify", str(scene.lake.path)]) == 0
    for turn in range(2):
        if turn:
            scene.grow()
        scene.decode()
        expected = {f"{kind}/{topic.name}" for topic in scene.topics if topic.has_tables for kind in job_kinds()}
        assert scene.remembered() == scene.there() == expected
        for topic in scene.topics:
            if topic.has_tables:
                table = DeltaTable(str(scene.lake.path / "tables" / "decoded" / topic.name)).to_pyarrow_table()
                found = sorted(
                    zip(*(table[name].to_pylist() for name in ("partition", "offset", "value")), strict=True)
                )
                assert [value for *_, value in found] == topic.decoded(), topic
        assert main.main(["verify", str(scene.lake.path)]) == 0
    return sum(topic.frontier(log) == 0 for topic in scene.topics for log in topic.rows)


def job_kinds() -> tuple[str, str]:
    return decode_job.DECODED, decode_job.UNDECODED


def test_only_tables_that_exist_are_remembered_where_first_rows_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(tmp_path, SEED, TOPICS, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, LAKES))
def test_only_tables_that_exist_are_remembered_in_any_lake_whose_first_rows_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    assert check(tmp_path, SEED + number, TOPICS, monkeypatch)
