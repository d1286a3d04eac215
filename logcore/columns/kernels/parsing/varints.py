"""Varints of Avro and Protobuf: seven bits in each byte, the lowest first."""

import numba as nb

from logcore.columns.kernels.machine.functions import inlined
from logcore.columns.kernels.parsing.texts import byte_at

LONGEST = 10
"""Bytes of a varint at most."""


@inlined
def varint(source, position, end):
    """The varint at a position, without bits beyond the 64th, and the position after it; -1 where there is none."""
    value = nb.uint64(0)
    for place in range(LONGEST):
        if position + place >= end:
            return nb.uint64(0), nb.int64(-1)
        bits = byte_at(source, position + place)
        value |= nb.uint64(bits & 0x7F) << nb.uint64(7 * place)
        if bits < 0x80:
            return value, position + place + 1
    return nb.uint64(0), nb.int64(-1)


@inlined
def from_zigzag(bits):
    """The number with a sign whose zigzag form has these bits."""
    return nb.int64(bits >> nb.uint64(1)) ^ -nb.int64(bits & nb.uint64(1))
