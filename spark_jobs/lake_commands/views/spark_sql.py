"""Statements of Spark SQL that make temporary views over Parquet files. They need no extension."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from spark_jobs.lake_commands.views.file_views import FileGroup, FileView

_GLOB = re.compile(r"[*?\[\]{},\\]")
_TYPES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}


def statements(views: Sequence[FileView]) -> Iterator[str]:
    """Yield one statement after the other; running them again renews the views."""
    for view in views:
        yield from _statements(view)
    listed = ", ".join(
        f"({_text(view.name)}, {_text(view.of.table)}, "
        f"{'CAST(NULL AS BIGINT)' if view.version is None else f'{view.version}L'}, {_text(view.one_row)}, "
        f"{'CAST(NULL AS STRING)' if view.problem is None else _text(view.problem)})"
        for view in views
    )
    if views:
        yield (
            "CREATE OR REPLACE TEMPORARY VIEW loglake_views AS SELECT * FROM VALUES "  # noqa: S608 - texts are quoted
            f"{listed} AS listed(view_name, table_name, version, one_row, problem)"
        )


def with_names(view: FileView) -> FileView:
    """Return the view; if a column or field of it has no name, it has an error in place of rows: Spark parses none."""
    if view.problem is None and any(_has_unnamed(field) for field in view.schema):
        return replace(view.without_rows(ValueError("a column or field has no name")), columns=())
    return view


def _has_unnamed(field: pa.Field[pa.DataType]) -> bool:
    kind = field.type
    return not field.name or any(_has_unnamed(kind.field(at)) for at in range(kind.num_fields))


def _statements(view: FileView) -> Iterator[str]:
    begin = f"CREATE OR REPLACE TEMPORARY VIEW {_quoted(view.name)}"
    if not view.columns:
        yield f"{begin} AS SELECT CAST(NULL AS STRING) AS problem WHERE {_condition(view)}"
        return
    parts = []
    for number, group in enumerate(view.groups):
        outside = dict(group.values)
        inside = [field for field in view.schema if field.name not in outside]
        name = _quoted(f"loglake_files_{view.name}_{number}")
        typed = ", ".join(f"{_quoted(field.name)} {spark_type(field.type)}" for field in inside)
        path = _text(_paths(view.of.uri, group))
        yield f"CREATE OR REPLACE TEMPORARY VIEW {name} ({typed}) USING parquet OPTIONS (path {path})"
        parts.append(f"SELECT {', '.join(_column(f, outside) for f in view.schema)} FROM {name}")  # noqa: S608 - quoted
    if not parts:
        nulls = ", ".join(f"CAST(NULL AS {spark_type(field.type)}) AS {_quoted(field.name)}" for field in view.schema)
        parts = [f"SELECT {nulls} WHERE {_condition(view)}"]
    columns = ", ".join(
        f"{_quoted(each.column)}{'' if each.field is None else f'.{_quoted(each.field)}'} AS {_quoted(each.name)}"
        for each in view.columns
    )
    names = ", ".join(
        f"{_quoted(c.name)} COMMENT {_text(c.comment)}" if c.comment else _quoted(c.name) for c in view.columns
    )
    rows = " UNION ALL ".join(parts)
    described = f"({names}) COMMENT {_text(view.one_row)}"
    yield f"{begin} {described} AS SELECT {columns} FROM ({rows})"  # noqa: S608 - names and texts are quoted


def _condition(view: FileView) -> str:
    return "false" if view.problem is None else f"raise_error({_text(view.problem)}) IS NULL"


def spark_type(kind: pa.DataType) -> str:
    """Return Spark's name of a type of a Delta table."""
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {spark_type(field.type)}' for field in fields)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if kind in _TYPES:
        return _TYPES[kind]
    return "STRING" if "string" in str(kind) else "BINARY"


def _column(field: pa.Field[pa.DataType], outside: dict[str, str | None]) -> str:
    if field.name not in outside:
        return _quoted(field.name)
    value = outside[field.name]
    literal = "NULL" if value is None else _text(value)
    return f"CAST({literal} AS {spark_type(field.type)}) AS {_quoted(field.name)}"


def _paths(uri: str, group: FileGroup) -> str:
    """All files as one pattern: an option has one path."""
    root = re.sub(r"^s3://", "s3a://", uri)
    below = [_GLOB.sub(r"\\\g<0>", file[len(uri) + 1 :]) for file in group.files]
    files = below[0] if len(below) == 1 else "{" + ",".join(below) + "}"
    return _GLOB.sub(r"\\\g<0>", root) + "/" + files


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
