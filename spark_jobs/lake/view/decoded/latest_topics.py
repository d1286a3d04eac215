"""Tables of the latest rows as checks and pages show them: topics with a policy, and what the tables were made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.lake.decoded.balance import published_below
from spark_jobs.lake.decoded.followed_topics import ROWS
from spark_jobs.lake.decoded.topic_tables import LATEST
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.policies.topic_policies import TopicPolicy


@dataclass(frozen=True, slots=True)
class LatestBasis:
    """The rows of ``records`` of a log that its table was made of."""

    log: str
    partition: int
    end: int
    """Frontier of the table."""
    recorded: int
    """Rows of ``records`` below it when the table was made."""
    records: int
    """The same now."""


@dataclass(frozen=True)
class LatestTopic(TopicAsset):
    """A topic whose policy has ``latest``."""

    KIND = LATEST

    @staticmethod
    def wants(policy: TopicPolicy) -> bool:
        """See :class:`TopicAsset`."""
        return policy.latest is not None

    @cached_property
    def bases(self) -> tuple[LatestBasis, ...]:
        """What the table was made of, by log.

        Raises:
            TableUnreadable: A table is damaged.
        """
        keys = [log.log for log in self.logs]
        recorded = self.table.versions([*keys, *(ROWS + key for key in keys)])
        files = [file for file in newest_files(self.lake, "records") if file.partition_values["topic"] == self.topic]
        return tuple(
            LatestBasis(log.log, log.partition, end, rows, published_below(self.lake, files, log, end))
            for log in self.logs
            if (end := recorded[log.log]) is not None and (rows := recorded[ROWS + log.log]) is not None
        )

    @cached_property
    def rows(self) -> int:
        """Rows of the table.

        Raises:
            TableUnreadable: It is damaged.
        """
        return sum(max(file.rows, 0) for file in self.table.files())

    @property
    def meaning(self) -> str:
        """See :class:`TopicAsset`."""
        return f"The newest record of each key of the topic {self.topic}, for each of its logs."

    @property
    def sources(self) -> Mapping[str, str]:
        """See :class:`TopicAsset`."""
        return {"key": "key", "value": "value", "is_deleted": "value", "key_bytes": "key", "value_bytes": "value"}

    @property
    def figures(self) -> Mapping[str, int]:
        """See :class:`TopicAsset`."""
        return {"dagster/row_count": self.rows}
