"""A table that is gone with its directory is lost, and no command takes it for one that was never made."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.in_process import without_spark
from tests.jobs.decoded_lake import Decoded
from tests.pasted_advice import commands_in

POLICIES = 'topics:\n  "*":\n    decode.value: string\n    decode.key: string\n    latest: delete\n'
MADE_BY = {"decoded": "decode", "undecoded": "decode", "latest": "latest"}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Decoded:
    return taken(tmp_path, POLICIES, monkeypatch, capsys)


def taken(
    tmp_path: Path, policies: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Decoded:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    lake = Decoded(tmp_path, policies)
    lake.write((b"a", b"one"), (b"b", b"two"), (b"a", b"three"))
    with without_spark():
        assert main(["run", str(lake.source.path), "--lake", lake.path, "--policies", str(lake.policies)]) == 0
        assert main(["status", lake.path]) == 0, capsys.readouterr().out
    capsys.readouterr()
    return lake


@pytest.mark.parametrize("kinds", [("decoded",), ("undecoded",), ("latest",), ("decoded", "undecoded", "latest")])
def test_a_lost_table_of_a_topic_is_named_everywhere_and_the_command_makes_it_again(
    made: Decoded, kinds: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {kind: rows_of(made, kind) for kind in MADE_BY}
    for kind in kinds:
        shutil.rmtree(made.lake.path / "tables" / kind / "orders")
    advised = {f"loglake {MADE_BY[kind]} {made.path} --replace orders" for kind in kinds}
    with without_spark():
        for command in ("status", "verify"):
            assert main([command, made.path]) == 2
            said = capsys.readouterr().out
            for kind in kinds:
                assert f"able {kind}/orders: it was there and is gone" in said
            assert advised <= set(commands_in(said)), said
        for kind in kinds:
            assert main(["query", made.path, f"select * from {kind}_orders"]) == 3
            error = capsys.readouterr().err
            assert f"Table {kind}/orders: " in error
            assert "it is gone; an earlier run saw it" in error
            assert set(commands_in(error)) <= advised
        for command in sorted(advised):
            assert main(shlex.split(command)[1:]) == 0, command
        for command in ("status", "verify"):
            assert main([command, made.path]) == 0, capsys.readouterr().out
    assert {kind: rows_of(made, kind) for kind in MADE_BY} == before


MADE_AGAIN = ("records", "offset_ledger", "segments", "logs", "validations", "decoded", "latest")
"""Lost tables that an ordinary run makes again."""


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_a_lost_table_that_a_run_made_again_is_no_error_of_that_run(
    made: Decoded, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {kind: rows_of(made, kind) for kind in MADE_BY}
    shutil.rmtree(made.lake.path / "tables" / name)
    with without_spark():
        assert main(["run", str(made.source.path), "--lake", made.path]) == 0, capsys.readouterr().out
        said = capsys.readouterr().out
        assert (said.count(f"table {name}"), "was lost" in said, commands_in(said)) == (1, True, []), said
        assert main(["run", str(made.source.path), "--lake", made.path]) == 0
        assert "was lost" not in capsys.readouterr().out
        for command in ("status", "verify"):
            assert main([command, made.path]) == 0, capsys.readouterr().out
    assert {kind: rows_of(made, kind) for kind in MADE_BY} == before


def test_a_lost_table_of_logs_that_lacks_a_log_now_is_an_error_though_it_has_as_many_rows(
    made: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = made.source.partition("pay-0")
    gone.append(10)
    made.source.high_watermarks(orders_0=3, pay_0=10)
    run = ["run", str(made.source.path), "--lake", made.path]
    with without_spark():
        assert main(run) == 0, capsys.readouterr().out
        shutil.rmtree(gone.path)
        made.source.partition("new-0").append(10)
        made.source.high_watermarks(orders_0=3, new_0=10)
        shutil.rmtree(made.lake.path / "tables" / "logs")
        capsys.readouterr()
        assert main(run) == 2
    assert "table logs: the table of version" in capsys.readouterr().out


def test_tables_that_were_lost_together_are_an_error_though_they_have_as_many_rows(
    made: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = ("logs", "segments", "validations", "batches", "transactions", "offset_ledger", "records")
    log = made.orders
    [first] = log.segments()
    log.roll()
    end = log.next_offset
    for _ in range(4):
        log.append(10)
        log.roll()
    log.append(10)
    first.unlink()
    made.source.checkpoint("log-start", orders_0=end)
    made.source.high_watermarks(orders_0=log.next_offset)
    for name in lost:
        shutil.rmtree(made.lake.path / "tables" / name, ignore_errors=True)
    with without_spark():
        assert main(["run", str(made.source.path), "--lake", made.path]) == 2
    said = capsys.readouterr().out
    assert "table records: the table of version" in said
    assert "made again with" not in said


@pytest.mark.parametrize("name", ["records", "offset_ledger", "segments"])
def test_what_follows_from_a_lost_table_has_no_line_and_no_command_of_its_own(
    made: Decoded, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(made.lake.path / "tables" / name)
    with without_spark():
        for command in ("status", "verify"):
            assert main([command, made.path]) == 2
            said = capsys.readouterr().out
            rebuild, run = commands_in(said)
            assert f"--rebuild {name} --apply" in rebuild
            assert not [line for line in said.splitlines() if "orders" in line and name not in line], said
        for line in (rebuild, run):
            assert main(shlex.split(line)[1:]) == 0
        for command in ("status", "verify"):
            assert main([command, made.path]) == 0, capsys.readouterr().out


def test_a_lost_table_of_a_topic_that_no_policy_names_any_more_is_named_by_a_run_too(
    made: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(made.lake.path / "tables" / "latest")
    made.policies.write_text(POLICIES.replace("    latest: delete\n", ""))
    with without_spark():
        for command in (["run", str(made.source.path), "--lake", made.path], ["status", made.path]):
            assert main(command) == 2
            said = capsys.readouterr().out
            assert "table latest/orders: it was there and is gone" in said
            assert ("No policy of the lake asks for this table any more" in said, commands_in(said)) == (True, []), said
        assert main(["verify", made.path]) == 2
        said = capsys.readouterr().out
        assert ("No policy of the lake asks for this table any more" in said, commands_in(said)) == (True, []), said
        (made.lake.path / "topic_tables.json").unlink()
        for command in ("status", "verify"):
            assert main([command, made.path]) == 0, capsys.readouterr().out


def test_a_damaged_table_of_a_topic_that_no_policy_names_any_more_has_no_command_that_is_refused(
    made: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    [file] = (made.lake.path / "tables" / "latest" / "orders").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    made.policies.write_text(POLICIES.replace("    latest: delete\n", ""))
    with without_spark():
        assert main(["verify", made.path]) == 2
    [error] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("error ")]
    assert ("No policy of the lake asks for this table any more" in error, commands_in(error)) == (True, []), error


def test_a_table_of_a_topic_that_was_never_made_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = taken(tmp_path, POLICIES.replace("    latest: delete\n", ""), monkeypatch, capsys)
    lake.policies.write_text(POLICIES)
    with without_spark():
        assert main(["status", lake.path]) == 0, capsys.readouterr().out
        assert main(["verify", lake.path]) == 0, capsys.readouterr().out
        assert main(["query", lake.path, "select * from latest_orders"]) == 64
        assert main(["run", str(lake.source.path), "--lake", lake.path]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("lost", ["records", "logs"])
@pytest.mark.parametrize(
    "command",
    [
        "latest {lake} --replace orders",
        "latest {lake}",
        "decode {lake} --replace orders",
        "decode {lake} --infer orders",
        "state {lake} orders --at orders-0:3 --out {out}",
        "withdraw {lake} --reason test --apply",
        "register {lake} --in duckdb -o {out}",
        "register {lake} --in spark",
    ],
)
def test_beside_a_lost_table_a_command_that_reads_it_names_it_and_changes_nothing(
    made: Decoded, lost: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {kind: (rows_of(made, kind)) for kind in MADE_BY}
    shutil.rmtree(made.lake.path / "tables" / lost)
    with without_spark():
        assert main(command.format(lake=made.path, out=tmp_path / "out").split()) == 3
    error = capsys.readouterr().err
    assert lost in error
    if not (lost == "records" and command.startswith("withdraw")):
        assert f"Table {lost}: " in error
        assert "it is gone; an earlier run saw it" in error
        assert f"loglake repair {made.path} --rebuild {lost} --apply" in error
    assert {kind: rows_of(made, kind) for kind in MADE_BY} == before


def rows_of(lake: Decoded, kind: str) -> list[tuple[object, ...]]:
    rows = lake.table(kind).to_pyarrow_table().to_pylist()
    return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
