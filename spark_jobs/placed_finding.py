"""A finding in a lake: what was found, and the log, the segment or the table that it is about."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from logcore.logs.model.findings import Finding


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding and its place.

    Attributes:
        finding: What was found.
        log: Log key ``<log_id>/<partition>``.
        topic: The log's topic.
        partition: Its partition.
        segment_id: The archived segment.
        table: The table, where tables are verified. It is no part of :attr:`finding_id`.
    """

    finding: Finding
    log: str | None = None
    topic: str | None = None
    partition: int | None = None
    segment_id: str | None = None
    table: str | None = None

    @property
    def finding_id(self) -> str:
        """Digest of rule, place and message."""
        f = self.finding
        place = [self.log, self.topic, self.partition, self.segment_id, f.file, f.position, f.start_offset]
        return hashlib.sha256(json.dumps([f.rule, *place, f.end_offset, f.message]).encode()).hexdigest()[:32]

    @property
    def topic_partition(self) -> str | None:
        """Kafka's directory name of the log."""
        return None if self.topic is None else f"{self.topic}-{self.partition}"
