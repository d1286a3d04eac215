"""Which of a log's stored findings still count, by the lake as it is now."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.offset_ledger import OffsetState
from logcore.logs.rules import RULES
from spark_jobs.contracts import JobReport
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.segments import archive
from spark_jobs.lake.table_specs import FINDINGS
from spark_jobs.lake.view.expectation_results import (
    DueExpectations,
    RecordsVersion,
    due_expectations,
    keep_evaluated,
)
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.ledger_comparison import compare_with_ledger
from spark_jobs.lake.view.open_findings import path_findings, source_warnings, unread_source
from spark_jobs.outlines import ExpectationResult, IngestOutline, RangesOutline, ValidateOutline
from spark_jobs.placed_finding import PlacedFinding
from tests.unit.spark_jobs.lake.view.lakes import BEGAN, only_log, said_of

STOPS = {
    *("topic-recreated", "source-diverged", "source-behind"),
    *("unreadable", "source-changed", "segments-not-named", "archive-not-written"),
}
CLOSED_IN_A_SOUND_LAKE = {
    *("corrupt-offsets", "missing-offsets", "rows-differ-from-ledger", "ledger-has-a-hole", "offsets-not-archived"),
    *("rows-differ-from-archive", "rows-out-of-order", "not-provable"),
    *("output-mismatch", "remote-tier", "high-watermark-beyond-log-end", "second-source", "replacement-refused"),
    *("trimmed-before-ingest", "transaction-outcome-lost"),
}
OPEN_WHATEVER_COMES = {
    *("source-cleaned", "source-trimmed", "incarnation-opened", "compaction-refused"),
    *("changed-after-publishing", "table-file-damaged", "archive-changed"),
    *("corrupt-bytes", "zero-tail", "sequence-gap", "header-name-not-utf8"),
}


def say(lake: str, *rules: str, **fields: Any) -> None:
    """Findings of these rules on the lake's one log, at offsets 4 to 6 unless said otherwise."""
    row = only_log(lake)
    fields = {"start_offset": 4, "end_offset": 6, **fields}
    message, segment_id = fields.pop("message", None), fields.pop("segment_id", None)
    found = [Finding(rule, Severity.ERROR, message or f"{rule}!", **fields) for rule in rules]
    placed = [PlacedFinding(finding, row.log, row.topic, row.partition, segment_id) for finding in found]
    record(lake, placed, "test", BEGAN)


def open_rules(lake: str) -> set[str]:
    (log,) = read_state(lake).logs
    return {placed.finding.rule for placed in log.findings}


def change(lake: str, **fields: Any) -> None:
    """The row of the one log becomes another."""
    archive.commit_logs(lake, [replace(only_log(lake), **fields)], "test")


def test_in_a_sound_lake_only_what_happened_to_the_log_stays(lake: str):
    say(lake, *RULES)
    found = open_rules(lake)
    assert OPEN_WHATEVER_COMES - found == set()
    assert found & (STOPS | CLOSED_IN_A_SOUND_LAKE) == set()


@pytest.mark.parametrize("rule", sorted(STOPS))
def test_why_a_log_stopped_counts_as_long_as_it_is_stopped_for_that(lake: str, rule: str):
    say(lake, *STOPS)
    assert open_rules(lake) == set()
    change(lake, stopped=rule, stopped_because="because")
    assert open_rules(lake) == {rule}


def test_a_rule_that_this_version_does_not_know_counts(lake: str):
    say(lake, "rule-of-a-later-version")
    assert open_rules(lake) == {"rule-of-a-later-version"}


def test_findings_of_no_log_count_for_none(lake: str):
    record(lake, [PlacedFinding(Finding("source-cleaned", Severity.ERROR, "of no log"))], "test", BEGAN)
    assert open_rules(lake) == set()


def test_damaged_ranges_count_as_long_as_the_ledger_has_them(lake: str):
    (whole,) = frontier.read_ledger(lake)[only_log(lake).log]
    say(lake, "corrupt-offsets", "missing-offsets")
    say(lake, "missing-offsets", start_offset=8, end_offset=9, message="elsewhere")
    say(lake, "missing-offsets", start_offset=5, end_offset=None, message="without an end")
    assert open_rules(lake) == set()
    said_of(lake, 5, 7, OffsetState.MISSING, "gap")
    (log,) = read_state(lake).logs
    messages = sorted(placed.finding.message for placed in log.findings)
    assert messages == ["corrupt-offsets!", "missing-offsets!", "without an end"]
    frontier.commit_ledger(lake, [whole], [whole.log], "test")
    assert open_rules(lake) == set()


def test_the_remote_tier_counts_as_long_as_offsets_of_the_finding_are_remote(lake: str):
    say(lake, "remote-tier-unproven", start_offset=None, end_offset=None)
    say(lake, "remote-tier")
    assert open_rules(lake) == set()
    change(lake, gaps=json.dumps([[0, 4, "remote-tier"]]))
    assert open_rules(lake) == {"remote-tier-unproven"}, "without offsets it is about the whole log"
    change(lake, gaps=json.dumps([[0, 5, "remote-tier"]]))
    assert open_rules(lake) == {"remote-tier", "remote-tier-unproven"}


def test_a_high_watermark_above_the_log_counts_until_the_log_reaches_it(lake: str):
    say(lake, "high-watermark-beyond-log-end", start_offset=10, end_offset=12)
    assert open_rules(lake) == set(), "no high watermark: the log's end counts"
    change(lake, high_watermark=12)
    assert open_rules(lake) == {"high-watermark-beyond-log-end"}
    change(lake, next_offset=12)
    assert open_rules(lake) == set()


def test_refused_rows_count_until_their_offsets_are_published(lake: str):
    say(lake, "output-mismatch", start_offset=5, end_offset=10)
    assert open_rules(lake) == set()
    say(lake, "output-mismatch", start_offset=5, end_offset=11, message="one more")
    assert open_rules(lake) == {"output-mismatch"}


def test_a_hole_counts_until_the_ledger_is_whole(lake: str):
    (whole,) = frontier.read_ledger(lake)[only_log(lake).log]
    say(lake, "ledger-has-a-hole")
    parts = [replace(whole, end_offset=4, records=4), replace(whole, start_offset=6, records=4)]
    frontier.commit_ledger(lake, parts, [whole.log], "test")
    assert open_rules(lake) == {"ledger-has-a-hole"}
    frontier.commit_ledger(lake, [whole], [whole.log], "test")
    assert open_rules(lake) == set()


def test_rows_that_are_gone_count_until_they_are_back(lake: str):
    records = DeltaTable(str(Path(lake, "tables", "records")))
    whole = records.version()
    records.delete("offset >= 3 AND offset < 5")
    compare_with_ledger(lake).record("test", BEGAN)
    compare_with_ledger(lake).record("test", BEGAN)
    (log,) = read_state(lake).logs
    (placed,) = log.findings
    assert (placed.finding.rule, placed.finding.severity) == ("rows-differ-from-ledger", Severity.ERROR)
    assert "8 rows, the ledger counts 10" in placed.finding.message
    records.restore(whole)
    assert open_rules(lake) == set()


def test_a_file_of_another_engine_counts_as_long_as_it_is_live_and_differs(lake: str):
    records = DeltaTable(str(Path(lake, "tables", "records")))
    records.update(updates={"timestamp_ms": "7"}, predicate="offset = 3")
    (file,) = records.file_uris()
    path = Path(file).relative_to(Path(lake, "tables", "records")).as_posix()
    say(lake, "rows-differ-from-archive", file=file)
    assert open_rules(lake) == set()
    answers = {"records": {path: [[only_log(lake).log, 3, 4, "another timestamp"]]}}
    tables_file.record_state(lake, "test", BEGAN, foreign=answers)
    assert open_rules(lake) == {"rows-differ-from-archive"}
    records.update(updates={"timestamp_ms": "8"}, predicate="offset = 3")
    assert open_rules(lake) == set()


def test_a_failed_expectation_counts_until_the_log_meets_them_all(lake: str):
    log = only_log(lake).log
    say(lake, "expectation-failed")
    assert open_rules(lake) == {"expectation-failed"}
    due = DueExpectations({log: (0, 10)}, {}, RecordsVersion.now(lake))
    for success in (False, True):
        outcome = ExpectationResult("offsets_are_unique", success, "error", "")
        report = JobReport("expectations", "test", lake, plan=RangesOutline(expectations=(outcome,)))
        keep_evaluated(lake, due, report)
        assert open_rules(lake) == (set() if success else {"expectation-failed"})


@pytest.mark.parametrize("is_by_another_engine", [False, True], ids=["our commit", "a commit of another engine"])
def test_a_failure_that_only_spark_finds_counts_until_spark_checked_the_rows_again(
    lake: str, is_by_another_engine: bool
):
    log = only_log(lake).log
    records = DeltaTable(str(Path(lake, "tables", "records")))
    row = records.to_pyarrow_table().slice(0, 1)
    counts = ExpectationResult("rows_match_ledger", True, "critical", "0 of 1 ranges fail")
    unmet = ExpectationResult("places_are_not_null", False, "critical", "1 of 10 rows do not meet it", (log,), True)
    say(lake, "expectation-failed")

    def evaluated(*outcomes: ExpectationResult) -> tuple[DueExpectations, dict[str, str]]:
        due = due_expectations(lake, {log: 10})
        outline = RangesOutline(expectations=outcomes)
        results = keep_evaluated(lake, due, JobReport("expectations", "test", lake, plan=outline))
        if is_by_another_engine:
            records.update_incremental()
            write_deltalake(records, row, mode="append")
        else:
            commits.append(lake, "records", row, "test")
        return due, {each.name: each.observed for each in results[log].outcomes if not each.success}

    assert evaluated(counts, unmet)[1] == {"places_are_not_null": "1 of 10 rows do not meet it"}
    for _ in range(2):
        due, failed = evaluated(counts)
        assert due.ranges == {log: (0, 10)}
        assert due.failed_on_rows[log], "so that a run on Spark checks each row"
        assert failed == {
            "places_are_not_null": "1 of 10 rows do not meet it; not checked again: that needs `--engine spark`"
        }
        assert open_rules(lake) == {"expectation-failed"}
    due, failed = evaluated(counts, replace(unmet, success=True, failing=()))
    assert (bool(due.failed_on_rows), failed) == (True, {})
    due, failed = evaluated(counts)
    assert (due.failed_on_rows, failed) == ({}, {})


@pytest.mark.parametrize(
    ("because", "state", "counts"),
    [
        ("filled", OffsetState.PRESENT, False),
        ("cut-back", OffsetState.PRESENT, False),
        ("retention", OffsetState.PRESENT, False),
        ("retention", OffsetState.CORRUPT, True),
        ("merged", OffsetState.PRESENT, True),
    ],
)
def test_a_finding_about_a_segment_ends_when_its_bytes_are_replaced_or_retired_without_loss(
    lake: str, because: str, state: OffsetState, counts: bool
):
    (segment,) = archive.read_segments(lake)
    if state is not OffsetState.PRESENT:
        said_of(lake, 4, 6, state, "CRC")
    say(lake, "corrupt-bytes", "index-not-rebuilt", segment_id=segment.segment_id)
    assert open_rules(lake) == {"corrupt-bytes"}
    planned = archive.planned_versions(lake, [segment.log])
    better = replace(segment, segment_id="better", digest="other")
    replaced = {segment.segment_id: "better"}
    archive.swap_segments(lake, [segment], [better], planned, "test", BEGAN, because, replaced)
    assert open_rules(lake) == ({"corrupt-bytes"} if counts else set())


def test_problems_of_paths_in_a_report_are_shown_once():
    said = Finding("no-segments", Severity.WARNING, "empty", "orders-0")
    reports = [JobReport("ingest", "run", "lake", plan=IngestOutline(None, of_paths=(said,))) for _ in range(2)]
    (found,) = path_findings([*reports, JobReport("validate", "run", "lake", plan=ValidateOutline((), ()))])
    assert (found.rule, found.severity, found.file) == ("no-segments", Severity.WARNING, "orders-0")


def test_what_no_finding_depends_on_is_not_read(lake: str, monkeypatch):
    say(lake, "source-cleaned")
    for name in ("ledger_comparison.compare_with_ledger", "harm.differing_files", "read_frontiers"):
        monkeypatch.setattr(f"spark_jobs.lake.view.open_findings.{name}", None)
    assert open_rules(lake) == {"source-cleaned"}


def test_findings_are_read_as_they_were_written(lake: str):
    row = only_log(lake)
    written = {**dict.fromkeys(FINDINGS.names), "finding_id": "1", "rule": "torn-tail", "severity": "info"}
    written |= {"log": row.log, "topic": row.topic, "partition": row.partition, "segment_id": "s", "message": "a tail"}
    written |= {"file": "f.log", "position": 5, "nbytes": 6, "start_offset": 7, "end_offset": 8}
    commits.append(lake, "findings", pa.Table.from_pylist([written], schema=FINDINGS), "test")
    (log,) = read_state(lake).logs
    expected = Finding("torn-tail", Severity.INFO, "a tail", "f.log", 5, 6, 7, 8)
    assert log.findings == (PlacedFinding(expected, row.log, row.topic, row.partition, "s"),)


def test_every_source_that_could_not_be_read_is_named_and_many_are_counted(tmp_path: Path) -> None:
    gone = [Finding("path-not-found", Severity.ERROR, f"/srv/{number} does not exist.") for number in range(5)]
    assert unread_source([Finding("no-segments", Severity.WARNING, "/srv/9 contains no segment.")]) is None
    told = [Finding("log-gone", Severity.WARNING, text) for text in ("a: left alone.", "b.")]
    said = source_warnings(str(tmp_path), (), told, ["/srv"])[""]
    assert said.startswith("a: left alone. What to do: If it was deleted on purpose")
    assert said.endswith(" b.")
    assert unread_source(gone[:2]) == "/srv/0 does not exist. /srv/1 does not exist."
    said = unread_source(gone)
    assert said is not None
    assert said.endswith("/srv/2 does not exist. 2 more cannot be read.")
