"""Small tasks share a Spark task, large ones have their own, and none is left out or done twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.tasks.spark_executor import WAVE_BYTES, waves
from spark_jobs.tasks.task_groups import SHARED_BYTES, SHARED_TASKS, shared


@given(st.lists(st.integers(0, 2 * SHARED_BYTES), max_size=400))
def test_groups_hold_every_task_once_in_order_and_no_more_than_may_share(sizes):
    groups = shared(len(sizes), sizes)
    assert [at for group in groups for at in group] == list(range(len(sizes)))
    for group in groups:
        assert 0 < len(group) <= SHARED_TASKS
        assert len(group) == 1 or sum(sizes[at] for at in group) <= SHARED_BYTES


def test_ten_thousand_small_tasks_are_a_hundred_of_sparks():
    assert len(shared(10_000, [1000] * 10_000)) == 100


def test_without_sizes_each_task_is_one_of_sparks():
    assert [list(group) for group in shared(3, None)] == [[0], [1], [2]]


def test_descriptions_go_out_in_waves_that_keep_the_order():
    groups = [range(at, at + 1) for at in range(10)]
    sent = list(waves(groups, [bytes(WAVE_BYTES // 3)] * 10))
    assert [group for wave in sent for group in wave] == groups
    assert [len(wave) for wave in sent] == [3, 3, 3, 1]


def test_a_description_larger_than_a_wave_goes_out_alone():
    sent = list(waves([range(1), range(1, 2)], [bytes(2 * WAVE_BYTES), b"y"]))
    assert [len(wave) for wave in sent] == [1, 1]
