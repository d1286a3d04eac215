"""Versions of many application ids, read in one pass, are those that Delta looks up one by one."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import FEW_IDS, Guard
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.table_specs import FINDINGS

IDS = [f"records/log{number}" for number in range(FEW_IDS + 5)]


def _move(lake: str, moved: list[tuple[str, int | None, int]]) -> None:
    guards = [Guard(*each) for each in moved]
    commits.append(lake, "findings", FINDINGS.empty_table(), "run", guards)


@pytest.fixture
def lake(tmp_path):
    """A table with every id recorded once, and one of them moved on by a later commit."""
    lake = str(tmp_path)
    _move(lake, [(name, None, number) for number, name in enumerate(IDS)])
    _move(lake, [(IDS[3], 3, 30)])
    return lake


def _looked_up(lake: str) -> dict[str, int | None]:
    table = DeltaTable(table_uri(lake, "findings"))
    return {name: table.transaction_version(name) for name in [*IDS, "records/unknown"]}


def _in_one_pass(lake: str) -> dict[str, int | None]:
    return commits.versions(lake, "findings", [*IDS, "records/unknown"])


def test_they_are_those_of_the_newest_commits(lake):
    assert _in_one_pass(lake) == _looked_up(lake)
    assert _in_one_pass(lake)[IDS[3]] == 30
    assert _in_one_pass(lake)["records/unknown"] is None


def test_a_checkpoint_replaces_the_commits_before_it(lake):
    DeltaTable(table_uri(lake, "findings")).create_checkpoint()
    _move(lake, [(IDS[4], 4, 40)])
    recorded = delta_log.recorded_versions(lake, "findings", 2 + 1)
    assert recorded is not None
    assert recorded == {name: version for name, version in _looked_up(lake).items() if version is not None}
    assert recorded[IDS[4]] == 40
    assert recorded[IDS[3]] == 30


def test_where_a_commit_is_gone_nothing_is_guessed(lake, tmp_path):
    DeltaTable(table_uri(lake, "findings")).create_checkpoint()
    (tmp_path / "tables" / "findings" / "_delta_log" / "_last_checkpoint").unlink()
    for number in range(2):
        (tmp_path / "tables" / "findings" / "_delta_log" / f"{number:020d}.json").unlink()
    assert delta_log.recorded_versions(lake, "findings", 2) is None
    assert _in_one_pass(lake) == _looked_up(lake)


def test_a_guard_among_many_that_has_moved_refuses_the_commit(lake):
    with pytest.raises(ConcurrentChange, match=IDS[3]):
        _move(lake, [(name, number, number + 1) for number, name in enumerate(IDS)])
    _move(lake, [(name, 30 if number == 3 else number, 99) for number, name in enumerate(IDS)])
    assert set(_in_one_pass(lake).values()) == {99, None}
