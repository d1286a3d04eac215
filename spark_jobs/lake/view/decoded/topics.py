"""Decoded tables as checks and pages show them: topics with a policy, whether every row is there, columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from spark_jobs.lake.decoded.balance import LogBalance, balances
from spark_jobs.lake.decoded.topic_tables import DECODED, TopicTable
from spark_jobs.lake.decoded.undecoded_share import UndecodedShare, undecoded_share
from spark_jobs.lake.segments.archive import LogRow, read_logs
from spark_jobs.lake.setup.policies import read_policies
from spark_jobs.lake.view.shown_tables import ShownColumn

COORDINATES = ("log_id", "partition", "offset", "timestamp", "headers", "published_at")
"""Columns that are those of ``records``."""


def decodes(policies: str | None) -> bool:
    """Return whether a policy of a file decodes a topic. No lake is opened.

    Raises:
        UsageError: The file cannot be used.
    """
    return policies is not None and any(policy.decodes for policy in read_policies(policies).topics)


@dataclass(frozen=True)
class DecodedTopic:
    """A topic that a policy decodes."""

    lake: str
    topic: str
    logs: tuple[LogRow, ...]

    @property
    def address(self) -> str:
        """Location of the decoded table."""
        return TopicTable(self.lake, DECODED, self.topic).uri

    @property
    def version(self) -> int | None:
        """Version of the decoded table; None if it was never created.

        Raises:
            TableUnreadable: It is damaged.
        """
        table = TopicTable(self.lake, DECODED, self.topic).open()
        return None if table is None else table.version()

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

    @property
    def rows(self) -> int:
        """Rows of the decoded table."""
        return sum(each.decoded for each in self.balances)

    @property
    def undecoded(self) -> int:
        """Rows that could not be decoded."""
        return sum(each.undecoded for each in self.balances)

    def columns(self) -> tuple[ShownColumn, ...]:
        """Return the columns of the decoded table; none if it was never created.

        Raises:
            TableUnreadable: It is damaged.
        """
        place = TopicTable(self.lake, DECODED, self.topic)
        table = place.open()
        if table is None:
            return ()
        with place.reading():
            schema = table.schema()
            types = pa.schema(schema).types  # type: ignore[arg-type]
        return tuple(
            ShownColumn(field.name, str(kind), str(field.metadata.get("comment", "")).replace("`", ""), False)
            for field, kind in zip(schema.fields, types, strict=True)
        )


def decoded_topics(lake: str, policies: str | None, topics: Collection[str] | None = None) -> list[DecodedTopic]:
    """Return the topics of a lake that a policy decodes, by name.

    Args:
        topics: Only these; None: all.

    Raises:
        UsageError: The policies cannot be used.
        TableUnreadable: The table ``logs`` is damaged.
    """
    if not decodes(policies):
        return []
    known = read_policies(policies)
    found: dict[str, list[LogRow]] = {}
    for log in read_logs(lake).values():
        policy = known.for_topic(log.topic)
        if policy is not None and policy.decodes and (topics is None or log.topic in topics):
            found.setdefault(log.topic, []).append(log)
    return [DecodedTopic(lake, topic, tuple(logs)) for topic, logs in sorted(found.items())]
