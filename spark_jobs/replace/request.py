"""The request of ``replace``: offsets, times or nothing, cut to the ranges of each log that can be replaced.

A range can be replaced if it is below the frontier and the archive still has it as it was published. Findings name the
other ranges. This module selects offsets from the ledger. ``replace`` executes the requests.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.model.findings import found, offsets_text
from logcore.logs.model.offset_ledger import OffsetState
from logcore.ranges import joined
from spark_jobs.contracts import ReplaceConfig
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import Ranges, clipped, meets
from spark_jobs.lake.published.withdrawals import NEVER_ROWS
from spark_jobs.lake.repair_commands import run_command
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.segments.ledger_ranges import counts_between, with_published
from spark_jobs.lake.segments.removals import WHY_GONE, Archived
from spark_jobs.placed_finding import PlacedFinding

RANGES_A_COMMIT = 200
_SHOWN = 3
"""Ranges that a note lists at most."""

REPLACEABLE = NEVER_ROWS | {OffsetState.PRESENT}


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Ranges of one log that are compared and, where they differ, replaced."""

    log: str
    topic: str
    log_id: str
    partition: int
    ranges: tuple[tuple[int, int], ...]
    visible: tuple[tuple[int, int], ...]
    """Offsets of the ranges that have rows."""
    records: int
    """Expected number of rows, by the ledger."""
    mixed: frozenset[str] = frozenset()
    """Files with rows of this log and of others, all of which are written again."""


@dataclass(frozen=True, slots=True)
class Unreplaceable:
    """Offsets [start, end) within one range of the ledger that are not replaced."""

    row: LedgerRow
    start: int
    end: int
    why: str

    @property
    def rows(self) -> int:
        """Expected published rows in the whole ledger range."""
        return self.row.records if self.row.has_rows else 0

    def rows_between(self, start: int, end: int) -> int:
        """Expected rows in a part; a lower bound where only the number of gaps is known."""
        outside = (self.row.end_offset - self.row.start_offset) - (end - start)
        return max(self.rows - outside, 0)


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """The requests of one commit."""

    topic: str
    logs: tuple[LogRequest, ...]


def requested(config: ReplaceConfig) -> tuple[list[TopicRequest], list[PlacedFinding], list[str]]:
    """The requests, each as large as one commit, the refusals, and which requested offsets stay withdrawn."""
    rows = archive.read_logs(config.lake, config.logs)
    ledger = frontier.read_ledger(config.lake, list(rows))
    frontiers = frontier.read_frontiers(config.lake, list(ledger))
    # A range that a run published without updating the ledger was not filled late.
    ledger = {log: with_published(config.lake, ranges, frontiers[log]) for log, ranges in ledger.items()}
    if config.include_withdrawn:
        ledger = {log: [replace(row, withdrawn=False) for row in ranges] for log, ranges in ledger.items()}
    by_time = _ranges_of_times(config, list(ledger)) if _names_times(config) else None
    requests: list[LogRequest] = []
    refused: list[PlacedFinding] = []
    withdrawn: list[str] = []
    for log, ranges in sorted(ledger.items()):
        wanted = _wanted(config, ranges, frontiers[log] or 0, None if by_time is None else by_time.get(log, []))
        chosen, reasons = _cut(ranges, wanted, frontiers[log] or 0)
        if chosen:
            requests += _requests(config.lake, ranges, chosen)
        refused += [refusal(ranges[0], start, end, why) for start, end, why in reasons]
        kept = joined(
            part for row in ranges if row.withdrawn for part in clipped(wanted, row.start_offset, row.end_offset)
        )
        if kept:
            withdrawn.append(_still_withdrawn(config.lake, rows[log], kept))
    return _by_topic(requests), refused, withdrawn


def _still_withdrawn(lake: str, row: LogRow, spans: Sequence[tuple[int, int]]) -> str:
    listed = ", ".join(offsets_text(*span) for span in spans[:_SHOWN])
    more = f" and {len(spans) - _SHOWN:,} more ranges" if spans[_SHOWN:] else ""
    command = run_command(lake, row.source, row.topic, row.partition)
    return (
        f"{row.topic_partition}: offsets {listed}{more} stay withdrawn. `{command} --replace "
        f"{spans[0][0]}..{spans[-1][1]} --include-withdrawn` brings their rows back."
    )


def requests_for(
    lake: str, wanted: Mapping[str, Sequence[tuple[int, int]]]
) -> tuple[list[LogRequest], list[Unreplaceable]]:
    """One request for each log with all of its replaceable wanted ranges, and the ranges that cannot be replaced."""
    ledger = frontier.read_ledger(lake, list(wanted))
    frontiers = frontier.read_frontiers(lake, list(ledger))
    requests: list[LogRequest] = []
    refused: list[Unreplaceable] = []
    for log, rows in sorted(ledger.items()):
        ranges, end = with_published(lake, rows, frontiers[log]), frontiers[log] or 0
        chosen, _ = _cut(ranges, wanted[log], end)
        if chosen:
            requests += _requests(lake, ranges, chosen, len(chosen))
        for low, high in wanted[log]:
            for row in _meeting(ranges, low, min(high, end)):
                start, stop = max(low, row.start_offset), min(high, end, row.end_offset)
                if start < stop and (why := _why_not(row)) is not None:
                    refused.append(Unreplaceable(row, start, stop, why))
    return requests, refused


def _names_times(config: ReplaceConfig) -> bool:
    return config.since_ms is not None or config.until_ms is not None


def _ranges_of_times(config: ReplaceConfig, logs: Sequence[str]) -> dict[str, Ranges]:
    """Offsets by log of the record batches with timestamps in [since, until), by their headers.

    A header has the first and the greatest timestamp. A batch is left out only if both are on the same side. Batches
    are streamed; only runs of adjacent batches are kept.
    """
    condition = pc.field("log").isin(pa.array(sorted(logs), pa.string())) & (pc.field("verdict") == "ok")
    if config.since_ms is not None:
        condition &= (pc.field("max_timestamp") >= config.since_ms) | (pc.field("base_timestamp") >= config.since_ms)
    if config.until_ms is not None:
        condition &= (pc.field("base_timestamp") < config.until_ms) | (pc.field("max_timestamp") < config.until_ms)
    columns = ["log", "base_offset", "last_offset"]
    ranges: dict[str, Ranges] = {}
    for chunk in Table(config.lake, "batches").scan(columns, condition):
        by_log: dict[str, list[tuple[int, int]]] = {}
        for log, first, last in zip(*(chunk[name].to_pylist() for name in columns), strict=True):
            by_log.setdefault(log, []).append((first, last + 1))
        for log, found_here in by_log.items():
            ranges[log] = joined([*ranges.get(log, ()), *found_here])
    return ranges


def _wanted(
    config: ReplaceConfig, ranges: Sequence[LedgerRow], end: int, by_time: Sequence[tuple[int, int]] | None
) -> Ranges:
    """The requested offsets in ascending ranges; without a request, those that were filled late."""
    if not config.names_a_range:
        due = (r for r in ranges if r.state in REPLACEABLE and not r.published and not r.withdrawn)
        late = [r for r in due if r.end_offset <= end]
        return joined((r.start_offset, r.end_offset) for r in late)
    start, stop = config.start_offset or 0, config.end_offset
    if by_time is None:
        stop = end if stop is None else stop
        return [(start, stop)] if start < stop else []
    # Include offsets that cleaning removed between two batches: one range instead of many.
    cleaned = {r.start_offset: r.end_offset for r in ranges if r.state is OffsetState.COMPACTED}
    widened = joined((low, cleaned.get(high, high)) for low, high in by_time)
    if stop is None:
        stop = end if config.until_ms is None else max(end, ranges[-1].end_offset)
    return clipped(widened, start, stop)


def _cut(
    ranges: Sequence[LedgerRow], wanted: Sequence[tuple[int, int]], end: int
) -> tuple[Ranges, list[tuple[int, int, str]]]:
    """The wanted offsets that can be replaced, and those that cannot, with the reason."""
    chosen: list[tuple[int, int]] = []
    refused: list[tuple[int, int, str]] = []
    for low, high in wanted:
        for row in _meeting(ranges, low, high):
            start, stop = max(low, row.start_offset), min(high, row.end_offset, end)
            if start >= stop:
                continue
            why = _why_not(row)
            if why is None:
                chosen.append((start, stop))
                continue
            if refused and refused[-1][1:] == (start, why):
                refused[-1] = (refused[-1][0], stop, why)
            else:
                refused.append((start, stop, why))
        high = min(high, ranges[-1].end_offset)
        if high > max(low, end):
            refused.append(
                (max(low, end), high, "they are not published yet; `loglake run` publishes them when they are due")
            )
    return joined(chosen), refused


def _why_not(row: LedgerRow) -> str | None:
    """Why the offsets of a ledger range cannot be replaced; None where they can be."""
    if row.archived == Archived.HELD and row.state in REPLACEABLE:
        return None
    return WHY_GONE.get(Archived(row.archived), f"the log says that they are {row.state}")


def _meeting(ranges: Sequence[LedgerRow], start: int, end: int) -> Iterator[LedgerRow]:
    """The ledger's ranges that have offsets of [start, end)."""
    at = bisect_right(ranges, start, key=lambda row: row.end_offset)
    while at < len(ranges) and ranges[at].start_offset < end:
        yield ranges[at]
        at += 1


def _requests(
    lake: str, ranges: Sequence[LedgerRow], chosen: Sequence[tuple[int, int]], most: int = RANGES_A_COMMIT
) -> list[LogRequest]:
    """Split the log's ranges into requests that fit into one commit."""
    first = ranges[0]
    requests = []
    for at in range(0, len(chosen), most):
        some = chosen[at : at + most]
        with_rows = [row for row in ranges if row.shows and meets(some, row.start_offset, row.end_offset)]
        visible = [each for row in with_rows for each in clipped(some, row.start_offset, row.end_offset)]
        records = sum(_records_in(lake, row, some) for row in with_rows)
        requests.append(
            LogRequest(first.log, first.topic, first.log_id, first.partition, tuple(some), joined(visible), records)
        )
    return requests


def _records_in(lake: str, row: LedgerRow, ranges: Sequence[tuple[int, int]]) -> int:
    spans = clipped(ranges, row.start_offset, row.end_offset)
    if spans == [(row.start_offset, row.end_offset)]:
        return row.records
    count = counts_between(lake, row, (border for span in spans for border in span))
    return sum(count(start, end).records for start, end in spans)


def _by_topic(requests: Sequence[LogRequest]) -> list[TopicRequest]:
    """Group logs of one topic as long as their ranges fit into one commit."""
    topics = []
    for topic, found_there in groupby(sorted(requests, key=lambda r: (r.topic, r.log)), key=lambda r: r.topic):
        logs: list[LogRequest] = []
        for request in found_there:
            # Two requests of one log may meet the same file, so they never share a commit.
            full = sum(len(log.ranges) for log in logs) + len(request.ranges) > RANGES_A_COMMIT
            if logs and (full or logs[-1].log == request.log):
                topics.append(TopicRequest(topic, tuple(logs)))
                logs = []
            logs.append(request)
        topics.append(TopicRequest(topic, tuple(logs)))
    return topics


def refusal(log: LogRequest | LedgerRow, start: int, end: int, why: str) -> PlacedFinding:
    """Build the finding that offsets [start, end) stay as they are, with the reason."""
    finding = found(
        "replacement-refused",
        f"{log.topic}-{log.partition}: offsets [{start}, {end}) are not replaced: {why}. Their rows in records "
        "stay as they are.",
        start_offset=start,
        end_offset=end,
    )
    return PlacedFinding(finding, log.log, log.topic, log.partition)
