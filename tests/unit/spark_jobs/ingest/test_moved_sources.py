"""Ingest follows a log that its broker moved between its own log directories. Copies run in this process."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.logs.model.findings import exit_code
from logcore.logs.rules.advice import advice
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store.referenced_bytes import is_gone
from spark_jobs.lake.view.harmed_places import harmed_place
from tests.broker_directory import CLUSTER, OTHER_TOPIC_ID, LogDirectory
from tests.in_process import InProcessExecutor
from tests.metadata_log import MetadataLog, created, removed, topic_id_text
from tests.pasted_advice import commands_in
from tests.spark.cycle import Lake

Captured = pytest.CaptureFixture[str]

UUID = "478272f0a33c41a18c274462e3ef6713"


@pytest.fixture
def disks(tmp_path: Path) -> tuple[LogDirectory, LogDirectory]:
    """Two log directories of one broker."""
    return LogDirectory(tmp_path / "disk-1"), LogDirectory(tmp_path / "disk-2")


def turn(lake: Path, *sources: Path) -> list[str]:
    """One ingest; the rules of what it says."""
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=tuple(map(str, sources)))
    plan = ingest.plan(config)
    report = ingest.apply(plan, config, InProcessExecutor())
    return sorted({placed.finding.rule for placed in report.findings})


def sources_of(lake: Path) -> dict[str, tuple[str, int]]:
    return {row.topic_partition: (row.source, row.next_offset) for row in archive.read_logs(str(lake)).values()}


def test_a_log_that_its_broker_moved_to_its_other_disk_grows_on_from_there(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path
) -> None:
    first, second = disks
    lake = tmp_path / "lake"
    orders = first.partition("orders-0")
    orders.append(10)
    turn(lake, first.path, second.path)
    # While it is copied the broker writes to a directory of its own, and only then takes it for the log.
    future = second.path / f"orders-0.{UUID}-future"
    moved = second.partition(future.name)
    moved.append(10)
    turn(lake, first.path, second.path)
    assert sources_of(lake) == {"orders-0": (str(orders.path), 10)}

    orders.path.rename(first.path / f"orders-0.{UUID}-delete")
    future.rename(second.path / "orders-0")
    moved.path = second.path / "orders-0"
    moved.append(5)
    said = turn(lake, first.path, second.path)
    assert "source-moved" in said
    assert "second-source" not in said
    assert sources_of(lake) == {"orders-0": (str(moved.path), 15)}
    moved.append(5)
    assert "source-moved" not in turn(lake, first.path, second.path)
    assert sources_of(lake) == {"orders-0": (str(moved.path), 20)}


def replica(path: Path, broker: int) -> LogDirectory:
    """A log directory of another broker of the cluster."""
    directory = LogDirectory(path)
    (path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id={broker}\n")
    return directory


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("count", "tag", "broker", "level", "words"),
    [
        (5, b"v", 2, "info", "it ends at offset 5, not at 10; it lacks [5, 10)"),
        (10, b"v", 2, "info", "it has the same history"),
        (5, b"v", 1, "warning", "it ends at offset 5, not at 10; it lacks [5, 10)"),  # a disk of the same broker
        (5, b"w", 2, "warning", "the copies part at offset 0"),
        (15, b"v", 2, "warning", "only it has [10, 15)"),
    ],
)
def test_another_copy_is_named_with_what_it_has_and_lacks_and_offered_only_if_the_lake_takes_it(
    count: int, tag: bytes, broker: int, level: str, words: str, is_known: bool, tmp_path: Path, capsys: Captured
) -> None:
    """An ordinary replica that only lacks offsets is no warning, and is never offered."""
    first, lake = LogDirectory(tmp_path / "first"), tmp_path / "lake"
    orders, other = first.partition("orders-0"), replica(tmp_path / "other", broker)
    orders.append(10)
    orders.epochs([(0, 0)] if is_known or tag == b"v" else [(0, 0), (1, 10)])
    if is_known or count > 10:
        turn(lake, first.path)
    other.partition("orders-0").append(count, tag=tag)
    for paths in ((first.path, other.path), (other.path, first.path)):
        config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=tuple(map(str, paths)))
        plan = ingest.plan(config)
        [said] = [finding for finding in plan.of_paths if finding.file == str(other.path / "orders-0")]
        assert f"orders-0 is taken from {first.path}/orders-0; the copy in {other.path}/orders-0" in said.message
        assert words in said.message, said.message
        assert (said.severity, said.rule) == (level, "second-source" if count > 10 else "several-copies"), paths
        ingest.apply(plan, config, InProcessExecutor())
        offered = commands_in(advice(said.rule, harmed_place(str(lake), finding=said)))
        assert [f"loglake run {other.path}/orders-0 --lake {lake} --move-source"] * (count > 10) == offered
    assert sources_of(lake) == {"orders-0": (str(orders.path), 10)}
    for command in offered:
        assert main(shlex.split(command)[1:]) in (0, 1)
        assert sources_of(lake) == {"orders-0": (str(other.path / "orders-0"), count)}, capsys.readouterr().err


@pytest.mark.parametrize(("count", "tag", "rule"), [(15, b"v", "second-source"), (5, b"v", "several-copies")])
def test_a_copy_that_is_named_alone_is_offered_only_if_the_lake_takes_it(
    count: int, tag: bytes, rule: str, tmp_path: Path
) -> None:
    first, other = LogDirectory(tmp_path / "first"), LogDirectory(tmp_path / "other")
    first.partition("orders-0").append(10)
    turn(tmp_path / "lake", first.path)
    other.partition("orders-0").append(count, tag=tag)
    config = IngestConfig(lake=str(tmp_path / "lake"), run_id="run", as_of_ms=0, sources=(str(other.path),))
    [said] = [finding for finding in ingest.plan(config).of_paths if "is taken from" in finding.message]
    assert (said.rule, said.severity) == (rule, "warning")
    assert ("it cannot be taken: the source ends at offset 5, the archive at 10" in said.message) == (count == 5)


def test_logs_whose_source_is_gone_are_an_error_with_one_command_that_goes_on_with_all(
    tmp_path: Path, capsys: Captured
) -> None:
    before, now, lake = LogDirectory(tmp_path / "before"), tmp_path / "now", tmp_path / "lake"
    logs = [before.partition(f"orders-{number}") for number in range(3)]
    for log in logs:
        log.append(10)
    turn(lake, before.path)
    logs[2].append(5)
    before.path.rename(now)
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(now),))
    [said] = [finding for finding in ingest.plan(config).of_paths if finding.rule != "no-high-watermark"]
    assert (said.rule, said.severity, exit_code([said])) == ("source-gone", "error", 3)
    assert f"For orders-2 its source {before.path}/orders-2 is gone" in said.message
    assert "What waits: orders-2 [10, 15). " in said.message
    [command] = commands_in(said.message)
    assert main(shlex.split(command)[1:]) in (0, 1), capsys.readouterr().err
    assert sources_of(lake) == {f"orders-{n}": (f"{now}/orders-{n}", 15 if n == 2 else 10) for n in range(3)}


@pytest.mark.parametrize("is_requested", [False, True])
def test_a_moved_source_of_mode_reference_is_refused_until_the_printed_command_puts_it_back(
    is_requested: bool, tmp_path: Path
) -> None:
    before, now, lake = LogDirectory(tmp_path / "before"), tmp_path / "now", tmp_path / "lake"
    orders = before.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(5)
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(before.path),), mode="reference")
    ingest.apply(ingest.plan(config), config, InProcessExecutor())
    orders.append(5)
    before.path.rename(now)
    moved = replace(config, sources=(str(now),), move_source=is_requested)
    [said] = [finding for finding in ingest.plan(moved).of_paths if finding.rule != "no-high-watermark"]
    assert (said.rule, exit_code([said])) == ("source-gone", 3)
    assert sources_of(lake) == {"orders-0": (str(orders.path), 15)}
    [back] = re.findall("`(mv [^`]+)`", said.message)
    subprocess.run(shlex.split(back), check=True)
    ingest.apply(ingest.plan(config), config, InProcessExecutor())
    assert sources_of(lake) == {"orders-0": (str(orders.path), 20)}
    assert all(os.path.exists(segment.path) for segment in archive.read_segments(str(lake)))


@pytest.mark.parametrize("left", ["the directory", "nothing"])
def test_registered_segments_that_are_gone_are_one_alarm_of_each_run_and_its_command_puts_them_back(
    left: str, disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured
) -> None:
    first, _ = disks
    lake, kept = tmp_path / "lake", tmp_path / "kept"
    others = first.partition("orders-0")
    others.append(10)
    gone = first.partition("payments-0")
    for count in (4, 3, 2):
        gone.append(count)
        gone.roll()
    first.high_watermarks(orders_0=10, payments_0=9)
    source = [str(first.path), "--lake", str(lake)]
    assert main(["run", *source, "--mode", "reference"]) == main(["verify", str(lake)]) == 0
    if left == "nothing":
        gone.path.rename(kept)
    else:
        kept.mkdir()
        for path in gone.segments():
            path.rename(kept / path.name)
    others.append(5)
    first.high_watermarks(orders_0=15, payments_0=9)
    capsys.readouterr()
    for command in (["run", *source, "--mode", "reference"], ["status", str(lake)]):
        assert main(command) == 2
        printed = "".join(capsys.readouterr())
        alarms = [line for line in printed.splitlines() if "archive-file-missing" in line]
        assert len(alarms) == 1, printed
        assert f"payments-0: 3 of 3 segments that are registered in {gone.path} are gone there" in alarms[0]
    assert len(Lake(lake).published("orders")) == 15, "a log whose bytes are there grows on"
    assert main(["verify", str(lake)]) == 2
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("error ")]
    assert len(lines) == (1 if left == "nothing" else 3)
    [back] = re.findall("`([^`]* COPY[^`]*)`", alarms[0])
    subprocess.run(back.replace("COPY", str(kept)), shell=True, check=True)
    for command in (["run", *source, "--mode", "reference"], ["status", str(lake)], ["verify", str(lake)]):
        assert main(command) == 0, "".join(capsys.readouterr())


def test_the_command_for_registered_segments_works_where_the_log_directory_is_gone_too(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured
) -> None:
    first, _ = disks
    lake, orders = tmp_path / "lake", first.partition("orders-0")
    orders.append(10)
    first.high_watermarks(orders_0=10)
    assert main(["run", str(first.path), "--lake", str(lake), "--mode", "reference"]) == 0
    first.path.rename(tmp_path / "kept")
    capsys.readouterr()
    assert main(["verify", str(lake)]) == 2
    [back] = re.findall("`([^`]* COPY[^`]*)`", capsys.readouterr().out)
    subprocess.run(back.replace("COPY", str(tmp_path / "kept" / "orders-0")), shell=True, check=True)
    assert main(["verify", str(lake)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("left", ["partition", "directory", "nothing"])
def test_a_moved_source_of_mode_reference_is_put_back_by_mv_only_if_that_gives_the_registered_names(
    left: str, tmp_path: Path
) -> None:
    """In the first case only the segments are gone: `mv` would put the directory inside of the one that is there."""
    before, now, lake = LogDirectory(tmp_path / "disk" / "before"), tmp_path / "now", tmp_path / "lake"
    orders = before.partition("orders-0")
    orders.append(10)
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(before.path),), mode="reference")
    ingest.apply(ingest.plan(config), config, InProcessExecutor())
    before.path.rename(now)
    if left == "nothing":
        before.path.parent.rmdir()
    else:
        (orders.path if left == "partition" else before.path).mkdir(parents=True)
    [said] = [each for each in ingest.plan(replace(config, sources=(str(now),))).of_paths if each.rule == "source-gone"]
    moves = re.findall("`(mv [^`]+)`", said.message)
    assert moves == [f"mv {now}/orders-0 {orders.path}"] * (left == "directory")
    assert (f"where they were registered, in {orders.path}, and run again" in said.message) == (not moves)
    for move in moves:
        subprocess.run(shlex.split(move), check=True)
        assert all(os.path.exists(segment.path) for segment in archive.read_segments(str(lake)))


def test_a_source_that_is_there_without_segments_is_gone(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert is_gone(str(tmp_path / "orders-0"))
    assert is_gone(str(tmp_path / "orders-1"))
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    assert not is_gone(str(tmp_path / "orders-0"))


def test_a_partition_that_its_log_directory_no_longer_has_is_named_until_it_is_read_elsewhere(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path
) -> None:
    first, _ = disks
    lake = tmp_path / "lake"
    for name in ("orders-0", "orders-1", "payments-0"):
        first.partition(name).append(10)
    first.high_watermarks(orders_0=10, orders_1=10, payments_0=10)
    assert turn(lake, first.path) == turn(lake, first.path) == []
    first.high_watermarks(orders_0=10)
    (first.path / "orders-1").rename(tmp_path / "orders-1")
    (first.path / "payments-0").rename(tmp_path / "payments-0")
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(first.path),))
    for _ in range(2):
        gone = {Path(f.file or "").name: str(f.severity) for f in ingest.plan(config).of_paths if f.rule == "log-gone"}
        assert gone == {"orders-1": "warning", "payments-0": "warning"}
    chosen = replace(config, topics=("orders",), partitions=(0,))
    assert [f.rule for f in ingest.plan(chosen).of_paths] == []
    other = LogDirectory(tmp_path / "other")
    (tmp_path / "orders-1").rename(other.path / "orders-1")
    (tmp_path / "payments-0").rename(other.path / "payments-0")
    moved = replace(config, sources=(str(other.path),), move_source=True)
    ingest.apply(ingest.plan(moved), moved, InProcessExecutor())
    assert "log-gone" not in {f.rule for f in ingest.plan(config).of_paths if f.severity != "info"}


def test_the_printed_command_for_a_log_that_is_gone_moves_only_this_log(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured
) -> None:
    """The other directory has a copy of another log too."""
    first, second = disks
    lake = tmp_path / "lake"
    for directory in (first, second):
        directory.partition("orders-0").append(10)
    first.partition("orders-1").append(10)
    turn(lake, first.path)
    (first.path / "orders-1").rename(second.path / "orders-1")
    assert main(["run", str(first.path), "--lake", str(lake)]) == 1
    [command] = [each for each in commands_in(capsys.readouterr().err) if "COPY" in each]
    assert command == f"loglake run COPY --lake {lake} --topic orders --partition 1 --move-source"
    assert main(shlex.split(command.replace("COPY", str(second.path)))[1:]) in (0, 1)
    of_lake = {f"orders-{n}": (f"{directory.path}/orders-{n}", 10) for n, directory in enumerate(disks)}
    assert sources_of(lake) == of_lake


@pytest.mark.parametrize("is_in_checkpoint", [False, True])
def test_the_printed_command_accepts_that_a_log_is_gone_and_its_rows_stay(
    disks: tuple[LogDirectory, LogDirectory],
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    is_in_checkpoint: bool,
) -> None:
    first, _ = disks
    lake = tmp_path / "lake"
    for name in ("orders-0", "orders-1"):
        first.partition(name).append(10)
    first.high_watermarks(orders_0=10, orders_1=10)
    turn(lake, first.path)
    if not is_in_checkpoint:
        first.high_watermarks(orders_0=10)
    shutil.rmtree(first.path / "orders-1")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["run", str(first.path), "--lake", str(lake)]) == 1
    printed = capsys.readouterr().err
    [*_, command] = [each for each in commands_in(printed) if "on_gone=accept" in each]
    for part in command.split(" && "):
        assert main(shlex.split(part)[1:]) == 0, capsys.readouterr().err
    assert main(["run", str(first.path), "--lake", str(lake), "--policies", "policies.yaml"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main(["status", str(lake)]) == 0
    assert main(["verify", str(lake)]) == 0
    assert sum(row["partition"] == 1 for row in Lake(lake).rows("records")) == 10


def test_a_later_loss_of_an_accepted_topic_is_still_named_by_runs_and_status(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = disks
    lake = tmp_path / "lake"
    for name in ("orders-0", "orders-1", "orders-2"):
        first.partition(name).append(10)
    marks = {"orders_0": 10, "orders_1": 10, "orders_2": 10}
    first.high_watermarks(**marks)
    first.checkpoint("recovery-point", **marks)
    turn(lake, first.path)
    shutil.rmtree(first.path / "orders-1")
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(first.path), "--lake", str(lake)]) == 2
    printed = capsys.readouterr().err
    assert "for every log of the topic, also for one that is lost later" in printed
    [command, *_] = [each for each in commands_in(printed) if "on_gone=accept" in each]
    gone: list[str] = []
    for name in ("orders-1", "orders-2"):
        shutil.rmtree(first.path / name, ignore_errors=True)
        gone.append(name)
        assert main(shlex.split(command)[1:]) == 0
        assert main(["run", str(first.path), "--lake", str(lake), "--policies", "policies.yaml"]) == 0
        note = f"note: on_gone accepts that these logs have no directory any more: {', '.join(gone)}\n"
        assert capsys.readouterr().err.count(note) == 1
        assert main(["status", str(lake)]) == 0
        assert note in capsys.readouterr().out


def test_a_stale_line_of_a_log_that_the_lake_reads_elsewhere_is_information(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured
) -> None:
    first, second = disks
    lake = tmp_path / "lake"
    for name in ("orders-0", "orders-1", "orders-2"):
        first.partition(name).append(10)
    first.high_watermarks(orders_0=10, orders_1=10, orders_2=10)
    first.checkpoint("recovery-point", orders_0=10, orders_1=10, orders_2=10)
    turn(lake, first.path)
    for name in ("orders-1", "orders-2"):
        (first.path / name).rename(second.path / name)
    second.high_watermarks(orders_1=10, orders_2=10)
    move = ["run", str(second.path), "--lake", str(lake), "--topic", "orders", "--move-source"]
    move += ["--partition", "1", "--partition", "2"]
    assert main(move) == 0, capsys.readouterr().err
    for _ in range(2):
        capsys.readouterr()
        assert main(["run", str(first.path), "--lake", str(lake)]) == 0
        [said] = [line for line in capsys.readouterr().err.splitlines() if "orders-1" in line or "orders-2" in line]
        assert said.startswith(f"note: {first.path}/recovery-point-offset-checkpoint names orders-1 (with offsets up ")
        why = f"The lake reads it from {second.path}/orders-1, so it loses nothing. If the directory was not moved, "
        assert said.endswith(f"{why}the copy here is lost. The same holds for orders-2.")
    shutil.rmtree(second.path / "orders-1")
    assert main(["run", str(first.path), "--lake", str(lake)]) == 2, "no directory has it any more"


def test_the_printed_command_accepts_that_a_whole_topic_has_no_directory(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = disks
    lake = tmp_path / "lake"
    for name in ("orders-0", "payments-0"):
        first.partition(name).append(10)
    first.high_watermarks(orders_0=10, payments_0=10)
    turn(lake, first.path)
    shutil.rmtree(first.path / "payments-0")
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(first.path), "--lake", str(lake)]) == 1
    [command] = [each for each in commands_in(capsys.readouterr().err) if "on_gone=accept" in each]
    assert command == "loglake config set policies.yaml payments on_gone=accept"
    assert main(shlex.split(command)[1:]) == 0
    assert main(["run", str(first.path), "--lake", str(lake), "--policies", "policies.yaml"]) == 0
    assert "have no directory any more: payments-0\n" in capsys.readouterr().err


def test_a_topic_without_a_directory_is_a_warning_of_runs_and_status_until_it_is_accepted(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checkpoint names the topic any more: its only partition was moved to another broker, or it was deleted."""
    first, _ = disks
    lake = tmp_path / "lake"
    for name in ("orders-0", "payments-0"):
        first.partition(name).append(10)
    first.high_watermarks(orders_0=10, payments_0=10)
    turn(lake, first.path)
    shutil.rmtree(first.path / "payments-0")
    first.high_watermarks(orders_0=10)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["run", str(first.path), "--lake", str(lake)]) == 1
    [command] = [each for each in commands_in(capsys.readouterr().err) if "on_gone=accept" in each]
    assert main(["status", str(lake)]) == 1
    assert command in capsys.readouterr().out
    assert main(shlex.split(command)[1:]) == 0
    assert main(["run", str(first.path), "--lake", str(lake), "--policies", "policies.yaml"]) == 0
    assert main(["status", str(lake)]) == 0
    note = "note: on_gone accepts that these logs have no directory any more: payments-0\n"
    assert note in capsys.readouterr().out


@pytest.mark.parametrize("said", ["deleted", "there", "damaged"])
def test_a_topic_that_the_metadata_beside_it_says_was_deleted_is_information(
    said: str, disks: tuple[LogDirectory, LogDirectory], tmp_path: Path
) -> None:
    first, _ = disks
    lake = tmp_path / "lake"
    first.partition("orders-0").append(10)
    first.partition("payments-0", topic_id_text("payments")).append(10)
    metadata = MetadataLog(first.path)
    metadata.say(created("orders"), created("payments"))
    turn(lake, first.path)
    shutil.rmtree(first.path / "payments-0")
    metadata.say(*([] if said == "there" else [removed("payments")]))
    if said == "damaged":
        metadata.damage(2)
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(first.path),))
    [gone] = [f for f in ingest.plan(config).of_paths if f.rule == "log-gone"]
    assert gone.severity == ("info" if said == "deleted" else "warning")
    assert ("the topic was deleted" in gone.message) == (said == "deleted")


def test_a_log_of_another_topic_id_in_the_brokers_other_directory_is_left_alone_and_reported(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path
) -> None:
    first, second = disks
    lake = tmp_path / "lake"
    orders = first.partition("orders-0")
    orders.append(10)
    turn(lake, first.path, second.path)
    orders.path.rename(first.path / f"orders-0.{UUID}-delete")
    second.partition("orders-0", OTHER_TOPIC_ID).append(15)
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(first.path), str(second.path)))
    [said] = [finding for finding in ingest.plan(config).of_paths if finding.rule == "several-copies"]
    assert f"Its source {orders.path} is gone." in said.message
    assert sources_of(lake) == {"orders-0": (str(first.path / "orders-0"), 10)}


def test_a_partition_directory_that_is_a_link_is_a_source_by_the_place_of_the_link(
    disks: tuple[LogDirectory, LogDirectory], tmp_path: Path
) -> None:
    first, _ = disks
    lake = tmp_path / "lake"
    orders = first.partition("orders-0")
    orders.append(10)
    first.high_watermarks(orders_0=7)
    orders.path.rename(tmp_path / "volume")
    orders.path.symlink_to(tmp_path / "volume")
    turn(lake, first.path / "orders-0")
    (row,) = archive.read_logs(str(lake)).values()
    assert (row.source, row.high_watermark, row.next_offset) == (str(first.path / "orders-0"), 7, 10)
    assert turn(lake, first.path) == [], "the log directory names the same source"
