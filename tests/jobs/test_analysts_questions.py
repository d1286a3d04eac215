"""Every question of docs/analysts.md: three engines agree, and their answer is that of the written records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from logcore.cli import main
from spark_jobs.engine.session import get_session
from tests import handmade
from tests.conftest import REPOSITORY
from tests.jobs.decoded_lake import Decoded
from tests.spark import cycle

pytestmark = pytest.mark.spark

PAGE = (REPOSITORY / "docs" / "analysts.md").read_text()
QUESTIONS = re.findall(r"^## (\d+)\. .*?\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
_PREPARE = PAGE.partition("\n## Prepare\n")[2].partition("\n## 1.")[0]
BLOCK = re.compile(r"^```(sql|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

POLICIES = """topics:
  orders:
    salvage: permissive
    decode.key: string
    decode.value: json
    decode.value.schema: orders.json
  customers:
    salvage: permissive
    decode.key: string
    decode.value: json
    decode.value.schema: customers.json
"""
SCHEMAS = {
    "orders.json": '{"type": "object", "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}}}',
    "customers.json": '{"type": "object", "properties": {"name": {"type": "string"}}}',
}
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BASE_MS = 1_700_002_800_000  # 2023-11-14T23:00:00Z
NO_TEXT, NO_TEXT_INSIDE = b"\xff\xfe\0", b'{"id": 3, "customer": "\xff"}'
ONE, TWO = b'{"id": 1, "customer": "c1"}', b'{"id": 2, "customer": "c2"}'
ELEVEN, HOURS = datetime(2023, 11, 14, 23, tzinfo=UTC), datetime(2023, 11, 15, 0, tzinfo=UTC)

EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "1": [("customers", ELEVEN, 1), ("orders", ELEVEN, 3), ("orders", HOURS, 4)],
    "2": [("b", 2, 5)],
    "3": [(0, "c1"), (1, "c2"), (2, None), (5, "c2"), (6, None), (7, None), (8, None)],
    "4": [(0, 1, "Ann")],
    "5": [(0, ONE), (6, None)],
    "6": [(0, "t2"), (1, None), (2, None), (5, None), (6, None), (7, None), (8, "t3")],
    "7": [("orders", 0, 3, 5, "missing")],
    "8": [(b"b", TWO, 2)],
    "9": [("customers", 0, 0), ("orders", 0, 2)],
    "10": [("orders", 4)],
}
"""Written by hand from the records that the fixture writes."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    """Orders 0 to 2 and a customer are published on one day, orders 5 to 8 on the next; 3 and 4 never come."""
    root = tmp_path_factory.mktemp("analysts")
    made = Decoded(root, POLICIES)
    for name, schema in SCHEMAS.items():
        (root / name).write_text(schema)
    customers = made.source.partition("customers-0", topic_id=None)
    customers.roll()
    made.orders.roll()
    made.orders.write(
        handmade.batch(
            [
                handmade.record(0, b"a", ONE, headers=[(b"trace", b"t1"), (b"trace", b"t2")]),
                handmade.record(1, b"b", TWO),
                handmade.record(2, b"c", b"no json", headers=[(b"other", b"x")]),
            ],
            base_timestamp=BASE_MS,
        )
    )
    customers.write(handmade.batch([handmade.record(0, b"c1", b'{"name": "Ann"}')], base_timestamp=BASE_MS))
    made.source.high_watermarks(orders_0=3, customers_0=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "AS_OF_MS", cycle.AS_OF_MS - DAY_MS)
        made.lake.turn(made.source.path, policies=str(made.policies))
    made.orders.write(
        handmade.batch(
            [
                handmade.record(0, b"b", TWO),
                handmade.record(1, b"a", None),
                handmade.record(2, b"d", NO_TEXT, headers=[(b"trace", b"\xff")]),
                handmade.record(3, b"e", NO_TEXT_INSIDE, headers=[(b"trace", b"t3")]),
            ],
            base_offset=5,
            base_timestamp=BASE_MS + HOUR_MS,
        )
    )
    made.source.high_watermarks(orders_0=9, customers_0=1)
    made.lake.turn(made.source.path, policies=str(made.policies))
    made.decode()
    return made


@pytest.fixture(scope="module")
def folder(lake: Decoded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader of the page is: beside a lake of the name `lake`, with its file for DuckDB."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "lake").symlink_to(lake.path)
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(folder / "lake.duckdb")]) == 0
    return folder


@pytest.fixture(scope="module")
def spark(lake: Decoded) -> Iterator[Any]:
    from spark_jobs.lake_commands.register.register import statements
    from spark_jobs.lake_commands.register.registered_tables import registered_tables

    session: Any = get_session(lake.path)
    for statement in statements(registered_tables(lake.path)[0], "analysts"):
        session.sql(statement)
    session.sql("use analysts")
    yield session
    session.sql("use default")
    session.sql("drop schema analysts cascade")


def test_the_page_has_ten_questions_in_three_engines() -> None:
    assert [number for number, _ in QUESTIONS] == list(EXPECTED)
    assert all(len(BLOCK.findall(text)) == 3 for _, text in QUESTIONS)


@pytest.mark.parametrize(("number", "text"), QUESTIONS, ids=lambda value: value if len(value) < 3 else "")
def test_three_engines_answer_alike(
    lake: Decoded, folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, number: str, text: str
) -> None:
    monkeypatch.chdir(folder)
    (_, of_spark), of_duckdb, (_, of_polars) = BLOCK.findall(text)
    expected = ordered(EXPECTED[number])
    of_spark = of_spark.replace("lake/tables", f"{lake.path}/tables")
    assert ordered(tuple(row) for row in spark.sql(of_spark).collect()) == expected, "Spark"
    assert ordered(by_duckdb(*of_duckdb)) == expected, "DuckDB"
    assert ordered(by_python(of_polars).collect().rows()) == expected, "Polars"


def by_duckdb(language: str, text: str) -> list[tuple[Any, ...]]:
    if language == "python":
        return by_python(text).fetchall()
    with duckdb.connect("lake.duckdb", read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        return connection.execute(text).fetchall()


def by_python(text: str) -> Any:
    (prepared,) = [body for language, body in BLOCK.findall(_PREPARE) if language == "python"]
    names: dict[str, Any] = {"pl": pl}
    exec(prepared + text, names)
    return names["answer"]


def ordered(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value
