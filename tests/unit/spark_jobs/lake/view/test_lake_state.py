"""The state of a lake is what its tables hold now."""

from __future__ import annotations

from dataclasses import replace

from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.lake.segments import archive
from spark_jobs.lake.view.lake_state import read_state
from tests.unit.spark_jobs.lake.view.lakes import BEGAN, only_log, said_of


def test_a_published_log_has_its_figures(lake: str):
    (log,) = read_state(lake).logs
    assert (log.topic_partition, log.label) == ("orders-0", "orders-0")
    assert (log.segments, log.ingested, log.validated, log.batches, log.records) == (1, 1, 1, 2, 10)
    assert (log.published_to, log.published_records, log.lag, log.came_late) == (10, 10, 0, False)
    assert log.offsets_by_state == {"present": 10}
    assert (log.findings, log.open_transactions, log.quarantined_bytes) == ((), (), 0)


def test_offsets_in_the_remote_tier_are_a_warning(lake: str):
    said_of(lake, 4, 6, OffsetState.REMOTE, "remote-tier")
    assert read_state(lake).exit_code([], BEGAN) == 1


def test_of_logs_of_one_name_the_newest_incarnation_comes_last_and_is_called_so(lake: str):
    row = only_log(lake)
    newer = replace(row, log="AAAA.1/0", log_id="AAAA.1", incarnation=1, next_offset=0)
    archive.commit_logs(lake, [newer], "test")
    logs = read_state(lake).logs
    assert [log.log for log in logs] == [row.log, "AAAA.1/0"]
    assert [log.label for log in logs] == ["orders-0", "orders-0 (incarnation 1)"]


def test_a_state_that_was_read_stays_as_it_was_and_the_next_one_has_what_changed(lake: str):
    before = read_state(lake)
    assert read_state(lake) is before
    said_of(lake, 4, 6, OffsetState.CORRUPT, "crc")
    assert before.logs[0].offsets_by_state == {"present": 10}
    assert read_state(lake).logs[0].offsets_by_state == {"present": 8, "corrupt": 2}
    assert read_state(lake).logs[0].published_to == 4
    assert read_state(lake).logs[0].lag == 6


def test_lag_begins_where_the_log_begins_and_internal_topics_have_none_until_published(lake: str):
    row = only_log(lake)
    internal = replace(row, log="AAAA.1/0", log_id="AAAA.1", topic="__consumer_offsets")
    late = replace(
        row, log="BBBB.1/0", log_id="BBBB.1", topic="late", log_start_offset=1_000_000, next_offset=1_000_010
    )
    archive.commit_logs(lake, [internal, late], "test")
    lag = {log.row.topic: log.lag for log in read_state(lake).logs}
    assert lag == {"orders": 0, "__consumer_offsets": 0, "late": 10}
