"""The rows of the data source over the broker's files are those of Spark's Kafka source over the running broker."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution
from tests.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

SEED = "7"
PLAIN, TRIMMED, TRANSACTIONS = f"plain-{SEED}", f"trimmed-{SEED}", f"transactions-{SEED}"
EVERYTHING = ",".join(f"{kind}-{SEED}" for kind in ("plain", "stamped", "recoded", "transactions", "trimmed"))
MIDDLE_MS = 1_700_000_099_000
Options = Mapping[str, str]


def of_plain(*offsets: int) -> str:
    """An option's offsets of the three partitions of `plain`."""
    return json.dumps({PLAIN: {str(number): offset for number, offset in enumerate(offsets)}})


SETS: dict[str, Options] = {
    "subscribe": {"subscribe": EVERYTHING},
    "subscribe one": {"subscribe": PLAIN},
    "pattern": {"subscribePattern": f"(plain|tri.*|stamped)-{SEED}"},
    "assign": {"assign": json.dumps({PLAIN: [0, 2], TRIMMED: [0]})},
    "headers": {"subscribe": EVERYTHING, "includeHeaders": "true"},
    "no headers": {"subscribe": PLAIN, "includeHeaders": "false"},
    "committed": {"subscribe": TRANSACTIONS, "isolation.level": "read_committed"},
    "uncommitted": {"subscribe": TRANSACTIONS, "isolation.level": "read_uncommitted"},
    "earliest, latest": {"subscribe": TRIMMED, "startingOffsets": "earliest", "endingOffsets": "latest"},
    "starting offsets": {"subscribe": PLAIN, "startingOffsets": of_plain(3, -2, 17)},
    "ending offsets": {"subscribe": PLAIN, "endingOffsets": of_plain(40, -1, 0)},
    "both": {"subscribe": PLAIN, "startingOffsets": of_plain(5, 5, 5), "endingOffsets": of_plain(50, 6, 5)},
    "starting timestamp": {"subscribe": PLAIN, "startingTimestamp": str(MIDDLE_MS)},
    "ending timestamp": {"subscribe": PLAIN, "endingTimestamp": str(MIDDLE_MS)},
    "timestamps": {"subscribe": PLAIN, "startingTimestamp": "4", "endingTimestamp": str(MIDDLE_MS)},
    "starting by timestamp": {"subscribe": PLAIN, "startingOffsetsByTimestamp": of_plain(0, MIDDLE_MS, 5)},
    "ending by timestamp": {"subscribe": PLAIN, "endingOffsetsByTimestamp": of_plain(MIDDLE_MS, MIDDLE_MS, 10**14)},
    "timestamp first": {"subscribe": PLAIN, "startingTimestamp": str(MIDDLE_MS), "startingOffsets": of_plain(1, 1, 1)},
    "no such time: latest": {
        "subscribe": PLAIN,
        "startingTimestamp": str(10**14),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "minPartitions": {"subscribe": EVERYTHING, "minPartitions": "11"},
    "below the log start": {
        "subscribe": TRIMMED,
        "startingOffsets": f'{{"{TRIMMED}": {{"0": 1}}}}',
        "failOnDataLoss": "false",
    },
}
REFUSED: dict[str, tuple[Options, str]] = {
    "no such time": ({"subscribe": PLAIN, "startingTimestamp": str(10**14)}, "no record with timestamp"),
    "below the log start": (
        {"subscribe": TRIMMED, "startingOffsets": f'{{"{TRIMMED}": {{"0": 1}}}}'},
        "out of range",
    ),
    "latest start": ({"subscribe": PLAIN, "startingOffsets": "latest"}, "startingOffsets"),
    "a latest start": ({"subscribe": PLAIN, "startingOffsets": of_plain(0, -1, 0)}, "startingOffsets"),
    "earliest end": ({"subscribe": PLAIN, "endingOffsets": "earliest"}, "endingOffsets"),
    "an earliest end": ({"subscribe": PLAIN, "endingOffsets": of_plain(0, -2, 0)}, "endingOffsets"),
    "not all partitions": ({"subscribe": PLAIN, "startingOffsets": f'{{"{PLAIN}": {{"0": 1}}}}'}, "must name each"),
    "two choices": ({"subscribe": PLAIN, "subscribePattern": "plain.*"}, "exclude each other"),
    "end before start": (
        {"subscribe": PLAIN, "startingOffsets": of_plain(9, 0, 0), "endingOffsets": of_plain(4, 1, 1)},
        "is greater than the end offset 4",
    ),
    "bad JSON": ({"subscribe": PLAIN, "startingOffsets": "{"}, "JSON"),
    "bad number": ({"subscribe": PLAIN, "minPartitions": "many"}, "minPartitions"),
}
"""Sets of options that both refuse, with a part of our message."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Rows, or the text of the error, by name of a set of options."""

    ours: dict[str, Any]
    theirs: dict[str, Any]
    warned: str
    """What our processes wrote to stderr."""


@pytest.fixture(scope="module")
def answers(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("spark-source")
    try:
        jars = distribution.spark_source()
    except distribution.Unavailable as missing:
        pytest.skip(f"Spark's Kafka source cannot be run here: {missing}")
    sets = {**SETS, **{f"refused: {name}": options for name, (options, _) in REFUSED.items()}}
    with Broker(folder / "broker") as broker:
        broker.run("Produce", SEED)
        theirs, _ = _rows(
            folder,
            "kafka",
            [{"kafka.bootstrap.servers": broker.servers, **_of_kafka(options)} for options in sets.values()],
            *map(str, jars),
        )
    ours, warned = _rows(
        folder,
        "loglake",
        [{"path": str(broker.log_dir), "kafka.bootstrap.servers": "", **options} for options in sets.values()],
    )
    return Answers(dict(zip(sets, ours, strict=True)), dict(zip(sets, theirs, strict=True)), warned)


def _of_kafka(options: Options) -> dict[str, str]:
    return {("kafka." + name if name == "isolation.level" else name): value for name, value in options.items()}


def _rows(folder: Path, kind: str, queries: list[dict[str, str]], *jars: str) -> tuple[list[Any], str]:
    spec, output = folder / f"{kind}.json", folder / f"{kind}.pickle"
    spec.write_text(json.dumps(queries))
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.source_rows", kind, str(spec), str(output), *jars],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=10 * WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return pickle.loads(output.read_bytes()), done.stderr


@pytest.mark.parametrize("name", SETS)
def test_an_option_gives_the_rows_of_sparks_kafka_source(answers: Answers, name: str) -> None:
    ours, theirs = answers.ours[name], answers.theirs[name]
    assert isinstance(theirs, list), theirs
    assert isinstance(ours, list), ours
    assert [(row["topic"], row["partition"], row["offset"]) for row in ours] == [
        (row["topic"], row["partition"], row["offset"]) for row in theirs
    ]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_sparks_kafka_source_refuses_is_refused_in_one_line(answers: Answers, name: str) -> None:
    assert isinstance(answers.theirs[f"refused: {name}"], str)
    said = answers.ours[f"refused: {name}"]
    assert isinstance(said, str), "it was not refused"
    (line,) = [line for line in said.splitlines() if line.startswith(("spark_jobs.errors.", "logcore.errors."))]
    assert REFUSED[name][1] in line


def test_the_sets_of_options_choose_different_rows(answers: Answers) -> None:
    """Were they all the same, or empty, equality would prove nothing."""
    sizes = {name: len(answers.theirs[name]) for name in SETS}
    assert [name for name in SETS if not sizes[name]] == ["no such time: latest"]
    assert len(set(sizes.values())) > 10, sizes
    assert sizes["committed"] < sizes["uncommitted"]
    assert any(row["headers"] for row in answers.theirs["headers"])
    assert any(row["headers"] is None for row in answers.theirs["headers"])


def test_options_of_a_connection_to_a_broker_are_named_in_a_warning(answers: Answers) -> None:
    assert "there is no broker, so these options have no effect: kafka.bootstrap.servers" in answers.warned
