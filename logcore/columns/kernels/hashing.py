"""SipHash with a result of 128 bits: the keyed hash under which a key stands for itself in maps of newest offsets.

Keyed, because what is hashed comes from producers: without the 16 secret bytes nobody can make two keys meet on
purpose, and by accident two of a billion keys meet with a chance of one in 10^20. `rounds` are the letters of the
family's names: SipHash-1-3 is (1, 3), SipHash-2-4 (2, 4).

Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF" (2012), and the variant of 128 bits in
their reference code, whose published vectors the tests check.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.intrinsics import byte, load64

ROUNDS = (1, 3)
"""Of the maps: the variant that Python, Ruby and Rust hash the keys of their own tables with."""

_V0, _V1 = nb.uint64(0x736F6D6570736575), nb.uint64(0x646F72616E646F6D)
_V2, _V3 = nb.uint64(0x6C7967656E657261), nb.uint64(0x7465646279746573)
_ALL = nb.uint64(0xFFFFFFFFFFFFFFFF)


@nb.njit(inline="always")
def _rotated(value, by):
    return (value << nb.uint64(by)) | (value >> nb.uint64(64 - by))


@nb.njit(inline="always")
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@nb.njit(inline="always")
def _last_word(source, at, size, limit):
    """The fewer than eight bytes at a position, zeros behind them; nothing at or behind `limit` is read."""
    word = nb.uint64(0)
    if limit - at >= 8:
        if size > 0:
            word = load64(source, at) & (_ALL >> nb.uint64(64 - 8 * size))
    else:
        for index in range(size):
            word |= byte(source, at + index) << nb.uint64(8 * index)
    return word


def siphash128(rounds: tuple[int, int] = ROUNDS) -> Any:
    """The hash as an inlined function: (source, position, size, where readable bytes end, key, key) to two uint64."""
    each, final = rounds

    @nb.njit(inline="always")
    def hashed(source, at, size, limit, key_0, key_1):
        v0, v1 = _V0 ^ key_0, _V1 ^ key_1 ^ nb.uint64(0xEE)
        v2, v3 = _V2 ^ key_0, _V3 ^ key_1
        end = at + (size & ~nb.int64(7))
        while at < end:
            word = load64(source, at)
            v3 ^= word
            for _ in range(each):
                v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
        word = _last_word(source, at, size & nb.int64(7), limit) | (nb.uint64(size & 0xFF) << nb.uint64(56))
        v3 ^= word
        for _ in range(each):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= nb.uint64(0xEE)
        for _ in range(final):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        first = v0 ^ v1 ^ v2 ^ v3
        v1 ^= nb.uint64(0xDD)
        for _ in range(final):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        return first, v0 ^ v1 ^ v2 ^ v3

    return hashed
