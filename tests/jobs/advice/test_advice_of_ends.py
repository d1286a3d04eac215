"""Ends and starts of logs that checkpoints contradict: the printed command settles each."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.lake.view.alarms import run_problems
from spark_jobs.lake.view.runs.run_ends import RunEnds, run_ends
from tests.jobs.advice.advised_lake import (
    Lake,
    log_of_segments,
    pasted,
    said,
)
from tests.pasted_advice import commands_in


def test_committed_offsets_beyond_the_end_are_given_up_with_the_printed_command(lake: Lake) -> None:
    lake.source.high_watermarks(orders_0=35)
    code, printed = lake.run()
    assert code == 2
    assert "high-watermark log-end" in printed
    pasted(lake.capsys, printed, "--high-watermark log-end")
    code, printed = lake.run("--high-watermark", "log-end")
    assert code == 0
    assert "information: orders-0: the committed offsets [30, 35) are lost and given up" in printed
    code, printed = lake.run()
    assert (code, "given up" in printed) == (0, False)
    code, status = said(lake.capsys, "status", lake.path)
    assert code == 0
    assert re.search(r"information: .*orders-0.*30.*35", status)
    lake.log.append(2)
    assert lake.run()[0] == 0
    assert lake.offsets() == {*range(32)}
    lake.source.high_watermarks(orders_0=36)
    assert lake.run()[0] == 2


def test_an_end_that_was_cut_off_with_an_old_checkpoint_is_said_by_verify_run_and_status(
    lake: Lake, tmp_path: Path
) -> None:
    """Only the files beside the log still know the end."""
    whole = shutil.copytree(lake.source.path, tmp_path / "whole")
    for name, files in {
        "a producer snapshot is at offset 30": {"orders-0/00000000000000000030.snapshot": b""},
        "the recovery point is at offset 30": {"recovery-point-offset-checkpoint": b"0\n1\norders 0 30\n"},
    }.items():
        shutil.rmtree(lake.source.path)
        shutil.copytree(whole, lake.source.path)
        (lake.log.path / f"{20:020d}.log").write_bytes(b"")
        lake.source.high_watermarks(orders_0=20)
        for path, content in files.items():
            (lake.source.path / path).write_bytes(content)
        path = tmp_path / f"lake of {name}"
        warning = f"{name}, the log ends at 20; its end may have been cut off"
        verified = said(lake.capsys, "verify", lake.source.path)
        assert (verified[0], warning in verified[1]) == (1, True), verified[1]
        for _ in range(2):  # the second run writes nothing
            for command in (("run", lake.source.path, "--lake", path), ("status", path)):
                code, printed = said(lake.capsys, *command)
                assert (code, printed.count(f"orders-0: {warning}")) == (1, 1), printed
        shutil.rmtree(lake.source.path)
        shutil.copytree(whole, lake.source.path)
        assert said(lake.capsys, "run", lake.source.path, "--lake", path)[0] == 0
        assert said(lake.capsys, "status", path)[0] == 0


def test_records_held_back_by_a_checkpoint_that_was_cut_short_are_published_by_the_printed_command(
    lake: Lake, tmp_path: Path
) -> None:
    checkpoint, path = lake.source.path / "replication-offset-checkpoint", tmp_path / "new lake"
    lake.source.checkpoint("recovery-point", orders_0=30)
    checkpoint.write_text("0\n1\norders 0 3")
    warning = f"{checkpoint} does not end with a newline: it was cut short"
    for command in (("verify", lake.source.path), ("run", lake.source.path, "--lake", path), ("status", path)):
        code, printed = said(lake.capsys, *command)
        assert (code, printed.count(warning)) == (1, 1), printed
        assert command[0] == "verify" or "27 offsets are ingested and not published" in printed
    assert pasted(lake.capsys, printed, "--high-watermark log-end") == 1
    assert DeltaTable(path / "tables" / "records").to_pyarrow_table(columns=["offset"]).num_rows == 30
    assert "27 offsets" not in said(lake.capsys, "status", path)[1]


def test_a_high_watermark_of_0_of_a_log_that_was_flushed_is_a_warning(lake: Lake, tmp_path: Path) -> None:
    lake.source.high_watermarks(orders_0=0)
    assert said(lake.capsys, "verify", lake.source.path)[0] == 0  # a new follower
    lake.source.checkpoint("recovery-point", orders_0=30)
    for command in (("verify", lake.source.path), ("run", lake.source.path, "--lake", tmp_path / "l"), ("status", "l")):
        code, printed = (
            said(lake.capsys, *command[:-1], tmp_path / "l") if command[-1] == "l" else said(lake.capsys, *command)
        )
        assert (code, "the high watermark 0, although the log was flushed up to offset 30" in printed) == (1, True), (
            printed
        )


@pytest.mark.parametrize("line", ["stays at 30", "is gone"])
def test_a_log_start_above_the_end_is_a_warning_whose_command_keeps_the_records(
    lake: Lake, tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake.source.checkpoint("log-start", orders_0=500)
    lake.source.high_watermarks(orders_0=30) if line == "stays at 30" else lake.source.high_watermarks()
    warning = "the log start in log-start-offset-checkpoint is at offset 500, the log ends at 30"
    for command in (("verify", lake.source.path), ("ledger", lake.source.path)):
        code, printed = said(lake.capsys, *command)
        assert (code, printed.count(warning)) == (1, 1), printed
    for _ in range(2):  # the second run writes nothing
        for command in (("run", lake.source.path, "--lake", tmp_path / "new lake"), ("status", tmp_path / "new lake")):
            code, printed = said(lake.capsys, *command)
            assert (code, printed.count(f"orders-0: {warning}")) == (1, 1), printed
    assert "a broker's start drops all its batches" in printed
    assert pasted(lake.capsys, printed, "loglake recover") == 0
    copies = DeltaTable(tmp_path / "new lake" / "tables" / "records").to_pyarrow_table().num_rows
    assert copies == 0
    assert said(lake.capsys, "verify", tmp_path / "new" / "orders-0")[0] == 0
    assert "30 records" in said(lake.capsys, "ledger", tmp_path / "new" / "orders-0")[1]


@pytest.mark.parametrize("proof", ["recovery points", "the whole topic is gone", "none"])
def test_a_log_that_was_lost_before_the_first_run_is_damage_where_its_broker_did_not_delete_it(
    lake: Lake, tmp_path: Path, proof: str
) -> None:
    """verify, run and status agree. Without a proof it is a warning of all three."""
    name = "lost-0" if proof == "the whole topic is gone" else "orders-9"
    line = {name.replace("-", "_"): 10}
    lake.source.partition(name).append(10)
    lake.source.high_watermarks(orders_0=30, **line)
    if proof != "none":
        lake.source.checkpoint("recovery-point", orders_0=30, **line)
    (lake.source.path / name).rename(tmp_path / "away")
    is_proven = proof == "recovery points"
    code = 2 if is_proven else 1
    for _ in range(2):  # the second run writes nothing
        for command in (("verify", lake.source.path), ("run", lake.source.path, "--lake", lake.path)):
            found, printed = said(lake.capsys, *command)
            assert (found, f"names {name} (with offsets up to 10). There is no such directory." in printed) == (
                code,
                True,
            ), printed
        found, printed = said(lake.capsys, "status", lake.path)
        assert (found, printed.count(f"names {name}")) == (code, 1), printed
    kinds = [each.kind for each in run_problems(str(lake.path), newest_end(lake), time.time_ns() // 1_000_000, "")]
    assert kinds == (["damage"] if is_proven else [])
    if is_proven:
        assert pasted(lake.capsys, printed, "policies.yaml") == 0
        code, printed = said(lake.capsys, "status", lake.path)
        assert code == 0, printed
    (tmp_path / "away").rename(lake.source.path / name)
    assert lake.run()[0] == 0
    assert said(lake.capsys, "status", lake.path)[0] == 0
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table(columns=["offset"]).num_rows == 40


def newest_end(lake: Lake) -> RunEnds:
    return run_ends(str(lake.path), {})["intake"]


def test_committed_offsets_beyond_the_end_are_taken_from_another_copy_with_the_printed_command(
    lake: Lake, tmp_path: Path
) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    lake.log.segments()[2].unlink()
    code, printed = lake.run()
    assert code == 2
    [line] = [line for line in commands_in(printed) if "COPY" in line]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(whole)))[1:])[0] in (0, 1)
    assert lake.offsets() == {*range(30)}
    assert said(lake.capsys, "status", lake.path)[0] == 0


def test_a_log_that_lost_all_above_its_log_start_is_given_up_with_the_printed_command(lake: Lake) -> None:
    lake.source.checkpoint("log-start", orders_0=35)
    lake.source.high_watermarks(orders_0=40)
    for _ in range(2):
        code, printed = lake.run()
        assert code == 2
        assert "the archive continues at" not in printed
        assert "offsets [35, 40)" in printed
        [row] = [line.split() for line in printed.splitlines() if line.startswith("orders-0 ")]
        assert row[-2:] == ["5", "30"], "not read, published to"
    pasted(lake.capsys, printed, "--high-watermark log-end")
    for options in (["--high-watermark", "log-end"], []):
        assert lake.run(*options)[0] == 0


def test_a_log_start_that_its_checkpoint_lost_is_written_again_with_the_printed_command(lake: Lake, here: Path) -> None:
    """deleteRecords up to offset 17: the broker writes the file, and cuts the leader epochs there."""
    lake.source.checkpoint("log-start", orders_0=17)
    lake.log.epochs([(0, 17)])
    assert lake.run()[0] == 0
    assert min(lake.offsets()) == 17
    (lake.source.path / "log-start-offset-checkpoint").unlink()
    os.utime(lake.log.path / "leader-epoch-checkpoint", (1_700_000_000, 1_700_000_000))
    lake.source.checkpoint("recovery-point", orders_0=35)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=35)
    for _ in range(2):
        code, printed = lake.run()
        assert (code, printed.count("log-start-fell")) == (1, 1)
        assert lake.offsets() == {*range(17, 35)}
    for command in ("verify", "ls", "dump"):
        code, printed = said(lake.capsys, command, lake.source.path)
        assert (code, printed.count("log-start-fell")) == (1, 1), command
    assert pasted(lake.capsys, printed, "loglake recover ") == 0
    code, printed = said(lake.capsys, "offsets", "--at", "earliest", here / "new/orders-0")
    assert (code, printed.split()[:3]) == (0, ["orders-0", "offset", "17"])
    lake.source.checkpoint("log-start", orders_0=17)
    assert lake.run()[0] == 0


def test_a_lake_remembers_a_log_start_that_no_file_shows_any_more(lake: Lake) -> None:
    lake.source.checkpoint("log-start", orders_0=17)
    assert lake.run()[0] == 0
    lake.source.checkpoint("log-start", payments_0=9)
    for _ in range(2):
        code, printed = lake.run()
        assert (code, printed.count("orders-0: the log began at offset 17")) == (1, 1)
        assert lake.offsets() == {*range(17, 30)}
