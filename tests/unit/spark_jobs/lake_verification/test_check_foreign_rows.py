"""The job `check_foreign_rows`: what other engines wrote is compared with the archive once, and remembered."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.logs.rules.advice import advice
from spark_jobs.check_foreign_rows import check_foreign_rows_job as check_foreign_rows
from spark_jobs.contracts import CheckForeignRowsConfig, JobReport
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.view.harmed_places import place_of
from spark_jobs.launch import run
from spark_jobs.outlines import ForeignFiles
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = pytest.mark.slow


@pytest.fixture
def recorded(lake: Lake) -> Lake:
    """The lake as a run leaves it: its tables are recorded."""
    tables_file.record_state(str(lake.path), "run", AS_OF_MS)
    return lake


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.path / "tables" / "records"))


def config(lake: Lake, **given: Any) -> CheckForeignRowsConfig:
    return CheckForeignRowsConfig(str(lake.path), "check_foreign_rows", AS_OF_MS, **given)


def ask(lake: Lake, **given: Any) -> JobReport:
    return run(config(lake, **given))


def answers(lake: Lake) -> dict[str, Any]:
    return json.loads((lake.path / "tables.json").read_text())["foreign"].get("records", {})


def differing(report: JobReport) -> list[tuple[int, int]]:
    return [
        (f.finding.start_offset, f.finding.end_offset)
        for f in report.findings
        if f.finding.rule == "rows-differ-from-archive"
    ]


def test_a_lake_that_only_we_write_to_has_nothing_to_prove(recorded):
    made = check_foreign_rows.plan(config(recorded))
    assert made.is_empty
    assert made.task_bytes is None
    assert made.outline == ForeignFiles((), {})
    assert ask(recorded).metrics == {}


def test_rows_that_were_rewritten_unchanged_are_equal_and_remembered(recorded):
    table(recorded).update(predicate="topic = 'orders' AND offset = 13", updates={"leader_epoch": "0"})
    report = ask(recorded)
    assert report.findings == ()
    assert list(report.plan.answers.values()) == ["equal"]
    assert answers(recorded) == report.plan.answers
    again = check_foreign_rows.plan(config(recorded))
    assert again.is_empty
    assert again.outline.answers == report.plan.answers


@pytest.mark.parametrize(
    "updates",
    [{"value": "key"}, {"timestamp": "timestamp + INTERVAL '1 second'"}, {"leader_epoch": "77"}, {"key": "null"}],
    ids=lambda updates: next(iter(updates)),
)
def test_an_edited_row_is_a_finding_with_log_and_offset_and_what_to_do(recorded, updates):
    table(recorded).update(predicate="topic = 'orders' AND offset = 13", updates=updates)
    report = ask(recorded)
    assert differing(report) == [(13, 14)]
    (placed,) = report.findings
    assert (placed.topic, placed.partition, placed.finding.severity) == ("orders", 0, "error")
    assert placed.log.endswith("/0")
    to_do = advice(placed.finding.rule, place_of(str(recorded.path), placed))
    assert "--topic orders --partition 0 --replace 13..14" in to_do
    assert f"loglake withdraw {recorded.path} --apply" in to_do
    (answer,) = report.plan.answers.values()
    assert answer == [[placed.log, 13, 14, f"another {next(iter(updates))}"]]
    assert list(answers(recorded).values()) == [answer]


def test_swapped_rows_are_found(recorded):
    table(recorded).update(predicate="topic = 'orders' AND offset IN (3, 7)", updates={"offset": "10 - offset"})
    assert sorted(differing(ask(recorded))) == [(3, 4), (7, 8)]  # files have names by chance


def test_doubled_rows_are_found_in_a_file_of_their_own(recorded):
    rows = table(recorded).to_pyarrow_table()
    twice = rows.filter((pc.field("topic") == "orders") & (pc.field("offset") == 21))
    write_deltalake(table(recorded), twice, mode="append")
    assert differing(ask(recorded)) == [(21, 22)]


def test_doubled_rows_are_found_within_a_file(recorded):
    rows = table(recorded).to_pyarrow_table().filter(pc.field("topic") == "orders").sort_by("offset")
    write_deltalake(
        table(recorded), pa.concat_tables([rows, rows.slice(5, 1)]), mode="overwrite", predicate="topic = 'orders'"
    )
    assert differing(ask(recorded)) == [(5, 6)]


def test_files_that_were_only_merged_are_not_read(recorded):
    table(recorded).optimize.compact()
    assert check_foreign_rows.plan(config(recorded)).is_empty


def test_the_answer_of_a_file_that_is_live_no_more_is_forgotten(recorded):
    table(recorded).update(predicate="topic = 'orders' AND offset = 13", updates={"leader_epoch": "77"})
    (first,) = ask(recorded).plan.answers
    table(recorded).update(predicate="topic = 'orders' AND offset = 13", updates={"leader_epoch": "0"})
    report = ask(recorded)
    assert first not in report.plan.answers
    assert set(report.plan.answers.values()) == {"equal"}


def test_rows_whose_bytes_are_gone_are_not_provable(recorded):
    table(recorded).update(predicate="topic = 'orders' AND offset = 13", updates={"leader_epoch": "77"})
    row = next(r for r in recorded.rows("segments") if r["topic"] == "orders" and r["base_offset"] == 10)
    (recorded.path / row["path"]).unlink()
    report = ask(recorded)
    assert [f.finding.rule for f in report.findings] == ["not-provable"]
    assert list(report.plan.answers.values()) == ["not provable: the archived file is gone"]


def test_a_file_that_cannot_be_read_is_a_difference_and_the_others_are_compared(recorded):
    table(recorded).update(predicate="topic = 'orders' AND offset = 13", updates={"leader_epoch": "0"})
    table(recorded).update(predicate="topic = 'payments'", updates={"leader_epoch": "0"})
    made = check_foreign_rows.plan(config(recorded))
    of_payments = next(file for file in made.files if file.partition_values["topic"] == "payments")
    path = recorded.path / "tables" / "records" / of_payments.path
    path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 8) + b"PAR1")
    report = ask(recorded)
    assert {f.topic for f in report.findings} == {"payments"}
    assert "equal" in report.plan.answers.values()
