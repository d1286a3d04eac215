"""A disk or quota without room for Dagster's history is named, and is no mistake in Loglake."""

from __future__ import annotations

import resource
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy

from pipelines.errors.step_errors import sentence_of


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
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, before[1]))
    try:
        error = error_of(database, "insert into runs values (zeroblob(100000))")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = sentence_of(error, "of the report", "1")
    assert said.startswith(f"Dagster's home {tmp_path} is full or cannot be written: ")
    assert "Make room there" in said


def test_another_error_of_the_history_keeps_its_place(tmp_path: Path) -> None:
    said = sentence_of(error_of(tmp_path / "history.db", "select * from runs"), "of the report", "1")
    assert said.startswith("The step of the report of run 1 failed with OperationalError at ")
    assert "please report this line" in said
