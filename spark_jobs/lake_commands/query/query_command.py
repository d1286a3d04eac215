"""``loglake query LAKE [SQL]``: SQL over the tables of a lake, by DuckDB in this process.

    loglake query LAKE                          the views and what their rows are
    loglake query LAKE "select count(*) from records"
    loglake query LAKE --format csv < report.sql > report.csv
    loglake query FOLDER "select * from sales"      a folder of any Delta tables

Each table is a view of its name; tables of topics are `decoded_orders` and `undecoded_orders`. Only reads. The SQL sees
the views and nothing else: no files, no network, no extensions. A table that cannot be a view leaves the others as they
are: a warning has the reason, or the error of a query that names it.

Exit codes: 0 done; 3 a table that the SQL names, or that the list should have, cannot be read; 64 wrong usage, also a
mistake in the SQL.

Delta tables in a folder that is no lake, as views for SQL.

Rows of a query as text, csv or jsonl, one batch after the other.
"""

from __future__ import annotations

import argparse
import base64
import errno
import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.record_lines import json_line
from logcore.cli.reading.arguments import natural
from logcore.exit_codes import ExitCode
from logcore.storage.objects.answers import said
from logcore.texts import shown
from spark_jobs.errors import JobError, StorageError, TableUnreadable, UsageError, guarded
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY, delta_uri
from spark_jobs.lake.repair_commands import of_logs
from spark_jobs.lake.store import storage
from spark_jobs.lake_commands.query.connection import LakeConnection, OpenView, QueryRows, connected
from spark_jobs.lake_commands.query.lake_views import LakeView, lake_views

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
    types = enumerate(rows.schema.types)
    numbers = [at for at, kind in types if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    yield aligned_table([_text_cell(name) for name in rows.schema.names], shown, numbers)
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


def delta_folders(folder: str) -> list[LakeView]:
    """Return a view for each Delta table in a folder, or for the folder itself.

    A view has the name of the table's folder. Where several folders have one name, it is the path below `folder`, with
    `_` for each `/`.

    Args:
        folder: Absolute path or address.

    Raises:
        UsageError: There is no such folder, or no Delta table in it, or two tables would be one view.
        StorageError: A folder cannot be read.
    """
    paths = sorted(_remote_tables(folder) if storage.is_remote(folder) else _local_tables(folder))
    if not paths:
        is_there = storage.has_files(folder) if storage.is_remote(folder) else os.path.isdir(folder)
        why = "there is no Delta table in it" if is_there else "there is no such folder"
        raise UsageError(f"{shown(folder)} is no lake{', and ' if is_there else ': '}{why}.{of_logs(folder)}")
    names = Counter(path.rpartition("/")[2].lower() for path in paths)
    views: dict[str, LakeView] = {}
    for path in paths:
        view = _view(folder, path, names[path.rpartition("/")[2].lower()] > 1)
        other = views.setdefault(view.name, view)
        if other is not view:
            both = f"{shown(other.uri)} and {shown(path)}"
            raise UsageError(f"{both} would both be the view {shown(view.name)}. Name one of the folders instead.")
    return list(views.values())


def _remote_tables(folder: str) -> list[str]:
    """Addresses with a Delta log; nothing is looked for below one."""
    marked = f"/{LOG_DIRECTORY}/"
    found = {file.path.partition(marked)[0] for file in storage.files_below(folder) if marked in file.path}
    return [path for path in found if found.isdisjoint(_parents(path))]


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _local_tables(folder: str) -> Iterator[str]:
    """Folders with a Delta log; nothing is looked for below one.

    A link to a table is one too, unless the folder has that table. Other links are not followed.

    Raises:
        StorageError: A folder cannot be read.
    """
    links: list[str] = []
    seen: set[str] = set()
    for path, names, _ in os.walk(folder, onerror=_unread):
        if LOG_DIRECTORY in names:
            names.clear()
            seen.add(os.path.realpath(path))
            yield path.rstrip("/")
        links += [link for name in names if os.path.islink(link := os.path.join(path, name))]
    for link in sorted(links):
        if _is_table(link) and os.path.realpath(link) not in seen:
            seen.add(os.path.realpath(link))
            yield link


def _is_table(link: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(os.path.join(link, LOG_DIRECTORY)).st_mode)
    except OSError as error:
        _unread(error)
        return False


def _unread(error: OSError) -> None:
    """Raise an error, unless there is no folder.

    Raises:
        StorageError: A folder cannot be read.
    """
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        why = f"can't be read: {error.strerror}. It may have Delta tables"
        raise StorageError(f"{shown(str(error.filename))} {why}.") from error


def _view(folder: str, path: str, is_shared: bool) -> LakeView:
    name = path.rpartition("/")[2]
    below = path[len(folder.rstrip("/")) + 1 :]
    return LakeView(
        (below.replace("/", "_") if is_shared and below else name).lower(),
        below or name,
        f"A row of the Delta table {shown(below or name)}.",
        path,
        lambda: _opened(path),
        lambda file: _reading(path, file),
    )


def _opened(path: str) -> DeltaTable | None:
    with _reading(path, None):
        try:
            return DeltaTable(delta_uri(path), storage_options=storage.delta_options(path))
        except TableNotFoundError:
            return None


@contextmanager
def _reading(path: str, file: str | None) -> Iterator[None]:
    """Turn errors of Arrow and Delta into ours.

    Raises:
        TableUnreadable: The table, or a file of it, is missing, damaged, or of a kind that is not read here.
    """
    try:
        with storage.answers(path):
            yield
    except (JobError, UsageError):
        raise
    except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = path if file is None else storage.join(path, file)
        raise TableUnreadable(f"{shown(where)} can't be read: {shown(said(error)[:300]).rstrip('.')}.") from error


MEMORY_MIB = 1024
LEAST_MEMORY_MIB = 16
"""With less DuckDB cannot sort or group a few thousand rows."""
MOST_MEMORY_MIB = 1 << 30
"""A pebibyte; DuckDB refuses numbers that are far larger."""


def query_command(parser: argparse.ArgumentParser) -> None:
    """``loglake query LAKE``."""
    parser.description = (
        "Run SQL over the tables of a lake, by DuckDB in this process. Each table is a view of its "
        "name; tables of topics are views such as decoded_orders. Without SQL it lists the views. Only reads; the "
        "SQL sees no files and no network."
    )
    parser.add_argument(
        "lake", metavar="LAKE", help="a lake, or any folder of Delta tables: a directory, or s3://bucket/prefix"
    )
    parser.add_argument("sql", metavar="SQL", nargs="?", help="the query; - or a pipe: from standard input")
    parser.add_argument("--format", choices=("text", "csv", "jsonl"), default="text")
    parser.add_argument("--limit", type=natural, metavar="N", help="at most N rows; default: all, as text 100")
    parser.add_argument(
        "--memory",
        type=_memory_mib,
        default=MEMORY_MIB,
        metavar="MIB",
        help=f"memory of the query, at least {LEAST_MEMORY_MIB}; above that it uses temporary files (default: "
        f"{MEMORY_MIB})",
    )
    parser.set_defaults(func=guarded(_query))


def _memory_mib(text: str) -> int:
    given = natural(text)
    if given < LEAST_MEMORY_MIB:
        raise argparse.ArgumentTypeError(f"{text} is too little: a query needs at least {LEAST_MEMORY_MIB} MiB")
    if given > MOST_MEMORY_MIB:
        raise argparse.ArgumentTypeError(f"{text} is too much: at most {MOST_MEMORY_MIB} MiB")
    return given


def _query(options: argparse.Namespace) -> int:
    from spark_jobs.lake.setup.identity import read_identity

    path = storage.absolute(options.lake)
    views = delta_folders(path) if read_identity(path) is None else list(lake_views(path))
    sql = options.sql
    if sql == "-" or (sql is None and not sys.stdin.isatty()):
        sql = _text_of_pipe()
        if options.sql is None and not sql.strip():  # a service without a terminal gives an empty standard input
            sql = None
    if sql is None:
        with connected(path, views, options.memory << 20) as lake:
            sys.stdout.writelines(_listed(lake.views))
            _warn(lake, views)
            return ExitCode.NOT_CHECKED if lake.absent else ExitCode.CLEAN
    if any("\ud800" <= each <= "\udfff" for each in sql):
        raise UsageError("The SQL is not UTF-8 text.")
    with connected(path, _named(views, sql), options.memory << 20, views) as lake:
        lines = printed(lake.rows_of(sql), options.format, options.limit)
        is_raw = options.format == "csv" and sys.stdout.isatty()  # a program gets the cells as they are
        sys.stdout.writelines((f"{shown(line[:-1])}\n" for line in lines) if is_raw else lines)
        _warn(lake, _named(views, sql))
    return ExitCode.CLEAN


def _text_of_pipe() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"The SQL is not UTF-8 text (byte {error.start}).") from error


def _warn(lake: LakeConnection, views: Sequence[LakeView]) -> None:
    from spark_jobs.lake.view.unfollowed_tables import unfollowed_tables

    for view in lake.absent:
        sys.stderr.write(f"warning: There is no view {view.name}. {view.why}\n")
    there = {view.name for view in lake.views}
    tables = {view.table.removeprefix("un") for view in views if "/" in view.table and view.name in there}
    for each in unfollowed_tables(lake.lake) if tables else ():
        if each.table.name in tables:
            sys.stderr.write(f"warning: {each.table.name}: {each.what}.\n")


def _named(views: Sequence[LakeView], sql: str) -> Sequence[LakeView]:
    """The views that the SQL may name: opening a table takes time. All of them if it names none, as `show tables`."""
    words = set(re.findall(r"[a-z0-9_]+", sql.lower()))
    return [view for view in views if view.name in words] or views


def _listed(views: Sequence[OpenView]) -> list[str]:
    """A line for each table that exists."""
    there = [(view.name, f"version {view.version}", view.one_row.replace("`", "")) for view in views]
    if not there:
        return ["no table yet\n"]
    return [aligned_table(there[0], there[1:])]
