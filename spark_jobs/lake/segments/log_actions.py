"""Rows of ``log_actions``: what was done to a segment and why. Here are those of ``tidy_archive``.

    merge           a slice's bytes are in a larger file now                        (one row per slice)
    delete          a retired segment's files were deleted                          (one row per segment)
    delete-orphan   files that no row of ``segments`` named were deleted            (one row per folder)

The first two are derived from ``segments``, never from a plan in memory. If a run died before it recorded them, the
next one writes the same rows. Orphans are recorded before they are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment, id_of, stem_of
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import LOG_ACTIONS

MERGE, DELETE, DELETE_ORPHAN = "merge", "delete", "delete-orphan"
Row = Mapping[str, object]
"""A row of ``log_actions``, without the run."""


def row_about(
    segment: Segment,
    action: str,
    rule: str,
    reason: str,
    as_of_ms: int | None,
    *,
    bytes_after: int,
    records: tuple[int | None, int | None] = (0, 0),
) -> Row:
    """Return the row of what was done to a segment.

    Args:
        bytes_after: Bytes of what replaces it.
        records: Records of the segment, and of what replaces it.
    """
    return {name: getattr(segment, name) for name in ("log", "topic", "log_id", "partition", "segment_id")} | {
        "action": action,
        "rule": rule,
        "reason": reason,
        "bytes_before": segment.size,
        "bytes_after": bytes_after,
        "records_before": records[0],
        "records_after": records[1],
        "as_of_ms": as_of_ms,
    }


def unrecorded(lake: str, segments: Iterable[Segment]) -> list[Row]:
    """Return the missing rows of ``log_actions``, without their run id; ``segments``: all rows of the table."""
    done = [(MERGE, s) for s in segments if s.retired_because == archive.MERGED]
    done += [(DELETE, s) for s in segments if s.deleted_ms is not None]
    if not done:
        return []
    known = known_actions(lake, [_OURS, ("segment_id", "in", sorted({s.segment_id for _, s in done}))])
    left = [(action, s) for action, s in done if (s.segment_id, action) not in known]
    merged = sorted({s.segment_id for action, s in left if action == MERGE})
    where: list[tuple[str, str, object]] = [("segment_id", "in", merged)]
    counted = read_rows(lake, "validations", ["segment_id", "records"], where).to_pylist() if merged else []
    records = {row["segment_id"]: row["records"] for row in counted}
    return [_merge(s, records.get(s.segment_id, 0)) if action == MERGE else _delete(s) for action, s in left]


def record(lake: str, run_id: str, rows: Iterable[Row]) -> None:
    """Append rows to ``log_actions``; without rows nothing is written."""
    columns = pa.Table.from_pylist([dict(row) | {"run_id": run_id} for row in rows], schema=LOG_ACTIONS)
    commits.append(lake, "log_actions", columns, run_id)


def orphans(lake: str, files: Iterable[tuple[str, int]], as_of_ms: int) -> list[Row]:
    """Return rows on archived files, by path and size, that will be deleted and are not recorded yet."""
    by_stem: dict[str, list[int]] = {}
    for path, size in files:
        by_stem.setdefault(stem_of(path), []).append(size)
    ids = sorted({id_of(stem) or stem for stem in by_stem})
    known = known_actions(lake, [_OURS, ("segment_id", "in", ids)]) if ids else set()
    rows: list[Row] = []
    for stem, sizes in sorted(by_stem.items()):
        names = stem.split("/")[1:]
        identity = id_of(stem) or stem
        if (identity, DELETE_ORPHAN) in known:
            continue
        is_of_log = len(names) >= 2 and names[1].isdecimal() and int(names[1]) < 1 << 31
        is_of_log = is_of_log and not storage.is_shortened(names[0])
        rows.append(
            {
                "log": "/".join(names[:2]) if is_of_log else None,
                "log_id": names[0] if is_of_log else None,
                "partition": int(names[1]) if is_of_log else None,
                "segment_id": identity,
                "action": DELETE_ORPHAN,
                "rule": "orphan",
                "reason": f"{len(sizes)} files that no row of segments names",
                "bytes_before": sum(sizes),
                "bytes_after": 0,
                "records_before": 0,
                "records_after": 0,
                "as_of_ms": as_of_ms,
            }
        )
    return rows


_OURS = ("action", "in", [MERGE, DELETE, DELETE_ORPHAN])


def known_actions(lake: str, where: Sequence[tuple[str, str, object]]) -> set[tuple[str, str]]:
    """Return segment and action of the recorded rows that match some conditions."""
    rows = read_rows(lake, "log_actions", ["segment_id", "action"], where).to_pylist()
    return {(row["segment_id"], row["action"]) for row in rows}


def _merge(segment: Segment, records: int) -> Row:
    reason = f"a slice of {segment.origin_file}; its bytes are in the segment {segment.replaced_by} now"
    counts, when = (records, records), segment.retired_ms
    return row_about(segment, MERGE, "segment.bytes", reason, when, bytes_after=segment.size, records=counts)


def _delete(segment: Segment) -> Row:
    waited = (segment.deleted_ms or 0) - (segment.retired_ms or 0)
    reason = f"retired by {segment.retired_because}; its files were deleted {waited} ms later"
    return row_about(segment, DELETE, "file.delete.delay.ms", reason, segment.deleted_ms, bytes_after=0)
