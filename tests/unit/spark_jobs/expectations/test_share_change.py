"""A share departs if the difference is large enough, and is more than chance between so few rows."""

from __future__ import annotations

import pytest

from spark_jobs.expectations.share_change import TalliedPlace, Tally


@pytest.mark.parametrize(
    ("newest", "true", "earlier", "before", "departs", "appears"),
    [
        (10, 5, 100, 0, True, True),
        (10, 2, 100, 0, False, False),  # 0.2; four errors of 0.0327 and one row are 0.231
        (1, 1, 1000, 0, False, False),  # one row alone says nothing
        (2, 2, 1000, 0, True, True),
        (1000, 10, 100_000, 0, False, False),  # one in a hundred is no difference
        (1000, 20, 100_000, 0, True, True),
        (1000, 0, 1000, 1000, True, False),  # never null any more
        (10_000, 8000, 10_000, 5000, True, False),
        (10_000, 6000, 10_000, 5000, False, False),  # less than half of the way from 0.5 to 1
        (20, 6, 1000, 50, True, False),  # 0.25 more; four errors of 0.0499 and one row are 0.2497
        (20, 5, 1000, 50, False, False),
        (10, 10, 0, 0, False, False),
        (0, 0, 10, 10, False, False),
        (10, 10, 1, 0, False, False),  # one earlier row is hardly a history
    ],
)
def test_a_share_departs_by_size_and_not_by_chance(newest, true, earlier, before, departs, appears) -> None:
    tally = Tally(newest, true, earlier, before)
    assert (tally.departs, tally.appears) == (departs, appears)


def test_the_first_row_is_the_lowest_by_partition_log_and_offset_of_both_tallies() -> None:
    one = Tally(3, 2, 4, 1, TalliedPlace(1, "a", 5), TalliedPlace(0, "a", 9))
    other = Tally(1, 1, 1, 0, TalliedPlace(0, "b", 7))
    both = one.plus(other)
    assert (both.newest, both.newest_true, both.earlier, both.earlier_true) == (4, 3, 5, 1)
    assert (both.first_true, both.first_false) == (TalliedPlace(0, "b", 7), TalliedPlace(0, "a", 9))
    assert both.first_other == TalliedPlace(0, "b", 7)
    assert Tally(2, 0, 2, 2, TalliedPlace(0, "a", 1), TalliedPlace(0, "a", 2)).first_other == TalliedPlace(0, "a", 2)
