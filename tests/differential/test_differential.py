"""Random logs, cleaned, cleaned again, started after a crash and retained by Kafka's own classes and by us: equal."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.differential import campaign
from tests.differential.campaign import Tally
from tests.differential.specifications import specification
from tests.differential.trials import OPERATIONS
from tests.kafka import distribution
from tests.kafka.storage_oracle import VERSIONS, StorageOracle

SEED = 20261121
CASES = int(os.environ.get("LOGLAKE_DIFFERENTIAL_CASES", "100"))
"""Of each version. `make test-long` runs ten thousand."""


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> Iterator[StorageOracle]:
    try:
        started = StorageOracle(request.param)
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka's storage classes cannot be run here: {missing}")
    with started:
        yield started


@pytest.mark.long
@pytest.mark.kafka
def test_what_kafka_leaves_we_leave(kafka: StorageOracle, capsys: pytest.CaptureFixture[str]):
    tally = Tally()
    for compared in campaign.run(kafka, SEED, range(CASES)):
        tally.take(compared)
    with capsys.disabled():
        named = ", ".join(f"{' '.join(words[1:])} {count}" for words, count in sorted(tally.named.items()))
        print(f"\nKafka {kafka.version}: {tally.equal.total()} of {tally.trials.total()} trials equal ({named})")
    assert tally.different == [], "\n".join(tally.different[:5])
    assert {operation for _, operation in tally.trials} == set(OPERATIONS)
    assert {codec for _, codec in tally.codecs} == {"none", "gzip", "snappy", "lz4", "zstd"}
    refused = sum(count for words, count in tally.named.items() if words[2] == "refused")
    assert refused < tally.trials.total() / 4


def test_a_specification_is_its_seed_s():
    assert specification(7) == specification(7)
    assert specification(7) != specification(8)


def test_a_tally_goes_through_json_and_adds_up():
    tally = Tally()
    tally.trials["4.4.0", "clean"] = 2
    tally.equal["4.4.0", "clean"] = 1
    tally.named["4.4.0", "clean", "recompressed-zstd"] = 5
    tally.different.append("4.4.0-1-0-clean")
    twice = Tally.of(tally.as_dict())
    assert twice == tally
    twice.add(tally)
    assert twice.trials["4.4.0", "clean"] == 4
    assert len(twice.different) == 2
