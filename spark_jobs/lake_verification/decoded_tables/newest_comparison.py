"""Rows of a table ``latest/<topic>`` compared with the newest rows that ``records`` has, computed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from logcore.columns.cleaning.offset_map import Offsets
from spark_jobs.lake.decoded.followed_topics import POLICY
from spark_jobs.lake.decoded.topic_tables import TopicTable
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files, open_parquet
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.setup.policies.topic_policies import LATEST_POLICIES
from spark_jobs.lake.store import storage
from spark_jobs.row_files.newest.newest_keys import NewestKeys
from spark_jobs.row_files.newest.newest_rows import KEY_COLUMNS, NewestCounts, add_keys
from spark_jobs.row_files.published_rows import Span, published_rows


@dataclass(frozen=True, slots=True)
class NewestDifference:
    """How the rows of a log differ."""

    partition: int
    end: int
    """Frontier of the table."""
    missing: int
    """Newest rows that the table does not have."""
    outdated: int
    """Rows of the table that are not the newest of their key."""


def latest_differences(
    table: TopicTable, files: Sequence[LiveFile], logs: Sequence[LogRow]
) -> Iterator[NewestDifference]:
    """Yield the logs whose rows differ. The values of rows are compared by the digests of files.

    Args:
        table: A table of the kind ``latest``.
        files: Its live files.
        logs: Of the topic.

    Raises:
        TableUnreadable: A file of ``records`` or of the table is missing or damaged.
    """
    recorded = table.versions([*(log.log for log in logs), POLICY])
    keeps_tombstones = recorded[POLICY] == LATEST_POLICIES["soft-delete"]
    published = [each for each in newest_files(table.lake, "records") if each.partition_values["topic"] == table.topic]
    for log in logs:
        end = recorded[log.log]
        if end is None:
            continue
        span = Span(table.topic, log.log_id, log.partition, 0, end)
        expected = _newest(table.lake, published, span, keeps_tombstones=keeps_tombstones)
        found = _offsets(table, files, log)
        missing, outdated = len(np.setdiff1d(expected, found)), len(np.setdiff1d(found, expected))
        twice = len(found) - len(np.unique(found))
        if missing or outdated or twice:
            yield NewestDifference(log.partition, end, missing, outdated + twice)


def _newest(lake: str, files: Sequence[LiveFile], span: Span, *, keeps_tombstones: bool) -> Offsets:
    """Offsets of the newest row of each key."""
    with NewestKeys() as newest:
        add_keys(newest, published_rows(lake, files, span, KEY_COLUMNS), NewestCounts())
        chosen = newest.newest()
    columns = ("log_id", "partition", "offset") if keeps_tombstones else ("log_id", "partition", "offset", "value")
    parts = [np.zeros(0, np.int64)]
    for batch in published_rows(lake, files, span, columns):
        offsets = np.asarray(batch["offset"])
        wanted = chosen.has(offsets)
        if not keeps_tombstones:
            wanted &= np.asarray(batch["value"].is_valid())
        parts.append(offsets[wanted])
    return np.concatenate(parts)


def _offsets(table: TopicTable, files: Sequence[LiveFile], log: LogRow) -> Offsets:
    parts = [np.zeros(0, np.int64)]
    for file in files:
        if not (file.may_hold("partition", log.partition) and file.may_hold("log_id", log.log_id)):
            continue
        with table.reading(), open_parquet(storage.join(table.uri, file.path)) as parquet:
            for batch in parquet.iter_batches(columns=["log_id", "partition", "offset"]):
                of_log = (np.asarray(batch["partition"]) == log.partition) & (
                    np.asarray(batch["log_id"].to_numpy(zero_copy_only=False)) == log.log_id
                )
                parts.append(np.asarray(batch["offset"])[of_log])
    return np.concatenate(parts)
