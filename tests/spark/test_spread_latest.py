"""`latest` of a large log by many tasks: the rows of one task, whatever the engine and the number of ranges."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, JobReport, LatestConfig
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from spark_jobs.latest import latest_task
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Turn
from tests.in_process import InProcessExecutor
from tests.jobs.test_state import replay
from tests.spark.archived import Keyed, append_segment
from tests.spark.cycle import AS_OF_MS, Lake
from tests.spark.event_logs import shuffled_bytes

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

POLICY = "topics: {orders: {latest: %s, %scompaction.spread.bytes: %d}}"
ONE_TASK, MANY_TASKS = 1 << 30, 0
TRANSACTIONAL: dict[str, Any] = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0}
EXECUTORS = {"local": lambda *_: InProcessExecutor(), "spark": lambda lake, *_: SparkExecutor(get_session(lake))}


def write(partition: Partition, chance: random.Random, turn: int) -> None:
    """Segments of records with known keys, new ones and none, with tombstones; and transactions, some aborted."""
    keys: list[bytes | None] = [None, b"", *(b"%d-%d" % (at, n) for at in (0, turn) for n in range(60))]
    for number in range(4):
        rows: list[Keyed] = [
            (chance.choice(keys), chance.choice([None, b"", b"value-%d" % n])) for n in range(chance.randint(20, 60))
        ]
        append_segment(partition, rows, 1_700_000_000_000 + number, per_batch=chance.randint(1, 9))
        first = partition.next_offset
        partition.append(5, producer_id=10 * turn + number, base_sequence=0, **TRANSACTIONAL)
        partition.marker(10 * turn + number, handmade.ABORT if number % 2 else handmade.COMMIT)
        if number % 2:
            partition.rows = {offset: row for offset, row in partition.rows.items() if offset < first}


@pytest.fixture(scope="module", params=["raw", "decoded"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_task, "FILE_BYTES", 1)  # the table has many files
        yield Built(tmp_path_factory.mktemp("latest"), "" if request.param == "raw" else "decode.value: string, ")


class Built:
    """A lake with new rows for a table that has rows, and what one task makes of them."""

    def __init__(self, folder: Path, decode: str) -> None:
        self.folder, self.decode = folder, decode
        source, lake, chance = LogDirectory(folder / "source"), Lake(folder / "lake"), random.Random(3)
        self.logs = [source.partition(f"orders-{number}") for number in range(2)]
        for turn in range(2):
            for log in self.logs:
                write(log, chance, turn)
            source.high_watermarks(**{f"orders_{at}": log.next_offset for at, log in enumerate(self.logs)})
            lake.turn(source.path)
            policies = folder / "decode.yaml"
            policies.write_text(POLICY % ("delete", decode, ONE_TASK))
            if decode:
                run(lake.path, DecodeConfig, policies)
            if not turn:
                run(lake.path, LatestConfig, policies)
        self.rows_read: dict[str, object] = {}
        self.expected = {
            replaces: rows(self.made("one-task", ONE_TASK, replaces=replaces)) for replaces in (False, True)
        }

    def made(self, name: str, spread_bytes: int, *, replaces: bool) -> Path:
        """A lake whose table is brought up to its records, or computed again under another policy."""
        name = f"{name}-{replaces}"
        lake, policies = Path(shutil.copytree(self.folder / "lake", self.folder / name)), self.folder / f"{name}.yaml"
        policies.write_text(POLICY % ("soft-delete" if replaces else "delete", self.decode, spread_bytes))
        report = run(lake, LatestConfig, policies, replace=("orders",) if replaces else ())
        assert report.metrics["waiting"] == 0, report.plan
        self.rows_read[name] = report.metrics["rows_read"]
        return lake


def run(lake: Path, config: Any, policies: Path, **options: Any) -> JobReport[Any]:
    return launch.run(config(str(lake), "run", AS_OF_MS, read_policies(str(policies)), **options))


def table(lake: Path) -> DeltaTable:
    return DeltaTable(str(lake / "tables" / "latest" / "orders"))


def rows(lake: Path) -> list[dict[str, Any]]:
    found = table(lake).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def files(lake: Path) -> list[list[dict[str, Any]]]:
    """The rows of each file."""
    found = [pq.ParquetFile(path).read().to_pylist() for path in table(lake).file_uris()]
    return sorted(found, key=lambda each: (each[0]["partition"], each[0]["offset"]))


@pytest.mark.parametrize("replaces", [False, True])
def test_one_task_makes_what_a_replay_has(built: Built, replaces: bool) -> None:
    key, value = ("key_bytes", "value_bytes") if built.decode else ("key", "value")
    for number, log in enumerate(built.logs):
        of_log = [row for row in built.expected[replaces] if row["partition"] == number]
        shown = {row[key] or row["key"]: (row["offset"], row[value] or row["value"]) for row in of_log}
        assert len(shown) == len(of_log) > 60
        kept = replay(log.rows, 1 << 40, keeps_tombstones=replaces)
        assert {at: offset for at, (offset, _) in shown.items()} == {at: offset for at, (offset, _) in kept.items()}


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_many_tasks_make_the_rows_of_one_task_and_the_same_files_for_any_number_of_ranges(
    built: Built, monkeypatch: pytest.MonkeyPatch, engine: str, replaces: bool
) -> None:
    monkeypatch.setattr("spark_jobs.launch.start_executor", EXECUTORS[engine])
    monkeypatch.setattr(latest_task, "PART_BYTES", 2_000)
    made = []
    for ranges in (1, 2, 7):
        monkeypatch.setattr(latest_task, "range_count", lambda *_, ranges=ranges: ranges)
        lake = built.made(f"{engine}-{ranges}", MANY_TASKS, replaces=replaces)
        assert rows(lake) == built.expected[replaces]
        assert built.rows_read[lake.name] == built.rows_read[f"one-task-{replaces}"]
        made.append(files(lake))
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_files_that_are_gone_keep_the_table_as_it_was(
    built: Built, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr("spark_jobs.launch.start_executor", EXECUTORS[engine])
    lake = Path(shutil.copytree(built.folder / "lake", built.folder / f"gone-{engine}"))
    before = rows(lake)
    gone = [Path(path) for path in DeltaTable(str(lake / "tables" / "records")).file_uris()]
    for path in gone:
        path.unlink()
    policies = built.folder / "gone.yaml"
    policies.write_text(POLICY % ("delete", built.decode, MANY_TASKS))
    report = run(lake, LatestConfig, policies)
    assert any(path.name in str(report.plan.topics[0].waits) for path in gone)
    assert rows(lake) == before


@pytest.mark.long
def test_keys_of_a_large_log_go_through_sparks_shuffle(built: Built, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    lake = Path(shutil.copytree(built.folder / "lake", tmp_path / "lake"))
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICY % ("delete", built.decode, MANY_TASKS))
    smaller = {"spark_jobs.newest.hash_ranges.RANGE_ROWS": 30, "spark_jobs.latest.latest_task.PART_BYTES": 2_000}
    turn = Turn(str(lake), "", ("latest",), options={"latest": {"policies": str(policies)}}, constants=smaller)
    [ended] = finish(start(tmp_path, [Step(turn)], "local[2]", conf))
    assert ended.code == 0, ended.said
    assert max(shuffled_bytes(events, "latest")) > 4_000
    assert rows(lake) == built.expected[False]
