"""Into how many ranges the hashes of keys are divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spark_jobs.newest.hash_ranges import range_count
from tests.in_process import InProcessExecutor


class Shuffling(InProcessExecutor):
    def shuffle(self, shuffle: Any) -> list[Any]:
        raise AssertionError("no test here runs tasks")


@pytest.mark.parametrize("most_keys", [0, 1, 9_999])
def test_few_keys_in_memory_do_not_make_a_range_of_each_row_on_spark(most_keys: int) -> None:
    assert range_count(Shuffling(), 1_000_000, most_keys, list) == 100


def test_a_range_on_spark_has_no_more_rows_than_keys_in_memory() -> None:
    assert range_count(Shuffling(), 1_000_000, 50_000, list) == 20
    assert range_count(Shuffling(), 3_000_000, 1 << 23, list) == 3


def test_no_key_in_memory_is_as_one_in_local_processes() -> None:
    assert range_count(None, 3, 0, lambda: [np.arange(1, dtype=np.uint64)]) == 1 << 10
