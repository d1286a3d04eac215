"""Small files of decoded tables on an object store are joined as those on disk are; their rows stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, IngestConfig, JobReport, OptimizeConfig, PublishConfig, ValidateConfig
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.store import storage
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS

pytestmark = [pytest.mark.object_store, pytest.mark.long]

LATER_MS = 4_000_000_000_000
NIGHTS = 3
TABLES = (DECODED, UNDECODED)


class Nights:
    """A lake in a bucket, and its source on disk."""

    def __init__(self, lake: str, folder: Path) -> None:
        self.lake = lake
        self.source = LogDirectory(folder / "source")
        self.logs: list[Partition] = [self.source.partition(f"orders-{number}") for number in range(2)]
        self.policies = folder / "policies.yaml"
        self.policies.write_text("topics: {orders: {decode.key: string, decode.value: string}}")

    def night(self, number: int) -> None:
        """Rows of two logs, one of them not text; publish and decode."""
        for log in self.logs:
            if not log.segments():
                log.roll()
            rows = [(b"a", b"%d" % number), (b"b", b"\xff%d" % number), (b"c", None)]
            log.write(handmade.simple_batch(log.next_offset, rows, leader_epoch=0))
            log.next_offset += len(rows)
        self.source.high_watermarks(**{f"orders_{at}": log.next_offset for at, log in enumerate(self.logs)})
        stated = (self.lake, f"run-{number}", AS_OF_MS)
        launch.run(IngestConfig(self.lake, (str(self.source.path),), f"run-{number}", AS_OF_MS))
        launch.run(ValidateConfig(*stated))
        launch.run(PublishConfig(*stated))
        launch.run(DecodeConfig(*stated, read_policies(str(self.policies))))

    def optimize(self, **more: Any) -> JobReport:
        options: dict[str, Any] = {"apply": True, "policies": read_policies(str(self.policies))}
        return launch.run(OptimizeConfig(self.lake, "optimize", **{"as_of_ms": AS_OF_MS} | options | more))

    def rows(self, kind: str) -> list[str]:
        table = topic_table(self.lake, kind, "orders").open()
        assert table is not None
        return sorted(map(repr, table.to_pyarrow_table().to_pylist()))

    def live(self, kind: str) -> set[str]:
        return {file.path for file in topic_table(self.lake, kind, "orders").files()}

    def stored(self, kind: str) -> set[str]:
        """Parquet objects of a table, live or not."""
        root = topic_table(self.lake, kind, "orders").uri
        paths = [storage.relative(file.path, root) for file in storage.files_below(root)]
        return {path for path in paths if not path.startswith("_delta_log/")}


def test_files_of_each_night_become_one_for_each_log_and_go_when_they_are_old(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Nights(f"{bucket}/lake", tmp_path)
    for number in range(NIGHTS):
        lake.night(number)
    before = {kind: lake.rows(kind) for kind in TABLES}
    assert [len(before[kind]) for kind in TABLES] == [4 * NIGHTS, 2 * NIGHTS]
    old = {kind: lake.live(kind) for kind in TABLES}
    assert [len(old[kind]) for kind in TABLES] == [2 * NIGHTS, 2 * NIGHTS]
    assert len(lake.optimize(apply=False).plan.merges) >= 4
    assert {kind: lake.live(kind) for kind in TABLES} == old, "a plan changes nothing"
    lake.optimize()
    assert [len(lake.live(kind)) for kind in TABLES] == [2, 2]
    assert {kind: lake.rows(kind) for kind in TABLES} == before
    again = lake.optimize()
    assert not [each for each in again.plan.merges if "/" in each.table]
    for kind in TABLES:
        assert old[kind] < lake.stored(kind), "young files stay"
    monkeypatch.setattr(storage, "clock_ms", lambda root: LATER_MS)
    lake.optimize(as_of_ms=LATER_MS)
    for kind in TABLES:
        assert lake.stored(kind) == lake.live(kind)
    assert {kind: lake.rows(kind) for kind in TABLES} == before
    lake.night(NIGHTS)
    assert [len(lake.rows(kind)) for kind in TABLES] == [4 * (NIGHTS + 1), 2 * (NIGHTS + 1)]
    assert main.main(["verify", lake.lake]) == 0
