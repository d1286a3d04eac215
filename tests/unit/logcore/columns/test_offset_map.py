"""The map of latest offsets: its content, its growth, where a full map stops, and the hash that it uses."""

from __future__ import annotations

import random
import struct

import numpy as np
import numpy.typing as npt
import pytest

from logcore.columns.cleaning.keyed_batches import hashes_in, hashes_of
from logcore.columns.cleaning.offset_map import HELD_AT_LEAST, MOST_BYTES_A_KEY, HashKey, OffsetMap
from logcore.columns.kernels.cleaning.cleaning_frames import LEFT_OUT, NO_KEY, NO_VALUE
from logcore.storage.machine import anonymous_memory
from logcore.storage.machine.anonymous_memory import AnonymousMemory

Hashes = npt.NDArray[np.uint64]
SECRET = bytes(range(16))
_ALL = (1 << 64) - 1

VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}
"""SipHash-2-4 with 128 bits of 0, 1, 2 … under the key 00 01 … 0f, from the authors' reference code."""


def siphash128(key: bytes, data: bytes, rounds: tuple[int, int]) -> tuple[int, int]:
    """The hash by the paper, a step at a time: no code in common with the kernel."""

    def turned(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & _ALL

    def step(v: list[int]) -> None:
        for a, b, by, c in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
            v[a] = (v[a] + v[b]) & _ALL
            v[b] = turned(v[b], by) ^ v[a]
            if c:
                v[a] = turned(v[a], c)

    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        for _ in range(rounds[0]):
            step(v)
        v[0] ^= word
    halves = []
    for end, mark in ((2, 0xEE), (1, 0xDD)):
        v[end] ^= mark
        for _ in range(rounds[1]):
            step(v)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return halves[0], halves[1]


@pytest.mark.parametrize("size", sorted(VECTORS))
def test_the_hash_written_out_here_gives_the_published_vectors(size: int) -> None:
    first, second = siphash128(SECRET, bytes(range(size)), (2, 4))
    assert struct.pack("<QQ", first, second).hex() == VECTORS[size]


def test_the_kernels_hash_keys_of_every_length_with_siphash_1_3_128() -> None:
    keys = [bytes(range(size)) for size in range(70)] + [bytes(300), b"\xff" * 255, b"k" * 256]
    high, low = hashes_of(keys, HashKey.of(SECRET))
    expected = [siphash128(SECRET, key, (1, 3)) for key in keys]
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected


@pytest.mark.parametrize("size", [0, 3, 8, 16, 21])
def test_keys_of_one_length_and_the_last_of_what_can_be_read_have_the_same_hashes_as_alone(size: int) -> None:
    content = bytes(random.Random(size).randbytes(size * 21))
    keys = [content[size * number : size * (number + 1)] for number in range(21)]
    joined, starts = np.frombuffer(content, np.uint8), np.arange(22) * size
    high, low = hashes_in(joined, starts, HashKey.of(SECRET))
    expected = [siphash128(SECRET, key, (1, 3)) for key in keys]
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected


def test_another_secret_gives_other_hashes() -> None:
    first, _ = hashes_of([b"key"], HashKey.random())
    second, _ = hashes_of([b"key"], HashKey.random())
    assert first[0] != second[0]


def some_hashes(count: int, seed: int = 7) -> tuple[Hashes, Hashes]:
    chance = np.random.default_rng(seed)
    return (
        chance.integers(0, _ALL, count, np.uint64, endpoint=True),
        chance.integers(0, _ALL, count, np.uint64, endpoint=True),
    )


def test_the_last_put_wins_and_what_was_never_put_is_not_there() -> None:
    high, low = some_hashes(3)
    found = OffsetMap()
    found.put(high[[0, 1, 0]], low[[0, 1, 0]], np.array([9, 4, 2]))
    assert found.find(high, low).tolist() == [2, 4, -1]
    assert len(found) == 2
    assert found.last_put == 2


def test_one_half_of_a_hash_in_common_makes_no_key_the_same() -> None:
    high, low = some_hashes(2)
    found = OffsetMap()
    found.put(high[[0, 0, 1]], low[[0, 1, 0]], np.array([1, 2, 3]))
    assert found.find(high[[0, 0, 1, 1]], low[[0, 1, 0, 1]]).tolist() == [1, 2, 3, -1]


@pytest.fixture(params=["in place", "by moving"])
def way_to_grow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by moving":
        monkeypatch.setattr(anonymous_memory, "_reserved", lambda *_: None)
    elif not AnonymousMemory(1, grows=True).can_lengthen:
        pytest.skip("this system reserves no addresses")
    return request.param


@pytest.mark.parametrize("distinct", [1, 5_000, 300_000])
def test_a_map_that_grew_holds_what_a_dict_holds_within_51_bytes_a_key(way_to_grow: str, distinct: int) -> None:
    high, low = some_hashes(distinct)
    found, expected, most = OffsetMap(), np.full(distinct, -1), 0.0
    chance = np.random.default_rng(11)
    for start in range(0, 2 * distinct, 10_000):
        chosen = chance.integers(0, distinct, 10_000)
        offsets = np.arange(start, start + 10_000)
        found.put(high[chosen], low[chosen], offsets)
        expected[chosen] = offsets  # of several the last
        if found.nbytes > HELD_AT_LEAST * 2:
            most = max(most, found.peak_nbytes / len(found))
    assert (found.find(high, low) == expected).all()
    assert len(found) == np.count_nonzero(expected >= 0)
    assert found.nbytes == sum(len(memory) for memory in found._memory)
    assert most <= MOST_BYTES_A_KEY
    held = found.held()
    there = expected >= 0
    by_hash, wanted = np.lexsort((held.low, held.high)), np.lexsort((low[there], high[there]))
    assert (held.high[by_hash] == high[there][wanted]).all()
    assert (held.low[by_hash] == low[there][wanted]).all()
    assert (held.offsets[by_hash] == expected[there][wanted]).all()


@pytest.mark.parametrize("expected", [1_000, 70_000, 100_000, 1_000_000])
def test_room_that_is_made_at_once_takes_51_bytes_a_key_at_the_most_and_is_room_enough(
    way_to_grow: str, expected: int
) -> None:
    found = OffsetMap(expected=expected)
    made = found.nbytes
    high, low = some_hashes(expected)
    found.put(high, low, np.arange(expected))
    assert (found.find(high, low) == np.arange(expected)).all()
    assert found.peak_nbytes == made
    assert made <= max(MOST_BYTES_A_KEY * expected, HELD_AT_LEAST)


def test_hashes_that_are_anything_but_random_cost_time_and_nothing_else() -> None:
    count = 9_000
    high = np.zeros(count, np.uint64)  # one part, and all searches begin at its last slot
    low = np.full(count, _ALL, np.uint64) - np.arange(count, dtype=np.uint64)
    found = OffsetMap()
    found.put(high, low, np.arange(count))
    assert (found.find(high, low) == np.arange(count)).all()


@pytest.mark.parametrize(
    ("most", "rows", "taken"), [(0, [1], 0), (2, [1, 2, 1], 2), (2, [1, 1, 2, 3], 3), (3, [1, 2, 1, 2], 4)]
)
def test_a_full_map_refuses_the_next_row_even_of_a_key_that_is_there(most: int, rows: list[int], taken: int) -> None:
    high, low = some_hashes(4)
    found = OffsetMap(most)
    assert found.put(high[rows], low[rows], np.arange(len(rows))) == taken


def test_rows_without_a_key_left_out_or_below_the_first_dirty_offset_are_passed_by() -> None:
    high, low = some_hashes(4)
    flags = np.array([NO_KEY, LEFT_OUT, 0, NO_VALUE], np.uint8)
    found = OffsetMap(1)
    assert found.put(high, low, np.arange(5, 9), flags, since=8) == 4
    assert found.find(high, low).tolist() == [-1, -1, -1, 8]
    assert found.find(high, low, np.full(4, NO_KEY, np.uint8)).tolist() == [-1] * 4


def test_a_hash_key_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        HashKey.of(b"short")
