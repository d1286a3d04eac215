"""Each engine's line of docs/analysts.md runs, and every engine reads the same rows of every table of a lake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_jobs.engine.session import get_session
from tests.conftest import REPOSITORY
from tests.jobs.decoded_lake import Decoded
from tests.jobs.test_registered_tables import FIRST, POLICIES, SCHEMA, SECOND

pytestmark = pytest.mark.spark

PAGE = (REPOSITORY / "docs" / "analysts.md").read_text()
LINES = {
    name: (language, body.strip())
    for name, language, body in re.findall(r"<!-- one line: (\S+) -->\n```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
}
DUCKDB = "1.5.5"
"""The last version for which PyPI has the extension `delta`."""
_BY_DUCKDB = """
import json, pathlib, sys
import duckdb, duckdb_extension_delta
extension = next(pathlib.Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
connection = duckdb.connect()
connection.execute(f"LOAD '{extension}'")
connection.execute("set TimeZone = 'UTC'; set enable_progress_bar = false")
print(json.dumps(connection.execute(sys.argv[1]).fetchall()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake of the name `lake`."""
    root = tmp_path_factory.mktemp("engines")
    made = Decoded(root, POLICIES)
    (root / "order.json").write_text(json.dumps(SCHEMA))
    for rows in (FIRST, SECOND):
        made.append(*rows)
        made.decode()
    if not (root / "lake").exists():
        (root / "lake").symlink_to(made.path)
    return root


@pytest.fixture(scope="module")
def duckdb_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with DuckDB and its extension."""
    home = tmp_path_factory.mktemp("duckdb") / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(home)], check=True)
    wanted = [f"duckdb=={DUCKDB}", f"duckdb-extension-delta=={DUCKDB}", "pytz"]
    done = subprocess.run(
        [uv, "pip", "install", "-q", "--python", str(home / "bin" / "python"), *wanted],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"DuckDB {DUCKDB} with its extension delta cannot be installed here: there is no index")
    return home / "bin" / "python"


def by_duckdb(python: Path, folder: Path, sql: str) -> list[Any]:
    done = subprocess.run([python, "-c", _BY_DUCKDB, sql], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return json.loads(done.stdout)


def by_python(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(text, names)
    return names["answer"]


ANSWER = [("orders", len(FIRST) + len(SECOND))]


def test_the_page_has_a_line_for_each_engine_and_it_names_the_table_records() -> None:
    assert set(LINES) >= {"duckdb", "polars", "pandas", "spark", "delta-rs"}
    assert all("lake" in body and "records" in body for _, body in LINES.values())


def test_the_line_of_duckdb(folder: Path, duckdb_python: Path) -> None:
    assert [tuple(row) for row in by_duckdb(duckdb_python, folder, LINES["duckdb"][1])] == ANSWER


def test_the_line_of_polars(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert by_python(LINES["polars"][1]).rows() == ANSWER


def test_the_line_of_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert list(by_python(LINES["pandas"][1]).itertuples(index=False, name=None)) == ANSWER


def test_the_line_of_delta_rs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (row,) = by_python(LINES["delta-rs"][1]).to_pylist()
    assert [(row["topic"], row["count_all"])] == ANSWER


def test_the_line_of_loglake(folder: Path) -> None:
    loglake = str(Path(sys.executable).with_name("loglake"))
    done = subprocess.run(
        ["bash", "-c", LINES["loglake"][1].replace("loglake query", f"{loglake} query", 1) + " --format jsonl"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [tuple(json.loads(line).values()) for line in done.stdout.splitlines()] == ANSWER


def test_the_line_of_spark(folder: Path) -> None:
    session: Any = get_session(str(folder / "lake"))
    text = LINES["spark"][1].replace("lake/tables", f"{folder}/lake/tables")
    assert [tuple(row) for row in session.sql(text).collect()] == ANSWER


def tables(folder: Path) -> Iterator[Path]:
    for log in sorted((folder / "lake").resolve().glob("tables/**/_delta_log")):
        yield log.parent


def plain(value: Any) -> Any:
    """One form for what engines return: text, numbers, lists; times as microseconds."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return [plain(each) for each in value.values()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1_000_000)
    return value


def rows_of(columns: list[str], read: Callable[[], Iterator[tuple[Any, ...]]]) -> list[str]:
    assert columns
    return sorted(json.dumps([plain(value) for value in row], default=str) for row in read())


@pytest.mark.long
def test_every_engine_reads_the_same_rows_of_every_table(folder: Path, duckdb_python: Path) -> None:
    session: Any = get_session(str(folder / "lake"))
    seen = 0
    for table in tables(folder):
        whole = pa.table(DeltaTable(str(table)).to_pyarrow_table())
        names = whole.column_names
        expected = rows_of(names, lambda whole=whole: (tuple(row.values()) for row in whole.to_pylist()))  # type: ignore[misc]
        of_polars = pl.read_delta(str(table)).select(names)
        assert rows_of(names, of_polars.iter_rows) == expected, f"Polars: {table.name}"
        of_spark = session.read.format("delta").load(str(table)).select(*names).collect()
        assert rows_of(names, lambda found=of_spark: iter(map(tuple, found))) == expected, f"Spark: {table.name}"  # type: ignore[misc]
        listed = ", ".join(f'"{name}"' for name in names)
        out = table.parent / f"{table.name}.of-duckdb.parquet"
        by_duckdb(
            duckdb_python, folder, f"copy (select {listed} from delta_scan('{table}')) to '{out}' (format parquet)"
        )
        of_duckdb = pq.read_table(out)
        out.unlink()
        assert rows_of(names, lambda found=of_duckdb: (tuple(row.values()) for row in found.to_pylist())) == expected, (  # type: ignore[misc]
            f"DuckDB: {table.name}"
        )
        seen += len(expected)
    assert seen >= 2 * len(FIRST + SECOND)
