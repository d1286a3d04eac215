"""`loglake run --replace`: what it says, and what of the lake has the replaced rows after it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs.lake.delta.tables.snapshots import read_rows
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark


def test_a_replacement_is_whole_in_one_run_and_one_of_equal_rows_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)

    def verdict(*options: str) -> str:
        capsys.readouterr()
        with without_spark():
            assert main(["run", str(source.path), "--lake", lake, *options]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    assert "wrote 10 uncommitted records" in verdict("--isolation.level", "read_uncommitted")
    for none in (("..",), ("50..60",), ("..", "--since", "2030-01-01T00:00:00Z")):
        assert verdict("--replace", *none) == "replaced nothing: no chosen row differs from the archive"
    DeltaTable(f"{lake}/tables/records").delete('"offset" = 3')
    assert "again" in verdict("--replace", "..")
    assert verdict() == "nothing new"
    for table in ("records", "records_uncommitted"):
        assert Counter(read_rows(lake, table, ["offset"])["offset"].to_pylist()) == Counter(range(10))
