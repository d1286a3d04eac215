"""`loglake verify LAKE` names what ledger, segments, batches, transactions and logs of tables do not agree on."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from logcore.cli.main import main
from tests.spark.cycle import Lake
from tests.unit.spark_jobs.lake_verification.harmed_files import spans, table

pytestmark = pytest.mark.slow


def rewrite(lake: Lake, name: str, change: Any) -> None:
    schema = pa.schema(table(lake, name).schema().to_arrow())
    rows = [new for row in lake.rows(name) if (new := change(row)) is not None]
    write_deltalake(table(lake, name), pa.Table.from_pylist(rows, schema=schema), mode="overwrite")


def test_a_hole_in_the_ledger_is_named(lake, verified):
    rewrite(
        lake, "offset_ledger", lambda row: None if row["topic"] == "payments" and row["state"] == "aborted" else row
    )
    done = verified(lake)
    assert done.code == 2
    assert [each["table"] for each in done.of("ledger-has-a-hole")] == ["offset_ledger"]
    assert spans(done.of("ledger-has-a-hole")) == {(0, 8)}


def test_a_lost_frontier_is_named_with_the_command_that_writes_it_again(lake, verified):
    path = lake.path / "tables" / "records"
    rows = table(lake).to_pyarrow_table()
    shutil.rmtree(path)
    write_deltalake(str(path), rows, partition_by=["topic"])
    done = verified(lake)
    assert done.code == 2
    assert len(done.of("frontier-missing")) == 2
    command = f"loglake repair {lake.path} --frontiers --apply"
    assert f"Run `{command}`." in done.of("frontier-missing")[0]["message"]
    assert main(command.split()[1:]) == 0
    assert verified(lake).of("frontier-missing") == []


def test_a_missing_validation_is_named(lake, verified):
    rewrite(lake, "validations", lambda row: None if row["topic"] == "orders" and row["base_offset"] == 10 else row)
    done = verified(lake)
    assert done.code == 2
    assert (10, 20) in spans(done.of("ledger-has-a-hole"))


def test_a_missing_segment_is_named(lake, verified):
    rewrite(lake, "segments", lambda row: None if row["topic"] == "orders" and row["base_offset"] == 10 else row)
    done = verified(lake)
    assert done.code == 2
    assert (10, 20) in spans([each for each in done.of("offsets-not-archived") if each["table"] == "segments"])


def test_batches_that_are_gone_are_named(lake, verified):
    rewrite(lake, "batches", lambda row: None if row["topic"] == "orders" and row["base_offset"] == 10 else row)
    done = verified(lake)
    assert done.code == 2
    assert spans([each for each in done.findings if each["table"] == "batches" and each["severity"] == "error"]) == {
        (10, 20)
    }


def test_a_transaction_after_the_log_end_is_named(lake, verified):
    rewrite(lake, "transactions", lambda row: row | {"marker_offset": 99})
    done = verified(lake)
    assert done.code == 2
    assert {each["table"] for each in done.findings if each["severity"] == "error"} == {"transactions"}


def test_quarantined_bytes_are_those_of_the_archive(sample, tmp_path, verified):
    from tests.in_process import without_spark

    made = Lake(tmp_path / "lake")
    with without_spark():
        made.turn(sample("damaged").logdir)
    rewrite(made, "quarantine", lambda row: row | {"bytes": bytes(len(row["bytes"]))})
    done = verified(made)
    assert done.code == 2
    assert {each["table"] for each in done.findings if each["severity"] == "error"} == {"quarantine"}


def test_a_commit_that_is_gone_or_repeated_or_unreadable_is_named(lake, verified):
    log = lake.path / "tables" / "records" / "_delta_log"
    second = log / f"{1:020d}.json"
    content = second.read_bytes()
    newest = max(log.glob("*.json"))
    again = log / f"{int(newest.stem) + 1:020d}.json"
    again.write_bytes(newest.read_bytes())
    assert "commit-file-damaged" in verified(lake).rules
    again.unlink()
    second.write_bytes(content[:-20])
    done = verified(lake)
    assert done.code == 2
    assert "records" in {each["table"] for each in done.findings}
    second.unlink()
    done = verified(lake)
    assert done.code == 2
    assert "records" in {each["table"] for each in done.findings}


def test_a_missing_commit_before_a_checkpoint_is_named(lake, verified):
    table(lake).create_checkpoint()
    assert verified(lake).code == 0
    (lake.path / "tables" / "records" / "_delta_log" / f"{1:020d}.json").unlink()
    done = verified(lake)
    assert done.code == 2
    assert {each["rule"] for each in done.findings} == {"commit-file-damaged"}
