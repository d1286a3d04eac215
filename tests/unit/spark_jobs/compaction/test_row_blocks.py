"""Rows in blocks: each block is found by itself."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.compaction import row_blocks
from spark_jobs.compaction.row_blocks import BlockFiles


def test_a_file_is_rows_bounds_and_a_trailer(tmp_path: Path):
    with row_blocks.written(str(tmp_path), "folder/rows", 2) as file:
        file.add(np.array([[1, 2], [3, 4], [5, 6]], np.uint64), [1, 1, 3])
        file.add(np.array([[7, 8]], np.uint64), [1])
    numbers = [1, 2, 3, 4, 5, 6, 7, 8, *(0, 1, 1, 3, 4), 4, 2]
    assert (tmp_path / "folder" / "rows").read_bytes() == struct.pack(f"<{len(numbers)}Q", *numbers)


def test_each_block_is_read_by_itself_also_an_empty_one(tmp_path: Path):
    with row_blocks.written(str(tmp_path), "rows", 3) as file:
        file.add(np.arange(12, dtype=np.uint64).reshape(4, 3)[:, ::-1], [0, 3, 4])
    with BlockFiles(str(tmp_path)).opened("rows") as found:
        assert found.blocks == 3
        assert [found.bounds(block) for block in range(3)] == [(0, 0), (0, 3), (3, 4)]
        assert [found.rows(block).tolist() for block in range(3)] == [
            [],
            [[2, 1, 0], [5, 4, 3], [8, 7, 6]],
            [[11, 10, 9]],
        ]


def test_a_file_without_any_block_can_be_read(tmp_path: Path):
    with row_blocks.written(str(tmp_path), "rows", 3):
        pass
    with BlockFiles(str(tmp_path)).opened("rows") as found:
        assert found.blocks == 0


def test_nothing_is_seen_of_a_file_that_was_not_finished(tmp_path: Path):
    def interrupted() -> None:
        with row_blocks.written(str(tmp_path), "rows", 1) as file:
            file.add(np.zeros((5, 1), np.uint64), [5])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
