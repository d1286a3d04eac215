"""What is said of a table that cannot be read: damage, or a user who may not read it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

_READ = """
import os, sys
import pyarrow.dataset, pyarrow.parquet
from deltalake import DeltaTable
from spark_jobs.lake.delta.tables.snapshots import reading
if os.geteuid() == 0: os.setuid(65534)
try:
    with reading(sys.argv[1], "findings"):
        DeltaTable(f"{sys.argv[1]}/tables/findings").to_pyarrow_table()
except Exception as error:
    print(type(error).__name__, error)
sys.stdout.flush()
os._exit(0)  # native threads that still run at an ordinary exit can abort it
"""


def read_as_another_user(lake: Path) -> str:
    done = subprocess.run([sys.executable, "-c", _READ, str(lake)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def lake() -> Iterator[Path]:
    """A directory that every user may read; pytest's own may be closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_table_that_the_user_may_not_read_is_not_damaged_and_is_not_rebuilt(lake: Path) -> None:
    table = lake / "tables" / "findings"
    write_deltalake(str(table), pa.table({"rule": ["unreadable"]}))
    for path in (table, *table.rglob("*")):
        path.chmod(0o755)
    assert read_as_another_user(lake) == ""
    rows, commit = next(table.glob("*.parquet")), table / "_delta_log" / f"{0:020d}.json"
    for path in (rows, commit, table):
        mode = path.stat().st_mode
        path.chmod(0)
        said = read_as_another_user(lake)
        path.chmod(mode)
        assert said.startswith("StorageError Table findings: "), path
        assert "permission denied. Give this user permission to read the lake." in said
        assert "--rebuild" not in said
