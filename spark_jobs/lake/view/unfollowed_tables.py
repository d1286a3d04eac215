"""Tables of topics that follow no policy any more: their pattern was changed or removed, and no run adds rows."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from logcore.texts import shown
from spark_jobs.errors import TableUnreadable, UsageError
from spark_jobs.groups import by_key
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, existing, topic_table
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.ledger.frontier import read_frontiers
from spark_jobs.lake.segments.archive import LogRow, read_logs
from spark_jobs.lake.setup import registry
from spark_jobs.policies.policies_file import read_policies

RULE = "table-not-followed"
_MOST_NAMED = 3
"""As many logs are named in one message."""


@dataclass(frozen=True, slots=True)
class UnfollowedTable:
    """A table ``decoded/<topic>`` or ``latest/<topic>`` that no registered policy asks for.

    Attributes:
        table: The table; ``undecoded/<topic>`` goes with the decoded one.
        policies: The registered policies file.
        ends: The offset at which the table ends, and at which ``records`` ends, by topic partition.
    """

    table: Table
    policies: str
    ends: Mapping[str, tuple[int, int]]

    @property
    def what(self) -> str:
        """What is wrong with it, without a period."""
        ends = [f"offset {end:,} of {log} (records: {all_:,})" for log, (end, all_) in self.ends.items()]
        more = len(ends) - _MOST_NAMED
        listed = ", ".join(ends[:_MOST_NAMED]) + (f" and {more:,} more logs" if more > 0 else "")
        text = f"no policy of {shown(self.policies)} asks for the table any more, so no run adds rows to it"
        return f"{text}; it has rows below {listed}" if ends else text


def unfollowed_tables(lake: str) -> list[UnfollowedTable]:
    """Return the tables of topics that no registered policy asks for, unless ``on_unfollowed`` accepts that.

    Without a registered file there are none: a run then needs one, as
    :func:`~spark_jobs.lake.view.registered_lakes.check_policies` says.
    """
    topics: dict[str, list[LogRow]] = {}
    with suppress(TableUnreadable):  # a finding of the table `logs`
        topics = by_key(read_logs(lake).values(), lambda row: row.topic)
    try:
        file = registry.recall(lake).policies
        return [] if file is None else list(_unfollowed(lake, file, topics))
    except UsageError:  # the registration or the file cannot be used: an error of its own
        return []


def _unfollowed(lake: str, file: str, topics: Mapping[str, Sequence[LogRow]]) -> Iterator[UnfollowedTable]:
    policies = read_policies(file)
    for kind in (DECODED, LATEST):
        folders = set(existing(lake, (kind,)))
        for topic, logs in sorted(topics.items()) if folders else ():
            table, policy = topic_table(lake, kind, topic), policies.for_topic(topic)
            is_followed = policy is not None and (policy.wants(kind) or policy.on_unfollowed == "accept")
            if is_followed or posixpath.basename(table.folder) not in folders:
                continue
            try:
                if table.open() is not None:
                    yield UnfollowedTable(table, file, _ends(table, logs))
            except TableUnreadable:  # a finding of `loglake verify`
                yield UnfollowedTable(table, file, {})


def _ends(table: Table, logs: Sequence[LogRow]) -> dict[str, tuple[int, int]]:
    keys = [log.log for log in sorted(logs, key=lambda log: (log.partition, log.incarnation))]
    names = {log.log: log.topic_partition for log in logs}
    recorded, published = table.versions(keys), read_frontiers(table.lake, keys)
    return {names[key]: (end, published[key] or 0) for key in keys if (end := recorded[key]) is not None}
