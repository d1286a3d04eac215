"""A small real lake for the tests of the view, and changes to its tables as jobs or other programs would make them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.lake.delta import commits
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.table_specs import BATCHES, TRANSACTIONS
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.spark.cycle import Lake

BEGAN, MINUTE = 1_700_000_000_000, 60_000


def made(folder: Path, **records: int) -> str:
    """A lake with a published log for each keyword: ``orders_0=10`` is ten records in ``orders-0``."""
    source = LogDirectory(folder / "kafka-logs")
    for name, count in records.items():
        source.partition(name.replace("_", "-")).append(count)
    lake = Lake(folder / "lake")
    with without_spark():
        lake.turn(source.path)
    return str(lake.path)


def only_log(lake: str) -> LogRow:
    """The row of a lake's one log."""
    (row,) = archive.read_logs(lake).values()
    return row


def said_of(lake: str, start: int, end: int, state: OffsetState, evidence: str) -> None:
    """The ledger says this of some of ten offsets, and nothing from there on is published."""
    log = only_log(lake).log
    (whole,) = frontier.read_ledger(lake, [log])[log]
    pieces = [
        replace(whole, end_offset=start, records=start),
        replace(whole, start_offset=start, end_offset=end, state=state, records=0, evidence=evidence, published=False),
        replace(whole, start_offset=end, records=10 - end, published=False),
    ]
    frontier.commit_ledger(lake, pieces, [log], "test")


def begin_transaction(lake: str, began: int) -> None:
    """A producer's batch at offsets 10 to 12 without a marker, and a transaction that ended before it."""
    log = only_log(lake)
    place = {"log": log.log, "topic": log.topic, "log_id": log.log_id, "partition": log.partition}
    row = {**place, "producer_id": 7, "producer_epoch": 1, "first_offset": 10, "last_offset": 12}
    open_one = {**dict.fromkeys(TRANSACTIONS.names), **row, "state": "open"}
    ended = open_one | {"producer_id": 8, "first_offset": 1, "marker_offset": 5, "state": "committed"}
    rows = pa.Table.from_pylist([open_one, ended], schema=TRANSACTIONS)
    commits.append(lake, "transactions", rows, "test")
    batch = {**dict.fromkeys(BATCHES.names), **place, "base_offset": 10, "last_offset": 11, "max_timestamp": began}
    batches = [batch, batch | {"base_offset": 12, "last_offset": 12, "max_timestamp": began + 5 * MINUTE}]
    commits.append(lake, "batches", pa.Table.from_pylist(batches, schema=BATCHES), "test")
