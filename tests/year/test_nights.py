"""A simulated year: its first nights agree with the model, and a row that is lost or doubled is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.sampling import SEED
from tests.year.nights import Disagreed, Year

pytestmark = pytest.mark.long


@pytest.fixture
def year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Year:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home" / "dagster"))
    return Year(tmp_path, SEED)


def test_the_lake_agrees_with_the_model_after_each_night(year: Year) -> None:
    nights = list(year.nights(3, idle_every=3))
    assert [night.number for night in nights] == [1, 2, 3]
    assert 0 < nights[0].rows < nights[-1].rows
    assert nights[-1].idle_seconds is not None


def test_a_row_that_is_lost_and_one_that_is_there_twice_are_seen(year: Year) -> None:
    nights = year.nights(1)
    next(nights)
    table = DeltaTable(str(year.lake / "tables" / "records"))
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows.slice(0, 1), mode="append")
    with pytest.raises(Disagreed, match="twice"):
        year.check(1)
    write_deltalake(table, rows.slice(1), mode="overwrite")
    with pytest.raises(Disagreed, match="lacks"):
        year.check(1)
