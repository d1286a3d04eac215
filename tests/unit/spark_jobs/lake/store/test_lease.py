"""A lake has one writer. The error for another writer names the first."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from spark_jobs.errors import LeaseHeld
from spark_jobs.lake.store import lease
from spark_jobs.lake.store.lease import LEASE_FILE, hold, is_held, killed_holder

pytestmark = pytest.mark.slow

TRY = "import sys; from spark_jobs.lake.store.lease import hold\nwith hold(sys.argv[1], 'other'): print('held')"


def _other_process(lake) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", TRY, str(lake)], capture_output=True, text=True, check=False)


def test_another_process_is_refused_with_the_name_of_the_holder(tmp_path):
    with hold(str(tmp_path), "loglake run"):
        refused = _other_process(tmp_path)
        assert refused.returncode != 0
        assert f"process {os.getpid()}" in refused.stderr
        assert "'loglake run'" in refused.stderr
    assert _other_process(tmp_path).stdout.strip() == "held"


def test_the_steps_of_one_process_share_the_lease_until_the_last_gives_it_back(tmp_path):
    with hold(str(tmp_path), "run"):
        with hold(str(tmp_path), "step"):
            pass
        assert _other_process(tmp_path).returncode != 0
    assert _other_process(tmp_path).returncode == 0


def test_a_look_says_whether_the_lease_is_held(tmp_path):
    assert not is_held(str(tmp_path), 0)  # there is no lease file yet
    with hold(str(tmp_path), "run"):
        assert is_held(str(tmp_path), 0)
    assert not is_held(str(tmp_path), 0)
    assert not is_held(str(tmp_path / "none"), 0)


def test_a_look_does_not_refuse_the_process_that_takes_the_lease(tmp_path):
    with hold(str(tmp_path), "run"):
        pass
    descriptor = os.open(tmp_path / "lease.json", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as a look has it for a moment
    look = threading.Thread(target=lambda: (time.sleep(0.01), os.close(descriptor)))
    look.start()
    with hold(str(tmp_path), "run"):
        assert _other_process(tmp_path).returncode != 0
    look.join()


def test_a_lease_whose_holder_says_nothing_readable_is_still_held(tmp_path):
    holder = (
        "import fcntl, os, sys, time\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", holder, str(tmp_path / "lease.json")], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LeaseHeld, match="another process"), hold(str(tmp_path), "run"):
            pass
    finally:
        process.kill()
        process.wait()


def test_a_holder_that_was_killed_is_known_with_its_command_until_the_lease_is_given_back(tmp_path):
    assert killed_holder(str(tmp_path), 0) is None
    with hold(str(tmp_path), "loglake run", "loglake run /logs --lake /lake"):
        content = (tmp_path / LEASE_FILE).read_bytes()
        assert killed_holder(str(tmp_path), 0) is None
    assert killed_holder(str(tmp_path), 0) is None
    (tmp_path / LEASE_FILE).write_bytes(content)  # as a process leaves it that is killed
    who, command = killed_holder(str(tmp_path), 0)
    assert who.startswith("'loglake run' (process ")
    assert command == "loglake run /logs --lake /lake"
    with pytest.raises(ValueError, match="of the work"), hold(str(tmp_path), "loglake run"):
        raise ValueError("of the work")
    assert killed_holder(str(tmp_path), 0) is None
    (tmp_path / LEASE_FILE).write_bytes(b"not of ours")
    assert killed_holder(str(tmp_path), 0) is None


def test_a_run_that_starts_during_a_look_is_not_called_killed(tmp_path, monkeypatch):
    with hold(str(tmp_path), "loglake watch", "loglake watch /logs"):
        looks = iter([False])
        monkeypatch.setattr(lease, "is_held", lambda *of: next(looks, None) is not False and is_held(*of))
        assert killed_holder(str(tmp_path), 0) is None
