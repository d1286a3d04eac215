"""The few machine operations that Numba does not offer: unaligned loads, vector copies, checksum instructions.

All functions use raw pointers without checks: the caller has verified that the bytes exist. Imported only to compile
kernels, because it imports Numba.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from logcore.columns.kernels.call_frames import CallFrame

BYTES = types.CPointer(types.uint8)
NUMBERS = types.CPointer(types.int64)
ADDRESS = types.uint64
"""The type of fields with an address; numbers are int64. So the compiler refuses a number in place of an address."""

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def frame_type(frame: type[CallFrame]) -> types.Record:
    """The compiler's type of a call frame: a record of the same fields, in the same places."""
    return from_dtype(np.dtype(frame))


def _at(builder, pointer, index):
    return builder.gep(builder.bitcast(pointer, _I8.as_pointer()), [index])


def _load(builder, pointer, index, kind):
    value = builder.load(builder.bitcast(_at(builder, pointer, index), kind.as_pointer()))
    value.align = 1
    return value


def _store(builder, pointer, index, value):
    stored = builder.store(value, builder.bitcast(_at(builder, pointer, index), value.type.as_pointer()))
    stored.align = 1


def _swapped(builder, value):
    kind = value.type
    swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), f"llvm.bswap.i{kind.width}")
    return builder.call(swap, [value])


@intrinsic
def pointer(typing, address):
    """The byte pointer to the address in a field of a call frame."""
    if address != ADDRESS:
        return None

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], _I8.as_pointer())

    return BYTES(address), generate


@intrinsic
def numbers(typing, address):
    """The array of int64 whose address is in a field of a call frame."""
    if address != ADDRESS:
        return None

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], _I64.as_pointer())

    return NUMBERS(address), generate


def frame_at(frame: type[CallFrame]):
    """Make the function that returns the call frame at an address."""
    kind = frame_type(frame)

    @intrinsic
    def at(typing, address):
        if address != ADDRESS:
            return None

        def generate(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(kind))

        return kind(address), generate

    return at


def _loader(kind: ir.IntType, *, is_big: bool = False):
    """Make the function that loads a number at an index: unsigned and little-endian, or signed and big-endian."""

    @intrinsic
    def load(typing, source, index):
        def generate(context, builder, signature, args):
            value = _load(builder, args[0], args[1], kind)
            return builder.sext(_swapped(builder, value), _I64) if is_big else builder.zext(value, _I64)

        return (types.int64 if is_big else types.uint64)(source, types.int64), generate

    return load


byte, load32, load64 = _loader(_I8), _loader(_I32), _loader(_I64)
big_int16, big_int32, big_int64 = (_loader(kind, is_big=True) for kind in (_I16, _I32, _I64))


def _storer(kind: ir.IntType, number=types.int64, *, is_big: bool = False, is_element: bool = False):
    """Make the function that stores the lowest bits of a number at an index, which counts bytes or elements."""

    @intrinsic
    def store(typing, target, index, value):
        def generate(context, builder, signature, args):
            at, stored = args[1], builder.trunc(args[2], kind)
            if is_element:
                at = builder.mul(at, ir.Constant(_I64, kind.width // 8))
            _store(builder, args[0], at, _swapped(builder, stored) if is_big else stored)
            return context.get_dummy_value()

        return types.void(target, types.int64, number), generate

    return store


store8, store32, store64 = _storer(_I8), _storer(_I32, is_element=True), _storer(_I64, is_element=True)
stored64 = _storer(_I64, types.uint64)
"""Stores eight bytes at any place, lowest first."""
store_big16, store_big32, store_big64 = (_storer(kind, is_big=True) for kind in (_I16, _I32, _I64))


def _copier(kind: ir.Type):
    """Make the function that copies the bytes of a type at once."""

    @intrinsic
    def copy_at_once(typing, target, target_index, source, source_index):
        def generate(context, builder, signature, args):
            _store(builder, args[0], args[1], _load(builder, args[2], args[3], kind))
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64), generate

    return copy_at_once


copy2, copy32 = _copier(_I16), _copier(ir.VectorType(_I8, 32))


@intrinsic
def copy(typing, target, target_index, source, source_index, size):
    """Copy any number of bytes between places that do not overlap."""

    def generate(context, builder, signature, args):
        cgutils.raw_memcpy(builder, _at(builder, args[0], args[1]), _at(builder, args[2], args[3]), args[4], _I64(1))
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def crc32c_of_8(typing, crc, value):
    """One step of CRC-32C over eight bytes, by the SSE 4.2 instruction."""

    def generate(context, builder, signature, args):
        step = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_I64, [_I64, _I64]), "llvm.x86.sse42.crc32.64.64"
        )
        return builder.call(step, args)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def crc32c_of_1(typing, crc, value):
    """One step of CRC-32C over one byte, by the SSE 4.2 instruction."""

    def generate(context, builder, signature, args):
        step = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_I32, [_I32, _I8]), "llvm.x86.sse42.crc32.32.8"
        )
        low = builder.trunc(args[0], _I32)
        return builder.zext(builder.call(step, [low, builder.trunc(args[1], _I8)]), _I64)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def call_block_decoder(typing, function, source, target, size, room):
    """Call `int f(const char *source, char *target, int size, int room)` at the address `function`."""

    def generate(context, builder, signature, args):
        char = _I8.as_pointer()
        kind = ir.FunctionType(_I32, [char, char, _I32, _I32])
        callee = builder.inttoptr(args[0], kind.as_pointer())
        sizes = [builder.trunc(each, _I32) for each in args[3:5]]
        return builder.sext(builder.call(callee, [args[1], args[2], *sizes]), _I64)

    return types.int64(ADDRESS, BYTES, BYTES, types.int64, types.int64), generate


@intrinsic
def call_frame_decoder(typing, function, state, target, room, source, size):
    """Call `size_t f(void *state, void *target, size_t room, const void *source, size_t size)`."""

    def generate(context, builder, signature, args):
        char = _I8.as_pointer()
        kind = ir.FunctionType(_I64, [char, char, _I64, char, _I64])
        callee = builder.inttoptr(args[0], kind.as_pointer())
        held = builder.inttoptr(args[1], char)
        return builder.call(callee, [held, args[2], args[3], args[4], args[5]])

    return types.int64(ADDRESS, ADDRESS, BYTES, types.int64, BYTES, types.int64), generate


@intrinsic
def call_checksum(typing, function, start, source, size):
    """Call `uint32_t f(uint32_t start, const void *source, uint64_t size)` at the address `function`."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_I32, [_I32, _I8.as_pointer(), _I64])
        callee = builder.inttoptr(args[0], kind.as_pointer())
        return builder.zext(builder.call(callee, [builder.trunc(args[1], _I32), args[2], args[3]]), _I64)

    return types.int64(ADDRESS, types.int64, BYTES, types.int64), generate


@intrinsic
def moved(typing, base, distance):
    """A pointer `distance` bytes after `base`."""

    def generate(context, builder, signature, args):
        return _at(builder, args[0], args[1])

    return BYTES(base, types.int64), generate


@intrinsic
def prefetched(typing, base, distance):
    """Prefetch the cache line of the byte `distance` bytes after a pointer; the byte need not exist."""

    def generate(context, builder, signature, args):
        char, kind = _I8.as_pointer(), [_I8.as_pointer(), _I32, _I32, _I32]
        ask = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kind), "llvm.prefetch.p0")
        builder.call(ask, [builder.bitcast(_at(builder, *args), char), _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(base, types.int64), generate


@intrinsic
def to_bytes(typing, address):
    """The byte pointer to an address."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], _I8.as_pointer())

    return BYTES(types.int64), generate


@intrinsic
def to_address(typing, base):
    """The address in a byte pointer."""

    def generate(context, builder, signature, args):
        return builder.ptrtoint(args[0], _I64)

    return types.int64(base), generate


@intrinsic
def call_with_four(typing, function, first, second, third, fourth):
    """Call a function of four integers or addresses at the address `function`; its result is an int64."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_I64, [_I64] * 4)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(ADDRESS, *[types.int64] * 4), generate


@intrinsic
def call_with_five(typing, function, first, second, third, fourth, fifth):
    """Call a function of five integers or addresses at the address `function`; its result is an int64."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_I64, [_I64] * 5)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(ADDRESS, *[types.int64] * 5), generate
