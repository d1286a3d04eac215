"""SipHash with a result of 128 bits: the keyed hash that represents a key in maps of newest offsets.

Keyed, because producers write the keys: without the 16 secret bytes a producer cannot create a collision on purpose,
and the probability of one among a billion keys is about 1 in 10^20. `rounds` are the letters of the
family's names: SipHash-1-3 is (1, 3), SipHash-2-4 (2, 4).

Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF" (2012), and the variant of 128 bits in
their reference code, whose published vectors the tests check.
"""

from typing import Any

import numba as nb
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from logcore.columns.kernels.machine.functions import inlined
from logcore.columns.kernels.machine.intrinsics import BYTES, byte, load64, store64

ROUNDS = (1, 3)
"""The variant of the maps; Python, Ruby and Rust use it for their own hash tables."""

LANES = 8
"""Keys that are hashed in parallel: a single one leaves most of the processor idle."""

_V0, _V1 = nb.uint64(0x736F6D6570736575), nb.uint64(0x646F72616E646F6D)
_V2, _V3 = nb.uint64(0x6C7967656E657261), nb.uint64(0x7465646279746573)
_ALL = nb.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def _rotated(value, by):
    return (value << nb.uint64(by)) | (value >> nb.uint64(64 - by))


@inlined
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


@inlined
def _last_word(source, at, size, limit):
    """The last bytes of a key, fewer than eight, followed by zeros; no byte at or after `limit` is read."""
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

    @inlined
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


@inlined
def hash_rows(source, limit, highs, lows, row, end, key_0, key_1):
    """Replace positions of keys in `highs` and their sizes in `lows` by both halves of their hashes."""
    while row < end:
        words = nb.int64(load64(lows, row * 8)) >> 3
        together = row + LANES <= end
        if together:
            for lane in range(row, row + LANES):
                at, size = nb.int64(load64(highs, lane * 8)), nb.int64(load64(lows, lane * 8))
                # The last word is read whole.
                together = together and size >> 3 == words and limit - at - size >= 8
        if together:
            _hash_lanes(source, words, highs, lows, row, key_0, key_1)
            row += LANES
        else:
            at, size = nb.int64(load64(highs, row * 8)), nb.int64(load64(lows, row * 8))
            high, low = _hashed(source, at, size, limit, key_0, key_1)
            store64(highs, row, nb.int64(high))
            store64(lows, row, nb.int64(low))
            row += 1


_hashed = siphash128()


@intrinsic
def _hash_lanes(typing, source, words, highs, lows, row, key_0, key_1):
    """`hash_rows` of LANES rows whose keys have the same number of whole words; eight bytes after each are readable.

    A vector is a word of every lane, and a step of the hash one instruction for four of them or so.
    """

    def generate(context, builder, signature, args):
        word = ir.IntType(64)
        lanes = ir.VectorType(word, LANES)
        source, words, highs, lows, row, key_0, key_1 = args
        turn = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(lanes, [lanes, lanes, lanes]), f"llvm.fshl.v{LANES}i64"
        )

        def every(value):
            return ir.Constant(lanes, [value] * LANES)

        def spread(value):
            found = ir.Constant(lanes, ir.Undefined)
            for lane in range(LANES):
                found = builder.insert_element(found, value, ir.IntType(32)(lane))
            return found

        def rows_of(base):
            at = builder.gep(builder.bitcast(base, word.as_pointer()), [row])
            return builder.bitcast(at, lanes.as_pointer())

        def loaded(base):
            value = builder.load(rows_of(base))
            value.align = 8
            return value

        def stored(base, value):
            builder.store(value, rows_of(base)).align = 8

        def words_at(positions):
            found = ir.Constant(lanes, ir.Undefined)
            for lane in range(LANES):
                at = builder.gep(source, [builder.extract_element(positions, ir.IntType(32)(lane))])
                value = builder.load(builder.bitcast(at, word.as_pointer()))
                value.align = 1
                found = builder.insert_element(found, value, ir.IntType(32)(lane))
            return found

        def steps(v, count):
            for _ in range(count):
                for a, b, by, c in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
                    v[a] = builder.add(v[a], v[b])
                    v[b] = builder.xor(builder.call(turn, [v[b], v[b], every(by)]), v[a])
                    if c:
                        v[a] = builder.call(turn, [v[a], v[a], every(c)])

        def taken_in(v, value):
            v[3] = builder.xor(v[3], value)
            steps(v, ROUNDS[0])
            v[0] = builder.xor(v[0], value)

        def result(v):
            return builder.xor(builder.xor(v[0], v[1]), builder.xor(v[2], v[3]))

        first, second = spread(key_0), spread(key_1)
        state = [
            cgutils.alloca_once_value(builder, builder.xor(key, every(start)))
            for key, start in (
                (first, int(_V0)),
                (second, int(_V1) ^ 0xEE),
                (first, int(_V2)),
                (second, int(_V3)),
            )
        ]
        positions, sizes = loaded(highs), loaded(lows)
        with cgutils.for_range(builder, words) as loop:
            v = [builder.load(each) for each in state]
            distance = builder.shl(loop.index, word(3))
            taken_in(v, words_at(builder.add(positions, spread(distance))))
            for each, value in zip(state, v, strict=True):
                builder.store(value, each)
        v = [builder.load(each) for each in state]
        tail = builder.and_(sizes, every(7))
        mask = builder.sub(builder.shl(every(1), builder.shl(tail, every(3))), every(1))
        last = builder.and_(words_at(builder.add(positions, builder.sub(sizes, tail))), mask)
        taken_in(v, builder.or_(last, builder.shl(sizes, every(56))))
        v[2] = builder.xor(v[2], every(0xEE))
        steps(v, ROUNDS[1])
        high = result(v)
        v[1] = builder.xor(v[1], every(0xDD))
        steps(v, ROUNDS[1])
        stored(highs, high)
        stored(lows, result(v))
        return context.get_dummy_value()

    index, half = types.int64, types.uint64
    return types.void(BYTES, index, BYTES, BYTES, index, half, half), generate
