"""Frontiers that other engines erased are made again from rows and ledger, and nothing is published twice."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.engine.session import get_session
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.table_specs import OFFSET_LEDGER
from spark_jobs.lake.view import ledger_comparison
from spark_jobs.lake_commands.withdraw import withdraw_command
from tests.spark.repair.repaired_lakes import Made, called, command, ids, publish, recorded

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


def erase(made: Made, name: str = "records") -> None:
    """As an engine that keeps application ids for no time at all, at its next checkpoint."""
    place = f"delta.`{made.table(name)}`"
    properties = "'delta.setTransactionRetentionDuration'='interval 0 seconds', 'delta.checkpointInterval'='1'"
    spark = get_session()
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {place} SELECT * FROM {place} WHERE false")
    assert {DeltaTable(made.table(name)).transaction_version(app) for app in ids(made, name)} == {None}


@pytest.mark.long
def test_publishing_refuses_an_erased_frontier_naming_the_command_and_keeps_what_the_ledger_says(made):
    erase(made)
    made.grow()
    assert made.offsets() == set(range(30))
    said = [row["message"] for row in made.lake.rows("findings") if row["rule"] == "output-mismatch"]
    assert len(said) == 3
    assert all(f"loglake repair {made.lake.path} --frontiers" in message for message in said)
    published = [r for r in made.lake.rows("offset_ledger") if r["published"] and r["topic"] == "orders"]
    assert max(r["end_offset"] for r in published) == 30


@pytest.mark.long
def test_frontiers_are_made_again_from_rows_and_ledger_and_the_logs_go_on_without_a_duplicate(made, capsys):
    before = recorded(made)
    assert before == {"orders": 30, "payments": 15}
    assert command(made, "--frontiers") == 0
    erase(made)
    versions = made.lake.versions()
    assert command(made, "--frontiers") == 1
    said = capsys.readouterr().out
    assert "orders-0" in said
    assert "would be 30" in said
    assert "forgets application ids after interval 0 seconds" in said
    assert made.lake.versions() == versions
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made) == before
    DeltaTable(made.table()).create_checkpoint()
    assert recorded(made) == before, "the next checkpoint forgets them again"
    assert command(made, "--frontiers") == 0
    made.grow()
    assert made.offsets() == set(range(40))
    assert made.offsets("payments") == {0, 1, 2, 3, 4, 11, 12, 13, 14, 15}
    assert ledger_comparison.differences(str(made.lake.path)) == ()


@pytest.mark.long
def test_a_run_that_was_refused_leaves_what_the_frontiers_are_made_again_from(made):
    erase(made)
    made.grow()
    assert made.offsets() == set(range(30))
    assert command(made, "--frontiers", "--apply") == 0
    publish(made)
    assert made.offsets() == set(range(40))
    assert ledger_comparison.differences(str(made.lake.path)) == ()


@pytest.mark.long
@pytest.mark.parametrize(
    ("harm", "offsets"),
    [
        (lambda table: table.delete("topic = 'orders' AND offset IN (4, 5)"), "[4, 6)"),
        (
            lambda table: table.update(predicate="topic = 'orders' AND offset = 29", updates={"offset": "35"}),
            "[29, 30)",
        ),
    ],
)
def test_where_rows_and_ledger_disagree_the_log_is_named_with_offsets_and_left_alone(
    made, capsys, harm: Callable[[DeltaTable], object], offsets: str
):
    harm(DeltaTable(made.table()))
    erase(made)
    assert command(made, "--frontiers", "--apply") == 2
    said = capsys.readouterr().out
    assert "orders-0" in said
    assert "disagree; left alone" in said
    assert f"offsets {offsets}" in said
    assert recorded(made) == {"orders": None, "payments": 15}


@pytest.mark.long
def test_duplicate_rows_are_a_disagreement(made, capsys, spark: SparkSession):
    place = f"delta.`{made.table()}`"
    spark.sql(f"INSERT INTO {place} SELECT * FROM {place} WHERE topic = 'orders' AND offset < 3")
    erase(made)
    assert command(made, "--frontiers") == 2
    assert "3 rows have an offset that another row has too" in capsys.readouterr().out


@pytest.mark.long
def test_a_ledger_that_says_nothing_is_published_gets_its_frontier_from_the_rows(made):
    """As an earlier run left it, which took `published` back when the frontier was gone."""
    rows = [row | {"published": False} for row in made.lake.rows("offset_ledger")]
    logs = sorted({row["log"] for row in rows})
    parsed = [frontier.LedgerRow(**{name: row[name] for name in frontier.STORED}) for row in rows]
    frontier.commit_ledger(str(made.lake.path), parsed, logs, "earlier")
    erase(made)
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made) == {"orders": 30, "payments": 15}
    made.grow()
    assert made.offsets() == set(range(40))
    assert len(rows) == len(pa.Table.from_pylist(rows, schema=OFFSET_LEDGER))


@pytest.mark.long
def test_withdrawn_rows_are_not_missed_by_a_frontier(made):
    DeltaTable(made.table()).delete("topic = 'orders' AND offset >= 27")
    called(withdraw_command, made, "--apply")
    erase(made)
    assert called(withdraw_command, made, "--apply") == 2, "the frontier comes first"
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made)["orders"] == 30
    made.grow()
    assert made.offsets() == set(range(27)) | set(range(30, 40))


@pytest.mark.long
def test_the_decided_part_of_records_uncommitted_gets_its_frontier_and_is_not_made_again(made):
    publish(made, isolation_level="read_uncommitted")
    before = recorded(made, "records_uncommitted")
    assert before == {"orders": 30, "payments": 15}
    name = "records_uncommitted"
    decided = {f for f in DeltaTable(made.table(name)).file_uris() if "topic=payments" in f}
    erase(made, name)
    assert command(made, "--frontiers", "--apply") == 0
    assert recorded(made, name) == before
    publish(made, isolation_level="read_uncommitted")
    assert decided & set(DeltaTable(made.table(name)).file_uris()) == decided
    rows = [(r["topic"], r["offset"]) for r in made.lake.rows(name)]
    assert len(rows) == len(set(rows)) == 40 - 10 + 14 + 5


@pytest.mark.long
@pytest.mark.parametrize("name", ["segments", "findings"])
def test_the_loss_of_other_application_ids_repairs_itself(made, name):
    if name == "findings":
        logs = [row["log"] for row in made.lake.rows("logs")]
        guards = [Guard(f"expectations/{log}", None, 5) for log in logs]
        commits.add_files(str(made.lake.path), "findings", [], "checked", guards)
    erase(made, name)
    assert command(made, "--frontiers") == 0
    made.grow()
    assert made.offsets() == set(range(40))
    assert ledger_comparison.differences(str(made.lake.path)) == ()
