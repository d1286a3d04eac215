"""What a commit depends on: versions of tables, and versions that commits record for application ids.

A commit may carry *versions*: pairs of application id and number that Delta records in the same commit
(:class:`Guard`). A commit that was planned at version ``n`` of an application id is refused if that version has changed
(:class:`ConcurrentChange`), with or without a lease. A job that depends on the whole content of a table uses
:class:`TableVersions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot

FEW_IDS = 20
"""Up to this number, application ids are looked up one by one."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A version that a commit depends on, and the version that it records."""

    application_id: str
    planned: int | None
    """Version at the time of the plan; None: never recorded."""
    next_version: int


class TableVersions:
    """Versions of tables that a plan was made on. A commit that expects them succeeds only on exactly these versions.

    Our own commits advance them. Created before the first of these tables is read, they detect any concurrent write.
    """

    def __init__(self, versions: Mapping[str, int | None]) -> None:
        self._versions = dict(versions)

    @classmethod
    def of(cls, lake: str, *names: str) -> TableVersions:
        """Return the present versions of the tables."""
        return cls(table_versions(lake, *names))

    def check(self, table: DeltaTable, name: str) -> None:
        """Compare the version of an opened table with the expected one.

        Raises:
            ConcurrentChange: The table is not at that version.
        """
        planned, found = self._versions[name], table.version()
        if found != (planned or 0):  # a missing table is created, empty, by its first writer
            raise ConcurrentChange(f"Table {name}: it is at version {found}, the plan was made at {planned}.")

    def moved(self, name: str, commits: int = 1) -> None:
        """Record that we made commits."""
        self._versions[name] = (self._versions[name] or 0) + commits


def table_versions(lake: str, *names: str) -> dict[str, int | None]:
    """Return versions of tables; None for a table that was never created."""
    opened = {name: latest_snapshot(lake, name) for name in names}
    return {name: None if table is None else table.version() for name, table in opened.items()}


def versions(lake: str, name: str, application_ids: Sequence[str]) -> dict[str, int | None]:
    """Return recorded versions of application ids in table ``name``; None if there is none."""
    table = latest_snapshot(lake, name)
    return dict.fromkeys(application_ids) if table is None else versions_of(lake, name, table, application_ids)


def check_guards(lake: str, table: DeltaTable, name: str, guards: Sequence[Guard]) -> None:
    """Compare the versions that an opened table records with those that its guards planned.

    Raises:
        ConcurrentChange: One of them has changed.
    """
    found = versions_of(lake, name, table, [guard.application_id for guard in guards])
    for guard in guards:
        if found[guard.application_id] != guard.planned:
            raise ConcurrentChange(
                f"Table {name}: {guard.application_id} is at {found[guard.application_id]}, the plan was made at "
                f"{guard.planned}."
            )


def versions_of(lake: str, name: str, table: DeltaTable, application_ids: Sequence[str]) -> dict[str, int | None]:
    """Return the versions that the opened table records."""
    if len(application_ids) > FEW_IDS:
        every = delta_log.recorded_versions(lake, name, table.version())
        if every is not None:
            return {application: every.get(application) for application in application_ids}
    return {application: table.transaction_version(application) for application in application_ids}
