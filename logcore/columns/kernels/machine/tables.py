"""The numbers that the checksum kernels look up: 1,024 + 2,048 + 2,048 of them, made once in each process.

A CRC is linear over GF(2), so running it over a block of zero bytes is a 32 x 32 bit matrix; multiplying by that matrix
joins two blocks with separate checksums. The tables hold the products for each byte of a 32-bit value.
"""

import ctypes

CASTAGNOLI_POLYNOMIAL = 0x82F63B78
IEEE_POLYNOMIAL = 0xEDB88320
"""Both with their bits reversed, as the algorithms use them."""


def checksum_tables(block: int) -> "ctypes.Array[ctypes.c_int64]":
    """Four shift tables for blocks of that many bytes, then eight tables for CRC-32C and eight for CRC-32."""
    numbers = _shift_table(_zeros(block))
    for polynomial in (CASTAGNOLI_POLYNOMIAL, IEEE_POLYNOMIAL):
        numbers += _byte_tables(polynomial)
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _byte_tables(polynomial: int) -> list[int]:
    first = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        first.append(value)
    tables = [first]
    for _ in range(7):
        tables.append([value >> 8 ^ first[value & 0xFF] for value in tables[-1]])
    return [value for table in tables for value in table]


def _times(matrix: list[int], vector: int) -> int:
    total, column = 0, 0
    while vector:
        if vector & 1:
            total ^= matrix[column]
        vector >>= 1
        column += 1
    return total


def _zeros(nbytes: int) -> list[int]:
    """The matrix of running CRC-32C over that many zero bytes, a power of two."""
    matrix = [CASTAGNOLI_POLYNOMIAL] + [1 << bit for bit in range(31)]  # one zero bit
    for _ in range((nbytes * 8).bit_length() - 1):
        matrix = [_times(matrix, column) for column in matrix]
    return matrix


def _shift_table(matrix: list[int]) -> list[int]:
    # Each table is linear in its index: eight products make the other 248 by addition.
    numbers: list[int] = []
    for lane in range(4):
        powers = [_times(matrix, 1 << (8 * lane + bit)) for bit in range(8)]
        table = [0] * 256
        for value in range(1, 256):
            low = value & -value
            table[value] = table[value ^ low] ^ powers[low.bit_length() - 1]
        numbers += table
    return numbers
