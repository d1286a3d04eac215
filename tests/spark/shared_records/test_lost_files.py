"""Rows that other engines lost are replaced from the archive, exactly once, or named as lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_jobs.lake.ledger.frontier import read_frontiers
from spark_jobs.lake.table_specs import OFFSET_LEDGER
from spark_jobs.lake.view.ledger_comparison import differences
from tests.spark.cycle import Lake
from tests.spark.shared_records.mixed_files import (
    Mix,
    assert_equal_to_source,
    by_spark_optimize,
    contents,
    damage,
    paths,
    replaced,
    root,
    rows,
    sql,
    table,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

HARMS = ["removed", "cut", "flipped"]


@pytest.mark.long
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_replace_rebuilds_a_file_that_is_lost_from_the_archive(shared, logs, harm, mixed):
    before = rows(shared)
    if mixed:
        by_spark_optimize(shared)
    lost = next(path for path in paths(shared) if path.startswith("topic=orders"))
    damage(root(shared) / lost, harm)
    replaced(shared)
    assert rows(shared) == before
    assert lost not in paths(shared)
    assert_equal_to_source(shared, logs)
    version = table(shared).version()
    assert replaced(shared).changed == ()
    assert table(shared).version() == version


def test_every_file_of_the_table_lost_is_rebuilt(shared, logs):
    before = rows(shared)
    for path in paths(shared):
        damage(root(shared) / path, "removed")
    replaced(shared)
    assert rows(shared) == before
    assert_equal_to_source(shared, logs)


@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_a_request_that_meets_a_lost_file_is_widened_to_all_that_it_held(shared, logs, mixed):
    if mixed:
        by_spark_optimize(shared)
    lost = next(path for path, held in contents(shared).items() if ("orders", 12) in {(r[0], r[3]) for r in held})
    damage(root(shared) / lost, "removed")
    report = replaced(shared, start_offset=12, end_offset=13)
    assert lost not in paths(shared)
    assert_equal_to_source(shared, logs)
    [said] = {placed.finding.message for placed in report.findings if placed.finding.rule == "table-file-rebuilt"}
    assert lost in said
    assert "[0, 30)" in said if mixed else "[10, 20)" in said


@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_rows_of_a_lost_file_that_the_archive_does_not_have_are_named_as_lost(shared, logs, mixed):
    if mixed:
        by_spark_optimize(shared)
    [lost] = [
        path for path, held in contents(shared).items() if {("orders", 0, 12)} & {(r[0], r[1], r[3]) for r in held}
    ]
    ledger = shared.rows("offset_ledger")
    for row in ledger:
        if (row["topic"], row["partition"]) == ("orders", 0):
            row["archived"] = "retained-away"
    path = str(shared.path / "tables" / "offset_ledger")
    write_deltalake(path, pa.Table.from_pylist(ledger, schema=OFFSET_LEDGER), mode="overwrite")
    damage(root(shared) / lost, "removed")
    report = replaced(shared)
    refused = [f for f in report.findings if f.finding.rule == "replacement-refused" and lost in f.finding.message]
    assert [(f.topic, f.partition, f.finding.start_offset, f.finding.end_offset) for f in refused] == [
        ("orders", 0, 0, 30) if mixed else ("orders", 0, 10, 20)
    ]
    assert "lost" in refused[0].finding.message
    assert lost not in paths(shared)
    held = shared.published("orders", 0)
    assert held == ({} if mixed else {o: row for o, row in logs["orders-0"].rows.items() if not 10 <= o < 20})
    assert shared.published("orders", 1) == logs["orders-1"].rows
    assert {(d.topic, d.partition) for d in differences(str(shared.path))} == {("orders", 0)}


def by_delta_rs(lake: Lake) -> None:
    table(lake).restore(0)


def by_spark(lake: Lake) -> None:
    sql(lake, "RESTORE TABLE {records} TO VERSION AS OF 0")


def by_spark_halfway(lake: Lake) -> None:
    sql(lake, "RESTORE TABLE {records} TO VERSION AS OF 2")


@pytest.mark.long
@pytest.mark.parametrize("restore", [by_delta_rs, by_spark, by_spark_halfway], ids=lambda each: each.__name__)
def test_rows_that_a_restore_took_away_come_back_exactly_once(made_once, shared, logs, restore: Mix, tmp_path):
    before = rows(shared)
    keys = [row["log"] for row in shared.rows("logs")]
    frontiers = read_frontiers(str(shared.path), keys)
    restore(shared)
    assert len(rows(shared)) < len(before)
    # Both engines leave what applications recorded as it was: the rows are gone, the frontier is not.
    assert read_frontiers(str(shared.path), keys) == frontiers
    assert len({(d.topic, d.partition) for d in differences(str(shared.path))}) == 3
    shared.turns = 3
    shared.turn(made_once[0] / "source")
    replaced(shared)
    assert rows(shared) == before
    assert_equal_to_source(shared, logs)
    version = table(shared).version()
    shared.turn(made_once[0] / "source")
    assert replaced(shared).changed == ()
    assert table(shared).version() == version
