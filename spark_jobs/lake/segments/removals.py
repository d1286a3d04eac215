"""What retention and compaction removed from the archive, as the table ``segments`` records it.

A removal is done by the one commit that retires segments. The rows about it elsewhere, in ``log_actions`` and in the
ledger's ``archived``, are derived from ``segments`` here, never from a plan in memory. If a run died after its swap,
the next run completes it with the same rows.

    retired because of                   action      its offsets become
    retention                            retention   `retained-away`
    compaction                           compaction  `compacted-away`, if records were removed
    cut-back, filled, merged             none: they never belonged to the log, or others have replaced them

If a compacted segment lost a record, all its offsets are marked, not single records: `archived` says whether a range
can still be read from the archive exactly as it was published. So once the files of a compacted segment are deleted,
its offsets are `compacted-away` even if it lost no record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.logs.model.offset_ledger import EVIDENCE_FILLED, joined
from logcore.segments.scanning.scan import Stretch
from spark_jobs.contracts import LogChange, Scalar
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments import archive, ledger_ranges, log_actions
from spark_jobs.lake.segments.archive import COMPACTION, RETENTION, Segment
from spark_jobs.lake.segments.log_directory import slice_bytes
from spark_jobs.outlines import UnfinishedOutline

_NOWHERE = Place("", 0, "", "")


class Archived(StrEnum):
    """Whether the archive still has the offsets of a ledger range as they were published."""

    HELD = "held"
    RETAINED_AWAY = "retained-away"
    COMPACTED_AWAY = "compacted-away"
    ERASED = "erased"
    """Removed for good because somebody asked for it. Nothing writes it yet."""
    EXPIRED = "expired"
    """Removed because its time in the lake was over. Nothing writes it yet."""


WHY_GONE = {
    Archived.RETAINED_AWAY: "retention took them out of the archive",
    Archived.COMPACTED_AWAY: "compaction took records of them out of the archive",
    Archived.ERASED: "they were erased",
    Archived.EXPIRED: "their time in the lake is over",
}
"""What became of offsets that are not held, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A retired segment, its replacement, and the number of records of each."""

    segment: Segment
    replacement: Segment | None
    records_before: int
    records_after: int
    together: int = 1
    """Number of segments that the replacement replaces."""

    @property
    def action(self) -> str | None:
        """The job that removed it."""
        return self.segment.retired_because

    @property
    def archived(self) -> Archived:
        """What became of its offsets."""
        if self.action == RETENTION:
            return Archived.RETAINED_AWAY
        is_held = self.records_after == self.records_before and self.segment.deleted_ms is None
        return Archived.HELD if is_held else Archived.COMPACTED_AWAY


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Removals that other tables do not record yet."""

    actions: tuple[Removal, ...] = ()
    """Removals without a row in ``log_actions``."""
    ledgers: tuple[str, ...] = ()
    """Logs whose ledger disagrees with a removal about ``held``."""

    def __bool__(self) -> bool:
        return bool(self.actions or self.ledgers)

    @property
    def outline(self) -> UnfinishedOutline:
        """What a report and a dry run say of it."""
        return UnfinishedOutline(tuple(removal.segment.segment_id for removal in self.actions), self.ledgers)


def is_removal(segment: Segment) -> bool:
    """Return whether retention or compaction retired a segment."""
    return segment.retired_because in (RETENTION, COMPACTION)


def read_removals(
    lake: str, logs: Sequence[str] | None = None, new: Mapping[str, int] | None = None
) -> dict[str, list[Removal]]:
    """Return removals by log key, in offset order; logs without any are left out.

    Args:
        lake: The lake.
        logs: None: all.
        new: Records by segment id that ``validations`` does not have yet.
    """
    by_log = by_key(archive.read_segments(lake, logs, live=False), lambda segment: segment.log)
    by_log = {log: found for log, found in by_log.items() if any(map(is_removal, found))}
    if not by_log:
        return {}
    where: list[tuple[str, str, object]] = [("log", "in", sorted(by_log))]
    rows = read_rows(lake, "validations", ["segment_id", "records"], where).to_pylist()
    records = {row["segment_id"]: row["records"] for row in rows} | dict(new or {})
    recorded = read_rows(lake, "log_actions", ["segment_id", "action", "records_after"], where).to_pylist()
    left = {row["segment_id"]: row["records_after"] for row in recorded if row["action"] == COMPACTION}

    counted: dict[str, dict[str, int]] = {}

    def left_of(segment: Segment, replacement: Segment) -> int:
        known: int | None = left.get(segment.segment_id)
        if known is not None:
            return known
        identity = replacement.segment_id
        if identity not in counted:
            sharing = [each for each in by_log[segment.log] if each.replaced_by == identity]
            counted[identity] = _count_records_of(lake, sharing, replacement)
        return counted[identity][segment.segment_id]

    return {log: _removals(segments, records, left_of) for log, segments in by_log.items()}


def _removals(
    segments: Sequence[Segment],
    records: Mapping[str, int],
    left_of: Callable[[Segment, Segment], int] | None = None,
) -> list[Removal]:
    """Return removals; ``left_of`` counts the records of a segment in a replacement that it shares with others."""
    by_id = {segment.segment_id: segment for segment in segments}
    shared = Counter(segment.replaced_by for segment in segments if is_removal(segment))
    removals = []
    for segment in segments:
        if not is_removal(segment):
            continue
        replacement = by_id.get(segment.replaced_by) if segment.replaced_by is not None else None
        if replacement is None:
            after = 0
        elif shared[segment.replaced_by] > 1 and left_of is not None:
            after = left_of(segment, replacement)
        else:
            after = records.get(replacement.segment_id, 0)
        removals.append(
            Removal(segment, replacement, records.get(segment.segment_id, 0), after, shared[segment.replaced_by])
        )
    return removals


def _count_records_of(lake: str, segments: Sequence[Segment], replacement: Segment) -> dict[str, int]:
    """Count the records of each segment in a replacement that they share, by reading that file once."""
    visible = ((min(each.base_offset for each in segments), max(each.next_offset for each in segments)),)
    wanted = Wanted(columns=("offset",), visible=visible, as_counted=True)
    counts = {each.segment_id: 0 for each in segments}
    with slice_bytes(lake, replacement) as content:
        base = replacement.base_offset
        for item in decode_segment(content, place=_NOWHERE, base_offset=base, sealed=True, wanted=wanted):
            if not isinstance(item, Stretch):
                offsets = item.column("offset").to_numpy()
                for each in segments:
                    first, end = np.searchsorted(offsets, (each.base_offset, each.next_offset))
                    counts[each.segment_id] += int(end - first)
    return counts


def unfinished(lake: str, logs: Sequence[str] | None = None) -> Unfinished:
    """Return what an earlier run retired but did not record elsewhere."""
    by_log = read_removals(lake, logs)
    if not by_log:
        return Unfinished()
    known = log_actions.known_actions(lake, [("log", "in", sorted(by_log))])
    ledger = frontier.read_ledger(lake, list(by_log))
    return Unfinished(
        tuple(r for found in by_log.values() for r in found if (r.segment.segment_id, r.action) not in known),
        tuple(log for log, found in sorted(by_log.items()) if not _is_marked(ledger.get(log, ()), found)),
    )


def finish(
    lake: str,
    run_id: str,
    logs: Sequence[str] | None,
    explain: Mapping[str, tuple[str, str]] | None = None,
    more: Sequence[log_actions.Row] = (),
) -> list[Removal]:
    """Update ``log_actions`` and the ledger to match ``segments``; if they match, nothing is written.

    Args:
        explain: Rule and reason of a removal by segment id, if the caller knows them.
        more: Further rows to record in the same commit.

    Returns:
        The removals whose row in ``log_actions`` was written now.

    Raises:
        ConcurrentChange: The ledger was changed meanwhile.
    """
    todo = unfinished(lake, logs)
    mark_ledgers(lake, run_id, todo.ledgers)
    rows = [_action_row(r, (explain or {}).get(r.segment.segment_id)) for r in todo.actions]
    log_actions.record(lake, run_id, [*rows, *more] if rows else ())
    return list(todo.actions)


def mark_ledgers(lake: str, run_id: str, logs: Sequence[str]) -> None:
    """Update the ledgers of these logs to match ``segments``; without logs nothing is written.

    Raises:
        ConcurrentChange: The ledger was changed meanwhile.
    """
    if not logs:
        return
    by_log = read_removals(lake, logs)
    expected = TableVersions.of(lake, "offset_ledger")
    synced = ledger_ranges.sync_published(lake, run_id, logs, expected)
    rows = [row for log in logs for row in joined(_marked(lake, synced[log], by_log[log]))]
    frontier.commit_ledger(lake, rows, logs, run_id, expected)


def marked(lake: str, ledger: Sequence[LedgerRow], removals: Sequence[Removal]) -> list[LedgerRow]:
    """Return the rebuilt ledger of a log with ``archived`` as the removals say.

    Only published offsets are removed. So records that a rebuild takes for late ones were published before.
    """
    rows = []
    for row in _marked(lake, ledger, removals):
        was_published = row.archived != Archived.HELD and row.evidence == EVIDENCE_FILLED
        rows.append(replace(row, published=True, evidence=None) if was_published else row)
    return joined(rows)


def changes(finished: Iterable[Removal]) -> tuple[LogChange, ...]:
    """Return what removals did to each log, for a report. Segments that a removal wrote and a later one removed do not
    count.
    """
    by_log = by_key(finished, lambda removal: removal.segment.log)
    changed = []
    for log, found in sorted(by_log.items()):
        written = {r.replacement.segment_id for r in found if r.replacement}
        gone = {r.segment.segment_id for r in found}
        before = [r for r in found if r.segment.segment_id not in written]
        left = {r.replacement.segment_id: r.replacement.size for r in found if r.replacement}
        metrics: dict[str, Scalar] = {
            "segments": len(before),
            "bytes_before": sum(r.segment.size for r in before),
            "bytes_after": sum(size for identity, size in left.items() if identity not in gone),
            "records_before": sum(r.records_before for r in before),
            "records_after": sum(
                r.records_after for r in found if r.replacement is None or r.replacement.segment_id not in gone
            ),
            "up_to_offset": max(r.segment.next_offset for r in found),
        }
        changed.append(LogChange(log, found[0].segment.topic, found[0].segment.partition, metrics))
    return tuple(changed)


def _action_row(removal: Removal, explained: tuple[str, str] | None) -> log_actions.Row:
    segment, replacement = removal.segment, removal.replacement
    lost = removal.records_before - removal.records_after
    if replacement is not None:
        with_others = f", with {removal.together - 1} other segments" if removal.together > 1 else ""
        rule = "cleanup.policy"
        reason = (
            f"cleaned into the segment at base offset {replacement.base_offset}{with_others}; {lost} of "
            f"{removal.records_before} records left: those with a newer one of their key, without a key, of aborted "
            f"transactions, and tombstones whose delete horizon was not after {segment.retired_ms}"
        )
    else:
        rule, reason = explained or (RETENTION, "decided by a run that ended before it said why")
    # The first of several joined segments gets all the bytes, so that the sum over rows is that of the files.
    is_first = replacement is not None and replacement.base_offset == segment.base_offset
    return log_actions.row_about(
        segment,
        str(removal.action),
        rule,
        reason,
        segment.retired_ms,
        bytes_after=replacement.size if replacement is not None and is_first else 0,
        records=(removal.records_before, removal.records_after),
    )


def _is_marked(rows: Iterable[LedgerRow], removals: Sequence[Removal]) -> bool:
    return all(
        (start, end) == (row.start_offset, row.end_offset) and archived == row.archived
        for row in rows
        for start, end, archived in archived_ranges(row.start_offset, row.end_offset, removals)
    )


def _marked(lake: str, rows: Iterable[LedgerRow], removals: Sequence[Removal]) -> list[LedgerRow]:
    """Split the rows where `archived` changes, with the counts of each side."""
    marked = []
    for row in rows:
        ranges = archived_ranges(row.start_offset, row.end_offset, removals)
        parts = ledger_ranges.cut(lake, row, [(start, end) for start, end, _ in ranges])
        marked += [replace(part, archived=str(each[2])) for part, each in zip(parts, ranges, strict=True)]
    return marked


def archived_ranges(start: int, end: int, removals: Sequence[Removal]) -> list[tuple[int, int, Archived]]:
    """Split offsets [start, end) where `archived` changes; return at least one range, in order."""
    concerned = [r for r in removals if r.segment.base_offset < end and r.segment.next_offset > start]
    borders = {border for r in concerned for border in (r.segment.base_offset, r.segment.next_offset)}
    ranges: list[tuple[int, int, Archived]] = []
    bounds = [start, *sorted(border for border in borders if start < border < end), end]
    for low, high in pairwise(bounds):
        said = {r.archived for r in concerned if r.segment.base_offset < high and r.segment.next_offset > low}
        archived = next((a for a in (Archived.RETAINED_AWAY, Archived.COMPACTED_AWAY) if a in said), Archived.HELD)
        if ranges and ranges[-1][2] is archived:
            ranges[-1] = (ranges[-1][0], high, archived)
        else:
            ranges.append((low, high, archived))
    return ranges
