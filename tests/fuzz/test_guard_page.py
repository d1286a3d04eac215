"""No engine reads a byte that is not the segment's."""

import signal
import subprocess
import sys

import pytest

from logcore.columns.engines import Engine, available
from tests.conftest import REPOSITORY
from tests.fuzz.canonical import CANONICAL
from tests.fuzz.engines_compared import fast_engines


def guarded(argument: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.guarded", argument],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("engine", fast_engines())
def test_nothing_is_read_beyond_a_segment_that_ends_where_memory_ends(engine: Engine) -> None:
    done = guarded(engine)
    assert done.returncode == 0, f"{signal.strsignal(-done.returncode) if done.returncode < 0 else ''} {done.stderr}"
    assert int(done.stdout) > 4 * sum(len(batch.data) for batch in CANONICAL)


@pytest.mark.long
def test_the_cleaner_reads_nothing_beyond_a_segment_either() -> None:
    if Engine.KERNELS not in available():
        pytest.skip("the kernels do not work here, and the plain cleaner reads by Python's own means")
    done = guarded("cleaner")
    assert done.returncode == 0, f"{signal.strsignal(-done.returncode) if done.returncode < 0 else ''} {done.stderr}"
    assert int(done.stdout) > len(CANONICAL)


def test_a_batch_that_changes_after_its_checksum_was_right_makes_the_cleaner_write_nothing_beyond_its_room() -> None:
    if Engine.KERNELS not in available():
        pytest.skip("the kernels do not work here, and the plain cleaner writes by Python's own means")
    done = guarded("changed")
    assert done.returncode == 0, f"{signal.strsignal(-done.returncode) if done.returncode < 0 else ''} {done.stderr}"
    refused, wrong = map(int, done.stdout.split())
    assert refused == wrong == 13


def test_reading_beyond_it_would_have_been_seen() -> None:
    assert guarded("beyond").returncode == -signal.SIGSEGV
