"""What a publish plan takes of a ledger that another run left as it should not be, and of other incarnations' rows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.contracts import PublishConfig
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import ledger_ranges
from spark_jobs.lake.table_specs import LOGS, OFFSET_LEDGER, SEGMENTS, TABLES, VALIDATIONS
from spark_jobs.publish import publish_job as publish
from spark_jobs.replace.replace_job import mark_published

OF_LOG = {"log": "t.1/0", "topic": "t", "log_id": "t.1", "partition": 0}


def _append(lake: str, name: str, schema: pa.Schema, **values: object) -> None:
    row = dict.fromkeys(schema.names) | OF_LOG | values
    commits.append(lake, name, pa.Table.from_pylist([row], schema=schema), "run")


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A log of offsets 0-99, all visible, in one segment."""
    lake = str(tmp_path)
    whole = {"segment_id": "s", "base_offset": 0}
    _append(lake, "logs", LOGS, incarnation=1, source="s", next_offset=100, gaps=json.dumps([]), as_of_ms=0)
    _append(
        lake, "segments", SEGMENTS, **whole, next_offset=100, path="a", start=0, size=100, generation=0, sealed=True
    )
    _append(lake, "validations", VALIDATIONS, **whole, split_points="[]", as_of_ms=0, digest="d")
    _append(
        lake, "offset_ledger", OFFSET_LEDGER, start_offset=0, end_offset=100, state="present", records=100, gaps=0,
        markers=0, published=False, archived="held",
    )  # fmt: skip
    return lake


def _plan(lake: str) -> publish.PublishPlan:
    return publish.plan(PublishConfig(lake, "run", 0, at_once=True))


def test_of_a_range_that_goes_through_the_frontier_the_rest_is_published(lake):
    commits.add_files(lake, "records", [], "run", [Guard("records/t.1/0", None, 50)])
    plan = _plan(lake)
    [log] = plan.logs
    assert (log.start_offset, log.end_offset, log.records) == (50, 100, 50)
    assert [task.visible for task in log.tasks] == [((50, 100),)]
    assert plan.stale_ledgers == ("t.1/0",)


def test_rows_of_an_earlier_incarnation_are_recognized_by_statistics_and_no_file_is_opened(lake, monkeypatch):
    spec = TABLES["records"]
    rows = [{"topic": "t", "partition": 0, "offset": offset, "log_id": "t.0"} for offset in range(500)]
    chunk = pa.RecordBatch.from_pylist(rows, schema=spec.schema)
    file = write_file(table_uri(lake, "records"), spec, [chunk], {"topic": "t"})
    commits.add_files(lake, "records", [file], "run", [Guard("records/t.0/0", None, 500)])
    monkeypatch.setattr(publish, "read_contents", None)
    plan = _plan(lake)
    assert [log.records for log in plan.logs] == [100]
    assert plan.refused == ()


def test_a_ledger_that_another_run_wrote_meanwhile_is_not_marked_over(lake, monkeypatch):
    commits.add_files(lake, "records", [], "run", [Guard("records/t.1/0", None, 100)])
    sync = ledger_ranges.sync_published

    def then_another(*args: object) -> object:
        before = sync(*args)  # type: ignore[arg-type]
        late = frontier.read_ledger(lake)["t.1/0"]
        frontier.commit_ledger(lake, late, ["t.1/0"], "other")
        return {log: [dataclasses.replace(row, published=False) for row in rows] for log, rows in before.items()}

    monkeypatch.setattr(ledger_ranges, "sync_published", then_another)
    with pytest.raises(ConcurrentChange):
        mark_published(lake, {"t.1/0": [(0, 100)]}, "run")
