"""One log cleaned by many tasks: the bytes of one task and of the command line, however small the pieces."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.columns.cleaning.newest_bits import NewestBits
from spark_jobs import launch
from spark_jobs.compaction import spread_cleaning, spread_steps
from spark_jobs.contracts import CompactionConfig, JobReport
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from spark_jobs.newest import hash_ranges
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Turn
from tests.in_process import InProcessExecutor
from tests.spark.archived import Keyed, append_segment, files, live
from tests.spark.cycle import AS_OF_MS, Lake
from tests.spark.event_logs import shuffled_bytes

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

SEGMENT_BYTES = 3000
POLICY = "topics: {customers: {cleanup.policy: compact, segment.bytes: %d, compaction.spread.bytes: %d}}"
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0}


def write(partition: Partition, seed: int) -> None:
    """Segments of keyed records with tombstones and missing keys; transactions that go over segments, some aborted."""
    chance = random.Random(seed)
    keys: list[bytes | None] = [None, b"", *(b"key-%d" % n for n in range(30))]
    for number in range(12):
        rows: list[Keyed] = [
            (chance.choice(keys), chance.choice([None, b"", b"value-%d" % n])) for n in range(chance.randint(0, 40))
        ]
        append_segment(partition, rows, 1_700_000_000_000 + number, per_batch=chance.randint(1, 9))
        producer = number // 2  # one transaction in two segments
        partition.append(chance.randint(1, 9), producer_id=producer, base_sequence=number * 10, **TRANSACTIONAL)
        if number % 2:
            partition.marker(producer, handmade.ABORT if chance.random() < 0.6 else handmade.COMMIT)
    append_segment(partition, [(b"key-1", b"last")], 1_700_000_001_000)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spread")
    source = LogDirectory(folder / "source")
    customers = source.partition("customers-0")
    write(customers, 5)
    source.high_watermarks(customers_0=customers.next_offset)
    Lake(folder / "lake").turn(source.path)
    return folder


@pytest.fixture(scope="module")
def whole(built: Path) -> dict[str, bytes]:
    """What one task leaves."""
    lake, report = compacted(built, "whole", spread_bytes=1 << 30)
    assert report.metrics["spread_logs"] == 0
    assert report.metrics["replaced_segments"] == 12
    return files(lake.path / "archive")


def compacted(built: Path, name: str, *, spread_bytes: int) -> tuple[Lake, JobReport]:
    lake = Lake(Path(shutil.copytree(built / "lake", built / name)))
    policies = built / f"{name}.yaml"
    policies.write_text(POLICY % (SEGMENT_BYTES, spread_bytes))
    config = CompactionConfig(str(lake.path), "compact", AS_OF_MS, read_policies(str(policies)), apply=True)
    return lake, launch.run(config)


@pytest.mark.parametrize("keys", [4_000_000, 9, 1])
def test_passes_leave_the_files_of_one_task_however_few_keys_each_may_hold(built, whole, monkeypatch, keys):
    monkeypatch.setattr(spread_cleaning, "PASS_KEYS", keys)
    monkeypatch.setattr(hash_ranges, "SAMPLED", 0)
    lake, report = compacted(built, f"keys-{keys}", spread_bytes=0)
    assert report.metrics["spread_logs"] == 1
    assert report.findings == ()
    assert files(lake.path / "archive") == whole


@pytest.mark.parametrize("rows", [4_000_000, 50])
def test_sparks_shuffle_leaves_the_files_of_one_task_however_few_rows_a_range_has(built, whole, monkeypatch, rows):
    monkeypatch.setattr(hash_ranges, "RANGE_ROWS", rows)
    monkeypatch.setattr("spark_jobs.launch.start_executor", lambda lake, *_: SparkExecutor(get_session(lake)))
    lake, report = compacted(built, f"rows-{rows}", spread_bytes=0)
    assert report.metrics["spread_logs"] == 1
    assert report.findings == ()
    assert files(lake.path / "archive") == whole


def test_an_error_in_a_step_of_sparks_shuffle_is_a_finding(built, monkeypatch):
    monkeypatch.setattr("spark_jobs.launch.start_executor", lambda lake, *_: SparkExecutor(get_session(lake)))
    lake = Lake(Path(shutil.copytree(built / "lake", built / "gone")))
    Path(lake.path, live(lake, "customers")[3]["path"]).unlink()
    policies = built / "gone.yaml"
    policies.write_text(POLICY % (SEGMENT_BYTES, 0))
    config = CompactionConfig(str(lake.path), "compact", AS_OF_MS, read_policies(str(policies)), apply=True)
    report = launch.run(config)
    assert [placed.finding.rule for placed in report.findings] == ["compaction-unproven"]
    assert "reading or writing failed" in str(report.findings[0].finding.message)


@pytest.mark.long
def test_one_core_and_two_shuffle_and_leave_the_same_files(built, whole, tmp_path):
    ranges = {"spark_jobs.newest.hash_ranges.RANGE_ROWS": 30}
    for cores in (1, 2):
        events = tmp_path / f"events-{cores}"
        events.mkdir()
        conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
        conf |= {"spark.eventLog.compress": "false"}
        lake = built / f"cores-{cores}"
        shutil.copytree(built / "lake", lake)
        policies = tmp_path / "policies.yaml"
        policies.write_text(POLICY % (SEGMENT_BYTES, 0))
        options = {"compaction": {"policies": str(policies), "apply": True}}
        turn = Turn(str(lake), "", ("compaction",), options=options, constants=ranges)
        [ended] = finish(start(tmp_path, [Step(turn)], f"local[{cores}]", conf))
        assert ended.code == 0, ended.said
        assert ended.reports[0]["metrics"]["spread_logs"] == 1
        assert files(lake / "archive") == whole
        assert max(shuffled_bytes(events)) > 10_000


def test_the_command_line_leaves_the_same_segments_and_indexes(built, whole, tmp_path):
    out = tmp_path / "customers-0"
    source = str(built / "source" / "customers-0")
    settings = ["--config", "cleanup.policy=compact", "--config", f"segment.bytes={SEGMENT_BYTES}"]
    assert main(["compact", source, "--out", str(out), "--as-of", str(AS_OF_MS), *settings]) == 0
    ours = {}
    for row in live(Lake(built / "whole"), "customers")[:-1]:
        archived = built / "whole" / row["path"]
        for path in archived.parent.glob(f"{archived.stem}.*"):
            ours[f"{row['base_offset']:020d}{path.suffix}"] = path.read_bytes()
    theirs = {path.name: path.read_bytes() for path in out.iterdir() if path.name in ours}
    assert len([name for name in ours if name.endswith(".log")]) == len(list(out.glob("*.log"))) - 1
    assert ours == theirs


def test_a_group_whose_newest_record_was_lost_is_not_swapped(built, monkeypatch):
    """The cleaner receives the claim that every record has a newer one."""
    real = spread_steps.bits_in

    def forgetful(contents: Iterable[bytes], first: int, end: int, stays_from: int) -> NewestBits:
        return real([], first, end, stays_from)

    monkeypatch.setattr(spread_steps, "bits_in", forgetful)
    monkeypatch.setattr("spark_jobs.launch.start_executor", lambda *_: InProcessExecutor())
    lake, report = compacted(built, "forgetful", spread_bytes=0)
    assert [placed.finding.rule for placed in report.findings] == ["compaction-unproven"]
    assert "is the newest of its key and is gone" in str(report.findings[0].finding.message)
    assert all(row["generation"] == 0 for row in live(lake, "customers"))


def test_without_the_kernels_one_task_cleans_whatever_the_policy_says(built, whole, monkeypatch):
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    lake, report = compacted(built, "reference", spread_bytes=0)
    assert report.metrics["spread_logs"] == 0
    assert files(lake.path / "archive") == whole
