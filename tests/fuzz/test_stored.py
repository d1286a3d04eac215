"""Batches that break one rule: what brokers store is read as Kafka's reader reads it, or differs as decided."""

from __future__ import annotations

import pytest

from tests.fuzz.one_rule import AT, HEADER, MESSAGE, RECORD, STREAM, WRAPPER, case
from tests.fuzz.stored import MADE, Judges, Tally, page
from tests.kafka.broker_validation import VERSIONS
from tests.kafka.distribution import Unavailable

SEED = 20261128
CASES = 2000
"""`make test-long` tries a million and writes docs/results/stored-batches.md."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    found = Tally()
    try:
        judges = Judges()
    except Unavailable as missing:
        pytest.skip(f"Kafka's classes cannot be run here: {missing}")
    with judges:
        for first in range(0, CASES, 500):
            judges.take(found, SEED, first, 500)
    return found


@pytest.mark.kafka
@pytest.mark.long
def test_every_difference_is_decided(tally: Tally) -> None:
    assert tally.unexplained == []
    assert tally.blobs[MADE] == tally.cases == CASES
    assert all(tally.blobs[version] > CASES / 5 for version in VERSIONS)
    assert any("last-offset-delta-short" in line for line in page(tally, SEED))


def test_a_case_is_a_function_of_seed_and_number_and_every_rule_is_broken() -> None:
    cases = [case(SEED, number) for number in range(2000)]
    assert cases[:50] == [case(SEED, number) for number in range(50)]
    broken = {each.rule for each in cases}
    assert broken == {*HEADER, "crc", *RECORD, *STREAM, *MESSAGE, *WRAPPER}
    assert {(each.magic, each.codec) for each in cases} == {
        (magic, codec) for magic in range(3) for codec in range(5 if magic == 2 else 4)
    }
    assert all(each.sent[:8] == bytes(8) for each in cases if each.magic == 2)
    assert all(int.from_bytes(each.lying[:8], "big") == AT for each in cases if each.magic == 2)
