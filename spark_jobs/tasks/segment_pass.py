"""The segment pass of ``validate``: every byte of one archived segment judged, once.

Runs in a worker. Rows go to files of ``batches`` and ``quarantine`` that the driver commits; only counts, findings and
the description of those files go back. Memory stays flat: rows leave in chunks, bytes are mapped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.columns.checking.batch_columns import batch_columns
from logcore.columns.engines import judge_segment
from logcore.errors import LogError
from logcore.logs.checks.validation import BatchVerdict
from logcore.logs.model.findings import found
from logcore.segments.filenames import is_coordinator_topic
from logcore.segments.scanning.scan import Stretch
from spark_jobs.lake.delta.parquet_files import write_file
from spark_jobs.lake.delta.tables import TABLES, table_uri
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import storage

if TYPE_CHECKING:
    from logcore.columns.decoding.groups import Table

RULES_VERSION = 1
"""Raised when a rule changes what is judged, so that segments can be judged again."""

CHUNK_ROWS = 16_384
QUARANTINE_ROW_BYTES = 1 << 20


def validate_one(value: dict[str, Any]) -> dict[str, Any]:
    """Judge one segment.

    Args:
        value: a row of ``segments`` and ``lake``.

    Returns:
        ``failed`` (None, or the finding that says why the archived file can't be read, and then nothing else);
        ``verdict``, counts, byte accounting, ``findings``, ``split_points`` as JSON, and the files written for
        ``batches`` and ``quarantine``.
    """
    lake = value["lake"]
    segment = Segment(**{f.name: value[f.name] for f in fields(Segment)})
    try:
        return _judge(lake, segment) | {"failed": None}
    except LogError as error:
        message = f"{segment.topic}-{segment.partition}: {error} Nothing of this log is judged until the file is back."
        finding = found(
            "archive-unreadable",
            message,
            file=segment.local_path(lake),
            start_offset=segment.base_offset,
            end_offset=segment.next_offset,
        )
        return {"failed": asdict(finding)}


def _judge(lake: str, segment: Segment) -> dict[str, Any]:
    start, end = segment.start, segment.start + segment.size
    with (
        storage.mapped(segment.local_path(lake), start, end, at_source=segment.lies_at_source) as mapped,
        memoryview(mapped) as whole,
    ):
        content = whole[start:end]
        if len(content) < segment.size:
            raise LogError(
                f"the file holds {len(content)} bytes where {segment.size} were archived", file=segment.local_path(lake)
            )
        # Nothing may be missing at the end, also of an unsealed segment: ingest took it up to its last good crc.
        judged = judge_segment(
            content,
            base_offset=segment.base_offset,
            sealed=True,
            file=segment.origin_file,
            next_base_offset=segment.next_offset,
            checks_sequences=not is_coordinator_topic(segment.topic),
        )
        stretches: list[Stretch] = []
        batches = write_file(table_uri(lake, "batches"), TABLES["batches"], _rows(segment, judged, stretches), {})
        quarantined = write_file(
            table_uri(lake, "quarantine"), TABLES["quarantine"], _bytes(segment, stretches, content), {}
        )
        digest = hashlib.sha256(content).hexdigest()
        content.release()
    findings = [
        replace(f, position=f.position + segment.origin_position) if f.position is not None else f
        for f in judged.findings
    ]
    if digest != segment.digest:
        findings.append(
            found(
                "archive-changed",
                f"The archived bytes of {segment.topic}-{segment.partition} are not those that were copied: their "
                "digest is another. Restore the file from a backup, or take the log again into a new lake.",
                file=segment.path,
                start_offset=segment.base_offset,
                end_offset=segment.next_offset,
            )
        )
    accounting, counts = judged.accounting, judged.counts
    return {
        "verdict": str(judged.end),
        "batches_count": counts.batches,
        "records": counts.records,
        "control_records": counts.control_records,
        "valid_bytes": accounting.valid,
        "quarantined_bytes": accounting.quarantined,
        "tail_bytes": accounting.tail,
        "padding_bytes": accounting.padding,
        "split_points": json.dumps(judged.split_points),
        "findings": [asdict(finding) for finding in findings],
        "batches": [asdict(batches)] if batches else [],
        "quarantine": [asdict(quarantined)] if quarantined else [],
    }


def _rows(
    segment: Segment, judged: Iterable[Table | BatchVerdict | Stretch], stretches: list[Stretch]
) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for item in judged:
        if isinstance(item, Stretch):
            stretches.append(item)
            rows.append(_stretch_row(item))
        elif isinstance(item, BatchVerdict):
            rows.append(asdict(item))
        else:
            if rows:
                yield _chunk("batches", segment, rows)
                rows = []
            yield _table_chunk(segment, batch_columns(item), len(item))
        if len(rows) >= CHUNK_ROWS:
            yield _chunk("batches", segment, rows)
            rows = []
    if rows:
        yield _chunk("batches", segment, rows)


def _table_chunk(segment: Segment, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    schema = TABLES["batches"].schema
    of_segment = _of_segment(segment)
    arrays = [
        pa.repeat(pa.scalar(of_segment[field.name], field.type), count)
        if field.name in of_segment
        else columns[field.name].cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stretch_row(stretch: Stretch) -> dict[str, Any]:
    return {
        "position": stretch.position,
        "size": stretch.size,
        "base_offset": stretch.offset,
        "verdict": str(stretch.reason),
    }


def _bytes(segment: Segment, stretches: list[Stretch], content: memoryview) -> Iterator[pa.RecordBatch]:
    for stretch in stretches:
        for position in range(stretch.position, stretch.end, QUARANTINE_ROW_BYTES):
            size = min(QUARANTINE_ROW_BYTES, stretch.end - position)
            row = {
                "position": position,
                "size": size,
                "expected_offset": stretch.offset,
                "reason": str(stretch.reason),
                "message": stretch.message,
                "bytes": bytes(content[position : position + size]),
            }
            yield _chunk("quarantine", segment, [row])


def _chunk(table: str, segment: Segment, rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    of_segment = _of_segment(segment)
    return pa.RecordBatch.from_pylist([of_segment | row for row in rows], schema=TABLES[table].schema)


def _of_segment(segment: Segment) -> dict[str, Any]:
    return {
        "segment_id": segment.segment_id,
        "log": segment.log,
        "topic": segment.topic,
        "log_id": segment.log_id,
        "partition": segment.partition,
    }
