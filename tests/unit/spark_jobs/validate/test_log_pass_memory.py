"""A log may have as many batches as records: looking at it holds a chunk of them, not all."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BATCHES, LIMIT_MB = 2_000_000, 80


@pytest.mark.long
def test_two_million_batches_of_one_log_are_looked_at_in_flat_memory() -> None:
    command = [sys.executable, "-m", "tests.unit.spark_jobs.validate.many_batches", str(BATCHES)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["failed"] is None
    ledger = told["ledger"]
    assert list(zip(ledger["end_offset"], ledger["state"], ledger["records"], strict=True)) == [
        (BATCHES - 10, "present", BATCHES - 10),
        (BATCHES, "open", 10),
    ]
    # 34 here; with the columns of all of them 177, and with a Python value for each several hundred.
    assert told["grown_mb"] < LIMIT_MB
