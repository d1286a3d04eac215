"""The logs that verification looks at, where a state table is damaged."""

from __future__ import annotations

from typing import Any

from spark_jobs.lake_verification.state import StateTables


def test_a_damaged_name_of_a_log_is_left_to_the_check_of_its_file() -> None:
    """The partition of such a name was read as a number, and the whole verification ended."""
    state = StateTables("lake")
    state.ledger = {name: [] for name in ("id/0", "id/12", "id/", "id", "id/1\x00", "id/²")}
    assert state.known_logs() == {"id/0", "id/12"}


def test_a_log_that_a_damaged_footer_makes_null_is_left_to_the_check_of_its_file() -> None:
    damaged: dict[Any, list[Any]] = {"id/0": [], None: []}
    assert StateTables("lake", ledger=damaged).known_logs() == {"id/0"}
