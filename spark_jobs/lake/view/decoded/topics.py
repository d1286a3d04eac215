"""Decoded tables as checks and pages show them: topics with a policy, and whether every row is there.

The share of rows that could not be decoded is read from the statistics of the files alone. Files that have rows of
several publishing runs count as rows of the last one of them.

A producer that writes to the wrong topic, or that registers its schemas under another name, leaves rows that name a
schema of another subject. They are in the table `undecoded/TOPIC`. Those of the last publishing run are shown, by log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.undecodable import Reason
from spark_jobs.lake.decoded.balance import LogBalance, balances
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.files.file_contents import batches_of, opened
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.segments.archive import log_key
from spark_jobs.lake.store import storage
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


_CHUNK_ROWS = 65_536
_REASON = Reason.OTHER_SUBJECT.value
_COLUMNS = ("log_id", "partition", "offset", "published_at", "schema_id", "reason")


@dataclass(frozen=True, slots=True)
class OtherSubjectRows:
    """Rows of one log.

    Attributes:
        log: Log key.
        partition: Partition number.
        rows: Number of rows.
        offset: Of the first of them.
        schema_ids: That they name; a schema that is named by a GUID has none.
    """

    log: str
    partition: int
    rows: int
    offset: int
    schema_ids: frozenset[int]


def other_subject_rows(lake: str, topic: str) -> list[OtherSubjectRows]:
    """Return the newest rows of a topic that name a schema of another subject, by log.

    Raises:
        TableUnreadable: A table is damaged, or a file of undecoded rows cannot be read.
    """
    undecoded = topic_table(lake, UNDECODED, topic)
    bad = undecoded.files()
    times = [file.greatest.get("published_at") for file in (*topic_table(lake, DECODED, topic).files(), *bad)]
    last = max((time for time in times if time is not None), default=None)
    found: dict[str, OtherSubjectRows] = {}
    if last is None:
        return []
    with undecoded.reading():
        for file in bad:
            if file.greatest.get("published_at") == last:
                for part in _of_file(storage.join(undecoded.uri, file.path), file.path, last):
                    found[part.log] = _together(found.get(part.log), part)
    return [found[log] for log in sorted(found)]


def _of_file(full: str, path: str, last: datetime) -> Iterator[OtherSubjectRows]:
    """The rows of each chunk of a file, by log."""
    with opened(full, path) as file:
        for chunk in batches_of(file, full, path, _CHUNK_ROWS, columns=list(_COLUMNS)):
            yield from _of_chunk(chunk, last)


def _of_chunk(chunk: pa.RecordBatch, last: datetime) -> Iterator[OtherSubjectRows]:
    published: Any = chunk.column("published_at")
    reason: Any = chunk.column("reason")
    is_newest = pc.equal(published, pa.scalar(last, published.type))
    log_ids = chunk.column("log_id").cast(
        pa.string()
    )  # another engine may write a kind of text that Arrow cannot filter
    columns = {"log_id": log_ids} | {name: chunk.column(name) for name in ("partition", "offset", "schema_id")}
    rows = pa.table(columns).filter(pc.and_(is_newest, pc.equal(reason, pa.scalar(_REASON, reason.type))))
    by_log = rows.group_by(["log_id", "partition"]).aggregate(
        [("offset", "count"), ("offset", "min"), ("schema_id", "distinct")]
    )
    for row in by_log.to_pylist():
        named = frozenset(schema for schema in row["schema_id_distinct"] if schema is not None)
        log = log_key(row["log_id"], row["partition"])
        yield OtherSubjectRows(log, row["partition"], row["offset_count"], row["offset_min"], named)


def _together(before: OtherSubjectRows | None, more: OtherSubjectRows) -> OtherSubjectRows:
    if before is None:
        return more
    return OtherSubjectRows(
        more.log,
        more.partition,
        before.rows + more.rows,
        min(before.offset, more.offset),
        before.schema_ids | more.schema_ids,
    )


LEAST_SHARE = 0.01
"""A smaller share of the newest rows is no rise."""
MOST = 0.5
"""A larger share of a first load is no mixture of formats: the policy is wrong."""
RISE = 2
"""A share that is more than so many times the earlier one is a rise."""


@dataclass(frozen=True, slots=True)
class UndecodedShare:
    """Rows of a topic, and those of them that could not be decoded."""

    newest: int
    newest_undecoded: int
    earlier: int
    earlier_undecoded: int

    @property
    def of_newest(self) -> float:
        """The share of the newest rows."""
        return self.newest_undecoded / self.newest if self.newest else 0.0

    @property
    def of_earlier(self) -> float:
        """The share of all rows before them."""
        return self.earlier_undecoded / self.earlier if self.earlier else 0.0

    def rises(self, most: float | None = None) -> bool:
        """Whether all newest rows fail, or much more often than earlier ones; without those, whether most of them.

        Args:
            most: The share that a policy accepts; None: it says nothing.
        """
        if most is not None:
            return self.of_newest > most
        accepted = max(LEAST_SHARE, RISE * self.of_earlier) if self.earlier else MOST
        return self.of_newest > accepted or self.of_newest == 1


def undecoded_share(lake: str, topic: str) -> UndecodedShare:
    """Return the shares of a topic.

    Raises:
        TableUnreadable: A table is damaged.
    """
    good, bad = (list(_counted(topic_table(lake, kind, topic).files())) for kind in (DECODED, UNDECODED))
    last = max((published for published, _ in (*good, *bad)), default=None)
    new_good, new_bad = (sum(rows for published, rows in files if published == last) for files in (good, bad))
    all_good, all_bad = (sum(rows for _, rows in files) for files in (good, bad))
    return UndecodedShare(new_good + new_bad, new_bad, all_good + all_bad - new_good - new_bad, all_bad - new_bad)


def _counted(files: Sequence[LiveFile]) -> Iterator[tuple[Any, int]]:
    """When the rows of a file were published last, and how many they are, where its statistics say both."""
    for file in files:
        published = file.greatest.get("published_at")
        if published is not None and file.rows >= 0:
            yield published, file.rows
