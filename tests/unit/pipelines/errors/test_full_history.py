"""A disk or quota without room for Dagster's history is named, and is no mistake in Loglake."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy

from pipelines.errors.step_errors import sentence_of
from tests.file_limits import largest_file


def error_of(database: Path, statement: str) -> BaseException:
    """The error with which SQLAlchemy, which Dagster uses, answers a statement."""
    engine = sqlalchemy.create_engine(f"sqlite:///{database}")
    with pytest.raises(sqlalchemy.exc.SQLAlchemyError) as caught, engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement))
    return caught.value


def test_a_history_that_cannot_grow_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    database = tmp_path / "history.db"
    sqlite3.connect(database).execute("create table runs (body blob)")
    with largest_file(1 << 14):
        error = error_of(database, "insert into runs values (zeroblob(100000))")
    said = sentence_of(error, "of the report", "1")
    assert said.startswith(f"Dagster's home {tmp_path} is full or cannot be written: ")
    assert "Make room there" in said


def test_another_error_of_the_history_keeps_its_place(tmp_path: Path) -> None:
    said = sentence_of(error_of(tmp_path / "history.db", "select * from runs"), "of the report", "1")
    assert said.startswith("The step of the report of run 1 failed with OperationalError at ")
    assert "please report this line" in said
