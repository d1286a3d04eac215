"""A log's live segments as its broker has them: slices of one source segment are joined.

If a log grows between runs, a segment that is one file at its source has several archived slices. Retention and
compaction work on the source's segments, so the times of the runs do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from logcore.logs.retention.retention import RetentionFacts
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.ledger_ranges import late_from
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The archived slices of one source segment, in offset order."""

    slices: tuple[Segment, ...]

    @property
    def base_offset(self) -> int:
        """First offset, inclusive."""
        return self.slices[0].base_offset

    @property
    def next_offset(self) -> int:
        """First offset after the last."""
        return self.slices[-1].next_offset

    @property
    def facts(self) -> RetentionFacts:
        """The facts for retention and compaction, with the name of the first slice."""
        timestamps = [s.max_timestamp for s in self.slices if s.max_timestamp is not None]
        return RetentionFacts(
            segment_id=self.slices[0].segment_id,
            base_offset=self.base_offset,
            size=sum(s.size for s in self.slices),
            max_timestamp=max(timestamps, default=None),
            modified_ms=self.slices[-1].modified_ms,
        )


@dataclass(frozen=True, slots=True)
class GovernedLog:
    """A log that has a policy, with its live segments."""

    row: LogRow
    policy: TopicPolicy
    segments: tuple[LogSegment, ...]
    version: int | None
    """Version of the log in ``segments``, read before the segments: the guard of a commit that is based on them."""
    validated_to: int
    """Every live segment below this offset is validated."""
    published_to: int
    """Everything below this offset is published: the frontier, or the first late offset before it."""
    missing_from: int | None
    """The first missing offset that may still be filled."""


def log_segments(segments: Sequence[Segment]) -> tuple[LogSegment, ...]:
    """Group the segments of one log, given in any order."""
    ordered = sorted(segments, key=lambda s: s.base_offset)
    return tuple(LogSegment(tuple(slices)) for _, slices in groupby(ordered, key=lambda s: s.origin_base_offset))


def governed_logs(lake: str, policies: Policies, logs: Sequence[str] | None) -> list[GovernedLog]:
    """Return the logs that have a policy, by key."""
    rows = {log: row for log, row in archive.read_logs(lake, logs).items() if policies.for_topic(row.topic)}
    if not rows:
        return []
    versions = archive.planned_versions(lake, rows)
    live = by_key(archive.read_segments(lake, list(rows)), lambda segment: segment.log)
    where: list[tuple[str, str, object]] = [("log", "in", sorted(rows))]
    validated = set(read_rows(lake, "validations", ["segment_id"], where)["segment_id"].to_pylist())
    ledger = frontier.read_ledger(lake, list(rows))
    frontiers = frontier.read_frontiers(lake, list(rows))
    governed = []
    for log, row in sorted(rows.items()):
        policy = policies.for_log(row.topic, row.topic_id)
        if policy is None or log not in live:
            continue
        unvalidated = [s.base_offset for s in live[log] if s.segment_id not in validated]
        validated_to = min(unvalidated, default=row.next_offset)
        ranges, recorded = ledger.get(log, []), frontiers[log]
        late = late_from(lake, ranges, recorded)
        governed.append(
            GovernedLog(
                row,
                policy,
                log_segments(live[log]),
                versions[log],
                validated_to,
                published_to=(recorded or 0) if late is None else late,
                missing_from=frontier.missing_from(ranges),
            )
        )
    return governed
