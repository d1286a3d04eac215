"""A task of ``records_uncommitted`` receives the states of its own offsets, not of its whole log."""

from __future__ import annotations

from spark_jobs.archived_rows.records_file import WriteTask
from spark_jobs.archived_rows.uncommitted_rows import states_of

STATES = [(0, 5, "committed"), (5, 9, "aborted"), (10, 20, "committed"), (25, 30, "open")]


def _states_for(*visible: tuple[int, int]) -> list[tuple[int, int, str]]:
    return list(states_of(WriteTask("lake", "t", "t.0", 0, (), visible), STATES))


def test_a_task_receives_the_states_that_overlap_its_visible_offsets_and_no_others():
    assert _states_for((0, 5)) == STATES[:1]
    assert _states_for((5, 9)) == STATES[1:2]
    assert _states_for((0, 9), (10, 20)) == STATES[:3]
    assert _states_for((10, 20), (25, 30)) == STATES[2:]
    assert _states_for((7, 12)) == STATES[1:3]
    assert _states_for() == []
