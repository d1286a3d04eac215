"""A round of cleaning as it is planned: a value, what becomes one segment in it, and all of it as plain values.

Belongs here: the plan. How it is made, and carried out, is in `plan`.
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
    """Neighbours that become one segment. refusal: why they stay as they are instead; None: they do not."""

    segments: tuple[SourceSegment, ...]
    refusal: str | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "segments": [each.base_offset for each in self.segments],
            "bytes": sum(each.size for each in self.segments),
            "action": "keep" if self.refusal else "clean",
            "why": self.refusal or "below the end of the round",
        }


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a round is to do. segments: all below the round's upper bound. why_not: what keeps a broker from it; None if
    nothing does. start: what a broker's start makes of the directory's names."""

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
        """Those the map is made of."""
        first = self.round.first_dirty_offset
        return tuple(each for each in self.segments if each.next_base_offset > first)

    def groups(self, end_offset: int | None = None) -> tuple[PlannedGroup, ...]:
        """What becomes one segment; end_offset: where the map ended, by default the round's upper bound."""
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
        return f"segment {damaged[0]} is damaged, and writing it again would put a right checksum on what is wrong"

    def next_first_dirty(self, end_offset: int) -> int:
        """The line of the cleaner checkpoint, where the map ended at `end_offset`: what is refused stays dirty, sound
        segments in front of a damaged one of their group too. A tombstone among them would go at its horizon, but no
        later round would look for the value that it stands for."""
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
            "why": "asked for" if self.why_not is None else f"asked for, although {self.why_not.message}",
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
    """To six places, so that a plan is told alike everywhere."""
    return float(f"{ratio:.6f}")


def group_segments(
    segments: Sequence[SourceSegment], *, segment_bytes: int, segment_index_bytes: int, upper_bound_offset: int
) -> list[tuple[SourceSegment, ...]]:
    """Neighbours that become one segment when a log is cleaned: all segments, oldest first, in groups.

    From the oldest on, the next segment joins for as long as

        bytes of the logs together              <= segment.bytes
        bytes of the offset indexes, as trimmed <= segment.index.bytes, and so those of the time indexes
        its last offset - the group's base      <= 2^31-1, unless it is empty

    All sizes are those before cleaning: what a round makes small is put together a round later. The last offset is
    taken to be the one in front of the next segment, for the last of them the one in front of the round's end.

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
