"""The columns of a table's files, as text that a task carries to a worker.

A user may have added columns to a table. A job that copies rows copies these too. The task names them, so that its
worker need not read the table's log.
"""

from __future__ import annotations

import base64
from dataclasses import replace

import pyarrow as pa

from spark_jobs.lake.decoded.topic_tables import written_spec
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_creation import schema_of_table
from spark_jobs.lake.field_ids import as_in_files
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES


def extra_columns(lake: str, name: str) -> str:
    """The columns that the latest version of a table has besides ours; empty where there are none.

    We declare no column of a table of a topic: all of its columns are named.
    """
    table = open_table(lake, name)
    if table is None:
        return ""
    ours = TABLES[name].schema.names if name in TABLES else ()
    extra = [f.with_nullable(True) for f in schema_of_table(table) if f.name not in ours]
    return base64.b64encode(pa.schema(extra).serialize()).decode() if extra else ""


def with_columns(name: str, extra: str) -> TableSpec:
    """The table's columns and those of ``extra``, which is a result of :func:`extra_columns`."""
    spec = TABLES.get(name) or written_spec(name)
    if not extra:
        return spec
    more = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(extra)))
    return replace(spec, schema=pa.schema([*spec.schema, *as_in_files(more)]))
