"""What a command says after its run comes from one read of the lake."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from pipelines.command import run_lake
from pipelines.command.running import Runner
from pipelines.run.look import outcome_without_work
from pipelines.run.outcome import RunOutcome
from spark_jobs import launch
from spark_jobs.lake.delta.tables import snapshots
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark

pytestmark = pytest.mark.dagster


def test_each_table_is_read_at_most_once_after_a_run_and_not_at_all_after_one_with_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(launch, "check_engine", lambda *_: None)
    source = LogDirectory(tmp_path / "kafka-logs")
    for number in range(2):
        source.partition(f"orders-{number}").append(20)
    (segment,) = (source.path / "orders-1").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    read: Counter[str] = Counter()
    looks: list[RunOutcome | None] = []
    open_dataset, run = snapshots.open_dataset, Runner.run

    def counted(lake: str, name: str, *arguments: Any) -> Any:
        read[name] += 1
        return open_dataset(lake, name, *arguments)

    def forgotten(runner: Runner, *arguments: Any, **settings: Any) -> RunOutcome:
        outcome = run(runner, *arguments, **settings)
        read.clear()
        return outcome

    def looked(*arguments: Any) -> RunOutcome | None:
        outcome = outcome_without_work(*arguments)
        looks.append(outcome)
        read.clear()
        return outcome

    monkeypatch.setattr(snapshots, "open_dataset", counted)
    monkeypatch.setattr(Runner, "run", forgotten)
    monkeypatch.setattr(run_lake, "outcome_without_work", looked)
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(tmp_path / "lake")]) == 2
        assert read == Counter({"logs", "segments", "validations", "offset_ledger", "findings"})
        assert looks == []
        assert main(["run", str(source.path), "--lake", str(tmp_path / "lake")]) == 2
    assert [look is not None for look in looks] == [True]
    assert read == Counter()
