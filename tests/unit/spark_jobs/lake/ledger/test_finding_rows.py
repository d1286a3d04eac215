"""Findings as rows of the table `findings`."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.logs.model.findings import found
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.placed_finding import PlacedFinding


def test_a_message_with_a_name_that_is_not_utf_8_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    lake = str(tmp_path / "lake")
    placed = [PlacedFinding(found("remote-orphan", "or\udcffders-0: its copy did not end."))]
    assert len(finding_rows.record(lake, placed, "first", 1)) == 1
    assert list(finding_rows.record(lake, placed, "second", 2)) == []
    (row,) = DeltaTable(f"{lake}/tables/findings").to_pyarrow_table().to_pylist()
    assert row["message"] == "or\\xffders-0: its copy did not end."
