"""Slices of a source segment in the archive, and which of them become one segment again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from logcore.segments.scanning.scan import End
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.policies.policies_file import Policies
from spark_jobs.tasks.merged_segment import fit_together
from spark_jobs.tidy_archive.archive_removal import NO_POLICY


@dataclass(frozen=True, slots=True)
class Slices:
    """Adjacent live segments that form one segment, with their rows of ``validations``."""

    segments: tuple[Segment, ...]
    validations: tuple[Mapping[str, Any], ...]

    @property
    def log(self) -> str:
        """The key of their log."""
        return self.segments[0].log

    @property
    def size(self) -> int:
        """Bytes of all slices."""
        return sum(segment.size for segment in self.segments)

    def total(self, count: str) -> int:
        """Sum of a count of ``validations``."""
        return sum(row[count] for row in self.validations)


def mergeable(
    live: Iterable[Segment],
    validations: Mapping[str, Mapping[str, Any]],
    policies: Policies,
    small_bytes: int | None = None,
) -> Iterator[Slices]:
    """Group the slices of each source segment into groups of at most `segment.bytes`.

    A log that grows between runs leaves several slices of one source file. A slice that is larger than all later ones
    together waits until the source closes the segment, so that no byte is copied again and again. Three kinds of slices
    are not joined: damaged ones, rewritten ones, and those that are registered at their source.

    Args:
        live: Segments that are not retired.
        validations: Their rows of ``validations``, by segment id.
        policies: They may set `segment.bytes`.
        small_bytes: Slices of at least this size stay alone; None: none does.
    """
    ingested = [s for s in live if s.generation == archive.GENERATION_INGESTED]
    ingested.sort(key=lambda s: (s.log, s.base_offset))
    for _, of_one_source in groupby(ingested, key=lambda s: (s.log, s.origin_base_offset)):
        for run in _runs(list(of_one_source), validations, math.inf if small_bytes is None else small_bytes):
            limit = (policies.for_topic(run[0].topic) or NO_POLICY).segment_bytes
            for group in _groups(run, limit):
                yield Slices(tuple(group), tuple(validations[s.segment_id] for s in group))


def _runs(
    slices: Sequence[Segment], validations: Mapping[str, Mapping[str, Any]], small: float
) -> Iterator[list[Segment]]:
    """Runs of undamaged slices that are small. Each slice begins where the one before it ends."""
    run: list[Segment] = []
    for segment in slices:
        row = validations.get(segment.segment_id)
        is_sound = row is not None and row["verdict"] == str(End.CLEAN) and not segment.lies_at_source
        fits = is_sound and segment.size < small
        if run and not (fits and fit_together(run[-1], segment)):
            yield run
            run = []
        if fits:
            run.append(segment)
    if run:
        yield run


def _groups(run: Sequence[Segment], limit: int) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    size = 0
    for segment in run:
        if group and size + segment.size > limit:
            yield from _worth_it(group)
            group, size = [], 0
        group.append(segment)
        size += segment.size
    yield from _worth_it(group)


def _worth_it(group: list[Segment]) -> Iterator[list[Segment]]:
    if group and not group[-1].sealed:
        behind = sum(segment.size for segment in group)
        while group and group[0].size > (behind := behind - group[0].size):
            group = group[1:]
    if len(group) > 1:
        yield group
