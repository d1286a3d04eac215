"""The tables of a lake as a catalog has them: name, address, columns."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.lake.store import storage
from spark_jobs.lake_commands.query.lake_views import LakeView, lake_views


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A table that exists."""

    name: str
    """In SQL, as `loglake query` has it: lower-case letters, digits and `_`."""
    uri: str
    one_row: str
    schema_json: str
    """As Delta's log has it."""


def registered_tables(lake: str) -> tuple[list[RegisteredTable], list[str]]:
    """Return the tables, and why others cannot be read.

    Raises:
        StorageError: The object store failed.
    """
    tables, problems = [], []
    for view in lake_views(lake):
        try:
            table = _registered(view)
        except Exception as error:  # noqa: BLE001 - libraries raise any class for what another engine wrote
            problems.append(f"The table {view.table} is left out. {view.problem(error)}")
            continue
        if table is not None:
            tables.append(table)
    return tables, problems


def _registered(view: LakeView) -> RegisteredTable | None:
    table = view.open()
    if table is None:
        return None
    with view.reading(None):
        schema_json = table.schema().to_json()
    return RegisteredTable(view.name, storage.absolute(view.uri), view.one_row.replace("`", ""), schema_json)
