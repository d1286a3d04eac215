"""Decoded tables as checks and pages show them: topics with a policy, and whether every row is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.lake.decoded.balance import LogBalance, balances
from spark_jobs.lake.decoded.other_subjects import OtherSubjectRows, other_subject_rows
from spark_jobs.lake.decoded.topic_tables import DECODED
from spark_jobs.lake.decoded.undecoded_share import UndecodedShare, undecoded_share
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.policies.topic_policies import TopicPolicy


@dataclass(frozen=True)
class DecodedTopic(TopicAsset):
    """A topic that a policy decodes."""

    KIND = DECODED

    @staticmethod
    def wants(policy: TopicPolicy) -> bool:
        """See :class:`TopicAsset`."""
        return policy.decodes

    @cached_property
    def balances(self) -> tuple[LogBalance, ...]:
        """Rows of each log that has been decoded.

        Raises:
            TableUnreadable: A table is damaged.
        """
        return tuple(balances(self.lake, self.topic, self.logs))

    @cached_property
    def share(self) -> UndecodedShare:
        """The share of rows that could not be decoded, of the newest rows and of all before.

        Raises:
            TableUnreadable: A table is damaged.
        """
        return undecoded_share(self.lake, self.topic)

    @cached_property
    def of_other_subjects(self) -> tuple[OtherSubjectRows, ...]:
        """The newest rows that name a schema of another subject, by log.

        Raises:
            TableUnreadable: A table is damaged.
        """
        return tuple(other_subject_rows(self.lake, self.topic))

    @property
    def rows(self) -> int:
        """Rows of the decoded table."""
        return sum(each.decoded for each in self.balances)

    @property
    def undecoded(self) -> int:
        """Rows that could not be decoded."""
        return sum(each.undecoded for each in self.balances)

    @property
    def meaning(self) -> str:
        """See :class:`TopicAsset`."""
        return (
            f"Keys and values of the topic {self.topic} as typed columns. Records that could not be decoded are in the "
            f"table undecoded/{self.topic}."
        )

    @property
    def sources(self) -> Mapping[str, str]:
        """See :class:`TopicAsset`."""
        return {"key": "key", "value": "value", "is_tombstone": "value"}

    @property
    def figures(self) -> Mapping[str, int]:
        """See :class:`TopicAsset`."""
        return {"dagster/row_count": self.rows, "undecoded rows": self.undecoded}
