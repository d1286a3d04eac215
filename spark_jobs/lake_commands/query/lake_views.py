"""The tables of a lake as views for SQL: their names, and their rows as Arrow datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, TopicTable
from spark_jobs.lake.decoded.view_columns import FLATTENED, ViewColumn, view_columns
from spark_jobs.lake.decoded.view_names import view_name
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_location import reading, table_uri
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES


@dataclass(frozen=True, slots=True)
class LakeView:
    """A table that exists, and its name in SQL."""

    name: str
    table: str
    """Name of the table for people, such as `decoded/orders`."""
    one_row: str
    """What one row is."""
    uri: str
    open: Callable[[], DeltaTable | None]
    reading: Callable[[], AbstractContextManager[None]]
    """Turns errors of Arrow and Delta into ours."""

    def columns(self, schema: pa.Schema) -> tuple[ViewColumn, ...]:
        """Return the columns of the view: fields of decoded keys and values are columns of their own.

        Args:
            schema: Of the table.
        """
        return view_columns(schema, FLATTENED if self.table.startswith(f"{DECODED}/") else ())

    def dataset(self) -> tuple[ds.Dataset, int] | None:
        """Return the live files of the latest version, and the version; None if the table does not exist.

        Raises:
            TableUnreadable: The table is damaged.
        """
        table = self.open()
        if table is None:
            return None
        with self.reading():
            return table.to_pyarrow_dataset(filesystem=storage.arrow_filesystem(self.uri)), table.version()


def lake_views(lake: str) -> Iterator[LakeView]:
    """Yield a view for each table that a lake can have, tables of topics last; a table may not exist yet.

    Raises:
        TableUnreadable: The table `logs` is damaged.
    """
    for name, spec in TABLES.items():
        yield LakeView(
            name,
            name,
            spec.one_row,
            table_uri(lake, name),
            lambda name=name: open_table(lake, name),  # type: ignore[misc]
            lambda name=name: reading(lake, name),  # type: ignore[misc]
        )
    for topic in sorted({log.topic for log in archive.read_logs(lake).values()}):
        kinds = (
            (DECODED, "whose key and value were decoded"),
            (UNDECODED, "that could not be decoded"),
            (LATEST, "that is the newest of its key in one log"),
        )
        for kind, what in kinds:
            table = TopicTable(lake, kind, topic)
            one_row = f"A record of the topic {topic} {what}."
            yield LakeView(view_name(kind, topic), table.name, one_row, table.uri, table.open, table.reading)
