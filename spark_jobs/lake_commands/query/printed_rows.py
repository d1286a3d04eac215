"""Rows of a query as text, csv or jsonl, one batch after the other."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from logcore.cli.output.record_lines import json_line
from spark_jobs.lake_commands.query.connection import QueryRows

TEXT_ROWS = 100
"""Rows that a table of text shows without `--limit`: its widths need all of them in memory."""
_SECONDS_OF_DAY, _DAYS_OF_400_YEARS = 86_400, 146_097
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INFINITE_DAYS, _INFINITE = (1 << 31) - 1, (1 << 63) - 1
_NOT_IN_PYTHON = (ArithmeticError, LookupError, TypeError, ValueError, NotImplementedError)
"""What Arrow raises for values that Python does not have."""
_SPECIAL = re.compile('[",\\r\\n]')
"""Characters of a cell of CSV that need quotes around it."""
_WIDEST = 60
"""Characters of a cell in a table of text."""


def printed(rows: QueryRows, form: str, limit: int | None) -> Iterator[str]:
    """Yield lines.

    Args:
        rows: All rows of the query; no more are read than shown.
        form: `text`, `csv` or `jsonl`.
        limit: Rows at most; None: all, and :data:`TEXT_ROWS` as text.
    """
    if form == "text":
        yield from _text(rows, TEXT_ROWS if limit is None else limit)
        return
    names = rows.schema.names if form == "csv" else _distinct(rows.schema.names)
    if form == "csv":
        yield _csv_line([_quoted(name) for name in names])
    for values in _limited(_rows(rows), limit):
        if form == "csv":
            yield _csv_line([_csv_cell(value) for value in values])
        else:
            yield json_line(dict(zip(names, map(_plain, values), strict=True)))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of the fields of a JSON object. Of two columns with one name the second is `name_1`, as in DuckDB."""
    fields: dict[str, None] = {}
    for name in names:
        number, field = 0, name
        while field in fields or (number and field in names):
            number += 1
            field = f"{name}_{number}"
        fields[field] = None
    return list(fields)


def _rows(rows: QueryRows) -> Iterator[tuple[Any, ...]]:
    for batch in rows:
        yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array[Any]) -> list[Any]:
    try:
        return column.to_pylist()
    except _NOT_IN_PYTHON:  # Python's dates end with the year 9999, DuckDB's do not
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar[Any]) -> object:
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.MapScalar):
        return [(_value(each["key"]), _value(each["value"])) for each in scalar.values or ()]
    if isinstance(scalar, pa.ListScalar):
        return [_value(each) for each in scalar.values or ()]
    if isinstance(scalar, pa.UnionScalar):
        return None if scalar.value is None else _value(scalar.value)
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(scalar[name]) for name in scalar}
    try:
        return scalar.as_py()
    except _NOT_IN_PYTHON:
        is_time = isinstance(scalar, pa.Date32Scalar | pa.TimestampScalar)
        return _far_time(scalar) if is_time else f"({scalar.type})"


def _far_time(scalar: pa.Scalar[Any]) -> str:
    """A date or timestamp that Python does not have, in ISO 8601.

    Years of more than four digits and those before 0 have a sign. The calendar is that of 400 years before or after.
    """
    per_day = 1 if isinstance(scalar, pa.Date32Scalar) else _PER_SECOND[scalar.type.unit] * _SECONDS_OF_DAY
    number = int(scalar.value)  # type: ignore[attr-defined]
    if abs(number) >= (_INFINITE_DAYS if per_day == 1 else _INFINITE):
        return "infinity" if number > 0 else "-infinity"
    days, of_day = divmod(number, per_day)
    cycles, rest = divmod(days, _DAYS_OF_400_YEARS)
    near = datetime(1970, 1, 1) + timedelta(days=rest, seconds=of_day * _SECONDS_OF_DAY // per_day)
    year = near.year + 400 * cycles
    shown = f"{year:04}-{near:%m-%d}" if 0 <= year <= 9999 else f"{year:+05}-{near:%m-%d}"
    if per_day > 1:
        left = of_day % (per_day // _SECONDS_OF_DAY)
        fraction = f"{left / (per_day // _SECONDS_OF_DAY):.9f}"[1:].rstrip("0").rstrip(".")
        shown += f"T{near:%H:%M:%S}{fraction}{'' if scalar.type.tz is None else 'Z'}"
    return shown


def _limited(rows: Iterable[tuple[Any, ...]], limit: int | None) -> Iterator[tuple[Any, ...]]:
    for number, values in enumerate(rows):
        if number == limit:
            return
        yield values


def _text(rows: QueryRows, limit: int) -> Iterator[str]:
    found = list(_limited(_rows(rows), limit + 1))
    shown = [[_text_cell(value) for value in values] for values in found[:limit]]
    numbers = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in rows.schema]
    names = [_text_cell(name) for name in rows.schema.names]
    widths = [max(len(row[at]) for row in (names, *shown)) for at in range(len(names))]
    for row in (names, *shown):
        cells = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numbers, strict=True))
        yield "  ".join(cells).rstrip() + "\n"
    if len(found) > limit:
        yield f"… more rows: --limit N shows others than the first {limit:,}, --format csv or jsonl all\n"


def _text_cell(value: object) -> str:
    if isinstance(value, bytes):
        text = _utf8(value)
        shown = f"0x{value.hex()}" if text is None else text
    elif isinstance(value, dict | list | str):
        shown = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)
    else:
        shown = "" if value is None else str(_plain(value))
    shown = "".join(each if each.isprintable() else "�" for each in shown)
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - 1] + "…"


def _utf8(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _csv_line(cells: Sequence[str]) -> str:
    return ",".join(cells) + "\n"


def _csv_cell(value: object) -> str:
    """Return a cell as `loglake dump` writes it: null is empty, empty bytes or text are two quotes."""
    plain = _plain(value)
    if plain is None:
        return ""
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return _quoted(text) or '""'


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _plain(value: object) -> object:
    """A value as JSON has it: bytes in base64, times in ISO 8601, decimals as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo is not None else value
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
