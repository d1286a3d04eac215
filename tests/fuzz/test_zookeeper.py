"""Damaged files of ZooKeeper: a few here, a million by `python -m tests.fuzz.zookeeper_mutants` in `make test-long`."""

import pytest

from tests.fuzz import zookeeper_mutants

SEED = 20261130


def test_no_damaged_file_of_zookeeper_raises_or_says_what_the_whole_one_does_not_say() -> None:
    results = zookeeper_mutants.run(SEED, 2_000)
    assert results.wrong == []
    assert 0 < results.whole < results.mutants == 2_000


def test_a_reader_that_checks_no_sum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logcore.zookeeper.snapshots._check_sum", lambda view, end: None)
    assert zookeeper_mutants.run(SEED, 300).wrong
