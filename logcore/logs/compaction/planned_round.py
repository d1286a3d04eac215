"""A planned round of cleaning as a value: the groups that become one segment each, and all of it as plain values.

Belongs here: the plan. `plan` makes it and carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.logs.compaction.selection import CleanableRange, Refusal
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.startup import StartFiles


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Neighbours that become one segment. `refusal` is why they stay as they are instead; None if they are cleaned."""

    segments: tuple[SourceSegment, ...]
    refusal: str | None

    def as_dict(self) -> dict[str, Any]:
        """The plan as values for JSON."""
        return {
            "segments": [each.base_offset for each in self.segments],
            "bytes": sum(each.size for each in self.segments),
            "action": "keep" if self.refusal else "clean",
            "why": self.refusal or "below the end of the round",
        }


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a round will do.

    Attributes:
        directory: The directory.
        config: The topic's configuration.
        start: The result of a broker's start for the directory's names.
        round: The round's bounds and clocks.
        segments: All below the round's upper bound.
        damaged: Base offsets of the damaged ones.
        chosen: The range to clean.
        why_not: Why a broker would not clean now; None if it would.
        log_end_offset: The log end.
        last_stable_offset: The last stable offset.
        assumed_high_watermark: No file has a high watermark, so the log end is used.
        findings: The findings.
    """

    directory: PartitionDirectory
    config: TopicConfig
    start: StartFiles
    round: CleaningRound
    segments: tuple[SourceSegment, ...]
    damaged: tuple[int, ...]
    chosen: CleanableRange
    why_not: Refusal | None
    log_end_offset: int
    last_stable_offset: int
    assumed_high_watermark: bool
    findings: tuple[Finding, ...]

    @property
    def dirty_segments(self) -> tuple[SourceSegment, ...]:
        """The segments for the map."""
        first = self.round.first_dirty_offset
        return tuple(each for each in self.segments if each.next_base_offset > first)

    def groups(self, end_offset: int | None = None) -> tuple[PlannedGroup, ...]:
        """The groups that become one segment each. `end_offset` is the end of the map, by default the upper bound."""
        end = self.round.upper_bound_offset if end_offset is None else end_offset
        groups = group_segments(
            [each for each in self.segments if each.base_offset < end],
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
            upper_bound_offset=self.round.upper_bound_offset,
        )
        return tuple(PlannedGroup(group, self._refusal(group)) for group in groups)

    def _refusal(self, group: Sequence[SourceSegment]) -> str | None:
        damaged = [each.base_offset for each in group if each.base_offset in self.damaged]
        if not damaged:
            return None
        return f"segment {damaged[0]} is damaged, and rewriting it would give wrong bytes a right checksum"

    def next_first_dirty(self, end_offset: int) -> int:
        """The new line of the cleaner checkpoint after a map that ended at `end_offset`.

        Refused groups stay dirty, including their sound segments before a damaged one. A tombstone in these would be
        removed at its horizon, but no later round would look for the value that it deletes.
        """
        refused = (group.segments[0].base_offset for group in self.groups(end_offset) if group.refusal is not None)
        return min((end_offset, *self.damaged, *refused))

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values, for `--plan`."""
        round = self.round
        return {
            "log_start_offset": round.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "high_watermark": round.high_watermark,
            "high_watermark_is_assumed": self.assumed_high_watermark,
            "last_stable_offset": self.last_stable_offset,
            "first_dirty_offset": {
                "before": round.first_dirty_offset,
                "after": self.next_first_dirty(round.upper_bound_offset),
                "is_exact": round.max_keys is None,
            },
            "upper_bound_offset": round.upper_bound_offset,
            "clean_bytes": self.chosen.clean_bytes,
            "cleanable_bytes": self.chosen.cleanable_bytes,
            "dirty_ratio": _rounded(self.chosen.dirty_ratio),
            "a_broker_would": "clean" if self.why_not is None else "wait",
            "why": "requested" if self.why_not is None else f"requested, although {self.why_not.message}",
            "max_keys": round.max_keys,
            "active_producers": len(round.producers),
            "legacy_horizon_ms": round.legacy_horizon_ms,
            "delete_horizon_ms": round.as_of_ms + round.delete_retention_ms,
            "frozen_from": round.frozen_from,
            "groups": [group.as_dict() for group in self.groups()],
            "removed": {name: str(reason) for name, reason in sorted(self.start.dropped.items())},
            "findings": findings_told(self.findings),
        }


def findings_told(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as plain values."""
    return [
        {"rule": each.rule, "severity": str(each.severity), "file": each.file, "message": each.message}
        for each in findings
    ]


def _rounded(ratio: float) -> float:
    """To six places, so that a plan looks the same everywhere."""
    return float(f"{ratio:.6f}")


def group_segments(
    segments: Sequence[SourceSegment], *, segment_bytes: int, segment_index_bytes: int, upper_bound_offset: int
) -> list[tuple[SourceSegment, ...]]:
    """Group all segments, oldest first, into neighbours that become one segment when a log is cleaned.

    From the oldest on, the next segment joins as long as

        bytes of the logs together              <= segment.bytes
        bytes of the trimmed offset indexes     <= segment.index.bytes, and the same for the time indexes
        its last offset - the group's base      <= 2^31-1, unless it is empty

    All sizes are those before cleaning: segments that a round makes small are joined by the next round. The last offset
    is taken as the one before the next segment; for the last segment, the one before the round's end.

    Source: Kafka Cleaner.groupSegmentsBySize.
    """
    groups: list[list[SourceSegment]] = []
    size = offset_index = time_index = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else upper_bound_offset
        joins = (
            bool(groups)
            and size + segment.size <= segment_bytes
            and offset_index + segment.offset_index_size <= segment_index_bytes
            and time_index + segment.time_index_size <= segment_index_bytes
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if not joins:
            groups.append([])
            size = offset_index = time_index = 0
        groups[-1].append(segment)
        size += segment.size
        offset_index += segment.offset_index_size
        time_index += segment.time_index_size
    return [tuple(group) for group in groups]
