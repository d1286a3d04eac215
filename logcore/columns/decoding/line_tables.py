"""Tables that the kernels for lines read: digits, base64, and which code points are printable."""

from __future__ import annotations

import base64
from functools import cache
from itertools import pairwise

import numpy as np

_CODE_POINTS = 0x110000
_BLOCK = 256


@cache
def digit_pairs() -> np.ndarray:
    """The decimal digits of 0 to 99, two bytes each."""
    return np.frombuffer(b"".join(b"%02d" % number for number in range(100)), np.uint8)


@cache
def hex_pairs() -> np.ndarray:
    """The hexadecimal digits of 0 to 255, two bytes each."""
    return np.frombuffer(bytes(range(256)).hex().encode(), np.uint8)


@cache
def base64_couples() -> np.ndarray:
    """The two base64 characters of each 12 bits."""
    bits = b"".join((number << 12).to_bytes(3, "big") for number in range(4096))
    return np.frombuffer(base64.b64encode(bits), np.uint8).reshape(4096, 4)[:, :2].copy()


@cache
def printable_bits() -> np.ndarray:
    """A bit for each code point, the lowest of a byte first: whether Python calls it printable."""
    points = np.arange(_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    is_printable = np.zeros(_CODE_POINTS, bool)
    for start, end in pairwise(range(0, _CODE_POINTS + 1, _BLOCK)):
        block = points[start:end]
        is_printable[start:end] = True if block.isprintable() else list(map(str.isprintable, block))
    return np.packbits(is_printable, bitorder="little")
