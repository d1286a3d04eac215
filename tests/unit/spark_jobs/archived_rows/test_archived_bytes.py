"""Pieces of segments make tasks of like size: none is a small rest, none much larger than a file should be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.archived_rows.archived_bytes import TASK_BYTES, grouped
from spark_jobs.archived_rows.records_file import Piece

MIB = 1 << 20


def _pieces(sizes: list[int]) -> list[Piece]:
    return [Piece("segment", "file", 0, 0, size, at, at + 1) for at, size in enumerate(sizes)]


def _totals(sizes: list[int]) -> list[int]:
    return [sum(piece.end for piece in group) for group in grouped(_pieces(sizes))]


@given(st.lists(st.integers(1, 70 * MIB), max_size=60))
def test_every_piece_is_in_one_group_in_order_and_no_group_is_empty_or_twice_too_large(sizes):
    groups = grouped(_pieces(sizes))
    assert [piece.first_offset for group in groups for piece in group] == list(range(len(sizes)))
    assert all(groups)
    assert all(sum(piece.end for piece in group) < 2 * TASK_BYTES for group in groups)


def test_a_log_of_four_pieces_is_two_tasks_of_two():
    assert _totals([64 * MIB] * 4) == [128 * MIB] * 2


def test_a_small_rest_makes_no_task_of_its_own():
    assert _totals([64 * MIB, 64 * MIB, 5]) == [128 * MIB + 5]


def test_nothing_is_no_task():
    assert _totals([]) == []
