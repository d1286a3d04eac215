"""Texts and bytes of rows, one after the other, as Arrow stores them."""

from typing import Any

import numba as nb

from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import byte, copy, numbers, pointer, store8, store32
from logcore.columns.kernels.parsing.parsing_frames import ESCAPED


@inlined
def byte_at(source, position):
    """The byte at a position as a number with a sign."""
    return nb.int64(byte(source, position))


@inlined
def is_digit(character):
    """Whether a character is one of 0 to 9."""
    return character >= 48 and character <= 57


@called
def hexadecimal(source, position, end):
    """The number of four hexadecimal digits, -1 if they are not there."""
    if end - position < 4:
        return nb.int64(-1)
    value = nb.int64(0)
    for place in range(4):
        character = byte_at(source, position + place)
        if is_digit(character):
            value = value * 16 + (character - 48)
        elif (character | 32) >= 97 and (character | 32) <= 102:
            value = value * 16 + ((character | 32) - 87)
        else:
            return nb.int64(-1)
    return value


@called
def _unescaped(source, position, end, target, at):
    """Write a text without its escapes, which were checked; return the position after it."""
    while position < end:
        character = byte_at(source, position)
        if character != 92:
            store8(target, at, character)
            at += 1
            position += 1
            continue
        mark = byte_at(source, position + 1)
        position += 2
        if mark == 117:
            code = hexadecimal(source, position, end)
            position += 4
            if code < 0x80:
                store8(target, at, code)
                at += 1
            elif code < 0x800:
                store8(target, at, 0xC0 | code >> 6)
                store8(target, at + 1, 0x80 | (code & 0x3F))
                at += 2
            else:
                store8(target, at, 0xE0 | code >> 12)
                store8(target, at + 1, 0x80 | (code >> 6 & 0x3F))
                store8(target, at + 2, 0x80 | (code & 0x3F))
                at += 3
            continue
        plain = mark
        if mark == 98:
            plain = nb.int64(8)
        elif mark == 102:
            plain = nb.int64(12)
        elif mark == 110:
            plain = nb.int64(10)
        elif mark == 114:
            plain = nb.int64(13)
        elif mark == 116:
            plain = nb.int64(9)
        store8(target, at, plain)
        at += 1
    return at


def gather_text(frame):
    """Copy texts one after the other, without their escapes, and write their offsets."""
    source, starts, sizes = pointer(frame.source), numbers(frame.starts), numbers(frame.sizes)
    valid, offsets, target = pointer(frame.valid), pointer(frame.offsets), pointer(frame.target)
    at = nb.int64(0)
    store32(offsets, 0, 0)
    for row in range(frame.count):
        if byte(valid, row):
            size = sizes[row]
            if size & ESCAPED:
                at = _unescaped(source, starts[row], starts[row] + (size & ~ESCAPED), target, at)
            else:
                copy(target, at, source, starts[row], size)
                at += size
        store32(offsets, row + 1, at)
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"gather_text": gather_text}
