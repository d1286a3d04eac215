"""`loglake status`: what alerts and figures know, in one page, with the exit code of everything else."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from logcore.logs.model.findings import found
from spark_jobs.contracts import Intake
from spark_jobs.errors import StorageError, UsageError
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import lease
from spark_jobs.lake.view import unread_sources
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.lake.view.runs.run_ends import SOURCE_UNREAD, keep_run_end
from spark_jobs.lake.view.verified_damage import FOLDER, keep_verified_damage
from spark_jobs.lake_commands.metrics import lake_samples
from spark_jobs.placed_finding import PlacedFinding
from tests import handmade, pasted_advice
from tests.broker_directory import CLUSTER, LogDirectory
from tests.in_process import unreported, without_spark
from tests.spark.cycle import Lake

Captured = pytest.CaptureFixture[str]
Status = Callable[..., tuple[int, str]]
NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
POLICIES = "lake:\n  ingest: every 5 min\n"


@pytest.fixture(scope="module", autouse=True)
def history() -> Iterator[None]:
    """No claim here is about Dagster."""
    with unreported():
        yield


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`sound` has ten records; in `damaged` a batch of five cannot be trusted."""
    folder = tmp_path_factory.mktemp("status")
    for name in ("sound", "damaged"):
        source = LogDirectory(folder / f"{name}-source")
        orders = source.partition("orders-0")
        orders.append(10)
        if name == "damaged":
            orders.append(5)
            segment = orders.segments()[0]
            content = bytearray(segment.read_bytes())
            content[-1] ^= 0xFF
            segment.write_bytes(content)
            orders.append(5)
        source.high_watermarks(orders_0=orders.next_offset)
        with without_spark():
            Lake(folder / name).turn(source.path)
    return folder


@pytest.fixture
def lakes(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("sound", "damaged"):
        shutil.copytree(made_once / name, tmp_path / name)
        registry.remember(str(tmp_path / name), Intake((str(made_once / f"{name}-source"),)))
    (tmp_path / "policies.yaml").write_text(POLICIES)
    return tmp_path


@pytest.fixture
def status(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Status:
    def call(*arguments: Path | str, now_ms: int = NOW_MS) -> tuple[int, str]:
        monkeypatch.setattr("time.time_ns", lambda: now_ms * 1_000_000)
        capsys.readouterr()
        code = main(["status", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


def test_a_sound_lake_is_in_order_and_a_damaged_one_names_its_damage_and_a_command(lakes: Path, status: Status) -> None:
    code, said = status(lakes / "sound")
    assert code == 0
    assert said.startswith("sound: in order\n")
    code, said = status(lakes / "damaged")
    assert code == 2
    assert "damage: orders-0 of lake damaged, offsets [10, 15)" in said
    assert re.search(rf"`loglake run \S+/damaged-source --lake {lakes / 'damaged'} --fill-from COPY`", said), said
    assert "failed checks: no_damage" in said
    assert said.count("What to do: If another copy") == 1
    assert status() == (2, status(lakes / "damaged")[1] + status(lakes / "sound")[1])


@pytest.fixture
def loaded(tmp_path: Path, status: Status, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake that `loglake run` made, alone in its home."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "loaded"
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(lake)]) == 0
    assert status(lake)[0] == 0
    return lake


def test_a_killed_run_is_an_error_until_the_next_one_also_if_it_was_not_the_first(
    loaded: Path, status: Status, capsys: Captured
) -> None:
    lake = str(loaded)
    command = f"loglake run {loaded.parent / 'source'} --lake {lake}"
    kills = "import os, sys; from spark_jobs.lake.store.lease import hold\n"
    kills += "with hold(sys.argv[1], 'loglake run', sys.argv[2]): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", kills, lake, command], check=False).returncode == -signal.SIGKILL
    code, said = status(lake)
    assert (code, "The newest run did not end: 'loglake run'" in said, f"`{command}`" in said) == (3, True, True), said
    assert main(["runs", lake]) == 0
    assert "The newest run did not end" in capsys.readouterr().out
    with without_spark():
        assert main(shlex.split(command)[1:]) == 0
    assert status(lake)[0] == 0


@pytest.mark.parametrize(
    ("files", "rule", "mends"),
    [
        ("archive/**/*.log", "archive-file-changed", "repair LAKE --archive --apply"),
        ("tables/records/**/*.parquet", "table-file-damaged", "run SOURCE --lake LAKE --replace .."),
    ],
)
def test_damage_that_a_verification_found_is_an_error_until_the_file_is_another_one(
    loaded: Path, status: Status, files: str, rule: str, mends: str
) -> None:
    damaged = next(loaded.glob(files))
    before, content = damaged.stat(), bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    os.utime(damaged, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert status(loaded)[0] == 0
    assert main(["verify", str(loaded)]) == 2
    code, said = status(loaded)
    assert (code, f"{rule}: {damaged}." in said, f"`loglake verify {loaded}`" in said) == (2, True, True), said
    places = {"LAKE": str(loaded), "SOURCE": str(loaded.parent / "source")}
    with without_spark():
        assert main([places.get(word, word) for word in mends.split()]) == 0
    assert status(loaded)[0] == 0
    assert main(["verify", str(loaded)]) == 0


def test_a_lake_that_is_not_registered_says_that_nothing_starts_by_itself_and_how_to_change_that(
    lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, sources = lakes / "sound", f"{shlex.quote(str(read_registered(str(lakes / 'sound')).intakes[0].sources[0]))}"
    monkeypatch.setenv("LOGLAKE_HOME", str(lakes / "other-home"))
    code, said = status(lake)
    assert (code, "next " in said) == (0, False), said
    command = f"loglake run {sources} --lake {lake}"
    line = f"  the lake is not registered in the home {lakes / 'other-home'}: nothing starts by itself; `{command}`\n"
    assert line in said
    with without_spark():
        assert main(shlex.split(command)[1:]) == 0
    code, said = status(lake)
    assert (code, said.count("next ")) == (0, 3), said


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


@pytest.mark.parametrize("kept", ['{"/lake/a.log": []}', '{"/lake/a.log": ["rule", null, 1]}', "[]", "no JSON"])
def test_a_file_of_the_home_that_is_not_what_was_written_says_nothing(loaded: Path, status: Status, kept: str) -> None:
    assert main(["verify", str(loaded)]) == 0
    keep_verified_damage(
        str(loaded), [PlacedFinding(found("archive-file-changed", "", file=f"{loaded}/lake.json"))], is_whole=True
    )
    assert status(loaded)[0] == 2
    (of_lake,) = (Path(registry.home()) / FOLDER).iterdir()
    of_lake.write_text(kept)
    assert status(loaded)[0] == 0


def test_a_failed_check_is_named_with_its_command_and_closed_by_what_mends_it(lakes: Path, status: Status) -> None:
    """The rows of one file are removed: the oracle is the verdict before, and after they are written again."""
    records = DeltaTable(str(lakes / "sound" / "tables" / "records"))
    records.delete('"offset" = 3')
    code, said = status(lakes / "sound")
    assert code == 2
    assert "failed checks: rows_equal_ledger\n" in said
    [command] = {words for words in pasted_advice.commands_in(said) if "--replace" in words}
    assert f"--lake {lakes / 'sound'} --replace" in command
    with without_spark():
        assert main(shlex.split(command)[1:]) == 0
    code, said = status(lakes / "sound")
    assert (code, "failed checks: none" in said) == (0, True), said


def test_a_hanging_transaction_is_a_warning_with_its_command(tmp_path: Path, status: Status) -> None:
    source = LogDirectory(tmp_path / "source")
    orders = source.partition("orders-0")
    orders.append(5, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0)
    source.high_watermarks(orders_0=orders.next_offset)
    with without_spark():
        Lake(tmp_path / "lake").turn(source.path)
    code, said = status(tmp_path / "lake")
    assert code == 1
    assert "warning: orders-0 of lake lake: the transaction of producer 7 epoch 0 from offset 0 on" in said
    assert f"--lake {tmp_path / 'lake'} --maintain --isolation.level read_uncommitted`" in said


@pytest.mark.parametrize(("good", "bad", "code"), [(0, 6, 1), (2, 4, 1), (3, 3, 0), (6, 0, 0), (5, 1, 0)])
def test_a_topic_of_which_most_of_the_first_rows_do_not_decode_is_a_warning_with_its_command(
    good: int, bad: int, code: int, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source = LogDirectory(tmp_path / "source")
    orders = source.partition("orders-0")
    values = [b"text"] * good + [b"\xff"] * bad
    orders.roll()
    orders.write(handmade.simple_batch(0, [(b"k", value) for value in values], leader_epoch=0))
    source.high_watermarks(orders_0=6)
    (tmp_path / "policies.yaml").write_text("topics:\n  orders:\n    decode.value: string\n")
    lake = tmp_path / "lake"
    with without_spark():
        words = ["run", str(source.path), "--lake", str(lake), "--policies", str(tmp_path / "policies.yaml")]
        assert main(words) == code
    assert ("failed check undecoded_share_steady (warning)" in capsys.readouterr().out) == bool(code)
    found, said = status(lake)
    assert found == code, said
    assert (f"orders: {bad} of the 6 newest rows could not be decoded, before that 0 of 0" in said) == bool(code)
    assert (f"loglake decode {lake} --infer orders" in said) == bool(code)


def test_the_share_in_advice_is_in_no_name(tmp_path: Path, status: Status) -> None:
    source = LogDirectory(tmp_path / "source")
    holders = source.partition("SHAREHOLDERS-0")
    holders.roll()
    holders.write(handmade.simple_batch(0, [(b"k", b"\xff")], leader_epoch=0))
    source.high_watermarks(SHAREHOLDERS_0=1)
    policies, lake = tmp_path / "policies.yaml", tmp_path / "SHARED" / "lake"
    policies.write_text("topics:\n  SHAREHOLDERS:\n    decode.value: string\n")
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(lake), "--policies", str(policies)]) == 1
    _, said = status(lake)
    assert f"`loglake decode {lake} --infer SHAREHOLDERS`" in said
    assert f"`loglake config set {policies} SHAREHOLDERS decode.undecoded.max=1 && " in said


def test_the_undecodable_rows_of_a_topic_that_is_known_are_accepted_with_the_printed_command(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.roll()
    orders.write(handmade.simple_batch(0, [(b"k", b"text")] + [(b"k", b"\xff")] * 5, leader_epoch=0))
    source.high_watermarks(orders_0=6)
    (tmp_path / "policies.yaml").write_text("topics:\n  orders:\n    decode.value: string\n")
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main([*run, "--policies", str(tmp_path / "policies.yaml")]) == main(run) == 1
        code, said = status(lake)
        assert code == 1
        [accept] = [line for line in pasted_advice.commands_in(said) if "decode.undecoded.max=0.84" in line]
        assert main(shlex.split(accept)[1:]) == 0
        assert (main(run), status(lake)[0]) == (0, 0)
        orders.write(handmade.simple_batch(6, [(b"k", b"\xff")] * 5, leader_epoch=0))
        source.high_watermarks(orders_0=11)
        assert main(run) == 1, "it is more than what was accepted"


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


def test_a_run_writes_a_lost_lake_json_again(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == 0
        content = (lake / "lake.json").read_bytes()
        (lake / "lake.json").unlink()
        assert status(lake)[0] == 3
        assert main(run) == 0
        assert (lake / "lake.json").read_bytes() == content
        assert status(lake)[0] == 0
        assert main(["verify", str(lake)]) == 0


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


def test_a_first_run_that_was_interrupted_is_an_error_with_its_command_until_a_run_has_ended(
    tmp_path: Path, status: Status, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kills are in `tests/crash/test_kill.py`."""
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with without_spark():
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr("spark_jobs.publish.publish_job._commit", interrupt)
            main(["run", str(source.path), "--lake", lake])
        code, said = status(lake)
        assert code == 3
        [command] = [words for words in pasted_advice.commands_in(said) if " run " in words]
        assert main(["runs", lake]) == 0
        assert f"`{command}`" in capsys.readouterr().out
        assert main(["verify", lake]) == 3
        assert f"`{command}`" in capsys.readouterr().err
        assert lake_problems(lake) == {"failing": 1}
        assert main(shlex.split(command)[1:]) == 0
        assert status(lake)[0] == main(["verify", lake]) == 0
        assert lake_problems(lake) == {}


@pytest.mark.parametrize("lost", ["tables/batches", "tables/findings", "archive"])
def test_what_lost_its_files_is_an_error_everywhere_until_the_command_has_mended_it(
    lost: str, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == main(run) == 0
        [path] = {*(tmp_path / "lake").glob(lost if "/" in lost else f"{lost}/**/*.log")}
        path.unlink() if path.is_file() else shutil.rmtree(path)
        assert status(lake)[0] == 2
        assert lake_problems(lake) == {"damage": 1}
        for _ in range(2):
            assert main(run) == 2
            if lost == "tables/findings":  # the run that meets the loss makes it again, and writes the finding in it
                break
            code, said = status(lake)
            assert (code, lake_problems(lake)) == (2, {"damage": 1}), said
            capsys.readouterr()
            assert main(["runs", lake, "--failed"]) == 0
            assert capsys.readouterr().out.count("1 failed checks") == 1  # the second run is like the first
            commands = [words for words in pasted_advice.commands_in(said) if "COPY" not in words]
        else:
            assert [main(shlex.split(words)[1:]) for words in commands] == [0] * len(commands)
        assert main(run) == 0
        assert (status(lake)[0], lake_problems(lake)) == (0, {})


def test_changed_bytes_that_a_replacement_meets_are_damage_until_the_command_has_mended_them(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    """The file keeps its time, so that no look reads it before."""
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == 0
        [path] = (tmp_path / "lake" / "archive").glob("**/*.log")
        content, seen = path.read_bytes(), path.stat()
        path.write_bytes(handmade.flip(content, len(content) - 1))
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        assert (main(run), status(lake)[0]) == (0, 0)
        assert main([*run, "--replace", ".."]) == 2
        printed = capsys.readouterr().out
        assert "refused: orders-0: offsets [0, 5) are not replaced" in printed
        code, said = status(lake)
        assert (code, main(run)) == (2, 2), said
        [command] = [words for words in pasted_advice.commands_in(printed) if "COPY" not in words]
        assert main(shlex.split(command)[1:]) == 0
        assert path.read_bytes() == content
        assert (main([*run, "--replace", ".."]), main(run), status(lake)[0]) == (0, 0, 0)


def test_registered_policies_that_are_gone_are_an_error_with_advice_also_of_doctor(
    lakes: Path, status: Status, capsys: Captured
) -> None:
    lake = str(lakes / "sound")
    intake = Intake(registry.recall(lake).intakes[0].sources, policies=str(lakes / "policies.yaml"))
    registry.remember(lake, intake)
    assert status(lake)[0] == main(["doctor", "--lake", lake]) == 0
    (lakes / "policies.yaml").unlink()
    for named in ([lake], [lake, str(lakes / "damaged")]):
        code, said = status(*named)
        assert code == 3
        assert f"The policies {lakes / 'policies.yaml'} can't be read" in said
        assert "--policies FILE" in said
    assert main(["doctor", "--lake", lake]) == 3
    assert re.search(r"failed +policies +The policies ", capsys.readouterr().out)


def test_a_second_topic_that_matches_nothing_is_an_error_of_a_run(tmp_path: Path, capsys: Captured) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    with without_spark():
        assert main(["run", str(source.path), "--lake", lake, "--topic", "orders", "--topic", "oders"]) == 3
    printed = capsys.readouterr()
    assert "published 5 records" in printed.out
    assert "error: --topic 'oders' matches no topic; the nearest names are orders" in printed.err
    assert not read_registered(lake).intakes  # later runs would fail for the misspelled name


def test_a_run_that_chooses_no_log_makes_no_lake_and_names_the_nearest_topic(tmp_path: Path, capsys: Captured) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(lake), "--topic", "oders"]) == 3
    assert "--topic 'oders' matches no topic; the nearest names are orders." in capsys.readouterr().err
    assert not lake.exists()


def test_run_status_and_config_check_note_a_pattern_that_matches_no_topic_of_the_lake(
    lakes: Path, status: Status, capsys: Captured
) -> None:
    lake, policies = str(lakes / "sound"), lakes / "own.yaml"
    kept = "{cleanup.policy: delete, retention.ms: -1}"
    policies.write_text(f"topics: {{oders*: {kept}, ord*: {kept}, '*': {kept}}}")
    [source] = read_registered(lake).intakes[0].sources
    note = f"note: {policies}: the pattern 'oders*' matches no topic; the nearest names are orders.\n"
    run = ["run", source, "--lake", lake, "--policies", str(policies)]
    with without_spark():
        assert main(run) == 0
        assert note in capsys.readouterr().err
        assert main([*run, "--topic", "orders"]) == 0
        assert "note:" not in capsys.readouterr().err, "the source may have topics that --topic leaves out"
    code, said = status(lake)
    assert (code, note in said) == (0, True)
    assert main(["config", "check", str(policies), "--lake", lake]) == 0
    assert note in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["topic", "partition", "other cluster", "two clusters", "cluster"])
def test_a_refused_command_is_neither_a_success_nor_a_failure_of_the_intake(
    kind: str, lakes: Path, status: Status, capsys: Captured
) -> None:
    lake = str(lakes / "sound")
    [sound] = read_registered(lake).intakes[0].sources
    other = LogDirectory(lakes / "other-source", "BBBBBBBBBBBBBBBBBBBBBB")
    other.partition("orders-0").append(5)
    refused = {
        "topic": [sound, "--topic", "oders"],
        "partition": [sound, "--partition", "7"],
        "other cluster": [str(other.path)],
        "two clusters": [sound, str(other.path)],
        "cluster": [sound, "--cluster", "another"],
    }
    rows = read_rows(lake, "runs").num_rows
    before = status(lake)
    with without_spark():
        assert main(["run", "--lake", lake, *refused[kind]]) in (3, 64)
    capsys.readouterr()
    assert status(lake) == before
    assert read_rows(lake, "runs").num_rows == rows


def test_a_run_whose_options_the_lake_refuses_leaves_the_registered_ones(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == 0
        before = read_registered(lake).intakes
        assert main([*run, "--cluster", "another"]) == 3
        assert read_registered(lake).intakes == before


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


def test_harm_to_the_table_of_runs_stops_no_run(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == main(run) == 0
        for file in (lake / "tables" / "runs").glob("**/*.parquet"):
            file.write_bytes(b"harm")
        assert main(run) != 3


def test_a_run_without_work_has_a_row_when_what_failed_is_mended(tmp_path: Path, capsys: Captured) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == 0
        [path] = (lake / "archive").glob("**/*.log")
        path.rename(tmp_path / "away")
        assert main(run) == 2
        (tmp_path / "away").rename(path)
        assert main(run) == main(run) == 0
    capsys.readouterr()
    assert main(["runs", str(lake), "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["failed_checks"] for row in rows] == [0, 1, 0]


def lake_problems(lake: str) -> dict[str | None, float]:
    """What the metrics count."""
    figures = (each for each in lake_samples(lake, "s", NOW_MS) if each.metric == "loglake_problems" and each.value)
    return {dict(each.labels).get("kind"): each.value for each in figures}


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


@pytest.mark.parametrize(("minutes", "code"), [(14, 0), (15, 0), (16, 3)])
def test_three_intervals_without_a_success_are_a_missed_schedule(
    lakes: Path, status: Status, minutes: int, code: int
) -> None:
    lake = str(lakes / "sound")
    intake = Intake(registry.recall(lake).intakes[0].sources, policies=str(lakes / "policies.yaml"))
    registry.remember(lake, intake)
    keep_run_end(lake, "intake", NOW_MS - minutes * MINUTE_MS)
    found, said = status(lake)
    assert found == code
    assert ("missed" in said or "no intake has succeeded for 16 minutes" in said) == (code == 3)
    assert ("/locations/loglake/schedules/sound__timed_intake\n" in said) == (code == 3)
    assert "next intake: 2027-01-15T08:05:00Z, if the schedule sound__timed_intake is on\n" in said
    assert "Z, if the schedule sound__nightly_verification is on\n" in said


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("{}", "next intake: when a segment is closed, if the sensor sound__new_segments is on; else by hand\n"),
        ("{ingest: by hand}", "next intake: by hand, by the policies\n"),
    ],
)
def test_status_says_what_starts_the_next_intake_of_a_lake_without_a_schedule(
    policy: str, line: str, lakes: Path, status: Status
) -> None:
    lake = str(lakes / "sound")
    (lakes / "policies.yaml").write_text(f"lake: {policy}\n")
    intake = Intake(registry.recall(lake).intakes[0].sources, policies=str(lakes / "policies.yaml"))
    registry.remember(lake, intake)
    assert line in status(lake)[1]


def test_during_the_first_run_it_says_so(lakes: Path, status: Status, capsys: Captured) -> None:
    assert status(lakes / "new") == (3, f"error: {lakes / 'new'} is no lake: it has no lake.json.\n")
    with lease.hold(str(lakes / "new"), "loglake run"):
        code, said = status(lakes / "new")
        assert (code, "the first run is working on it" in said) == (0, True)
        main(["doctor", "--lake", str(lakes / "new")])
        assert "the first run" in capsys.readouterr().out


def test_a_lake_without_its_policies_is_not_in_order(lakes: Path, status: Status) -> None:
    (lakes / "sound" / "topic_tables.json").write_text('{"version": 1, "tables": ["decoded/orders"]}')
    code, said = status(lakes / "sound")
    assert code == 3
    assert "no policies file is registered" in said


def test_reading_changes_nothing(lakes: Path, status: Status) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in lakes.rglob("*"))
    status()
    assert sorted((path, path.stat().st_mtime_ns) for path in lakes.rglob("*")) == before


def test_open_errors_of_runs_and_of_status_are_the_same_after_rows_were_deleted_and_withdrawn(
    tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    run = ["run", str(source.path), "--lake", lake]

    def of_newest_run() -> str:
        capsys.readouterr()
        assert main(["runs", lake, "--last", "1", "--job", "intake", "--format", "jsonl"]) == 0
        row = json.loads(capsys.readouterr().out)
        return f"open findings: {row['findings_error']} error, {row['findings_warning']} warning;"

    with without_spark():
        assert main(run) == 0
        DeltaTable(f"{lake}/tables/records").delete('"offset" = 3')
        for withdraws, code in ((False, 2), (True, 0)):
            if withdraws:
                assert main(["withdraw", lake, "--apply"]) == 0
                found, said = status(lake)
                assert found == 2
                [command] = pasted_advice.commands_in(said)
                assert shlex.split(command)[1:] == run
            assert main(run) == code
            found, said = status(lake)
            assert (found, of_newest_run() in said) == (code, True), (of_newest_run(), said)


@pytest.mark.parametrize("cause", ["transaction", "damage", "high watermark"])
def test_lag_says_what_it_waits_for_and_has_the_command_for_this_cause(
    cause: str, tmp_path: Path, status: Status, capsys: Captured
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.append(5)
    if cause == "transaction":
        orders.append(5, attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0)
    orders.append(5)
    if cause == "damage":
        [segment] = orders.segments()
        content = segment.read_bytes()
        segment.write_bytes(handmade.flip(content, handmade.size_of(content, 0) + 70))
        orders.append(5)
    source.high_watermarks(orders_0=5 if cause == "high watermark" else orders.next_offset)
    (tmp_path / "policies.yaml").write_text("lake: {alerts.max.lag: 1}\n")
    with without_spark():
        main(["run", str(source.path), "--lake", lake, "--policies", str(tmp_path / "policies.yaml")])
    _, said = status(lake)
    [line] = [line for line in said.splitlines() if "offsets are ingested and not published" in line]
    waits, command = {
        "transaction": ("the transaction of producer 7", f"loglake transactions {orders.path} --state open"),
        "damage": ("offsets [5, 10) are corrupt", f"loglake lineage {lake} --offset orders-0:5"),
        "high watermark": ("the source's high watermark, 5", f"loglake offsets {orders.path} --at latest"),
    }[cause]
    assert waits in line
    assert line.endswith(f"`{command}`")
    capsys.readouterr()
    assert main(shlex.split(command)[1:]) in (0, 1, 2)
    assert capsys.readouterr().out


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
        "0, because replication-offset-checkpoint has no line of the log. What to type: "
        f"`loglake offsets {orders.path} --at latest`"
    ]
    source.high_watermarks(orders_0=5, orders_1=3)
    with without_spark():
        assert main(run) == 0
    assert "not published;" not in status(lake)[1]


def test_a_file_system_that_does_not_say_its_size_is_not_full(
    lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = os.statvfs(lakes)
    unsaid = os.statvfs_result((*room[:2], 0, 0, 0, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: unsaid)
    code, said = status(lakes / "sound")
    assert (code, "disk" in said) == (0, False), said


@pytest.mark.parametrize("keeps", [True, False])
def test_a_full_disk_is_what_status_says_with_its_place_and_what_to_do(
    keeps: bool, lakes: Path, status: Status, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A disk that has no byte left may keep no record of the failure either."""
    lake = str(lakes / "sound")
    source = LogDirectory(lakes / "source")
    source.partition("orders-0").append(20)
    source.high_watermarks(orders_0=20)
    registry.remember(lake, Intake((str(source.path),)))

    def full(*_: object, **__: object) -> None:
        raise OSError(f"Generic LocalFileSystem error: Unable to copy data: {os.strerror(28)} (os error 28)")

    run = ["run", str(source.path), "--lake", lake, "--move-source"]
    with without_spark(), monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", full)
        if not keeps:
            patch.setattr(registry, "put_in_home", full)
            room = os.statvfs(lake)
            empty = os.statvfs_result((*room[:3], 0, 0, *room[5:]))
            patch.setattr(os, "statvfs", lambda _: empty)
        assert main(run) == 3
        code, said = status(lake)
    assert code == 3
    [line] = [line for line in said.splitlines() if "Make room" in line]
    assert "disk" in line
    assert "full" in line
    assert f" bytes on that of {lake}" in line
    assert f"--lake {lake}`" in line
    assert f"look: `df -h {lake} " in said
    assert "CommitUnanswered" not in said
    with without_spark():
        assert (main(run), status(lake)[0]) == (0, 0)
