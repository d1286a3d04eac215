"""Memory from the system: zeros that stay where they are while there are addresses, and say so when there are none."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from logcore.storage import anonymous_memory
from logcore.storage.anonymous_memory import HUGE_PAGE, AnonymousMemory


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
def test_without_addresses_behind_it_it_stays_as_long_as_it_is(grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
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
