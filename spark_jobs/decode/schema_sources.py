"""Where schemas of a registry come from: the rows of its topic in the lake, or its address."""

from __future__ import annotations

import os
from collections.abc import Sequence

from logcore.values.registry.schemas import Schemas
from logcore.values.registry.schemas_topic import TopicState, fold_schemas_topic
from spark_jobs.decode.registry_address import RegistryAddress
from spark_jobs.decode.registry_credentials import RegistryCredentials
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.policies.policy_values import VARIABLE_PREFIX, is_address
from spark_jobs.row_files.published_rows import Span, published_rows

_COLUMNS = ("log_id", "partition", "offset", "key", "value")


class SchemaSources:
    """The sources of one plan. Each topic is read once."""

    def __init__(self, lake: str, history: RecordsHistory) -> None:
        self._lake, self._history = lake, history
        self._topics: dict[str, TopicState] = {}

    def schemas(
        self, place: str, subjects: Sequence[str], credentials: str | None = None
    ) -> tuple[Schemas, str | None]:
        """Return schemas of subjects, and what was strange in their source.

        Args:
            place: Name of a topic, an address, or ``env:`` with the variable that holds an address.
            credentials: Where those for the address are; None: it needs none.

        Raises:
            UsageError: The topic has no published record, a variable is not set, or the credentials can't be read.
            RegistryUnavailable: The registry does not answer.
            TableUnreadable: A file of ``records`` is damaged.
        """
        if not is_address(place):
            state = self._topic(place)
            found = [f"{each.count} × {each.kind} ({each.detail})" for each in state.findings]
            return state.schemas, f"the topic {place} has {', '.join(found)}" if found else None
        if place.startswith(VARIABLE_PREFIX):
            variable = place.removeprefix(VARIABLE_PREFIX)
            if not os.environ.get(variable):
                raise UsageError(f"The variable {variable} is not set. Put the address of the schema registry there.")
            place = os.environ[variable]
        read = None if credentials is None else RegistryCredentials.of(credentials)
        return RegistryAddress(place, credentials=read).schemas(subjects), None

    def _topic(self, topic: str) -> TopicState:
        if topic not in self._topics:
            self._topics[topic] = fold_schemas_topic(self._rows(topic))
        return self._topics[topic]

    def _rows(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of a topic in the order of their offsets, one log after the other."""
        logs = [log for log in archive.read_logs(self._lake).values() if log.topic == topic]
        ends = frontier.read_frontiers(self._lake, [log.log for log in logs])
        found: list[tuple[bytes | None, bytes | None]] = []
        for log in sorted(logs, key=lambda each: (each.partition, each.incarnation)):
            rows: list[tuple[int, bytes | None, bytes | None]] = []
            span = Span(topic, log.log_id, log.partition, 0, ends[log.log] or 0)
            for batch in published_rows(self._lake, self._history.files, span, _COLUMNS):
                rows += zip(*(batch[name].to_pylist() for name in ("offset", "key", "value")), strict=True)
            rows.sort(key=lambda row: row[0])
            found += [(key, value) for _, key, value in rows]
        if not found:
            raise JobError(f"no schema can be read: the lake has no published record of the topic {topic}")
        return found
