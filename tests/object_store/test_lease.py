"""A lake on an object store has one writer. A second one gets its name. A dead holder blocks for a limited time."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from spark_jobs.errors import LeaseHeld
from spark_jobs.lake.store import lease, storage
from spark_jobs.lake.store.lease import hold, is_held

pytestmark = pytest.mark.object_store

TRY = "import sys; from spark_jobs.lake.store.lease import hold\nwith hold(sys.argv[1], 'other'): print('held')"
DIE = "import os, sys; from spark_jobs.lake.store.lease import hold\nwith hold(sys.argv[1], 'the dead'): os._exit(9)"


def _python(code: str, lake: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, lake], capture_output=True, text=True, check=False)


@pytest.fixture
def lake(bucket: str) -> str:
    return f"{bucket}/lake"


def test_another_process_is_refused_with_the_name_of_the_holder(lake):
    with hold(lake, "loglake run"), hold(lake, "a step of it"):
        refused = _python(TRY, lake)
        assert refused.returncode != 0
        assert f"'loglake run' (process {os.getpid()} on" in refused.stderr
        assert "free in 1" in refused.stderr  # 120 seconds at most
    assert _python(TRY, lake).stdout.strip() == "held"


@pytest.mark.long
def test_a_holder_that_was_killed_is_in_the_way_until_its_lease_has_expired(lake, monkeypatch):
    assert _python(DIE, lake).returncode == 9
    with pytest.raises(LeaseHeld, match="'the dead'"), hold(lake, "run"):
        pass
    monkeypatch.setattr(lease, "EXPIRES_SECONDS", 1)
    time.sleep(2.1)  # the store has times in whole seconds
    with hold(lake, "run"):
        assert _python(TRY, lake).returncode != 0


def test_a_look_says_whether_the_lease_is_held_and_puts_nothing(lake):
    assert not is_held(lake, time.time_ns() // 1_000_000)
    with hold(lake, "run"):
        assert is_held(lake, time.time_ns() // 1_000_000)
        assert not is_held(lake, time.time_ns() // 1_000_000 + 125_000)
        assert [file.path for file in storage.files_below(lake)] == [f"{lake}/lease.json"]
    assert not is_held(lake, time.time_ns() // 1_000_000)


@pytest.mark.long
def test_a_holder_that_lives_keeps_its_lease_young(lake, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(lease, "EXPIRES_SECONDS", 2)
    with hold(lake, "run"):
        time.sleep(4)
        other = TRY.replace("\n", "\nimport spark_jobs.lake.store.lease as lease; lease.EXPIRES_SECONDS = 2\n")
        assert "'run'" in _python(other, lake).stderr


def test_a_lease_lost_to_another_is_neither_renewed_nor_given_back(lake, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.2)
    with hold(lake, "run"):
        storage.put(f"{lake}/lease.json", b'{"purpose": "the next", "pid": 1, "host": "elsewhere"}')
        time.sleep(1)
        assert b"the next" in storage.read(f"{lake}/lease.json")
    with pytest.raises(LeaseHeld, match="'the next'"), hold(lake, "run"):
        pass
