"""Advice is a command that works when it is pasted: each kind of harm, the printed command, and the harm is mended.

Harm that other engines do to tables is in `tests/harm/test_matrix.py`, which pastes what is printed too.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.rules import LAKE_STATE_RULES, MAINTENANCE_RULES, RULES
from logcore.logs.rules.advice import HarmedPlace, advice, maintain_command
from pipelines.run import check_definitions
from pipelines.run.check_definitions import CheckDefinition
from pipelines.run.checks import no_hanging_transaction
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.lake.setup.registry import recall
from spark_jobs.lake.store import storage
from spark_jobs.lake.view.alarms import problems_of, run_problems
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.runs.run_ends import RunEnds, run_ends
from tests import handmade
from tests.broker_directory import CLUSTER, OTHER_TOPIC_ID, LogDirectory, Partition
from tests.in_process import without_spark
from tests.pasted_advice import commands_in

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
LATER_MS = time.time_ns() // 1_000_000 + 30 * 86_400_000
"""Orphans are old then."""
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Commands are pasted in a directory of the operator, with a home of its own."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with without_spark():
        yield tmp_path / "here"


def said(capsys: Captured, *arguments: str | Path) -> tuple[int, str]:
    code = main([str(word) for word in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def pasted(capsys: Captured, printed: str, *wanted: str) -> int:
    """Paste the printed commands that have these words; returns the worst exit code."""
    chosen = [line for line in commands_in(printed) if all(word in line for word in wanted)]
    assert chosen, f"no command with {wanted} in:\n{printed}"
    # The only word in capitals that may be left is what the operator alone knows.
    return max(said(capsys, *shlex.split(line)[1:])[0] for line in dict.fromkeys(chosen))


# --- files of a log ---------------------------------------------------------------------------------------------------


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def log_of_segments(root: Path) -> Partition:
    log = LogDirectory(root).partition("orders-0")
    for _ in range(3):
        log.roll()
        log.append(10)
    LogDirectory(root).high_watermarks(orders_0=30)
    return log


def corrupt(log: Path) -> None:
    flip(log / f"{0:020d}.log", 200)


def tail(log: Path) -> None:
    with (log / f"{20:020d}.log").open("ab") as file:
        file.write(b"\x17" * 100)


def zeros(log: Path) -> None:
    path = log / f"{0:020d}.log"
    data = path.read_bytes()
    end = handmade.size_of(data, 0)
    path.write_bytes(data[:end] + bytes(len(data) - end))


def spare(log: Path) -> None:
    path = log / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(100))


def wrong_index(log: Path) -> None:
    (log / f"{0:020d}.index").write_bytes(struct.pack(">ii", 9, 3))


def zeroed_index(log: Path) -> None:
    (log / f"{0:020d}.index").write_bytes(bytes(16))


def broken_index(log: Path) -> None:
    (log / f"{0:020d}.index").write_bytes(struct.pack(">iiii", 9, 300, 5, 100))


def wrong_time_index(log: Path) -> None:
    (log / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 5, 4))


def wrong_transaction_index(log: Path) -> None:
    (log / f"{0:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 3, 4, 5))


def broken_snapshot(log: Path) -> None:
    (log / f"{30:020d}.snapshot").write_bytes(b"\x00\x01 no snapshot")


OF_LOGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "corrupt-bytes": (corrupt, "recover"),
    "tail-hides-batches": (tail, "recover"),
    "zero-tail": (zeros, "recover"),
    "bytes-after-segment": (spare, "recover"),
    "offset-index-differs": (wrong_index, "reindex"),
    "index-zeroed": (zeroed_index, "reindex"),
    "corrupt-index": (broken_index, "reindex"),
    "time-index-differs": (wrong_time_index, "reindex"),
    "transaction-index-differs": (wrong_transaction_index, "reindex"),
    "broken-snapshot": (broken_snapshot, "reindex"),
}


@pytest.mark.parametrize("rule", OF_LOGS)
def test_what_verify_says_about_files_of_a_log_mends_a_copy_of_it(
    rule: str, tmp_path: Path, here: Path, capsys: Captured
) -> None:
    harm, command = OF_LOGS[rule]
    log = log_of_segments(tmp_path / "logs").path
    harm(log)
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    _, printed = said(capsys, "verify", log)
    assert f" {rule}: " in printed
    pasted(capsys, printed, f"loglake {command} ", str(log))
    [copy] = filter(Path.is_dir, (here / "new").iterdir())
    _, after = said(capsys, "verify", copy)
    assert rule not in after
    assert ("no-high-watermark" in after) == (command != "recover")
    assert "not checked" not in after
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


# --- a lake -----------------------------------------------------------------------------------------------------------


@dataclass
class Lake:
    """A source, and the lake that `loglake run` made of it."""

    path: Path
    source: LogDirectory
    log: Partition
    capsys: Captured

    def run(self, *more: str | Path) -> tuple[int, str]:
        return said(self.capsys, "run", self.source.path, "--lake", self.path, *more)

    def verify(self) -> tuple[int, str]:
        return said(self.capsys, "verify", self.path)

    def maintain(self) -> tuple[int, str]:
        return said(self.capsys, "run", "--lake", self.path, "--maintain", "--apply", "--as-of", f"{LATER_MS}ms")

    def archived(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.path / "archive").rglob("*.log")}

    def offsets(self, table: str = "records") -> set[int]:
        return set(DeltaTable(self.path / "tables" / table).to_pyarrow_table(columns=["offset"])["offset"].to_pylist())

    def uncommitted(self) -> dict[int, str]:
        """The transaction state of each offset of the table `records_uncommitted`."""
        rows = DeltaTable(self.path / "tables" / "records_uncommitted").to_pyarrow_table()
        return dict(zip(rows["offset"].to_pylist(), rows["transaction_state"].to_pylist(), strict=True))


@pytest.fixture
def lake(tmp_path: Path, capsys: Captured) -> Lake:
    source = LogDirectory(tmp_path / "my logs")
    return Lake(tmp_path / "lake", source, log_of_segments(source.path), capsys)


def test_damage_is_published_around_with_the_printed_policy(lake: Lake) -> None:
    corrupt(lake.log.path)
    code, printed = lake.run()
    assert code == 2
    assert max(lake.offsets(), default=-1) < 10
    assert "The lost offsets stay an error, with exit code 2, until a copy fills them." in printed
    pasted(lake.capsys, printed, "config set", "orders salvage=permissive")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert max(lake.offsets()) == 29
    code, printed = lake.run()
    assert (code, "They stay an error, with exit code 2, until a copy fills them." in printed) == (2, True)
    assert "salvage=permissive" not in printed
    assert "What follows them is published." in printed
    assert [line for line in commands_in(printed) if "--fill-from" in line]


def test_damage_is_filled_from_another_copy_with_the_printed_command(lake: Lake, tmp_path: Path) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    corrupt(lake.log.path)
    _, printed = lake.run()
    [line] = [line for line in commands_in(printed) if "--fill-from" in line]
    assert [word for word in shlex.split(line) if word.isupper()] == ["COPY"]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(whole)))[1:])[0] == 0
    assert lake.offsets() == {*range(30)}
    assert lake.verify()[0] == 0


@pytest.mark.parametrize("harm", ["segment", "batch"])
def test_a_first_run_takes_lost_offsets_from_the_copy_that_it_names(lake: Lake, tmp_path: Path, harm: str) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    if harm == "segment":
        (lake.log.path / f"{10:020d}.log").unlink()
    else:
        corrupt(lake.log.path)
    code, printed = lake.run("--fill-from", whole)
    assert (code, commands_in(printed)) == (0, [])
    assert lake.offsets() == {*range(30)}
    assert lake.run()[0] == 0
    assert lake.verify()[0] == 0


def test_a_copy_that_does_not_exist_is_refused_like_a_source(lake: Lake, tmp_path: Path) -> None:
    code, printed = lake.run("--fill-from", tmp_path / "gone")
    assert code == said(lake.capsys, "run", tmp_path / "lost", "--lake", lake.path)[0] == 3
    assert f"{tmp_path / 'gone'} does not exist. Nothing was made or changed." in printed
    assert not lake.path.exists()


@pytest.mark.parametrize("what", ["empty", "text", "above"])
def test_a_copy_without_a_log_is_refused_with_what_is_there(lake: Lake, tmp_path: Path, what: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    if what == "text":
        (copy / "server.log").write_text("started")
    elif what == "above":
        log_of_segments(copy / "data/kafka")
    code, printed = lake.run("--fill-from", copy)
    assert code == 3
    expected = {"empty": "is empty", "text": "has text logs of a broker", "above": f"{copy}/data/kafka: name these"}
    assert expected[what] in printed
    assert "Nothing was made or changed." in printed
    assert not lake.path.exists()


@pytest.mark.parametrize("proof", ["ids and epochs", "no epochs", "no id"])
def test_copies_of_which_each_lost_the_segments_beside_the_others_are_joined_if_they_are_of_one_log(
    lake: Lake, tmp_path: Path, proof: str
) -> None:
    copy = log_of_segments(tmp_path / "copy")
    for log, lost in ((lake.log, (10,)), (copy, (0, 20))):
        for base in lost:
            (log.path / f"{base:020d}.log").unlink()
        if proof != "ids and epochs":
            (log.path / ("partition.metadata" if proof == "no id" else "leader-epoch-checkpoint")).unlink()
    code, printed = lake.run("--fill-from", copy.path)
    if proof == "ids and epochs":
        assert (code, lake.offsets()) == (0, {*range(30)})
        return
    assert code == 3
    assert lake.offsets() == {*range(10)}
    [line] = [each for each in printed.splitlines() if "They are not taken" in each]
    assert f"{copy.path} has offsets of orders-0 that are lost here, in [10, 20)" in line


@pytest.mark.parametrize("harm", ["segment", "batch"])
def test_a_copy_beside_the_source_that_has_the_lost_offsets_is_named_with_its_command(
    lake: Lake, tmp_path: Path, harm: str
) -> None:
    copy = Path(shutil.copytree(lake.source.path, tmp_path / "copy"))
    if harm == "segment":
        (lake.log.path / f"{10:020d}.log").unlink()
    else:
        corrupt(lake.log.path)
    (copy / "orders-0" / f"{20:020d}.log").write_bytes((lake.log.path / f"{20:020d}.log").read_bytes()[:-300])
    for _ in range(2):
        code, printed = said(lake.capsys, "run", lake.source.path, copy, "--lake", lake.path)
    assert code == 2
    [line] = [each for each in printed.splitlines() if "is left alone" in each]
    assert pasted(lake.capsys, line, f"--fill-from {copy}/orders-0") <= 1
    assert lake.offsets() == {*range(30)}


def test_offsets_that_are_gone_have_the_same_commands(lake: Lake) -> None:
    (lake.log.path / f"{10:020d}.log").unlink()
    code, printed = lake.run()
    assert code == 2
    pasted(lake.capsys, printed, "config set", "orders salvage=permissive")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.offsets() == {*range(10), *range(20, 30)}


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
    assert said(lake.capsys, "verify", here / "new")[0] == 0
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


def test_a_topic_that_was_made_again_is_taken_with_the_printed_policy(lake: Lake) -> None:
    assert lake.run()[0] == 0
    again = Partition(lake.log.path, OTHER_TOPIC_ID)
    for path in again.segments():
        path.unlink()
    again.append(5, tag=b"w")
    lake.source.high_watermarks(orders_0=5)
    code, printed = lake.run()
    assert code == 2
    assert f"the topic id is {OTHER_TOPIC_ID}" in printed
    pasted(lake.capsys, printed, "config set", "on_recreate=append")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.run()[0] in (0, 1)
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 35


def three_logs(lake: Lake) -> list[Partition]:
    logs = [lake.log, lake.source.partition("orders-1"), lake.source.partition("payments-0", OTHER_TOPIC_ID)]
    for log in logs[1:]:
        log.roll()
        log.append(30)
    lake.source.high_watermarks(orders_0=30, orders_1=30, payments_0=30)
    return logs


def test_topics_that_were_made_again_are_taken_with_one_command_for_all(lake: Lake) -> None:
    logs = three_logs(lake)
    assert lake.run()[0] == 0
    for log, topic_id in zip(logs, (*[f"{OTHER_TOPIC_ID[:-1]}g"] * 2, f"{OTHER_TOPIC_ID[:-1]}Q"), strict=True):
        again = Partition(log.path, topic_id)
        for path in again.segments():
            path.unlink()
        again.append(5, tag=b"w")
    lake.source.high_watermarks(orders_0=5, orders_1=5, payments_0=5)
    assert lake.run()[0] == 2
    for code, printed in (lake.run(), said(lake.capsys, "status", lake.path)):
        assert code == 2
        names = ("orders-0", "orders-1", "payments-0")
        assert [printed.count(f"stopped: {name} of lake lake") for name in names] == [1, 1, 1]
        assert printed.count("What to do") == 1, printed
    pasted(lake.capsys, printed, "config set", "on_recreate=append")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.run()[0] in (0, 1)
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 105


def test_damage_of_several_logs_is_advised_once_with_one_command_for_all(lake: Lake) -> None:
    for log in three_logs(lake):
        [first, *_] = log.segments()
        flip(first, 200)
    assert lake.run()[0] == 2
    for _, printed in (lake.run(), said(lake.capsys, "status", lake.path)):
        assert printed.count("damage: ") == 3
        assert printed.count("What to do") == 1, printed
    pasted(lake.capsys, printed, "config set")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 75


def test_ends_of_several_logs_that_hide_batches_are_read_with_one_command_for_all(lake: Lake, here: Path) -> None:
    logs = three_logs(lake)
    lake.source.high_watermarks(orders_0=35, orders_1=35, payments_0=35)
    for log in logs:
        last = log.segments()[-1]
        at = last.stat().st_size
        log.append(5)
        data = bytearray(last.read_bytes())
        data[at + 8 : at + 12] = struct.pack(">i", len(data) - at - 12 + 1)  # the length field of the batch
        last.write_bytes(data)
    assert lake.run()[0] == 2
    _, printed = lake.run()
    assert printed.count("--salvage`") == 1, printed
    assert pasted(lake.capsys, printed, "recover", "--salvage") == 1
    assert pasted(lake.capsys, printed, "run new ") <= 1
    assert DeltaTable(lake.path / "tables" / "records").to_pyarrow_table().num_rows == 105


def test_a_source_that_ends_earlier_is_left_with_the_printed_command(lake: Lake, tmp_path: Path) -> None:
    whole = log_of_segments(tmp_path / "copy").path.parent
    assert lake.run()[0] == 0
    lake.log.truncate(15)
    lake.source.high_watermarks(orders_0=15)
    code, printed = lake.run()
    assert code == 2
    [line] = [line for line in commands_in(printed) if "--move-source" in line]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(whole)))[1:])[0] == 0
    assert lake.offsets() == {*range(30)}


def copy_of_another_broker(lake: Lake, tmp_path: Path) -> LogDirectory:
    copy = LogDirectory(shutil.copytree(lake.source.path, tmp_path / "copy"))
    (copy.path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=2\n")
    return copy


def test_one_log_is_moved_by_the_printed_command_and_ordinary_runs_of_both_directories_are_quiet_then(
    lake: Lake, tmp_path: Path
) -> None:
    three_logs(lake)
    copy = copy_of_another_broker(lake, tmp_path)
    assert lake.run()[0] == 0
    lake.log.truncate(15)
    lake.source.high_watermarks(orders_0=15, orders_1=30, payments_0=30)
    _, printed = lake.run()
    [line] = [line for line in commands_in(printed) if "--move-source" in line]
    assert said(lake.capsys, *shlex.split(line.replace("COPY", str(copy.path)))[1:])[0] == 0
    moved = {name: row.source for row in read_logs(str(lake.path)).values() for name in [row.topic_partition]}
    assert moved == {
        "orders-0": f"{copy.path}/orders-0",
        "orders-1": f"{lake.source.path}/orders-1",
        "payments-0": f"{lake.source.path}/payments-0",
    }
    for places in ([lake.source.path], [copy.path]):
        code, printed = said(lake.capsys, "run", *places, "--lake", lake.path)
        assert (code, commands_in(printed)) == (0, []), printed
        assert "is left alone" in printed
        assert said(lake.capsys, "status", lake.path)[0] == 0
    code, printed = said(lake.capsys, "run", lake.source.path, copy.path, "--lake", lake.path)
    assert (code, "is left alone" in printed) == (0, False), printed
    Partition(copy.path / "orders-1", next_offset=30).append(5)
    assert said(lake.capsys, "run", copy.path, "--lake", lake.path)[0] == 1


def test_only_logs_whose_source_is_gone_are_moved_by_the_printed_command(lake: Lake, tmp_path: Path) -> None:
    three_logs(lake)
    assert lake.run()[0] == 0
    copy = copy_of_another_broker(lake, tmp_path).path
    shutil.rmtree(lake.log.path)
    code, printed = said(lake.capsys, "run", copy, "--lake", lake.path)
    assert code == 3
    assert pasted(lake.capsys, printed, "--move-source") == 0
    sources = {row.topic_partition: Path(row.source).parent for row in read_logs(str(lake.path)).values()}
    assert sources == {"orders-0": copy, "orders-1": lake.source.path, "payments-0": lake.source.path}
    assert said(lake.capsys, "run", copy, "--lake", lake.path)[0] == 0


def test_only_logs_of_several_topics_whose_source_is_gone_are_moved_and_read_by_later_runs(
    lake: Lake, tmp_path: Path
) -> None:
    three_logs(lake)
    assert lake.run()[0] == 0
    copy = copy_of_another_broker(lake, tmp_path).path
    for name in ("orders-0", "payments-0"):
        shutil.rmtree(lake.source.path / name)
    code, printed = said(lake.capsys, "run", copy, "--lake", lake.path)
    assert code == 3
    assert "--partition orders-0 --partition payments-0 --move-source" in printed
    assert pasted(lake.capsys, printed, "--move-source") == 0
    sources = {row.topic_partition: Path(row.source).parent for row in read_logs(str(lake.path)).values()}
    assert sources == {"orders-0": copy, "orders-1": lake.source.path, "payments-0": copy}
    assert [each.sources for each in recall(str(lake.path)).intakes] == [(str(lake.source.path),), (str(copy),)]


def test_later_runs_read_a_log_where_a_run_for_topic_partitions_moved_it(lake: Lake, tmp_path: Path) -> None:
    three_logs(lake)
    assert lake.run()[0] == 0
    copy = copy_of_another_broker(lake, tmp_path).path
    chosen = ("--partition", "orders-0", "--partition", "payments-0")
    assert said(lake.capsys, "run", copy, "--lake", lake.path, *chosen, "--move-source")[0] == 0
    left, read = recall(str(lake.path)).intakes
    assert (left.sources, left.topics, left.partitions) == ((str(lake.source.path),), (), ())
    assert (read.sources, read.topics, read.partitions) == ((str(copy),), ("orders", "payments"), (0,))


def test_later_runs_read_exactly_the_topic_partitions_that_runs_moved_or_chose(lake: Lake, tmp_path: Path) -> None:
    names = [log.path.name for log in three_logs(lake)] + ["payments-1"]
    lake.source.partition("payments-1", OTHER_TOPIC_ID).append(30)
    lake.run()
    copy = copy_of_another_broker(lake, tmp_path).path
    for moved in (["orders-0", "payments-1"], ["orders-1"]):
        chosen = [word for name in moved for word in ("--partition", name)]
        said(lake.capsys, "run", copy, "--lake", lake.path, *chosen, "--move-source")
    _, *read = recall(str(lake.path)).intakes
    assert {each.sources for each in read} == {(str(copy),)}
    selections = [LogSelection(each.topics, each.partitions) for each in read]
    split = {name: name.rsplit("-", 1) for name in names}
    assert [n for n, (t, p) in split.items() if any(each.matches(t, int(p)) for each in selections)] == [
        "orders-0",
        "orders-1",
        "payments-1",
    ]
    other = ("--topic", "orders", "--partition", "0"), ("--topic", "payments", "--partition", "1")
    for chosen in other:
        said(lake.capsys, "run", lake.source.path, "--lake", tmp_path / "new", *chosen)
    intakes = recall(str(tmp_path / "new")).intakes
    assert [(each.topics, each.partitions) for each in intakes] == [(("orders",), (0,)), (("payments",), (1,))]


def test_a_copy_whose_end_is_not_known_may_have_more_than_the_lake(lake: Lake, tmp_path: Path) -> None:
    copy = copy_of_another_broker(lake, tmp_path)
    assert lake.run()[0] == 0
    log = Partition(copy.path / "orders-0", next_offset=30)
    log.roll()
    log.append(20)
    last = log.path / f"{30:020d}.log"
    content = bytearray(last.read_bytes())
    for where in (last, copy.path):  # a named file; then a directory in which no header can be read above offset 30
        code, printed = said(lake.capsys, "run", where, "--lake", lake.path)
        assert (code, "is left alone." in printed, "nothing that the lake lacks" in printed) == (1, True, False)
        second = handmade.size_of(bytes(content), 0)
        content[16], content[second + 8 : second + 12] = 9, b"\x7f\xff\xff\xff"
        last.write_bytes(content)
        copy.high_watermarks(orders_0=50)


@pytest.mark.parametrize(("records", "other"), [(10, 5), (5, 10)], ids=["longer", "shorter"])
def test_a_directory_that_a_log_was_moved_from_is_reported_again_when_it_goes_another_way(
    lake: Lake, tmp_path: Path, records: int, other: int
) -> None:
    copy = copy_of_another_broker(lake, tmp_path)
    assert lake.run()[0] == 0
    assert said(lake.capsys, "run", copy.path, "--lake", lake.path, "--move-source")[0] == 0
    assert lake.run()[0] == 0
    Partition(copy.path / "orders-0", next_offset=30).append(other, tag=b"w")
    copy.high_watermarks(orders_0=30 + other)
    assert said(lake.capsys, "run", copy.path, "--lake", lake.path)[0] == 0
    assert lake.run()[0] == 0  # it has the first 30 of them
    lake.log.append(records)
    lake.source.high_watermarks(orders_0=30 + records)
    for places in ([lake.source.path], [lake.source.path, copy.path]):
        code, printed = said(lake.capsys, "run", *places, "--lake", lake.path)
        assert (code, "is left alone" in printed) == (1, True), printed


def test_a_refused_move_does_not_register_its_choice(lake: Lake, tmp_path: Path) -> None:
    assert lake.run()[0] == 0
    other = LogDirectory(tmp_path / "other")
    other.partition("orders-0").append(30, tag=b"w")
    both = ("run", lake.source.path, other.path, "--lake", lake.path)
    said(lake.capsys, *both)
    before = recall(str(lake.path)).intakes
    chosen = ("--topic", "orders", "--partition", "0")
    assert said(lake.capsys, "run", other.path, "--lake", lake.path, *chosen, "--move-source")[0] == 1
    assert recall(str(lake.path)).intakes == before
    assert "until now" not in said(lake.capsys, *both)[1]


def test_a_move_that_was_refused_is_not_advised_again(lake: Lake, tmp_path: Path) -> None:
    assert lake.run()[0] == 0
    other = LogDirectory(tmp_path / "other")
    other.partition("orders-0").append(30, tag=b"w")
    code, printed = said(lake.capsys, "run", other.path, "--lake", lake.path, "--move-source")
    assert code == 1
    assert "it cannot be taken: " in printed
    assert "--move-source" not in printed


def test_a_source_that_went_another_way_is_followed_with_the_printed_policy(lake: Lake) -> None:
    assert lake.run()[0] == 0
    lake.log.truncate(15)
    lake.log.epochs([(0, 0), (1, 15)])
    lake.log.append(20, tag=b"w", leader_epoch=1)
    lake.source.high_watermarks(orders_0=lake.log.next_offset)
    code, printed = lake.run()
    assert code == 2
    pasted(lake.capsys, printed, "config set", "on_truncate=follow")
    pasted(lake.capsys, printed, "loglake run", "--policies")
    assert lake.run()[0] in (0, 1)


def test_a_hanging_transaction_of_a_dead_cluster_is_read_with_the_printed_command(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    code, printed = lake.run()
    assert code == 1
    assert lake.offsets() == {*range(30)}
    assert pasted(lake.capsys, printed, "--isolation.level read_uncommitted") == 0
    assert {*range(30, 40)} <= lake.offsets("records_uncommitted")
    assert lake.run()[0] == 0
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "nothing ends it" in printed, commands_in(printed)) == (0, True, []), printed
    assert no_hanging_transaction(read_state(str(lake.path)), time.time_ns() // 1_000_000).passed


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_hanging_transaction_of_an_internal_topic_ends_with_the_printed_command(lake: Lake, is_gone: bool) -> None:
    lake.source.partition("__consumer_offsets-0", OTHER_TOPIC_ID).append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=30, __consumer_offsets_0=5)
    assert lake.run()[0] == 1
    if is_gone:
        shutil.rmtree(lake.source.path)
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == (3 if is_gone else 1)
    assert pasted(lake.capsys, printed, "--isolation.level read_uncommitted") == 0
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "__consumer_offsets-0" in printed) == (3 if is_gone else 0, True), printed


def test_a_lake_that_always_has_uncommitted_rows_is_still_warned_of_a_hanging_transaction(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    for _ in range(2):
        assert lake.run("--isolation.level", "read_uncommitted")[0] == 1
    assert said(lake.capsys, "status", lake.path)[0] == 1


def test_each_hanging_transaction_of_a_log_has_to_be_accepted(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5, **TRANSACTIONAL | {"producer_id": 8})
    lake.source.high_watermarks(orders_0=40)
    _, printed = lake.run()
    assert pasted(lake.capsys, printed, "isolation") == 0
    lake.log.marker(7, handmade.ABORT)
    lake.source.high_watermarks(orders_0=41)
    code, printed = lake.run()
    assert (code, "warning: orders-0 of lake lake: the transaction of producer 8" in printed) == (1, True), printed


def test_a_log_that_stops_before_committed_records_is_read_with_the_printed_commands(lake: Lake, here: Path) -> None:
    last = lake.log.path / f"{20:020d}.log"
    at = last.stat().st_size
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=35)
    data = bytearray(last.read_bytes())
    data[at + 8 : at + 12] = struct.pack(">i", len(data) - at - 12 + 1)  # the length field of the batch
    last.write_bytes(data)
    code, printed = lake.run()
    assert (code, lake.offsets()) == (2, {*range(30)})
    assert "end the active segment and are no ordinary tail" in printed
    [header] = [line for line in printed.splitlines() if line.startswith("topic partition")]
    [row] = [line for line in printed.splitlines() if line.startswith("orders-0 ")]
    assert re.split(" {2,}", header)[-2:] == ["not read", "published to"]
    assert row.split()[-2:] == ["5", "30"]
    _, by_verify = said(lake.capsys, "verify", lake.log.path)
    [command] = [line for line in commands_in(by_verify) if "--salvage" in line]
    assert command in commands_in(printed), "two commands for one harm"
    assert pasted(lake.capsys, printed, "--salvage") == 1
    assert pasted(lake.capsys, printed, "run new/") == 0
    assert lake.offsets() == {*range(35)}


def test_a_transaction_that_may_end_where_the_log_was_not_read_is_not_called_hanging(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.roll()
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    (lake.log.path / f"{35:020d}.log").unlink()
    (lake.log.path / f"{35:020d}.log").symlink_to(f"{35:020d}.log")  # a loop, which cannot be read
    for shown in (lake.run()[1], said(lake.capsys, "status", lake.path)[1]):
        assert "The rest of the log was not read, because it has stopped: unreadable" in shown
        assert "abort it on the cluster" not in shown
        assert "no_hanging_transaction" not in shown


def test_a_transaction_that_hung_at_the_high_watermark_hangs_after_its_source_is_deleted(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    assert lake.run()[0] == 1
    for is_deleted in (False, True):
        if is_deleted:
            shutil.rmtree(lake.source.path)
        code, printed = said(lake.capsys, "status", lake.path)
        assert code == (3 if is_deleted else 1)
        assert "warning: orders-0 of lake lake: the transaction of " in printed
        assert "abort it on the cluster" in printed
        assert (f"Its source {lake.log.path} is gone" in printed) == is_deleted
        assert not no_hanging_transaction(read_state(str(lake.path)), time.time_ns() // 1_000_000).passed


def test_a_transaction_whose_source_is_gone_is_accepted_with_the_printed_command(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    assert lake.run()[0] == 1
    shutil.rmtree(lake.source.path)
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == 3
    assert pasted(lake.capsys, printed, "--forget-source") == 1
    code, printed = said(lake.capsys, "status", lake.path)
    assert code == 1
    assert pasted(lake.capsys, printed, "isolation") == 0
    assert lake.offsets("records_uncommitted") == {*range(40)}
    assert lake.offsets() == {*range(30)}
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "isolation" in printed) == (0, False), printed
    assert no_hanging_transaction(read_state(str(lake.path)), time.time_ns() // 1_000_000).passed


WITHOUT_PATH = ("--maintain", "--isolation.level", "read_uncommitted")


def test_a_transaction_whose_source_grew_after_its_records_were_written_is_not_yet_accepted(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    assert lake.run()[0] == 1
    assert said(lake.capsys, "run", "--lake", lake.path, *WITHOUT_PATH)[0] == 0
    lake.log.append(10)
    lake.source.high_watermarks(orders_0=50)
    assert lake.run("--isolation.level", "read_committed")[0] == 1
    assert lake.offsets("records_uncommitted") == {*range(40)}
    shutil.rmtree(lake.source.path)
    assert said(lake.capsys, "run", "--lake", lake.path, "--forget-source", lake.source.path)[0] == 1
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "nothing ends it" in printed) == (1, False), printed
    assert pasted(lake.capsys, printed, "isolation") == 0
    assert lake.offsets("records_uncommitted") == {*range(50)}
    code, printed = said(lake.capsys, "status", lake.path)
    assert (code, "nothing ends it" in printed) == (0, True), printed


def test_the_records_of_a_transaction_that_the_printed_command_wrote_say_later_how_it_ended(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    code, printed = lake.run()
    assert code == 1
    assert pasted(lake.capsys, printed, "isolation") == 0
    assert lake.uncommitted() == dict.fromkeys(range(30), "committed") | dict.fromkeys(range(30, 35), "open")
    lake.log.append(5)
    lake.source.high_watermarks(orders_0=40)
    assert lake.run()[0] == 0
    assert lake.uncommitted() == dict.fromkeys(range(30), "committed") | dict.fromkeys(range(30, 40), "open")
    lake.log.marker(7, handmade.ABORT)
    lake.log.append(4)
    lake.source.high_watermarks(orders_0=45)
    assert lake.run()[0] == 0
    committed = dict.fromkeys([*range(30), *range(35, 40), *range(41, 45)], "committed")
    assert lake.uncommitted() == committed | dict.fromkeys(range(30, 35), "aborted")
    assert lake.offsets() == committed.keys()


def test_the_command_that_an_alert_about_a_transaction_names_works_without_the_source(lake: Lake) -> None:
    lake.log.append(5, **TRANSACTIONAL)
    lake.source.high_watermarks(orders_0=35)
    assert lake.run()[0] == 1
    for is_gone, code in ((False, 0), (True, 3)):
        if is_gone:
            shutil.rmtree(lake.source.path)
        problems = problems_of(read_state(str(lake.path)), time.time_ns() // 1_000_000, 0)
        commands = {each.command for each in problems if "transaction" in f"{each.kind} {each.what}"}
        assert [said(lake.capsys, *shlex.split(command)[1:])[0] for command in commands] == [code], commands


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


def test_a_table_that_a_killed_run_began_and_never_made_is_not_called_gone(lake: Lake) -> None:
    assert lake.run()[0] == 0
    folder = lake.path / "tables" / "records_uncommitted" / "topic=orders"
    folder.mkdir(parents=True)
    shutil.copy(next((lake.path / "tables" / "records").rglob("*.parquet")), folder / "part-1.parquet")
    code, printed = lake.verify()
    assert (code, "is gone" in printed) == (0, False), printed
    assert "info table-not-complete: The table records_uncommitted was never made" in printed
    assert lake.run()[0] == said(lake.capsys, "status", lake.path)[0] == 0
    assert lake.run("--isolation.level", "read_uncommitted")[0] == 0
    assert lake.verify()[0] == 0


PACKERS = {
    "gzip": lambda data: gzip.compress(data),
    "bzip2": lambda data: bz2.compress(data),
    "xz": lambda data: lzma.compress(data),
}


@pytest.mark.parametrize(
    ("kind", "segment", "mode"), [("gzip", 2, "copy"), ("xz", 1, "copy"), ("bzip2", 0, "reference")]
)
def test_a_packed_segment_is_said_and_read_after_the_printed_command(
    lake: Lake, kind: str, segment: int, mode: str
) -> None:
    path = lake.log.segments()[segment]
    path.write_bytes(PACKERS[kind](path.read_bytes()))
    for _ in range(2):
        code, printed = lake.run("--mode", mode)
        assert code == 2
        assert not (lake.path / "tables/records").exists() or lake.offsets() == {*range(10 * segment)}
        assert "salvage" not in printed
    assert said(lake.capsys, "status", lake.path)[0] == 2
    code, of_files = said(lake.capsys, "verify", lake.source.path)
    assert code == 2
    for text in (printed, of_files):
        assert "salvage" not in text
        assert f" is {'an' if kind == 'xz' else 'a'} {kind} file" in text
    [command] = {line for text in (printed, of_files) for line in re.findall(r"`([^`]+ && mv [^`]+)`", text)}
    subprocess.run(command, shell=True, check=True)
    assert lake.run("--mode", mode)[0] == 0
    assert lake.offsets() == {*range(30)}
    assert said(lake.capsys, "status", lake.path)[0] == 0


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_segment_that_is_no_file_is_said_once_by_each_run(lake: Lake, kind: str, number: int) -> None:
    segment = lake.log.segments()[number]
    segment.unlink()
    segment.mkdir() if kind == "directory" else segment.symlink_to("/nowhere/segment.log")
    for _ in range(2):
        code, printed = lake.run()
        assert code == 3
        about = [line for line in printed.splitlines() if str(segment) in line or "cannot be read" in line]
        assert len(about) == 1, printed
        assert about[0].startswith(f"error: {segment} is ")
        assert "1 stopped log" in printed
    assert "the segment at offset" in said(lake.capsys, "status", lake.path)[1]


def test_bytes_with_the_offsets_of_a_segment_that_is_no_file_are_said_too(lake: Lake) -> None:
    first, second, _ = lake.log.segments()
    first.write_bytes(first.read_bytes() + handmade.flip(second.read_bytes(), 80))
    second.unlink()
    second.mkdir()
    code, printed = lake.run()
    assert code == 3
    damage = [line for line in printed.splitlines() if line.startswith("damage: ")]
    assert [f"file {first}, position " in line for line in damage] == [True], printed
    assert f"error: {second} is " in printed


# --- every rule -------------------------------------------------------------------------------------------------------

SHOWS_MORE = "The command shows more; the way out depends on what it shows."
OF_TABLES = "In tests/harm: what other engines do to tables."
PASTED = {
    *OF_LOGS,
    "corrupt-offsets",
    "missing-offsets",
    "transaction-outcome-lost",
    "trimmed-before-ingest",
    "high-watermark-beyond-log-end",
    "topic-recreated",
    "source-behind",
    "source-diverged",
    "archive-file-changed",
    "archive-file-missing",
    "archive-changed",
    "archive-unreadable",
    "changed-after-publishing",
    "slices-not-merged",
    "table-missing",
    "ledger-has-a-hole",
    "packed-segment",
    "log-start-fell",
    "log-lost",
    "offsets-not-archived",
}
"""Rules whose advice is pasted above, or is the same text as one that is."""
NOT_PASTED_HERE = {
    "wrapper-offset-zero": "tests/unit/logcore/cli/test_recover.py runs the command on such a log.",
    "snapshot-differs": "The same command as broken-snapshot, which is pasted above.",
    "index-missing": "Information: a broker builds it by itself.",
    "nothing-chosen": SHOWS_MORE,
    "not-a-segment": SHOWS_MORE,
    "unreadable": "COPY is a disk that still has the bytes; tests/jobs/test_late_segments.py fills from copies.",
    "delete-directory": SHOWS_MORE,
    "zookeeper-directory": SHOWS_MORE,
    "stray-directory": SHOWS_MORE,
    "copy-under-another-name": SHOWS_MORE,
    "remote-tier": "DIR is storage that only the operator knows; tests/jobs has remote storage.",
    "remote-metadata": SHOWS_MORE,
    "source-cleaned": "Words about later runs; nothing brings the records back.",
    "source-trimmed": SHOWS_MORE,
    "range-not-filled": "Words: no command moves batches at a source. tests/jobs/test_overlapping_segments.py does.",
    "offsets-given-up": "The same command as high-watermark-beyond-log-end, which is pasted above.",
    "second-source": "tests/unit/spark_jobs/ingest/test_moved_sources.py pastes the command.",
    "log-gone": "tests/unit/spark_jobs/ingest/test_moved_sources.py runs the command.",
    "log-not-judged": SHOWS_MORE,
    "output-mismatch": OF_TABLES,
    "table-file-damaged": OF_TABLES,
    "table-file-missing": OF_TABLES,
    "table-file-size": OF_TABLES,
    "table-went-back": OF_TABLES,
    "table-not-complete": "Information: the next run completes it.",
    "commits-not-kept": SHOWS_MORE,
    "rows-not-ours": "tests/harm/test_removed_rows.py pastes the command.",
    "rows-removed": "tests/spark deletes rows by deletion vectors and runs the command.",
    "row-digest-differs": OF_TABLES,
    "page-checksum-differs": OF_TABLES,
    "rows-differ-from-archive": OF_TABLES,
    "rows-differ-from-ledger": OF_TABLES,
    "frontier-missing": OF_TABLES,
    "withdrawn-rows": OF_TABLES,
    "commit-file-damaged": OF_TABLES,
    "rows-out-of-order": OF_TABLES,
    "stray-archive-file": OF_TABLES,
    "expectation-failed": OF_TABLES,
    "message-not-interpreted": SHOWS_MORE,
    "compaction-unproven": "A mistake in Loglake.",
    "archive-not-written": "Repeats a run after the cause is gone; tests/crash fills the disk.",
    "source-changed": "Repeats a run after the cause is gone.",
    "index-not-rebuilt": "Repeats a job after the cause is gone.",
}
"""Rules with a command that this file does not paste, each with the reason."""

WITHOUT_COMMAND = {
    "A good file has to come from a broker or a replica, in a place that only the operator knows.": """
        broken-partition-file broken-root-file checkpoint-beyond-log-end index-past-end leader-epoch-differs
        leader-epoch-regression metadata-log-starts-late no-high-watermark no-meta-properties no-segments
        oversized-segment remote-segment-missing remote-tier-unproven segment-without-batch snapshot-not-whole
        transaction-torn zookeeper-cut-off zookeeper-damaged zookeeper-transactions-missing""",
    "A path, a mount, a permission or another name: the message says which.": """
        archive-not-checked archive-not-deleted copies-undecided copy-absent empty-directory group-partitions-missing
        high-watermark-fell illegal-topic-name log-directory-missing no-internal-topic no-remote-metadata
        not-a-log-directory path-not-found remote-storage-empty segments-not-named topic-ids-differ""",
    "Nothing is lost here: the cause is at a client, or in a newer Kafka.": """
        batch-outside-transaction control-batch-shape ignored-bytes inner-bytes-left inner-crc-differs
        inner-magic-differs last-offset-delta-short max-timestamp-differs message-not-read messages-below-log-end
        producer-epoch-regression producer-sequence sequence-duplicate sequence-gap unknown-attribute-bits
        unknown-control-type unusual-encoding""",
    "The message has the command, or the reason why there is none.": """
        compaction-refused lake-identity-differs recovery-refused remote-range-left-out remote-segment-unreadable
        replacement-refused several-copies source-gone""",
    "People decide: nothing shows what is right.": """
        commit-beyond-log-end incarnation-opened not-provable remote-orphan settings-in-doubt
        snapshots-at-one-offset transaction-hanging""",
}
"""Errors and warnings without a command, by the reason."""

IN_A_LAKE = HarmedPlace("/lake", "loglake run /logs --lake /lake", "/logs/t-0", topic="t", partition=0)


def test_each_rule_with_a_command_is_pasted_or_has_a_reason() -> None:
    with_command = {
        rule for rule in RULES if "`loglake " in advice(rule, IN_A_LAKE) + advice(rule, HarmedPlace(directory="/logs"))
    }
    assert {*PASTED, *NOT_PASTED_HERE} >= with_command
    assert not PASTED & {*NOT_PASTED_HERE}
    assert {*NOT_PASTED_HERE} <= with_command, "a reason for what has no command"
    without = {rule for rule in {*RULES} - with_command if RULES[rule].severity != "info"}
    reasons = [rule for rules in WITHOUT_COMMAND.values() for rule in rules.split()]
    assert sorted(without - PASTED) == sorted(reasons), "the message of the others has the command"


def test_the_command_of_maintenance_has_one_text() -> None:
    checks = [each for each in vars(check_definitions).values() if isinstance(each, CheckDefinition)]
    assert len(checks) > 20
    assert not [text for each in (*checks, *RULES.values()) if "--maintain" in (text := each.what_to_do)]
    assert advice("stray-archive-file", IN_A_LAKE).count(f"`{maintain_command('/lake')} --apply`") == 1


def test_a_lake_whose_sources_are_not_known_says_what_the_word_is() -> None:
    assert "LOGDIR is the log directory of the broker." in advice("missing-offsets", HarmedPlace(lake="/lake"))


ONLY_IN_A_LAKE = {
    *(*MAINTENANCE_RULES, *LAKE_STATE_RULES, "changed-after-publishing"),
    *("topic-recreated", "source-diverged", "source-behind", "trimmed-before-ingest", "source-trimmed"),
    *("source-cleaned", "second-source", "log-gone", "offsets-given-up", "range-not-filled"),
    *("archive-unreadable", "archive-changed", "archive-not-written", "log-not-judged", "output-mismatch"),
    "table-file-damaged",
}


def test_advice_about_files_in_no_lake_names_no_lake() -> None:
    for rule in RULES:
        said = advice(rule, HarmedPlace(directory="/logs/t-0", topic="t", partition=0))
        assert rule in ONLY_IN_A_LAKE or not re.search(r"\b(LAKE|LOGDIR|policies\.yaml)\b|`loglake run", said), said


def test_commands_of_a_lake_have_no_word_that_loglake_knows() -> None:
    place = HarmedPlace(lake="/lake", run="loglake run /logs --lake /lake")
    for rule in RULES:
        for text in (advice(rule, IN_A_LAKE), advice(rule, place)):
            words = {word for line in commands_in(text) for word in shlex.split(line)}
            assert not words & {"LAKE", "SOURCE", "LOGDIR", "SRC", "OFFSETS"}, (rule, text)
