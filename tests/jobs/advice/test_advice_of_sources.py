"""Sources that moved, died or are no longer given: the printed commands go on with the lake."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.logs.rules.advice import maintain_command
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.lake.setup.registry import recall
from tests.broker_directory import LogDirectory
from tests.jobs.advice.advised_lake import (
    Captured,
    Lake,
    corrupt,
    log_of_segments,
    pasted,
    said,
)
from tests.pasted_advice import commands_in


def test_logs_of_another_directory_are_moved_by_one_printed_command(tmp_path: Path, capsys: Captured) -> None:
    lake, places = tmp_path / "lake", [tmp_path / "one", tmp_path / "two"]
    for place, count in zip(places, (5, 10), strict=True):
        for number in range(3):
            LogDirectory(place).partition(f"orders-{number}").append(count)
        LogDirectory(place).high_watermarks(**{f"orders_{number}": count for number in range(3)})
    said(capsys, "run", places[0], "--lake", lake)
    _, printed = said(capsys, "run", places[1], "--lake", lake)
    assert commands_in(said(capsys, "status", lake)[1]) == commands_in(printed), "two commands for one harm"
    assert printed.count("is left alone") == 3
    assert printed.count("What to do about second-source") == 1
    assert pasted(capsys, printed, "--move-source") == 0
    assert DeltaTable(lake / "tables/records").to_pyarrow_table(columns=["offset"]).num_rows == 30


def test_a_run_after_its_source_was_moved_fails_and_status_gives_the_command(lake: Lake, tmp_path: Path) -> None:
    assert lake.run()[0] == 0
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=35)
    lake.source.path.rename(tmp_path / "moved")
    code, printed = said(lake.capsys, "run", tmp_path / "moved", "--lake", lake.path)
    assert (code, lake.offsets()) == (3, {*range(30)})
    assert f"its source {lake.log.path} is gone" in printed
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == 3
    assert "What waits: orders-0 [30, 35)." in printed
    assert pasted(lake.capsys, printed, "--move-source") == 0
    assert lake.offsets() == {*range(35)}
    assert said(lake.capsys, "status", lake.path)[0] == 0


def test_the_printed_command_of_a_moved_source_takes_what_the_lake_took_and_forgets_the_old_path(
    lake: Lake, tmp_path: Path
) -> None:
    lake.source.partition("secrets-0").append(10)
    lake.source.partition("__transaction_state-0").append(10)
    lake.source.high_watermarks(orders_0=30, secrets_0=10, __transaction_state_0=10)
    chosen = ["--topic", "__transaction_state", "--topic", "orders"]
    assert lake.run(*chosen, "--include-internal", "--isolation.level", "read_uncommitted")[0] == 0
    before = recall(str(lake.path)).intakes
    lake.source.path.rename(tmp_path / "moved")
    code, printed = said(lake.capsys, "run", tmp_path / "moved", "--lake", lake.path, *chosen)
    assert code == 3
    assert pasted(lake.capsys, printed, "--move-source") == 0
    assert {row.topic for row in read_logs(str(lake.path)).values()} == {"orders", "__transaction_state"}
    assert recall(str(lake.path)).intakes == (replace(before[0], sources=(str(tmp_path / "moved"),)),)
    assert str(lake.source.path) not in said(lake.capsys, "status", lake.path)[1]


def test_a_lake_whose_source_is_dead_gives_a_log_directory_with_the_printed_command(
    lake: Lake, here: Path, tmp_path: Path
) -> None:
    assert lake.run()[0] == 0
    shutil.rmtree(lake.source.path)
    assert lake.run()[0] == 3
    printed = [said(lake.capsys, "status", lake.path)[1], said(lake.capsys, "recover", lake.path, "--out", "x")[1]]
    [command] = {line for text in printed for line in re.findall(r"`(echo [^`]+)`", text)}
    local = {**os.environ, "LOGLAKE_JOB_ENGINE": "local"}
    shown = subprocess.run(command, shell=True, check=True, env=local, capture_output=True, text=True)
    assert shown.stdout == ""
    assert re.findall("recover: orders-0: .*log_end_offset 30, losses 0", shown.stderr)
    assert json.loads((here / "new.jsonl").read_text())["job"] == "recover"
    code, verified = said(lake.capsys, "verify", here / "new")
    assert (code, re.findall("^(?:warning|error) ([a-z-]+)", verified, re.M)) == (1, ["no-meta-properties"]), verified
    again = Lake(tmp_path / "again", LogDirectory(here / "new"), lake.log, lake.capsys)
    again.run()
    assert again.offsets() == {*range(30)}


def test_the_log_directory_of_a_dead_source_that_lost_something_ends_with_the_code_of_damage(
    lake: Lake, here: Path
) -> None:
    corrupt(lake.log.path)
    assert lake.run()[0] == 2
    shutil.rmtree(lake.source.path)
    lake.run()
    [command] = re.findall(r"`(echo [^`]+)`", said(lake.capsys, "status", lake.path)[1])
    local = {**os.environ, "LOGLAKE_JOB_ENGINE": "local"}
    for _ in range(2):
        assert subprocess.run(command, shell=True, env=local, capture_output=True).returncode == 2
        assert [log["losses"][0]["severity"] for log in json.loads((here / "new.jsonl").read_text())["plan"]["logs"]]


WITHOUT_EFFECT = (
    *(("--replace", ".."), ("--fill-from", "/"), ("--remote", "/"), ("--forget-remote",), ("--move-source",)),
    *(("--mode", "reference"), ("--cluster", "a"), ("--high-watermark", "log-end"), ("--include-internal",)),
    *(("--max-bytes-per-round", "9"), ("--max-tasks-per-round", "9"), ("--isolation.level", "read_committed")),
)
"""Options of `loglake run` that would do nothing without a PATH."""


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_lake_is_maintained_without_its_source(lake: Lake, tmp_path: Path, is_gone: bool) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics: {orders: {cleanup.policy: delete, retention.bytes: 1}}")
    assert lake.run("--policies", policies)[0] == 0
    if is_gone:
        shutil.rmtree(lake.source.path)
    command = shlex.split(maintain_command(str(lake.path)))
    assert command[0] == "loglake"
    code, printed = said(lake.capsys, *command[1:], "--apply")
    assert code == 0, printed
    assert (f"so no source is read; gone: {lake.source.path}." in printed) == is_gone, printed
    segments = DeltaTable(lake.path / "tables" / "segments").to_pyarrow_table().to_pylist()
    assert sorted((row["base_offset"], row["retired_because"]) for row in segments) == [
        (0, "retention"),
        (10, "retention"),
        (20, None),
    ]
    assert lake.offsets() == {*range(30)}
    assert said(lake.capsys, "run", "--lake", lake.path)[0] == 64
    for option in WITHOUT_EFFECT:
        code, printed = said(lake.capsys, "run", "--lake", lake.path, "--maintain", *option)
        assert (code, f"{option[0]} " in printed) == (64, True), (option, printed)
    assert said(lake.capsys, "run", "--lake", tmp_path / "none", "--maintain")[0] == 64
    assert not (tmp_path / "none").exists()


def test_maintenance_without_a_path_that_is_refused_is_no_failed_intake(lake: Lake) -> None:
    assert lake.run()[0] == 0
    identity = lake.path / "lake.json"
    content = identity.read_text()
    identity.write_text(json.dumps(json.loads(content) | {"layout": 99}))
    maintain = ("run", "--lake", lake.path, "--maintain")
    code, printed = said(lake.capsys, *maintain)
    assert code == 3, printed
    identity.write_text(content)
    assert said(lake.capsys, *maintain)[0] == 0
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "intake failed" in printed) == (0, False), printed


def test_maintenance_without_a_path_says_that_a_choice_matches_nothing(lake: Lake) -> None:
    assert lake.run()[0] == 0
    code, printed = said(lake.capsys, "run", "--lake", lake.path, "--maintain", "--topic", "order")
    assert code == 3, printed
    assert "--topic 'order' matches no topic; the nearest names are orders." in printed
    assert said(lake.capsys, "run", "--lake", lake.path, "--maintain", "--topic", "ord*")[0] == 0


def test_salvaged_copies_of_one_log_have_places_of_their_own(tmp_path: Path, here: Path, capsys: Captured) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        corrupt(log_of_segments(place).path)
    _, printed = said(capsys, "verify", *places)
    pasted(capsys, printed, "recover", "--salvage")
    for name in ("new", "new-2"):
        assert (here / name / "orders-0" / f"{10:020d}.log").exists()
