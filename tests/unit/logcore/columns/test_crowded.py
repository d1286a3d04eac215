"""Where the kernels' code is put in memory: its parts refer to each other across at most 2 GiB."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.skipif(platform.system() != "Linux", reason="the address space is read from /proc")
def test_the_kernels_load_where_the_address_space_is_crowded() -> None:
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    from logcore.columns.kernels.families import FAMILIES
    from logcore.columns.kernels.library import library

    library().load(FAMILIES)  # compiled before, so that the child processes only load
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.logcore.columns.crowded"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
