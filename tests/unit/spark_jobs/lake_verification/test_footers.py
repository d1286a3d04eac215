"""The process that reads footers ends with the one that asks it, and leaks nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ASKS = """
import os, sys
from spark_jobs.lake_verification.files import footers
if __name__ == "__main__":
    [group] = footers().statistics(sys.argv[1])
    print(group["n"], flush=True)
    os._exit(0)
"""


def test_a_process_that_ends_at_once_leaves_nothing_that_python_reports(tmp_path: Path) -> None:
    table, script = tmp_path / "numbers.parquet", tmp_path / "asks.py"
    pq.write_table(pa.table({"n": [3, 1, None]}), table)
    script.write_text(ASKS)
    done = subprocess.run([sys.executable, script, table], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1, 3, 1)\n", "")
