"""What claims to be large is refused before anything is allocated; what is large stops at the cap. Memory is measured.

Bombs that must take no memory share a process; each that may take some has one of its own.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from logcore.columns.engines import Engine, available
from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS
from tests.fuzz.bombs import BOMBS

ENGINES = list(available())
DEFAULT_CAP_MIB = 256
_SLACK_MIB = 32
"""What an engine may take beside what a bomb is about: its pools, one more copy of a small cap."""
AT_THE_CAP = [name for name in BOMBS if name.endswith(" the cap")]
ZEROS = [name for name in BOMBS if name.endswith("of 257 MiB of zeros")]
COSTLY = {
    # Bounds in MiB. What is given out is in memory twice: decompressed, and as Arrow.
    "a record of 100 MiB": 200,
    "a record of 100 MiB in lz4": 200,
    "a record that fills the default cap": 2 * DEFAULT_CAP_MIB,
    "a record of 10^6 + 1 headers": 2,
    "a record of 10^6 headers": 16,
    "a batch of 2^18 smallest records": 32,
}
COSTLY_FOR = {
    # An object for each header and for each record.
    (Engine.REFERENCE, "a record of 10^6 headers"): 300,
    (Engine.REFERENCE, "a batch of 2^18 smallest records"): 96,
}
DECLARED = [name for name in BOMBS if name not in {*AT_THE_CAP, *ZEROS, *COSTLY}]


def read(engine: Engine, names: list[str]) -> dict[str, dict[str, Any]]:
    """What a fresh process made of these bombs; of each its rows and reasons are what they must be."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.bombs", engine, *names],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    for name in names:
        bomb = BOMBS[name]
        assert (found[name]["rows"], found[name]["reasons"]) == (bomb.rows, [bomb.reason] if bomb.reason else []), name
    return found


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_is_read_up_to_the_cap_and_refused_one_byte_above(engine: Engine) -> None:
    assert len(AT_THE_CAP) == 33
    for name, found in read(engine, AT_THE_CAP).items():
        assert found["mebibytes"] < _SLACK_MIB, name


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_and_counts_that_are_only_claimed_cost_nothing(engine: Engine) -> None:
    assert len(DECLARED) == 18
    for name, found in read(engine, DECLARED).items():
        assert found["mebibytes"] < _SLACK_MIB, name
        assert found["seconds"] < 5, name


@pytest.mark.long
@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("engine", ENGINES)
def test_zeros_without_end_are_given_up_at_the_default_cap(engine: Engine, name: str) -> None:
    assert read(engine, [name])[name]["mebibytes"] < DEFAULT_CAP_MIB + _SLACK_MIB


@pytest.mark.long
@pytest.mark.parametrize("name", COSTLY)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_large_and_sound_takes_no_more_than_it_must(engine: Engine, name: str) -> None:
    bound = COSTLY_FOR.get((engine, name), COSTLY[name])
    assert read(engine, [name])[name]["mebibytes"] < bound + _SLACK_MIB
