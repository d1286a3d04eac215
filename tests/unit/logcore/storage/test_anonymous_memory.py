"""Memory from the system: zeros that stay where they are while there are addresses, and say so when there are none."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from logcore.storage.machine import anonymous_memory
from logcore.storage.machine.anonymous_memory import HUGE_PAGE, AnonymousMemory
from tests.daemons import WAIT_SECONDS


@pytest.mark.parametrize("size", [1, mmap.PAGESIZE, 3 * HUGE_PAGE - 5])
def test_it_is_lengthened_where_it_is_and_what_is_new_is_zero(size: int) -> None:
    memory = AnonymousMemory(size, grows=True)
    if not memory.can_lengthen:
        pytest.skip("this system reserves no addresses")
    ctypes.memset(memory.address, 0x5A, size)
    address, longer = memory.address, size + HUGE_PAGE + 11
    assert memory.lengthen(longer)
    assert (memory.address, len(memory)) == (address, longer)
    assert ctypes.string_at(address, longer) == b"\x5a" * size + bytes(longer - size)


@pytest.mark.parametrize("grows", [False, True])
def test_memory_without_reserved_addresses_after_it_cannot_grow(grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anonymous_memory, "_reserved", lambda *_: None)
    memory = AnonymousMemory(100, grows=grows)
    assert not memory.can_lengthen
    assert not memory.lengthen(101)
    assert len(memory) == 100
    assert ctypes.string_at(memory.address, 100) == bytes(100)


def test_more_than_the_machine_has_is_refused() -> None:
    memory = AnonymousMemory(100, grows=True)
    assert not memory.lengthen(1 << 46)
    assert len(memory) == 100


def test_a_system_that_makes_nothing_memory_before_it_is_touched_gives_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anonymous_memory, "_POPULATE_WRITE", 9_999)
    memory = AnonymousMemory(HUGE_PAGE + 1)
    assert ctypes.string_at(memory.address, HUGE_PAGE + 1) == bytes(HUGE_PAGE + 1)


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_on_addresses_above_what_the_machine_has_is_left_to_the_rest_of_the_process(limit: str) -> None:
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    code = (
        "import mmap, resource; from logcore.storage.machine.anonymous_memory import AnonymousMemory; "
        f"resource.setrlimit(resource.{limit}, ({everything + (1 << 29)},) * 2); "
        "memory = AnonymousMemory(100, grows=True); "
        "mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); print(memory.can_lengthen)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_on_a_system_that_commits_memory_for_every_address_none_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounting = tmp_path / "overcommit_memory"
    monkeypatch.setattr(anonymous_memory, "_ACCOUNTING", accounting)
    accounting.write_text("2\n")
    assert not AnonymousMemory(100, grows=True).can_lengthen
