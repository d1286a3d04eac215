"""A lake whose remote storage is an empty mount point: nothing of it counts as lost, and the local part goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig
from tests.jobs.tiered_lake import MODES
from tests.spark.cycle import AS_OF_MS, Lake
from tests.tiered_log import TieredLog

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TieredLog:
    """Offsets 0 to 19 in two remote segments, 20 to 29 local."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    log = TieredLog(tmp_path)
    log.append(5, 5, 5, 5, 5, 5)
    log.copy(0, 10)
    log.copy(10, 20)
    log.write(20)
    return log


def unmount(log: TieredLog, away: str = "away") -> None:
    log.remote.rename(log.folder / away)
    log.remote.mkdir()


def mount(log: TieredLog, away: str = "away") -> None:
    log.remote.rmdir()
    (log.folder / away).rename(log.remote)


def run(log: TieredLog, lake: Lake, *more: str) -> int:
    return main(["run", str(log.logs), "--lake", str(lake.path), "--remote", str(log.remote), *more])


def values(lake: Lake) -> list[tuple[int, str]]:
    rows = [row for row in lake.rows("records") if row["topic"] == "orders"]
    return sorted((row["offset"], row["value"].decode()) for row in rows)


def findings(lake: Lake) -> set[str]:
    return {row["rule"] for row in lake.rows("findings")}


@pytest.mark.parametrize("mode", MODES)
def test_a_first_run_takes_the_local_part_and_a_later_one_the_rest(
    log: TieredLog, lake: Lake, mode: str, capsys: Captured
) -> None:
    unmount(log)
    assert run(log, lake, "--mode", mode) == 3
    assert "remote-storage-empty" in capsys.readouterr().err
    assert values(lake) == log.expected(20)
    assert lake.ledger("orders") == [(0, 20, "remote"), (20, 30, "present")]
    assert "remote-segment-missing" not in findings(lake)
    mount(log)
    assert run(log, lake, "--mode", mode) == 0
    assert values(lake) == log.expected(0)
    assert {state for _, _, state in lake.ledger("orders")} == {"present"}


@pytest.mark.parametrize("mode", MODES)
def test_a_run_without_the_mount_keeps_what_the_lake_has_and_takes_what_is_new(
    log: TieredLog, lake: Lake, mode: str, capsys: Captured
) -> None:
    assert run(log, lake, "--mode", mode) == 0
    log.append(5)
    log.write(20)
    unmount(log)
    assert run(log, lake, "--mode", mode) == 3
    assert "remote-storage-empty" in capsys.readouterr().err
    assert values(lake) == log.expected(0)
    assert lake.ledger("orders") == [(0, 35, "present")]
    assert [row["stopped_because"] for row in lake.rows("logs") if row["topic"] == "orders"] == [None]


def test_verify_of_a_lake_says_that_it_could_not_check(log: TieredLog, lake: Lake, capsys: Captured) -> None:
    run(log, lake, "--mode", "reference")
    unmount(log)
    (log.remote / "lost+found").mkdir()
    capsys.readouterr()
    assert main(["verify", str(lake.path), "--format", "jsonl"]) == 1
    *said, _ = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [each["rule"] for each in said] == ["archive-not-checked"] * 2
    assert f"the remote storage {log.remote} has no object of a segment. Mount it" in said[0]["message"]


def test_a_segment_that_is_gone_from_a_storage_with_others_is_damage(
    log: TieredLog, lake: Lake, capsys: Captured
) -> None:
    run(log, lake, "--mode", "reference")
    log.copied[0].log.unlink()
    capsys.readouterr()
    assert main(["verify", str(lake.path), "--format", "jsonl"]) == 2
    *said, _ = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [each["rule"] for each in said] == ["archive-file-missing"]


def test_a_lost_segment_at_its_source_is_put_back_there_and_not_by_repair(
    log: TieredLog, lake: Lake, capsys: Captured
) -> None:
    run(log, lake, "--mode", "reference")
    gone = log.copied[0].log
    shutil.copy2(gone, log.folder / "copy")
    gone.unlink()
    capsys.readouterr()
    assert main(["verify", str(lake.path)]) == 2
    said = capsys.readouterr().out
    assert "Put it back at its source with the same bytes and modification time (`cp -p`)" in said
    assert "repair" not in said
    main(["repair", str(lake.path), "--archive", "--from", str(log.folder), "--apply"])
    assert "4 segments are registered at their source and were not looked at" in capsys.readouterr().out
    shutil.copy2(log.folder / "copy", gone)  # `cp -p`
    assert main(["verify", str(lake.path)]) == 0


def test_segments_that_were_registered_and_not_read_wait_for_the_mount(log: TieredLog, lake: Lake) -> None:
    """The run that registered them was killed."""
    paths, remote = (str(log.logs),), (str(log.remote),)
    config = IngestConfig(str(lake.path), paths, "first", AS_OF_MS, remote=remote, mode="reference")
    launch.run(config)
    unmount(log)
    assert run(log, lake, "--mode", "reference") == 3
    assert not {row["state"] for row in lake.rows("offset_ledger")} & {"missing", "corrupt", "unknown"}
    mount(log)
    assert run(log, lake, "--mode", "reference") == 0
    assert values(lake) == log.expected(0)
    assert {state for _, _, state in lake.ledger("orders")} == {"present"}
