"""How old an open transaction is, and when it hangs."""

from __future__ import annotations

import pytest

from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.open_transactions import duration
from tests.unit.spark_jobs.lake.view.lakes import BEGAN, MINUTE, begin_transaction


def test_the_age_of_an_open_transaction_counts_from_its_first_batch(lake: str):
    begin_transaction(lake, BEGAN)
    (log,) = read_state(lake).logs
    (transaction,) = log.open_transactions
    assert (transaction.producer_id, transaction.first_offset, transaction.since_ms) == (7, 10, BEGAN)
    assert transaction.age_ms(BEGAN + 90_000) == 90_000
    assert transaction.age_ms(BEGAN - 1) == 0
    assert [transaction.hangs(BEGAN + 15 * MINUTE + more) for more in (0, 1)] == [False, True]


def test_a_transaction_that_hangs_is_a_warning_in_the_exit_code(lake: str):
    begin_transaction(lake, BEGAN)
    state = read_state(lake)
    assert [state.exit_code([], BEGAN + minutes * MINUTE) for minutes in (3, 16)] == [0, 1]


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (172_799_999, "47 h 59 min"), (172_800_000, "2 days")],
)
def test_durations_are_shown_in_a_suitable_unit(ms: int, said: str):
    assert duration(ms) == said
