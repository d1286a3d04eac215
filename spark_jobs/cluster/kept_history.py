"""What a table knows of the time before the metadata log at the source begins.

A broker removes old records of the metadata; a snapshot has only the state after them. So rows that ended before stay
as they are, and rows that reach into the log begin where the table says. A tentative row becomes committed if the
snapshot has the same state. Otherwise it stays tentative: its records are gone, so nobody can compare them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_jobs.cluster.internal_sources import Row
from spark_jobs.lake.cluster_columns import DOUBTFUL

_PLACES = ("valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time", "standing")


def with_history(known: Sequence[Row], read: Sequence[Row], identity: Sequence[str], start: int) -> list[Row]:
    """Return rows of one table and one metadata log, from the rows of the table and those that were read.

    Args:
        known: Rows of the table.
        read: Rows of the source.
        identity: Columns that name the thing that a row is about.
        start: The offset at which the source begins; 0: the source has everything.
    """
    if start == 0:
        return list(read)
    begun = start - 1
    earlier = [row for row in known if _number(row, "valid_from_offset") <= begun]
    at_start = {_key(row, identity): row for row in read if _number(row, "valid_from_offset") <= begun}
    kept: list[Row] = []
    for row in earlier:
        end = row["valid_to_offset"]
        if end is not None and int(str(end)) <= begun:
            kept.append(row)
            continue
        now = at_start.get(_key(row, identity))
        if now is not None and _content(now) == _content(row):
            now |= {name: row[name] for name in ("valid_from_offset", "valid_from_time")}
        else:  # it ended between what was read before and the beginning of the source
            kept.append(row | {"valid_to_offset": begun, "valid_to_time": None})
    return [*kept, *read]


def with_doubt(known: Iterable[Row]) -> list[Row]:
    """Return rows of a table; those without an end are doubtful. Their values stay."""
    return [row | {"standing": DOUBTFUL} if row["valid_to_offset"] is None else row for row in known]


def reached_offset(known: Iterable[Row]) -> int:
    """Return the offset of the last record that rows name as their begin or end; -1 without rows."""
    columns = ("valid_from_offset", "valid_to_offset")
    return max((_number(row, name) for row in known for name in columns if row[name] is not None), default=-1)


def _number(row: Row, column: str) -> int:
    return int(str(row[column]))


def _key(row: Row, identity: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[name] for name in identity)


def _content(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _PLACES}
