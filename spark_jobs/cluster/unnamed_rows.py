"""Rows from the time when no run knew the id of the cluster. They become rows of the cluster.

A source without `meta.properties` states no cluster, and its rows are those of the cluster `unknown`. A lake holds one
cluster. So when a run that reads the same internal log knows the id, these rows get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from spark_jobs.lake.cluster_columns import SOURCE, UNKNOWN_CLUSTER
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.table_specs import TABLES


def unnamed(log: str) -> str | None:
    """Return the name that an internal log has while the id of its cluster is not known; None if this is its name."""
    cluster, _, place = log.rpartition("/")
    return None if cluster == UNKNOWN_CLUSTER else f"{UNKNOWN_CLUSTER}/{place}"


def both_names(logs: Iterable[str]) -> tuple[str, ...]:
    """Return names of internal logs, and those that they have while the id is not known."""
    return tuple(name for log in logs for name in (log, unnamed(log)) if name is not None)


def has_unnamed_rows(lake: str, table: str, log: str) -> bool:
    """Return whether a table has rows of an internal log from the time before the id was known.

    Raises:
        TableUnreadable: The table is damaged.
    """
    name = unnamed(log)
    return name is not None and read_rows(lake, table, [SOURCE], [(SOURCE, "==", name)]).num_rows > 0


def known_rows(lake: str, table: str, logs: Sequence[str]) -> pa.Table:
    """Return the rows of internal logs. A log without any has those from before the id was known, with its name.

    Raises:
        TableUnreadable: The table is damaged.
    """
    schema = TABLES[table].schema
    rows = read_rows(lake, table, schema.names, [(SOURCE, "in", list(logs))]).cast(schema)
    there = set(rows[SOURCE].unique().to_pylist())
    return pa.concat_tables([rows, *(named_rows(lake, table, log) for log in logs if log not in there)])


def named_rows(lake: str, table: str, log: str) -> pa.Table:
    """Return the rows of an internal log from before the id was known, with its name.

    Raises:
        TableUnreadable: The table is damaged.
    """
    schema, name = TABLES[table].schema, unnamed(log)
    if name is None:
        return schema.empty_table()
    rows = read_rows(lake, table, schema.names, [(SOURCE, "==", name)]).cast(schema)
    for column, text in ((SOURCE, log), ("cluster", log.rpartition("/")[0])):
        rows = rows.set_column(schema.get_field_index(column), schema.field(column), pa.repeat(text, rows.num_rows))
    return rows
