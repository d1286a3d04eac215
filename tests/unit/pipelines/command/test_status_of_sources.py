"""`loglake status` about sources: gone, forgotten, damaged, with fewer records than before."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.errors import StorageError, UsageError
from spark_jobs.lake.setup import registry
from spark_jobs.lake.view import unread_sources
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.lake.view.runs.run_ends import SOURCE_UNREAD, keep_run_end
from spark_jobs.lake_commands.metrics import lake_samples
from tests import handmade, pasted_advice
from tests.broker_directory import CLUSTER, LogDirectory
from tests.in_process import without_spark
from tests.unit.pipelines.command.asked_status import MINUTE_MS, NOW_MS, Captured, Status, lake_problems

pytestmark = pytest.mark.usefixtures("history")


def test_a_registered_copy_that_is_gone_is_named_where_there_is_damage_and_putting_it_back_mends(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake, copy = LogDirectory(tmp_path / "source"), str(tmp_path / "lake"), tmp_path / "copy"
    orders = source.partition("orders-0")
    orders.append(5)
    source.high_watermarks(orders_0=5)
    shutil.copytree(source.path, copy)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main([*run, "--fill-from", str(copy)]) == 0
        shutil.rmtree(copy)
        assert "registered copy" not in status(lake)[1], "nothing is lost yet"
        orders.append(5)
        segment = orders.segments()[0]
        last = segment.stat().st_size - 1
        orders.append(5)
        source.high_watermarks(orders_0=15)
        shutil.copytree(source.path, tmp_path / "later")
        content = bytearray(segment.read_bytes())
        content[last] ^= 0xFF
        segment.write_bytes(content)
        capsys.readouterr()
        assert main(run) == 2
        again = shlex.join(["loglake", *run])
        line = f"A registered copy to fill from is missing: {copy} does not exist. Put it back; then `{again}` takes "
        assert line in capsys.readouterr().out
        code, said = status(lake)
        assert (code, line in said) == (2, True), said
        assert main(["doctor", "--lake", lake]) == 0
        forget = f"`loglake run --lake {lake} --forget-source {copy}`"
        assert re.search(rf"info +copy +{copy} does not exist\..*{forget}", capsys.readouterr().out)
        (tmp_path / "later").rename(copy)
        assert (main(run), status(lake)[0]) == (0, 0)


def test_a_source_that_vanished_is_an_error_until_a_run_succeeds(lakes: Path, status: Status) -> None:
    lake = str(lakes / "sound")
    keep_run_end(lake, "intake", NOW_MS - 9 * MINUTE_MS)
    keep_run_end(lake, "intake", NOW_MS - MINUTE_MS, SOURCE_UNREAD, "/srv/kafka does not exist.")
    code, said = status(lake)
    assert code == 3
    for part in ("/srv/kafka does not exist.", f"loglake doctor --lake {lake}", "2027-01-15T07:51:00Z"):
        assert part in said
    figures = {(each.metric, dict(each.labels).get("kind")): each.value for each in lake_samples(lake, "s", NOW_MS)}
    assert figures["loglake_problems", "unread-source"] == 1
    assert figures["loglake_last_run_succeeded", None] == 0
    assert figures["loglake_last_success_age_seconds", None] == 540
    keep_run_end(lake, "intake", NOW_MS)
    assert status(lake)[0] == 0


def test_a_run_whose_only_source_is_gone_is_an_error_of_the_lake(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == 0
        source.path.rename(tmp_path / "away")
        assert main(run) == 3
        code, said = status(lake)
        assert (code, f"{source.path} does not exist." in said) == (3, True), said
        assert main(["runs", lake, "--last", "1"]) == 0
        line = capsys.readouterr().out.splitlines()[0]
        assert "intake  failed" in line
        assert f"SourceUnread: {source.path} does not exist." in line
        assert main(["metrics", lake]) == 0
        figures = capsys.readouterr().out
        assert re.search(r'loglake_problems{[^}]*kind="unread-source"[^}]*} 1\n', figures), figures
        assert re.search(r"loglake_last_run_succeeded{[^}]*} 0\n", figures)
        (tmp_path / "away").rename(source.path)
        assert main(run) == 0
        capsys.readouterr()
        assert main(["runs", lake]) == 0
        assert "failed" not in capsys.readouterr().out
        assert status(lake)[0] == 0
        assert main(["run", str(tmp_path / "misspelt"), "--lake", lake]) == 3  # none of the lake's sources
        assert status(lake)[0] == 0


@pytest.mark.parametrize("how", ["moved away", "not mounted", "dangling link", "hangs"])
def test_a_source_that_is_gone_is_an_error_before_any_run_meets_it(
    how: str, tmp_path: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    look, ended = os.scandir, threading.Event()

    def hang(path: str) -> object:
        if str(path) == str(source.path):
            ended.wait()
        return look(path)

    with without_spark(), monkeypatch.context() as patch:
        assert main(["run", str(source.path), "--lake", lake]) == 0
        assert status(lake)[0] == 0
        if how == "hangs":
            patch.setattr(unread_sources, "PATIENCE_S", 0.1)
            patch.setattr("os.scandir", hang)
        else:
            source.path.rename(tmp_path / "away")
        if how == "not mounted":
            source.path.mkdir()
        if how == "dangling link":
            source.path.symlink_to(tmp_path / "snapshot")
        code, said = status(lake)
        ended.set()
        assert code == 3
        words = {"not mounted": "is empty", "hangs": "does not answer"}.get(how, "does not exist")
        assert f"error: the sources: {source.path} {words}" in said
        assert lake_problems(lake) == ({"unread-source": 1} if how != "hangs" else {})
    if how != "hangs":
        if how == "dangling link":
            source.path.unlink()
        shutil.rmtree(source.path, ignore_errors=True)
        (tmp_path / "away").rename(source.path)
    assert status(lake)[0] == 0


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_nothing_looks_again_below_a_source_that_does_not_answer(
    mode: str, tmp_path: Path, status: Status, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    orders, ended = source.partition("orders-0"), threading.Event()
    orders.append(5)
    orders.append(5, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0)
    source.high_watermarks(orders_0=10)
    again: list[str] = []

    def hanging(look: Callable[..., object]) -> Callable[..., object]:
        def hang(path: str = ".", *more: object, **options: object) -> object:
            if str(path).startswith(str(source.path)):
                if threading.current_thread() is threading.main_thread():
                    again.append(str(path))
                else:
                    ended.wait()
            return look(path, *more, **options)

        return hang

    with without_spark():
        main(["run", str(source.path), "--lake", lake, "--mode", mode])
        with monkeypatch.context() as patch:
            patch.setattr(unread_sources, "PATIENCE_S", 0.1)
            for name in ("scandir", "listdir", "stat", "lstat"):
                patch.setattr(os, name, hanging(getattr(os, name)))
            code, said = status(lake)
            assert main(["metrics", lake]) == 0
            ended.set()
        assert (code, "does not answer" in said) == (3, True), said
        assert again == []


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_sources_in_a_store_that_does_not_answer_are_left_to_the_runs(
    lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = str(lakes / "sound")
    registry.remember(lake, Intake(("s3://bucket/logs",)))

    def fail(_: str) -> bool:
        raise StorageError("denied")

    def refuse(_: str) -> bool:
        raise UsageError("no such endpoint")

    for answer, code in ((fail, 0), (refuse, 0), (lambda _: True, 0), (lambda _: False, 3)):
        monkeypatch.setattr("spark_jobs.lake.store.storage.has_files", answer)
        assert status(lake)[0] == code


@pytest.mark.parametrize("has_run", [True, False])
@pytest.mark.parametrize("others", [0, 1])
def test_a_source_that_is_gone_for_good_is_forgotten_with_the_printed_command(
    has_run: bool, others: int, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    policies, lake = tmp_path / "policies.yaml", str(tmp_path / "lake")
    policies.write_text("lake: {ingest: every 5 min}\ntopics: {orders: {decode.value: string}}\n")
    sources = [LogDirectory(tmp_path / f"disk {number}") for number in range(1 + others)]
    for number, source in enumerate(sources):
        source.partition(f"orders-{number}").append(5)
        source.high_watermarks(**{f"orders_{number}": 5})
    run = ["run", *(str(each.path) for each in sources), "--lake", lake]
    with without_spark():
        assert main([*run, "--policies", str(policies)]) == 0
        shutil.rmtree(sources[0].path)
        if has_run:
            assert main(run) == 3
        code, said = status(lake)
        assert code == 3
        [forget] = [line for line in pasted_advice.commands_in(said) if "--forget-source" in line]
        assert main(shlex.split(forget)[1:]) == 0
        assert read_registered(lake).policies == str(policies)
        if others:
            assert main(["run", str(sources[1].path), "--lake", lake]) == 0
        for later_ms in (0, 60 * MINUTE_MS):
            code, said = status(lake, now_ms=NOW_MS + (0 if others else later_ms))
            assert (code, str(sources[0].path) in said) == (0, False), said
        assert lake_problems(lake) == {}
        assert len(DeltaTable(f"{lake}/tables/records").to_pyarrow_table()) == 5 * len(sources)
        capsys.readouterr()
        assert main(["run", "--lake", lake, "--forget-source", str(sources[0].path)]) == 64
        assert "is no registered source" in capsys.readouterr().err
        LogDirectory(sources[0].path).partition("orders-0").append(9)
        sources[0].high_watermarks(orders_0=9)
        if not others:  # it is a source again, and the policies count
            assert main(["run", str(sources[0].path), "--lake", lake]) == 0
            assert len(DeltaTable(f"{lake}/tables/decoded/orders").to_pyarrow_table()) == 9


@pytest.fixture
def two_disks(tmp_path: Path) -> list[LogDirectory]:
    """On each lies one of two logs; the first one lost a log of its topic."""
    disks = [LogDirectory(tmp_path / name) for name in ("a", "b")]
    for disk, log in zip(disks, ("orders-0", "payments-0"), strict=True):
        disk.partition(log).append(5)
        disk.high_watermarks(**{log.replace("-", "_"): 5})
    disks[0].high_watermarks(orders_0=5, orders_1=10)
    disks[0].checkpoint("recovery-point", orders_0=5, orders_1=10)
    return disks


def test_damage_of_a_source_stays_until_a_run_of_it(
    two_disks: list[LogDirectory], tmp_path: Path, status: Status
) -> None:
    lake = str(tmp_path / "lake")
    first, second = (["run", str(disk.path), "--lake", lake] for disk in two_disks)
    with without_spark():
        assert main(first) == 2
        for _ in range(2):  # the second one has nothing to do
            assert main(second) == 0
            code, said = status(lake)
            assert (code, "orders-1" in said) == (2, True), said
        two_disks[0].high_watermarks(orders_0=5)
        two_disks[0].checkpoint("recovery-point", orders_0=5)
        assert main(first) == 0
        assert status(lake)[0] == 0


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("names", [(0,), (0, 1)], ids=["one run each", "one run of both"])
def test_with_a_source_what_runs_said_of_it_is_forgotten(
    names: tuple[int, ...],
    is_killed: bool,
    two_disks: list[LogDirectory],
    tmp_path: Path,
    status: Status,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake, paths = str(tmp_path / "lake"), [str(disk.path) for disk in two_disks]
    run = ["run", *(paths[name] for name in names), "--lake", lake]
    forget = ["run", "--lake", lake, "--forget-source", paths[0]]
    with without_spark():
        assert main(run) == 2
        shutil.rmtree(paths[0])
        assert main(run) == 3
        code, said = status(lake)
        assert (code, "orders-1" in said) == (3, True), said
        if is_killed:
            with monkeypatch.context() as patch:
                patch.setattr(registry, "_put_hint", Killed.now)
                assert main(forget) == 130
        assert main(forget) == 0
        for _ in range(2):
            code, said = status(lake)
            assert (code, paths[0] in said) == (0, False), said
        assert not registry.has_sources(lake) or len(names) > 1


class Killed:
    @staticmethod
    def now(*_: object) -> None:
        raise KeyboardInterrupt


def test_the_run_that_forgets_a_source_ends_with_the_code_of_the_lake(
    two_disks: list[LogDirectory], tmp_path: Path, status: Status, capsys: Captured
) -> None:
    lake, paths = str(tmp_path / "lake"), [str(disk.path) for disk in two_disks]
    with without_spark():
        for path in reversed(paths):
            main(["run", path, "--lake", lake, "--mode", "reference"])
        assert status(lake)[0] == 2
        capsys.readouterr()
        assert main(["run", "--lake", lake, "--forget-source", paths[1]]) == 2
        said = capsys.readouterr().err
        assert ("orders-1" in said, "archive" in said) == (True, False), said
        assert status(lake)[0] == 2


def test_a_high_watermark_that_fell_is_said_until_a_run_of_its_source_finds_it_as_high_again(
    two_disks: list[LogDirectory], tmp_path: Path, status: Status
) -> None:
    lake = str(tmp_path / "lake")
    first, second = (["run", str(disk.path), "--lake", lake] for disk in two_disks)
    two_disks[0].checkpoint("recovery-point", orders_0=5)
    two_disks[0].high_watermarks(orders_0=5)
    with without_spark():
        assert (main(first), main(second)) == (0, 0)
        two_disks[0].high_watermarks(orders_0=2)
        assert main(first) == 1
        assert main(second) == 0
        code, said = status(lake)
        assert (code, "high watermark is 2" in said) == (1, True), said
        two_disks[0].high_watermarks(orders_0=5)
        assert main(first) == 0
        assert status(lake)[0] == 0


@pytest.mark.parametrize(
    ("broker", "count", "code"),
    [(2, 5, 0), (2, 15, 1), (1, 5, 1)],
    ids=["a replica that is behind", "a replica that has more", "another disk of the broker"],
)
def test_run_and_status_agree_on_a_partition_in_several_directories(
    broker: int, count: int, code: int, tmp_path: Path, status: Status
) -> None:
    """Until a run no longer meets the other copy."""
    first, other, lake = LogDirectory(tmp_path / "first"), LogDirectory(tmp_path / "other"), str(tmp_path / "lake")
    orders = first.partition("orders-0")
    orders.append(10)
    first.high_watermarks(orders_0=10)
    other.partition("orders-0").append(count)
    other.high_watermarks(orders_0=count)
    (other.path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id={broker}\n")
    with without_spark():
        assert main(["run", str(first.path), "--lake", lake]) == 0
        assert status(lake)[0] == 0
        for _ in range(2):  # the second run writes nothing
            assert main(["run", str(first.path), str(other.path), "--lake", lake]) == code
            said = status(lake)
            assert (said[0], f"the copy in {other.path}/orders-0 is left alone" in said[1]) == (code, code == 1), said[
                1
            ]
        orders.append(5)
        first.high_watermarks(orders_0=15)
        shutil.rmtree(other.path)
        assert main(["run", str(first.path), "--lake", lake, "--forget-source", str(other.path)]) == 0
        assert status(lake)[0] == 0


def test_a_high_watermark_that_fell_is_a_warning_with_its_present_value_until_it_is_as_high_again(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(20)
    source.high_watermarks(orders_0=10)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == 0
        for mark in (8, 9):
            source.high_watermarks(orders_0=mark)
            for _ in range(2):
                capsys.readouterr()
                assert main(run) == 1
                said = f"orders-0: the source's high watermark is {mark}, and the lake's is 10"
                assert said in capsys.readouterr().err
                code, printed = status(lake)
                assert (code, said in printed, printed.count("the source's high watermark is")) == (1, True, 1)
        source.high_watermarks(orders_0=10)
        assert (main(run), status(lake)[0]) == (0, 0)


def test_the_high_watermark_of_a_source_is_not_compared_where_another_one_is_named(
    tmp_path: Path, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(20)
    source.high_watermarks(orders_0=10)
    run = ["run", str(source.path), "--lake", lake, "--high-watermark"]
    with without_spark():
        assert [main([*run, mark]) for mark in ("15", "15", "checkpoint", "log-end")] == [0, 0, 1, 0]
    assert "the source's high watermark is 10, and the lake's is 15" in capsys.readouterr().err


def test_run_names_skipped_segments_and_a_log_that_was_renamed_is_a_warning_until_it_is_back(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    for number in range(2):
        source.partition(f"orders-{number}").append(5)
    source.high_watermarks(orders_0=5, orders_1=5)
    (source.path / "orders-1").rename(source.path / "orders-1.bak")
    with without_spark():
        for _ in range(2):  # the second run writes nothing
            assert main(["run", str(source.path), "--lake", lake]) == 1
            [command] = re.findall(r"^warning: .* has segments .*`(mv [^`]+)`", capsys.readouterr().err, re.MULTILINE)
            code, said = status(lake)
            assert (code, command in said) == (1, True), said
        shutil.copytree(source.path / "orders-0", source.path / "orders-0.bak")
        subprocess.run(shlex.split(command), check=True)
        for _ in range(2):
            assert main(["run", str(source.path), "--lake", lake]) == 0
            assert f"note: {source.path}/orders-0.bak is not a partition" in capsys.readouterr().err
            assert status(lake)[0] == 0
    assert DeltaTable(str(tmp_path / "lake" / "tables" / "records")).to_pyarrow_table().num_rows == 10


@pytest.mark.parametrize("lost", ["from the first run on", "later"])
def test_a_log_without_a_line_in_the_checkpoint_is_named_by_status_with_what_its_lag_waits_for(
    lost: str, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.append(5)
    source.partition("orders-1").append(3)
    run = ["run", str(source.path), "--lake", lake]
    source.high_watermarks(orders_1=3, **({"orders_0": 5} if lost == "later" else {}))
    with without_spark():
        assert main(run) == 0
    code, said = status(lake)
    notes = [line for line in said.splitlines() if "offsets are ingested and not published" in line]
    if lost == "later":
        assert notes == []
        source.high_watermarks(orders_1=3)
        orders.append(1)
        capsys.readouterr()
        with without_spark():
            assert main(run) == 1
        expected = "orders-0: replication-offset-checkpoint has no line of the log, so its high watermark is 0, and the"
        assert expected in "".join(capsys.readouterr())
        return
    assert code == 0
    assert notes == [
        "  note: orders-0: 5 offsets are ingested and not published; they are at or above the source's high watermark, "
        "0, because replication-offset-checkpoint has no line of the log. If that is wrong, "
        f"`loglake run {source.path} --lake {lake} --topic orders --partition 0 --high-watermark log-end` publishes "
        "them. What to type: "
        f"`loglake offsets {orders.path} --at latest`"
    ]
    source.high_watermarks(orders_0=5, orders_1=3)
    with without_spark():
        assert main(run) == 0
    assert "not published;" not in status(lake)[1]
