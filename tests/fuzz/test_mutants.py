"""Mutants with a right checksum: every engine and Kafka agree with the reference, or differ as listed.

`make test-long` does the same with 10^6 and writes down what came out.
"""

import pytest

from tests.fuzz import campaign
from tests.fuzz.differences import DIFFERENCES
from tests.fuzz.engines_compared import fast_engines
from tests.fuzz.mutator import mutant
from tests.fuzz.third_readers import third_reader

SEED = 20260821
MUTANTS = 20_000
MANY = 100_000
"""So many show the rarest difference."""
ONLY_STORED = {"a last offset delta that is too small"}
"""Mutants keep their base offset, which a broker would raise: `tests.fuzz.test_stored` meets this one."""


@pytest.fixture(scope="module")
def campaign_results() -> tuple[str, campaign.Results]:
    """The third reader's name, and what was found."""
    with third_reader() as (name, ask):
        found = campaign.run(SEED, MUTANTS, ask)
    print(f"third reader: {name}", *campaign.rates(found), sep="\n")
    return name, found


@pytest.fixture
def results(campaign_results: tuple[str, campaign.Results]) -> campaign.Results:
    return campaign_results[1]


@pytest.fixture
def three_ways(campaign_results: tuple[str, campaign.Results]) -> campaign.Results:
    """The same, where there was a third reader."""
    name, found = campaign_results
    if not found.third:
        pytest.skip(f"third reader: {name}")
    return found


def test_a_mutant_is_a_function_of_seed_and_number() -> None:
    assert [mutant(1, number) for number in range(50)] == [mutant(1, number) for number in range(50)]
    assert mutant(1, 7).data != mutant(2, 7).data


def test_the_third_reader_agrees_but_for_documented_differences(three_ways: campaign.Results) -> None:
    assert three_ways.unexplained == []
    assert sum(three_ways.third.values()) == MUTANTS


@pytest.mark.long
def test_every_documented_difference_is_met() -> None:
    """A difference that no mutant shows would excuse something that is not there."""
    with third_reader() as (name, ask):
        found = campaign.run(SEED, MANY, ask)
    if not found.third:
        pytest.skip(f"third reader: {name}")
    assert {difference.name for difference in DIFFERENCES} - set(found.third) == ONLY_STORED


def test_every_engine_gives_what_the_reference_gives(results: campaign.Results) -> None:
    assert results.disagreements == []
    assert dict(results.engines) == dict.fromkeys(fast_engines(), MUTANTS)


def test_mutants_are_neither_all_refused_nor_all_read(results: campaign.Results) -> None:
    read = results.verdicts["read"]
    assert MUTANTS / 4 < read < MUTANTS * 3 / 4
    assert len(results.verdicts) >= 10


def test_no_mutant_takes_long(results: campaign.Results) -> None:
    assert results.slowest_ms < 5000
