"""A DuckDB connection that sees the tables of a lake, and nothing else: no files, no network, no extensions."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from logcore.reading.nearest_names import nearest
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake_commands.query.lake_views import LakeView

HEADER = """
create macro header(headers, name) as list_filter(headers, lambda each: each.key = name)[-1].value
"""
"""`header(headers, 'trace')`: the value of the last header of this name, as Kafka's `Headers.lastHeader`."""
_BATCH_ROWS = 2048
_BARE_OFFSET = r'(?<!")\boffset\b(?!")'
_NEAR = re.compile(r'at or near "(.+)"$')
_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_TABLE_OF_TOPIC = re.compile(r"\b(?:decoded|undecoded|latest)[/.][\w.-]+")
"""A table of a topic, by its folder and the name of the topic."""
_CLASS = re.compile(r"[A-Z][A-Za-z ]* Error: ")
"""How errors of DuckDB begin. After the first rows they come through Arrow, as other Python classes."""
_UNREAD = re.compile(r"Invalid Input Error: reading the stream registered as ")
"""DuckDB says this if Arrow could not read a file; all other errors come from the SQL, or from too little memory."""
_MEMORY = "Out of Memory Error: "

_SETTING = "the configuration has been locked"
_OF_ROWS = re.compile(r"(Conversion|Out of Range|Invalid Input) Error:")
"""Errors that quote values of rows."""
_VALUE = re.compile(r"""['"(\[{]|(?<!\w)[-+]?\d""")
"""Where a quoted value begins."""


@dataclass(frozen=True, slots=True)
class OpenView:
    """A view of the connection."""

    name: str
    one_row: str
    version: int


@dataclass(frozen=True, slots=True)
class AbsentView:
    """A view that the connection lacks although its table exists."""

    name: str
    why: str
    """Names the table, and what to do."""


@dataclass(frozen=True, slots=True)
class LakeConnection:
    """An open connection and its views."""

    lake: str
    connection: duckdb.DuckDBPyConnection
    views: Sequence[OpenView]
    absent: Sequence[AbsentView] = ()
    known: Sequence[LakeView] = ()
    """All views that the lake can have, to propose one for an unknown name."""

    def rows_of(self, sql: str) -> QueryRows:
        """Run statements; return the rows of the last one.

        Raises:
            UsageError: The SQL is not valid, or not allowed here.
            JobError: A table or a file of it is missing or damaged, or memory is not enough.
        """
        with self.answers(sql):
            statements = self.connection.extract_statements(sql)
            if not statements:
                raise UsageError("The query is empty.")
            for statement in statements[:-1]:
                self.connection.execute(statement).complete()
            result = self.connection.sql(statements[-1])
            if result is None:  # a statement without rows
                return QueryRows(self, pa.RecordBatchReader.from_batches(pa.schema([]), []))
            return QueryRows(self, result.to_arrow_reader(_BATCH_ROWS))

    def _with_views_of_tables(self, said: str, sql: str) -> str:
        """An error, and the views of tables that the SQL names as people do, such as `decoded/orders`."""
        names = {table.replace(".", "/", 1): table for table in _TABLE_OF_TOPIC.findall(sql)}
        there = [each for each in self.known if each.table in names and each.open() is not None]
        views = [f"The view of {names[each.table]} is {each.name}." for each in there]
        return " ".join([f"{said.rstrip('.')}.", *views]) if views else said

    @contextlib.contextmanager
    def answers(self, sql: str = "") -> Iterator[None]:
        """Turn errors of DuckDB and Arrow into ours.

        Args:
            sql: The statements, for a hint.

        Raises:
            UsageError: The SQL is not valid, or not allowed here.
            JobError: A table or a file of it is missing or damaged, or memory is not enough.
        """
        try:
            yield
        except duckdb.CatalogException as error:
            said = _line(error)
            unknown = _NO_TABLE.search(said)
            if unknown is not None:
                for each in self.absent:
                    if each.name == unknown[1].lower():
                        raise JobError(each.why) from error
                # DuckDB also proposes tables of its own.
                near = nearest(unknown[1], [each.name for each in self.known])
                there = {each.name for each in self.known if each.name in near and each.open() is not None}
                hint = f" The nearest names are {', '.join(name for name in near if name in there)}." if there else ""
                said = f"{said.partition(' Did you mean ')[0]}{hint} To list the views: loglake query {self.lake}"
            said = self._with_views_of_tables(said, sql)
            raise UsageError(said) from error
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            said = _line(error)
            if said.startswith(_MEMORY):
                raise JobError(f"{said} Give it more with --memory, or choose fewer rows or columns.") from error
            if isinstance(error, duckdb.ParserException) and _offset_is_column(sql, said):
                said += ' The word offset is a part of SQL: write the column as "offset".'
            if _CLASS.match(said) and not _UNREAD.match(said):
                said = self._with_views_of_tables(said, sql) if isinstance(error, duckdb.ParserException) else said
                raise UsageError(said) from error
            advice = f"To find the damage: loglake verify {self.lake}"
            raise JobError(f"A table can't be read: {said.rstrip('.')}. {advice}") from error


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of a query, of which an error can come with each batch. It is ours, as `LakeConnection.answers` says."""

    connection: LakeConnection
    reader: pa.RecordBatchReader

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Read the batches."""
        while True:
            with self.connection.answers():
                batch = next(self.reader, None)
            if batch is None:
                return
            yield batch


@contextlib.contextmanager
def connected(
    lake: str, views: Sequence[LakeView], memory: int, known: Sequence[LakeView] = ()
) -> Iterator[LakeConnection]:
    """Open a connection with these views, each on the version that its table has now.

    A table that cannot be a view leaves the others as they are.

    Args:
        views: Those of tables that do not exist are left out.
        memory: Bytes that DuckDB may use. Above that it writes to a temporary folder.
        known: Those that an error may propose instead of an unknown name.

    Raises:
        StorageError: The object store failed.
    """
    with tempfile.TemporaryDirectory(prefix="loglake-query-") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "memory_limit": f"{memory}B",
            "temp_directory": folder,
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            opened, absent = [], []
            for view in views:
                try:
                    found = view.rows()
                    if found is not None:
                        connection.register(view.name, found[0])
                        opened.append(OpenView(view.name, view.one_row, found[1]))
                except Exception as error:  # noqa: BLE001 - libraries raise any class for what another engine wrote
                    absent.append(AbsentView(view.name, view.problem(error)))
            connection.execute(HEADER)
            connection.execute("set TimeZone = 'UTC'")
            connection.execute("set enable_external_access = false")
            connection.execute("set lock_configuration = true")
            yield LakeConnection(lake, connection, tuple(opened), tuple(absent), known)


def quoted(name: str) -> str:
    """Return a name as SQL of DuckDB has it."""
    return '"' + name.replace('"', '""') + '"'


def _offset_is_column(sql: str, said: str) -> bool:
    """Whether SQL that DuckDB can't parse seems to have the word offset for a column, not for that of LIMIT."""
    if not re.search(r"\blimit\b", sql, re.IGNORECASE):
        return re.search(_BARE_OFFSET, sql, re.IGNORECASE) is not None
    near = _NEAR.search(said)
    if near is None:
        return False
    after = rf"{_BARE_OFFSET}\s*{re.escape(near[1])}"
    return near[1].lower() == "offset" or re.search(after, sql, re.IGNORECASE) is not None


def _line(error: BaseException) -> str:
    """The text of an error in one line, without the excerpt of the SQL and what may be a value of a row."""
    text = " ".join(str(error).split("\n\nLINE ", 1)[0].split())
    if _UNREAD.match(text) or _SETTING in text or not _OF_ROWS.match(text):
        return text
    value = _VALUE.search(text)
    return text if value is None else f"{text[: value.start()].rstrip()} … (values are left out; try(…) gives null)"
