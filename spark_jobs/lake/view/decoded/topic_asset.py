"""A table of a topic as checks and pages show it: place, version, rows, columns.

Names of the tables of topics in SQL: one rule for `loglake query` and for views of other engines.

SQL engines compare names without case, and many allow letters, digits and `_` only. The rule keeps different topics
apart under both conditions: `orders-eu` and `orders_eu` are `orders_2deu` and `orders__eu`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa

from spark_jobs.lake.decoded.followed_topics import followed_topics
from spark_jobs.lake.decoded.topic_tables import topic_table
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.view.shown_tables import ShownColumn
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")


def view_name(kind: str, topic: str) -> str:
    """Return the SQL name of a table of a topic, such as `decoded_orders`.

    Lower-case letters and digits stay. `_` becomes `__`. Each other byte in UTF-8 becomes `_` and two hexadecimal
    digits. So two topics have one name only if they are equal.

    Args:
        kind: Folder of the table: `decoded` or `undecoded`.
        topic: Name of the topic.
    """
    return f"{kind}_{escaped(topic)}"


def escaped(name: str) -> str:
    """Return a name in the characters that a SQL name may have, as :func:`view_name` says."""
    return "".join(_escaped(byte) for byte in name.encode())


def _escaped(byte: int) -> str:
    if byte in _PLAIN:
        return chr(byte)
    return "__" if byte == ord("_") else f"_{byte:02x}"


COORDINATES = ("log_id", "partition", "offset", "timestamp", "headers", "published_at")
"""Columns that are those of ``records``."""


def _changed_by_others(table: Table) -> str | None:
    """What another program did to a table."""
    written, there = table.row_counts()
    if written != there:
        return f"has {there:,} rows, and {written:,} were written: another program changed it"
    return "has rows that another program wrote, and nothing proves them" if table.has_rows_of_others() else None


@dataclass(frozen=True)
class TopicAsset:
    """A topic with a table of its own."""

    KIND: ClassVar[str]
    """The kind of the table, and its folder."""

    lake: str
    topic: str
    logs: tuple[LogRow, ...]
    policy: TopicPolicy

    @staticmethod
    def wants(policy: TopicPolicy) -> bool:
        """Return whether a policy has such a table."""
        raise NotImplementedError

    @classmethod
    def all_of(cls, lake: str, policies: Policies) -> list[Self]:
        """Return the topics of a lake whose policy wants such a table, by name.

        Raises:
            TableUnreadable: The table ``logs`` is damaged.
        """
        if not any(map(cls.wants, policies.topics)):
            return []  # no lake is opened
        found = followed_topics(lake, policies, cls.wants, (), ())
        return [cls(lake, each.name, tuple(each.logs), each.policy) for each in found]

    @property
    def table(self) -> Table:
        """The table."""
        return topic_table(self.lake, self.KIND, self.topic)

    @property
    def name(self) -> str:
        """The name of the table in SQL and in Dagster."""
        return view_name(self.KIND, self.topic)

    def changed_tables(self, job: str, *kinds: str) -> list[str]:
        """Return what is wrong with tables of the topic that may have other rows than were written, with the command.

        Args:
            job: The command that writes them again: ``decode`` or ``latest``.
            kinds: Of the tables.

        Raises:
            TableUnreadable: A table is damaged.
        """
        return [
            f"{table.name} {what}. `{topic_command(self.lake, job, self.topic)}` writes it again"
            for table in (topic_table(self.lake, kind, self.topic) for kind in kinds)
            if (what := _changed_by_others(table)) is not None
        ]

    @property
    def version(self) -> int | None:
        """Version of the table; None if it was never created.

        Raises:
            TableUnreadable: It is damaged.
        """
        table = self.table.open()
        return None if table is None else table.version()

    @property
    def meaning(self) -> str:
        """What the table holds, for people."""
        raise NotImplementedError

    @property
    def sources(self) -> Mapping[str, str]:
        """Columns of ``records`` that other columns than the coordinates come from."""
        raise NotImplementedError

    @property
    def figures(self) -> Mapping[str, int]:
        """Numbers of rows, by their names in Dagster.

        Raises:
            TableUnreadable: A table is damaged.
        """
        raise NotImplementedError

    def columns(self) -> tuple[ShownColumn, ...]:
        """Return the columns of the table; none if it was never created.

        Raises:
            TableUnreadable: It is damaged.
        """
        table = self.table.open()
        if table is None:
            return ()
        with self.table.reading():
            schema = table.schema()
            types = pa.schema(schema).types  # type: ignore[arg-type]
        return tuple(
            ShownColumn(field.name, str(kind), str(field.metadata.get("comment", "")).replace("`", ""), False)
            for field, kind in zip(schema.fields, types, strict=True)
        )
