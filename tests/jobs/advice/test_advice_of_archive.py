"""Archived files and tables that are lost, shorter or changed: the printed command makes them whole."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_jobs.lake.store import storage
from tests import handmade
from tests.jobs.advice.advised_lake import (
    LATER_MS,
    TRANSACTIONAL,
    Lake,
    flip,
    pasted,
    said,
)
from tests.pasted_advice import commands_in


def test_an_archived_file_that_changed_is_restored_with_the_printed_command(lake: Lake) -> None:
    assert lake.run()[0] == 0
    [*_, archived] = sorted((lake.path / "archive").rglob(f"*{0:020d}*.log"))
    os.chmod(archived, 0o644)
    flip(archived, 200)
    code, printed = lake.verify()
    assert code == 2
    assert pasted(lake.capsys, printed, "--archive --apply") == 0
    assert lake.verify()[0] == 0


@pytest.mark.parametrize("gone", ["source", "segment"])
def test_an_archived_file_that_its_source_lost_too_is_restored_only_from_a_copy(
    lake: Lake, tmp_path: Path, gone: str
) -> None:
    assert lake.run()[0] == 0
    copy = shutil.copytree(lake.source.path, tmp_path / "copy")
    [archived] = (lake.path / "archive").rglob(f"{0:020d}*.log")
    archived.unlink()
    if gone == "source":  # it may be on a disk that is not mounted
        shutil.rmtree(lake.source.path)
    else:
        lake.log.segments()[0].unlink()
    of_status = 3 if gone == "source" else 2
    for expected, (code, printed) in ((2, lake.verify()), (of_status, said(lake.capsys, "status", lake.path))):
        assert code == expected
        assert ("The bytes are no longer where they were taken from." in printed) == (gone == "segment"), printed
        assert ("Without a copy the bytes are lost" in printed) == (gone == "segment"), printed
        [line] = [command for command in commands_in(printed) if "--archive" in command]
        if gone == "source":
            assert "If the source has other bytes now or is gone for good, add `--from COPY`" in printed
            line = line.replace("--archive", "--archive --from COPY")
        assert "--archive --from COPY --apply" in line, printed
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(copy)))[1:])[0] == 0
    assert lake.verify()[0] == 0
    assert said(lake.capsys, "status", lake.path)[0] == (3 if gone == "source" else 0)


def test_a_marker_that_turned_below_the_frontier_is_named_and_mended_with_the_printed_command(lake: Lake) -> None:
    lake.log.append(4, **TRANSACTIONAL)
    lake.log.marker(7, handmade.ABORT)
    lake.source.high_watermarks(orders_0=35)
    assert lake.run()[0] == 0
    [archived] = sorted((lake.path / "archive").rglob(f"{20:020d}*.log"))
    turned = [handmade.marker(34, kind, producer_id=7, leader_epoch=0) for kind in (handmade.ABORT, handmade.COMMIT)]
    data = archived.read_bytes()
    os.chmod(archived, 0o644)
    archived.write_bytes(data.replace(*turned))
    assert archived.read_bytes() != data
    assert said(lake.capsys, "repair", lake.path, "--rebuild", "findings", "--apply")[0] == 0
    code, printed = lake.run()
    assert code == 2
    assert "offsets [30, 34) were aborted when they were published" in printed
    assert lake.offsets() == {*range(30)}
    for words in ("--archive --apply", "--rebuild findings --apply", "loglake run"):
        assert pasted(lake.capsys, printed, words) == 0
    assert archived.read_bytes() == data
    assert lake.run()[0] == 0


@pytest.mark.parametrize("table", ["offset_ledger", "validations", "batches", "segments", "logs", "records"])
def test_verify_and_status_name_one_command_for_a_lost_table_and_it_makes_the_table_again(
    lake: Lake, table: str
) -> None:
    assert lake.run()[0] == 0
    (lake.path / "tables" / table).rename(lake.path.parent / "gone")
    shown = [lake.verify(), said(lake.capsys, "status", lake.path)]
    assert [code for code, _ in shown] == [2, 2]
    advised = {" ".join(commands_in(printed)) for _, printed in shown}
    assert len(advised) == 1, shown
    commands = commands_in(shown[0][1])
    assert f"--rebuild {table} --apply" in commands[0]
    for line in commands:
        assert said(lake.capsys, *shlex.split(line)[1:])[0] == 0
    assert lake.run()[0] == 0
    assert lake.offsets() == {*range(30)}
    assert lake.verify()[0] == said(lake.capsys, "status", lake.path)[0] == 0


def test_no_maintenance_takes_the_archive_of_a_lake_that_lost_its_segments(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.run()[0] == 0
    before = lake.archived()
    shutil.rmtree(lake.source.path)
    (lake.path / "tables" / "segments").rename(lake.path.parent / "copy")
    monkeypatch.setattr(storage, "clock_ms", lambda _: LATER_MS)
    code, printed = lake.maintain()
    assert (code, lake.archived()) == (3, before), printed
    assert "Table segments: " in printed
    assert "it is gone; an earlier run saw it" in printed
    assert said(lake.capsys, "repair", lake.path, "--rebuild", "segments", "--apply")[0] == 0
    lake.maintain()
    assert lake.archived() == before
    shutil.rmtree(lake.path / "tables" / "segments", ignore_errors=True)
    (lake.path.parent / "copy").rename(lake.path / "tables" / "segments")
    assert lake.verify()[0] == 0
    assert lake.maintain()[0] == 0
    assert lake.archived() == before


def test_maintenance_keeps_what_was_archived_before_the_segments_were_read_again_from_a_shorter_source(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.run()[0] == 0
    (lake.log.path / f"{0:020d}.log").unlink()
    lake.source.checkpoint("log-start", orders_0=10)
    lake.log.epochs([(0, 10)])
    assert (lake.run()[0], lake.verify()[0]) == (0, 0)
    before = lake.archived()
    shutil.rmtree(lake.path / "tables" / "segments")
    pasted(lake.capsys, lake.verify()[1], "--rebuild segments")
    for code, printed in (lake.run(), said(lake.capsys, "status", lake.path), lake.verify()):
        assert code == 2, printed
        assert "no segment of the archive has offsets" in printed
        assert "[0, 10)" in printed
    with monkeypatch.context() as patch:
        patch.setattr(storage, "clock_ms", lambda _: LATER_MS)
        _, printed = lake.maintain()
    assert lake.archived() == before
    assert "note of check no_file_waits_for_deletion: kept, though no segment has it: 1 file of the archive" in printed


def test_a_registered_file_that_is_shorter_now_is_damage_of_every_command_until_it_is_whole_again(
    lake: Lake, tmp_path: Path
) -> None:
    assert lake.run("--mode", "reference")[0] == 0
    whole = shutil.copytree(lake.log.path, tmp_path / "whole")
    first = lake.log.path / f"{0:020d}.log"
    os.truncate(first, handmade.size_of(first.read_bytes(), 0))
    for command in (("status", lake.path), ("run", lake.source.path, "--lake", lake.path, "--mode", "reference")):
        code, printed = said(lake.capsys, *command)
        assert code == 2, printed
        assert f"orders-0: 1 of 3 segments that are registered in {lake.log.path} are shorter there" in printed
    assert lake.verify()[0] == 2
    [command] = set(re.findall(r"`(cp -p COPY/[^`]+)`", said(lake.capsys, "status", lake.path)[1]))
    lake.log.append(5)  # the active segment grows, and the copy has it as it was
    lake.source.high_watermarks(orders_0=35)
    subprocess.run(command.replace("COPY", str(whole)), shell=True, check=True)
    assert lake.run("--mode", "reference")[0] == 0
    assert lake.offsets() == {*range(35)}
    assert said(lake.capsys, "status", lake.path)[0] == lake.verify()[0] == 0


@pytest.mark.parametrize("names", [1, 2])
def test_registered_files_that_are_gone_are_put_back_by_name(lake: Lake, tmp_path: Path, names: int) -> None:
    assert lake.run("--mode", "reference")[0] == 0
    whole = shutil.copytree(lake.log.path, tmp_path / "whole")
    gone = lake.log.segments()[:names]
    for path in gone:
        path.unlink()
    [command] = set(re.findall(r"`(cp -p COPY/[^`]+)`", said(lake.capsys, "status", lake.path)[1]))
    assert re.findall(r"COPY/(\S+)", command) == [path.name for path in gone]
    subprocess.run(command.replace("COPY", str(whole)), shell=True, check=True)
    assert lake.run("--mode", "reference")[0] == 0
    assert said(lake.capsys, "status", lake.path)[0] == lake.verify()[0] == 0


def test_no_command_puts_bytes_over_a_log_that_went_another_way_at_its_source(lake: Lake) -> None:
    lake.source.high_watermarks(orders_0=25)
    reference = "--mode", "reference"
    assert lake.run(*reference)[0] == 0
    lake.log.truncate(25)  # as a follower does it, above the high watermark
    printed = [said(lake.capsys, "status", lake.path)[1]]
    printed += [lake.run(*reference)[1]]  # it has stopped
    lake.log.epochs([(0, 0), (1, 25)])
    lake.log.append(2, tag=b"w", leader_epoch=1)
    lake.source.high_watermarks(orders_0=27)
    stopped = lake.run(*reference)[1]
    pasted(lake.capsys, stopped, "config set", "on_truncate=follow")
    pasted(lake.capsys, stopped, "loglake run", "--policies")
    printed += [stopped, lake.run(*reference)[1], said(lake.capsys, "status", lake.path)[1]]
    for text in printed:
        assert "shorter there than they were" in text
        assert "cp -p" not in text
        assert "so no command puts bytes back" in text


@pytest.mark.parametrize("rebuilt", ["", "offset_ledger"])
def test_offsets_that_no_segment_has_after_a_loss_of_segments_are_filled_from_a_whole_copy(
    lake: Lake, tmp_path: Path, rebuilt: str
) -> None:
    assert lake.run()[0] == 0
    whole = shutil.copytree(lake.source.path, tmp_path / "whole")
    (lake.log.path / f"{0:020d}.log").unlink()
    lake.source.checkpoint("log-start", orders_0=10)
    lake.log.epochs([(0, 10)])
    assert (lake.run()[0], lake.verify()[0]) == (0, 0)
    shutil.rmtree(lake.path / "tables" / "segments")
    pasted(lake.capsys, lake.verify()[1], "--rebuild segments")
    if rebuilt:
        assert said(lake.capsys, "repair", lake.path, "--rebuild", rebuilt, "--apply")[0] == 0
    code, printed = lake.run()
    assert code == 2, printed
    [command] = [line for line in commands_in(printed) if "--fill-from" in line]
    code, printed = said(lake.capsys, *shlex.split(command.replace("COPY", str(whole)))[1:])
    assert code == 0, printed
    for code, printed in (lake.run(), said(lake.capsys, "status", lake.path), lake.verify()):
        assert code == 0, printed
    assert lake.offsets() == {*range(30)}
    assert {path.name for path in (lake.path / "archive").rglob("*.log")}


@pytest.mark.parametrize("rebuilt", ["", "offset_ledger"])
def test_segments_that_are_restored_after_they_were_read_again_from_a_shorter_source_are_whole(
    lake: Lake, tmp_path: Path, rebuilt: str
) -> None:
    assert lake.run()[0] == 0
    (lake.log.path / f"{0:020d}.log").unlink()
    lake.source.checkpoint("log-start", orders_0=10)
    lake.log.epochs([(0, 10)])
    assert (lake.run()[0], lake.verify()[0]) == (0, 0)
    table = lake.path / "tables" / "segments"
    backup = shutil.copytree(table, tmp_path / "backup")
    shutil.rmtree(table)
    pasted(lake.capsys, lake.verify()[1], "--rebuild segments")
    if rebuilt:
        assert said(lake.capsys, "repair", lake.path, "--rebuild", rebuilt, "--apply")[0] == 0
    assert lake.run()[0] == 2
    shutil.rmtree(table)
    shutil.copytree(backup, table)
    lake.run()
    for code, printed in (lake.run(), said(lake.capsys, "status", lake.path), lake.verify()):
        assert code == 0, printed
    assert lake.offsets() == {*range(30)}


@pytest.mark.parametrize("table", ["logs", "segments"])
def test_a_table_without_derivation_is_restored_from_a_backup_first_and_made_again_only_from_whole_sources(
    lake: Lake, table: str
) -> None:
    assert lake.run()[0] == 0
    shutil.rmtree(lake.path / "tables" / table)
    for printed in (lake.verify()[1], said(lake.capsys, "status", lake.path)[1], lake.maintain()[1]):
        first, condition = printed.find("from a backup"), printed.find("only if the sources still have all offsets")
        assert 0 < first < condition < printed.find(f"--rebuild {table}"), printed


@pytest.mark.parametrize("table", ["records_uncommitted", "runs"])
def test_a_table_with_a_changed_byte_is_made_again_with_the_printed_command(lake: Lake, table: str) -> None:
    uncommitted = ("--isolation.level", "read_uncommitted")
    assert lake.run(*uncommitted)[0] == 0
    path = max((lake.path / "tables" / table).rglob("*.parquet"), key=lambda path: path.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(handmade.flip(data, len(data) // 3))
    code, printed = lake.verify()
    assert code == 2
    lines = [line for line in commands_in(printed) if f"--rebuild {table} --apply" in line]
    assert lines, printed
    assert said(lake.capsys, *shlex.split(lines[0])[1:])[0] == 0
    assert lake.run(*uncommitted)[0] == 0
    code, printed = lake.verify()
    assert code == 0, printed


def test_a_lost_description_of_a_lake_is_written_again_with_the_command_that_each_command_prints(lake: Lake) -> None:
    assert lake.run()[0] == 0
    (lake.path / "lake.json").unlink()
    answers = [said(lake.capsys, command, lake.path) for command in ("status", "verify", "runs", "decode")]
    assert [code for code, _ in answers] == [3, 3, 64, 64]
    [commands] = {tuple(commands_in(printed)) for _, printed in answers}
    assert said(lake.capsys, *shlex.split(commands[0])[1:])[0] == 0
    assert said(lake.capsys, "status", lake.path)[0] == lake.verify()[0] == 0


@pytest.mark.parametrize("where", [".", "orders-0"])
def test_commands_on_a_lake_say_of_a_log_directory_how_it_becomes_one(lake: Lake, where: str) -> None:
    commands = [("query", "show tables"), ("status",), ("runs",), ("decode",)]
    logs = os.path.normpath(lake.source.path / where)
    answers = [said(lake.capsys, command, logs, *more)[1] for command, *more in commands]
    [line] = {line for printed in answers for line in commands_in(printed)}
    assert all(line in printed for printed in answers)
    assert said(lake.capsys, *shlex.split(line.replace("LAKE", str(lake.path)))[1:])[0] == 0
    assert lake.offsets() == {*range(30)}


def test_a_folder_with_a_log_of_another_program_is_not_called_logs_of_kafka(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "stuff" / "app-1" / "app.log"
    file.parent.mkdir(parents=True)
    file.write_text("hello")
    for named in (file.parent.parent, file.parent):
        for command in (("query", str(named), "show tables"), ("status", str(named))):
            _, printed = said(lake.capsys, *command)
            assert ("logs of Kafka" in printed, commands_in(printed)) == (False, []), printed


def test_the_name_of_a_registered_lake_is_answered_with_its_path(lake: Lake) -> None:
    assert lake.run()[0] == 0
    for command in ("status", "runs"):
        code, printed = said(lake.capsys, command, "lake")
        assert code in (3, 64)
        assert f"The lake that is registered as lake is {lake.path}." in printed


def test_a_registered_lake_that_is_gone_or_not_mounted_is_not_answered_with_its_own_path(lake: Lake) -> None:
    assert lake.run()[0] == 0
    lake.path.rename(lake.path.parent / "away")
    printed = [said(lake.capsys, command, lake.path)[1] for command in ("status", "runs")]
    assert all(f"There is no directory {lake.path}. Mount it, or put it back." in each for each in printed)
    lake.path.mkdir()
    printed += [said(lake.capsys, command, lake.path)[1] for command in ("status", "runs")]
    assert all("it has no lake.json. Mount it, or put it back." in each for each in printed[2:])
    assert not any("registered as" in each for each in printed)
