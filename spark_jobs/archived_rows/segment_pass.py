"""The segment pass of ``validate``: validates every byte of one archived segment, once.

Runs in a worker. It writes rows to files of ``batches`` and ``quarantine``, which the driver commits. Only counts,
findings and descriptions of these files return to the driver, and the few rows of a small segment. Memory is bounded:
rows are written in chunks, bytes are memory-mapped.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.columns.checking.batch_columns import batch_columns
from logcore.columns.decoding.batch_table import Table
from logcore.columns.engines import check_segment
from logcore.errors import LogError
from logcore.logs.checks.validation import BatchVerdict, SegmentValidation
from logcore.logs.model.findings import Finding, found
from logcore.segments.filenames import is_coordinator_topic
from logcore.segments.scanning.scan import Stretch
from spark_jobs.archived_rows.batch_rows import OF_SEGMENT, BatchRows, few_rows
from spark_jobs.engine.executor import synced_late
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.validations import ValidationCounts
from spark_jobs.lake.store import mapped_file
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import TABLES

if TYPE_CHECKING:
    from logcore.columns.checking.checked import CheckedSegment

CHUNK_ROWS = 16_384
QUARANTINE_ROW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ValidatedSegment:
    """The result of the pass over a segment, and the files that it wrote."""

    counts: ValidationCounts
    findings: tuple[Finding, ...]
    files: dict[str, WrittenFile]
    """Files by table, ``batches`` or ``quarantine``; a table without rows has no file."""
    rows: BatchRows | None = None
    """The rows of ``batches`` of a small segment, in place of a file."""


@synced_late
def validate_one(lake: str, segment: Segment) -> ValidatedSegment | Finding:
    """Validate one segment.

    Returns:
        The result, or the finding that says why the archived file cannot be read.
    """
    return _validated_or_why(lake, segment)


@synced_late
def validate_copied(lake: str, segment: Segment) -> ValidatedSegment | Finding:
    """As :func:`validate_one`, for a segment that was just copied: its digest is not computed again."""
    return _validated_or_why(lake, segment, is_digested=True)


def validate_into_files(lake: str, segment: Segment) -> ValidatedSegment | Finding:
    """As :func:`validate_one`, with a file of ``batches`` also for a small segment."""
    return _validated_or_why(lake, segment, returns_rows=False)


def _validated_or_why(
    lake: str, segment: Segment, *, is_digested: bool = False, returns_rows: bool = True
) -> ValidatedSegment | Finding:
    try:
        return _validate(lake, segment, is_digested, returns_rows)
    except LogError as error:
        message = f"{segment.topic}-{segment.partition}: {error} This log is not validated until the file is restored."
        return found(
            "archive-unreadable",
            message,
            file=segment.local_path(lake),
            start_offset=segment.base_offset,
            end_offset=segment.next_offset,
        )


def checked_again(segment: Segment, content: memoryview) -> SegmentValidation | CheckedSegment:
    """Check the bytes of an archived segment. None may be missing at the end, even in an unsealed one: `ingest`
    archived it up to its last valid CRC.
    """
    return check_segment(
        content,
        base_offset=segment.base_offset,
        sealed=True,
        file=segment.origin_file,
        next_base_offset=segment.next_offset,
        checks_sequences=not is_coordinator_topic(segment.topic),
    )


def _validate(lake: str, segment: Segment, is_digested: bool, returns_rows: bool) -> ValidatedSegment:
    start, end = segment.start, segment.start + segment.size
    with (
        mapped_file.mapped(
            segment.local_path(lake), start, end, at_source=segment.lies_at_source, registered=segment.registered
        ) as mapped,
        memoryview(mapped) as whole,
    ):
        content = whole[start:end]
        if len(content) < segment.size:
            raise LogError(
                f"the file holds {len(content)} bytes where {segment.size} were archived", file=segment.local_path(lake)
            )
        validated = checked_again(segment, content)
        stretches: list[Stretch] = []
        written: dict[str, WrittenFile | None] = {}
        rows = _rows(segment, validated, stretches)
        first, are_all = few_rows(rows) if returns_rows else ([], False)
        if not are_all:
            written["batches"] = _write(lake, "batches", itertools.chain(first, rows))
        written["quarantine"] = _write(lake, "quarantine", _bytes(segment, stretches, content))
        digest = segment.digest if is_digested else hashlib.sha256(content).hexdigest()
        content.release()
    findings = [
        replace(f, position=f.position + segment.origin_position) if f.position is not None else f
        for f in validated.findings
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
    return ValidatedSegment(
        counts=ValidationCounts.of(validated, len(findings)),
        findings=tuple(findings),
        files={table: file for table, file in written.items() if file is not None},
        rows=BatchRows.of(segment, first) if are_all and first else None,
    )


def _write(lake: str, table: str, rows: Iterable[pa.RecordBatch]) -> WrittenFile | None:
    return write_file(table_uri(lake, table), TABLES[table], rows, {})


def _rows(
    segment: Segment, validated: Iterable[Table | BatchVerdict | Stretch], stretches: list[Stretch]
) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, object]] = []
    for item in validated:
        if isinstance(item, Stretch):
            stretches.append(item)
            if not item.spare:  # no offset is in it
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


def _table_chunk(segment: Segment, columns: dict[str, pa.Array[Any]], count: int) -> pa.RecordBatch:
    schema = TABLES["batches"].schema
    of_segment = _of_segment(segment)
    arrays = [
        pa.repeat(pa.scalar(of_segment[field.name], field.type), count)
        if field.name in of_segment
        else columns[field.name].cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stretch_row(stretch: Stretch) -> dict[str, object]:
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


def _chunk(table: str, segment: Segment, rows: Iterable[dict[str, object]]) -> pa.RecordBatch:
    of_segment = _of_segment(segment)
    return pa.RecordBatch.from_pylist([of_segment | row for row in rows], schema=TABLES[table].schema)


def _of_segment(segment: Segment) -> dict[str, object]:
    return {name: getattr(segment, name) for name in OF_SEGMENT}
