"""Rows that another engine deleted on purpose are withdrawn: from then on nothing misses them or brings them back."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import ExpectationsConfig, PublishConfig, ReplaceConfig, ValidateConfig
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.view import ledger_comparison
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake_commands.lineage import lineage_command
from spark_jobs.lake_commands.withdraw import withdraw_command
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.in_process import without_spark
from tests.pasted_advice import commands_in
from tests.spark.cycle import AS_OF_MS, Lake

KEYED_ID = "EEEEEEEEEEEEEEEEEEEEEA"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Partition, Partition]:
    """orders-0: offsets 0-29 published, 30-39 not below the high watermark. keyed-0: what cleaning left of two batches,
    offsets 0, 3, 4, 9 of [0, 10) and 12, 15 of [10, 20)."""
    folder = tmp_path_factory.mktemp("withdrawn")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders, keyed = source.partition("orders-0"), source.partition("keyed-0", KEYED_ID)
    orders.append(40, per_batch=5)
    keyed.roll()
    for base, deltas in ((0, (0, 3, 4, 9)), (10, (2, 5))):
        records = [handmade.record(delta, b"k%d" % (base + delta), b"v%d" % (base + delta)) for delta in deltas]
        keyed.write(handmade.batch(records, base_offset=base, last_offset_delta=9, leader_epoch=0, base_timestamp=1000))
        keyed.rows |= {base + delta: (b"k%d" % (base + delta), b"v%d" % (base + delta)) for delta in deltas}
    keyed.next_offset = 20
    source.high_watermarks(orders_0=30, keyed_0=20)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(30))
    assert set(lake.published("keyed")) == {0, 3, 4, 9, 12, 15}
    return folder, orders, keyed


@pytest.fixture
def orders(made_once: tuple[Path, Partition, Partition]) -> Partition:
    return made_once[1]


@pytest.fixture
def lake(made_once: tuple[Path, Partition, Partition], tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(made_once[0] / "lake", tmp_path / "lake")))


def delete(lake: Lake, where: str, topic: str = "orders") -> None:
    DeltaTable(str(lake.path / "tables" / "records")).delete(f"topic = '{topic}' AND {where}")


def command(lake: Lake, *options: str) -> int:
    parser = argparse.ArgumentParser()
    withdraw_command(parser)
    chosen = parser.parse_args([str(lake.path), *options])
    chosen.now_ms = AS_OF_MS
    code: int = chosen.func(chosen)
    return code


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def withdrawn(lake: Lake, topic: str = "orders") -> list[tuple[int, int, int]]:
    rows = [r for r in lake.rows("offset_ledger") if r["topic"] == topic and r["withdrawn"]]
    return sorted((r["start_offset"], r["end_offset"], r["records"]) for r in rows)


def recorded(lake: Lake) -> list[tuple[str, int, int, int]]:
    rows = lake.rows("withdrawals")
    return sorted((r["topic"], r["start_offset"], r["end_offset"], r["records"]) for r in rows)


def replace(lake: Lake, **request: Any) -> None:
    launch.run(ReplaceConfig(str(lake.path), "replace", AS_OF_MS, **request))


def test_without_apply_the_ranges_that_are_gone_are_listed_and_nothing_is_written(lake, capsys):
    delete(lake, "offset IN (3, 4, 17)")
    versions = lake.versions()
    assert command(lake, "--format", "jsonl") == 1
    *ranges, summary = lines(capsys)
    assert [(r["topic"], r["start_offset"], r["end_offset"], r["records"], r["withdrawn"]) for r in ranges] == [
        ("orders", 3, 5, 2, False),
        ("orders", 17, 18, 1, False),
    ]
    assert summary["summary"]["records"] == 3
    assert summary["summary"]["run_id"] is None
    assert command(lake) == 1
    assert f" --lake {lake.path} --replace ..\n" in capsys.readouterr().out
    assert lake.versions() == versions
    assert not (lake.path / "lease.json").read_text().count("withdraw")


def test_where_nothing_is_gone_the_exit_code_is_0_and_apply_writes_nothing(lake, capsys):
    versions = lake.versions()
    assert command(lake) == 0
    assert command(lake, "--apply") == 0
    assert "nothing to withdraw" in capsys.readouterr().out
    assert lake.versions() == versions


def test_a_withdrawal_names_who_when_why_and_the_version_of_the_table_and_says_that_nothing_is_erased(lake, capsys):
    delete(lake, "offset >= 10 AND offset < 14")
    version = lake.versions()["records"]
    assert command(lake, "--apply", "--reason", "customer asked", "--as-of", "1800000000123") == 0
    said = capsys.readouterr().out
    assert "4 records in 1 ranges are withdrawn" in said
    assert "not erased: the archive still holds the bytes" in said
    (row,) = lake.rows("withdrawals")
    assert (row["start_offset"], row["end_offset"], row["records"]) == (10, 14, 4)
    assert (row["withdrawn_ms"], row["reason"], row["table_version"]) == (1800000000123, "customer asked", version)
    assert "@" in row["who"]
    assert withdrawn(lake) == [(10, 14, 4)]
    assert command(lake) == 0


def test_checks_count_the_rows_that_are_left(lake):
    delete(lake, "offset >= 10 AND offset < 14")
    assert ledger_comparison.differences(str(lake.path)) != ()
    command(lake, "--apply")
    assert ledger_comparison.differences(str(lake.path)) == ()
    state = next(log for log in read_state(str(lake.path)).logs if log.row.topic == "orders")
    assert state.published_records == 26
    assert not state.came_late
    ranges = {state.log: (0, 30)}
    report = launch.run(ExpectationsConfig(str(lake.path), "expect", AS_OF_MS, ranges))
    assert report.metrics["success"] is True
    assert report.plan.frame[0]["expected_rows"] == 26


def test_offsets_whose_rows_are_there_are_never_withdrawn_and_rows_never_removed(lake, orders):
    delete(lake, "offset = 7")
    command(lake, "--apply", "--offsets", "0..20")
    assert withdrawn(lake) == [(7, 8, 1)]
    assert set(lake.published("orders")) == set(range(30)) - {7}


def test_topic_partition_and_offsets_narrow_what_is_withdrawn(lake, capsys):
    delete(lake, "offset IN (3, 17)")
    delete(lake, "offset = 12", "keyed")
    assert command(lake, "--apply", "--topic", "ord*", "--partition", "0", "--offsets", "10..30") == 0
    assert recorded(lake) == [("orders", 17, 18, 1)]
    assert command(lake, "--topic", "ordrs") == 64
    error = capsys.readouterr().err
    assert "no log of these topics" in error
    assert "--topic 'ordrs' matches no topic; the nearest names are orders" in error


def test_scattered_deletions_become_ranges_and_neighbours_of_several_ledger_rows_one(lake):
    delete(lake, "offset IN (1, 2, 5, 9, 10, 11)")
    command(lake, "--apply")
    assert recorded(lake) == [("orders", 1, 3, 2), ("orders", 5, 6, 1), ("orders", 9, 12, 3)]
    delete(lake, "offset IN (12, 13)")
    command(lake, "--apply")
    assert recorded(lake) == [
        ("orders", 1, 3, 2),
        ("orders", 5, 6, 1),
        ("orders", 9, 12, 3),
        ("orders", 12, 14, 2),
    ]
    assert ledger_comparison.differences(str(lake.path)) == ()


def test_a_log_with_more_ranges_than_one_command_takes_is_refused_with_the_way_to_narrow(lake, monkeypatch, capsys):
    delete(lake, "offset IN (1, 3, 5, 7)")
    monkeypatch.setattr(withdrawals, "MAX_RANGES", 3)
    versions = lake.versions()
    assert command(lake, "--apply") == 3
    said = capsys.readouterr().err
    assert "orders-0: the rows of 4 ranges" in said
    assert "--topic orders --partition 0 --offsets 1..7" in said
    assert lake.versions() == versions
    assert command(lake, "--apply", "--topic", "orders", "--partition", "0", "--offsets", "1..7") == 0
    assert command(lake, "--apply") == 0
    assert [span[:2] for span in withdrawn(lake)] == [(1, 2), (3, 4), (5, 6), (7, 8)]


def test_of_what_cleaning_left_exactly_the_records_that_are_gone_are_withdrawn(lake):
    delete(lake, "offset IN (3, 4)", "keyed")
    command(lake, "--apply")
    assert recorded(lake) == [("keyed", 3, 5, 2)]
    delete(lake, "offset IN (12, 15)", "keyed")
    command(lake, "--apply")
    assert recorded(lake) == [("keyed", 3, 5, 2), ("keyed", 10, 20, 2)]
    assert ledger_comparison.differences(str(lake.path)) == ()
    ledger = [r for r in lake.rows("offset_ledger") if r["topic"] == "keyed"]
    assert sum(r["records"] for r in ledger) == 6
    assert sum(r["records"] + r["gaps"] for r in ledger) == 20
    assert sum(r["records"] for r in ledger if not r["withdrawn"]) == 2


def test_where_the_archive_does_not_show_which_records_are_gone_the_offsets_are_named_and_stay(lake, capsys):
    delete(lake, "offset = 3", "keyed")
    for file in (lake.path / "archive" / f"{KEYED_ID}.0").rglob("*.log"):
        file.unlink()
    versions = lake.versions()
    assert command(lake, "--apply", "--format", "jsonl") == 2
    unclear, _ = lines(capsys)
    assert (unclear["topic"], unclear["start_offset"], unclear["end_offset"]) == ("keyed", 0, 10)
    assert "archive does not show" in unclear["unclear"]
    assert lake.versions() == versions


def test_replace_leaves_withdrawn_rows_out_and_restores_them_on_request(lake, orders):
    delete(lake, "offset >= 3 AND offset < 8")
    command(lake, "--apply")
    delete(lake, "offset = 20")
    replace(lake, start_offset=0)
    assert set(lake.published("orders")) == set(range(30)) - set(range(3, 8))
    replace(lake, start_offset=0, end_offset=5, include_withdrawn=True)
    assert set(lake.published("orders")) == set(range(30)) - set(range(5, 8))
    assert recorded(lake) == [("orders", 5, 8, 3)]
    assert withdrawn(lake) == [(5, 8, 3)]
    replace(lake, start_offset=0, include_withdrawn=True)
    assert lake.published("orders") == {offset: row for offset, row in orders.rows.items() if offset < 30}
    assert recorded(lake) == []
    assert withdrawn(lake) == []
    assert ledger_comparison.differences(str(lake.path)) == ()


@pytest.mark.parametrize("times", [(0, None), (None, 1 << 60), (0, 1 << 60)])
def test_a_replacement_of_times_leaves_withdrawn_rows_out_too(lake, times):
    delete(lake, "offset >= 3 AND offset < 8")
    delete(lake, "offset = 4", "keyed")
    command(lake, "--apply")
    delete(lake, "offset = 20")
    replace(lake, since_ms=times[0], until_ms=times[1])
    assert set(lake.published("orders")) == set(range(30)) - set(range(3, 8))
    assert set(lake.published("keyed")) == {0, 3, 9, 12, 15}
    assert ledger_comparison.differences(str(lake.path)) == ()


def test_a_late_replacement_does_not_bring_them_back(lake):
    delete(lake, "offset >= 3 AND offset < 8")
    command(lake, "--apply")
    replace(lake)
    assert len(lake.published("orders")) == 25


@pytest.mark.parametrize("lost", [("offset_ledger",), ("validations",), ("validations", "batches", "offset_ledger")])
def test_a_ledger_that_is_made_again_reads_the_withdrawals_and_no_row_comes_back(lake, lost):
    delete(lake, "offset IN (3, 4, 17)")
    delete(lake, "offset = 4", "keyed")
    command(lake, "--apply")
    before = sorted((r["topic"], r["start_offset"], r["end_offset"]) for r in lake.rows("withdrawals"))
    for name in lost:
        shutil.rmtree(lake.path / "tables" / name)
    launch.run(ValidateConfig(str(lake.path), "again", AS_OF_MS))
    launch.run(PublishConfig(str(lake.path), "again", AS_OF_MS))
    replace(lake)
    assert set(lake.published("orders")) == set(range(30)) - {3, 4, 17}
    assert set(lake.published("keyed")) == {0, 3, 9, 12, 15}
    assert [span[:2] for span in withdrawn(lake)] == [(3, 5), (17, 18)]
    assert withdrawn(lake, "keyed") == [(4, 5, 1)]
    assert sorted((r["topic"], r["start_offset"], r["end_offset"]) for r in lake.rows("withdrawals")) == before
    assert ledger_comparison.differences(str(lake.path)) == ()
    assert all(r["published"] for r in lake.rows("offset_ledger") if r["withdrawn"])


def test_records_that_are_published_from_the_beginning_again_leave_the_withdrawn_rows_out(lake):
    delete(lake, "offset IN (3, 4, 17)")
    command(lake, "--apply")
    shutil.rmtree(lake.path / "tables" / "records")
    launch.run(PublishConfig(str(lake.path), "again", AS_OF_MS))
    assert set(lake.published("orders")) == set(range(30)) - {3, 4, 17}
    assert ledger_comparison.differences(str(lake.path)) == ()


def test_a_log_continues_to_grow_after_a_withdrawal(made_once, lake):
    delete(lake, "offset >= 28")
    command(lake, "--apply")
    source = LogDirectory(made_once[0] / "source")
    source.high_watermarks(orders_0=40, keyed_0=20)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(28)) | set(range(30, 40))
    assert withdrawn(lake) == [(28, 30, 2)]
    assert ledger_comparison.differences(str(lake.path)) == ()


def test_a_command_that_dies_between_its_commits_is_completed_by_the_next_without_a_second_record(lake, monkeypatch):
    delete(lake, "offset IN (3, 4)")
    with monkeypatch.context() as dying:
        dying.setattr(commits, "replace", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            command(lake, "--apply")
    assert recorded(lake) == [("orders", 3, 5, 2)]
    assert withdrawn(lake) == []
    assert command(lake) == 1
    assert command(lake, "--apply") == 0
    assert recorded(lake) == [("orders", 3, 5, 2)]
    assert withdrawn(lake) == [(3, 5, 2)]


def test_rows_of_another_engines_mixed_file_count_as_there(lake):
    """One file that holds rows of several logs, as an outside OPTIMIZE leaves them: only offsets count."""
    table = str(lake.path / "tables" / "records")
    rows = DeltaTable(table).to_pyarrow_table()
    write_deltalake(table, rows.filter(pa.compute.field("offset") != 9), mode="overwrite")
    command(lake, "--apply")
    assert recorded(lake) == [("keyed", 9, 10, 1), ("orders", 9, 10, 1)]


def test_a_path_that_is_no_lake_is_wrong_usage_and_makes_nothing(tmp_path, capsys):
    assert command(Lake(tmp_path / "nothing"), "--apply") == 64
    assert not (tmp_path / "nothing").exists()
    assert "is no lake" in capsys.readouterr().err


def explained(lake: Lake, offset: int, capsys: pytest.CaptureFixture[str], form: str = "jsonl") -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    lineage_command(parser)
    table = str(lake.path / "tables" / "records")
    options = parser.parse_args([table, "--offset", f"orders-0:{offset}", "--format", form])
    return options.func(options), capsys.readouterr().out


def test_lineage_explains_a_withdrawn_offset_with_who_when_why_and_version(lake, capsys):
    delete(lake, "offset IN (3, 4)")
    version = lake.versions()["records"]
    assert explained(lake, 3, capsys)[0] == 2
    command(lake, "--apply", "--reason", "GDPR request 17", "--as-of", "1800000000123")
    who = lake.rows("withdrawals")[0]["who"]
    capsys.readouterr()
    code, said = explained(lake, 3, capsys)
    line = json.loads(said)
    assert code == 0
    assert not line["damaged"]
    for word in (who, "2027-01-15", "GDPR request 17", f"version {version}", "archive still holds"):
        assert word in line["explanation"]
    assert line["ledger"]["withdrawn"] is True
    assert line["withdrawal"]["table_version"] == version
    assert line["batch"]["crc_ok"] is True
    code, said = explained(lake, 3, capsys, "text")
    assert code == 0
    assert "withdrawn" in said
    assert explained(lake, 5, capsys)[0] == 0


def test_verify_names_exactly_the_offsets_that_have_no_row(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """Also of a batch that has fewer records than offsets."""
    delete(lake, "offset IN (3, 7, 8)")
    delete(lake, "offset = 4", "keyed")
    capsys.readouterr()
    assert main(["verify", str(lake.path), "--format", "jsonl"]) == 2
    lost = sorted(each["message"] for each in lines(capsys) if each.get("rule") == "rows-differ-from-ledger")
    assert lost == [
        f"{log}: published records of offsets {offsets} are not in the table."
        for log, offsets in (("keyed-0", "[4, 5)"), ("orders-0", "[3, 4)"), ("orders-0", "[7, 9)"))
    ]


def test_a_withdrawn_row_that_is_in_the_table_again_is_damage(lake, capsys):
    table = str(lake.path / "tables" / "records")
    row = (
        DeltaTable(table)
        .to_pyarrow_table()
        .filter((pa.compute.field("topic") == "orders") & (pa.compute.field("offset") == 3))
    )
    delete(lake, "offset = 3")
    command(lake, "--apply")
    write_deltalake(table, row, mode="append")
    capsys.readouterr()
    code, said = explained(lake, 3, capsys)
    assert code == 2
    assert "withdrawn" in json.loads(said)["problems"][0]
    assert [(d.start_offset, d.found - d.expected) for d in ledger_comparison.differences(str(lake.path))] != []


def test_commits_that_come_between_leave_the_command_without_a_cut_in_the_wrong_ledger(lake, monkeypatch, capsys):
    delete(lake, "offset = 3")
    made = withdrawals.plan(str(lake.path))
    ledger = frontier.read_ledger(str(lake.path))
    log = next(log for log in ledger if ledger[log][0].topic == "orders")
    frontier.commit_ledger(str(lake.path), ledger[log], [log], "other")
    with pytest.raises(ConcurrentChange):
        withdrawals.apply(str(lake.path), made, who="me", reason=None, run_id="late", as_of_ms=AS_OF_MS)
    assert withdrawn(lake) == []


@pytest.mark.parametrize("lost", ["the table", "its log", "a byte of its rows"])
def test_a_lost_table_of_withdrawals_is_made_again_with_the_printed_command(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == 0
        DeltaTable(str(lake / "tables" / "records")).delete("offset IN (3, 7)")
        assert main(["withdraw", str(lake), "--apply"]) == 0
        table = lake / "tables" / "withdrawals"
        if lost == "a byte of its rows":
            [path] = table.glob("**/*.parquet")
            path.write_bytes(handmade.flip(path.read_bytes(), path.stat().st_size // 3))
        else:
            shutil.rmtree(table if lost == "the table" else table / "_delta_log")
        capsys.readouterr()
        assert main(["verify", str(lake)]) == 2
        printed = capsys.readouterr().out
        commands = [each for each in commands_in(printed) if "withdrawals" in each or "run" in each]
        assert len(commands) == 2, printed
        for each in commands:
            assert main(shlex.split(each)[1:]) == 0, each
        assert main(["verify", str(lake)]) == 0
        assert "were deleted on purpose or expired, as the table withdrawals says." in capsys.readouterr().out
        assert main([*run, "--replace", ".."]) == 0
    rows = DeltaTable(str(lake / "tables" / "records")).to_pyarrow_table()
    assert set(rows["offset"].to_pylist()) == {*range(10)} - {3, 7}
    kept = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert sorted((row["start_offset"], row["end_offset"], row["records"], row["cause"]) for row in kept) == [
        (3, 4, 1, "withdrawn"),
        (7, 8, 1, "withdrawn"),
    ]


@pytest.mark.parametrize("lost", ["the table", "its log", "a byte of its rows"])
def test_a_lost_table_of_what_maintenance_did_is_made_again_with_the_printed_command(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source, lake, policies = LogDirectory(tmp_path / "source"), tmp_path / "lake", tmp_path / "policies.yaml"
    orders = source.partition("orders-0")
    for _ in range(3):
        orders.append(10)
        orders.roll()
    orders.append(10)
    source.high_watermarks(orders_0=40)
    policies.write_text('topics: {"*": {cleanup.policy: delete, retention.bytes: 1}}')
    run = ["run", str(source.path), "--lake", str(lake), "--policies", str(policies), "--maintain", "--apply"]
    table = lake / "tables" / "log_actions"
    with without_spark():
        assert main(run) == 0
        assert main(run) == 0
        before = actions_of(table)
        assert before
        if lost == "a byte of its rows":
            [path] = table.glob("**/*.parquet")
            path.write_bytes(handmade.flip(path.read_bytes(), path.stat().st_size // 3))
        else:
            shutil.rmtree(table if lost == "the table" else table / "_delta_log")
        capsys.readouterr()
        assert main(["verify", str(lake)]) == 2
        printed = capsys.readouterr().out
        assert "Restore" not in printed
        commands = [each for each in commands_in(printed) if "log_actions" in each or "run" in each]
        assert len(commands) == 2, printed
        for each in commands:
            assert main(shlex.split(each)[1:]) == 0, each
        assert main(["verify", str(lake)]) == 0
        assert main(run) == 0
        assert main(["verify", str(lake)]) == 0
    assert actions_of(table) == before


def actions_of(table: Path) -> list[tuple[object, ...]]:
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted((row["segment_id"], row["action"], row["records_before"], row["records_after"]) for row in rows)


def test_a_replacement_says_which_offsets_stay_withdrawn_and_the_command_brings_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    run = ["run", str(source.path), "--lake", lake]
    table = f"{lake}/tables/records"
    with without_spark():
        assert main(run) == 0
        DeltaTable(table).delete("offset IN (3, 7)")
        assert main(["withdraw", lake, "--apply"]) == 0
        capsys.readouterr()
        assert main([*run, "--replace", "5..9"]) == 0
        printed = capsys.readouterr().out
        assert "orders-0: offsets [7, 8) stay withdrawn." in printed
        [command] = commands_in(printed)
        assert main(shlex.split(command)[1:]) == 0
        assert "stay withdrawn" not in capsys.readouterr().out
        assert set(DeltaTable(table).to_pyarrow_table()["offset"].to_pylist()) == {*range(10)} - {3}
        assert main(run) == 0
