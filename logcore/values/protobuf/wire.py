"""Protobuf's binary form: fields with their numbers and wire types.

Source: the encoding guide of Protocol Buffers. A field is a tag (number and wire type, a varint) and a payload. Groups
are fields between a start tag and an end tag of one number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logcore.values.limits import DEEPEST_VALUE
from logcore.values.undecodable import Reason, Undecodable

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)
_MOST_VARINT_BYTES = 10
_MOST_TAG_BYTES = 5
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class WireField:
    """One field as it is in the bytes."""

    number: int
    wire_type: int
    position: int
    """Of its tag, in the whole value."""
    value: int
    """The varint or the fixed-width number as an unsigned integer; 0 for lengths and groups."""
    start: int
    """Where the content of a length or group begins."""
    end: int
    """Where it ends, without the end tag of a group."""


def varint_at(body: bytes, position: int, end: int, most: int = _MOST_VARINT_BYTES) -> tuple[int, int]:
    """Return a varint and the position after it. Bits beyond the 64th are dropped, as Google's libraries do.

    Raises:
        Undecodable: TRUNCATED or VARINT.
    """
    value = 0
    for number in range(most):
        if position + number >= end:
            raise Undecodable(Reason.TRUNCATED, f"byte {position}", "the bytes end inside a number")
        byte = body[position + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            if most == _MOST_TAG_BYTES and value >> 32:
                break
            return value & _64_BITS, position + number + 1
    raise Undecodable(Reason.VARINT, f"byte {position}", f"a number of more than {most} bytes or its bits")


def fields_in(body: bytes, start: int, end: int) -> Iterator[WireField]:
    """Yield the fields between two positions.

    Raises:
        Undecodable: TRUNCATED, VARINT, LENGTH, WIRE_TYPE or TOO_DEEP.
    """
    position = start
    while position < end:
        field = _field_at(body, position, end)
        if field.wire_type == END_GROUP:
            raise Undecodable(Reason.WIRE_TYPE, f"byte {position}", "a group ends that did not begin")
        yield field
        position = _after(body, field)


def _field_at(body: bytes, position: int, end: int) -> WireField:
    tag, start = varint_at(body, position, end, _MOST_TAG_BYTES)
    number, wire_type = tag >> 3, tag & 7
    if number == 0:
        raise Undecodable(Reason.WIRE_TYPE, f"byte {position}", "field number 0")
    if wire_type == VARINT:
        value, after = varint_at(body, start, end)
        return WireField(number, wire_type, position, value, start, after)
    if wire_type in (FIXED64, FIXED32):
        after = start + (8 if wire_type == FIXED64 else 4)
        if after > end:
            raise Undecodable(Reason.TRUNCATED, f"byte {start}", "the bytes end inside a number")
        return WireField(number, wire_type, position, int.from_bytes(body[start:after], "little"), start, after)
    if wire_type == LENGTH:
        length, start = varint_at(body, start, end, _MOST_TAG_BYTES)
        if length > end - start:
            raise Undecodable(Reason.LENGTH, f"byte {position}", f"{length} bytes where {end - start} are left")
        return WireField(number, wire_type, position, 0, start, start + length)
    if wire_type == START_GROUP:
        return WireField(number, wire_type, position, 0, start, _end_of_group(body, number, start, end))
    if wire_type == END_GROUP:
        return WireField(number, wire_type, position, 0, start, start)
    raise Undecodable(Reason.WIRE_TYPE, f"byte {position}", f"wire type {wire_type}")


def _end_of_group(body: bytes, number: int, start: int, end: int) -> int:
    """Where the content of a group ends; groups in it are skipped, without recursion."""
    open_groups = [number]
    position = start
    while position < end:
        tag, after = varint_at(body, position, end, _MOST_TAG_BYTES)
        if tag & 7 == END_GROUP:
            if tag >> 3 != open_groups.pop():
                raise Undecodable(Reason.WIRE_TYPE, f"byte {position}", "the end of another group")
            if not open_groups:
                return position
            position = after
        elif tag & 7 == START_GROUP:
            if tag >> 3 == 0:
                raise Undecodable(Reason.WIRE_TYPE, f"byte {position}", "field number 0")
            open_groups.append(tag >> 3)
            if len(open_groups) > DEEPEST_VALUE:
                raise Undecodable(Reason.TOO_DEEP, f"byte {position}")
            position = after
        else:
            position = _field_at(body, position, end).end
    raise Undecodable(Reason.TRUNCATED, f"byte {start}", "the bytes end inside a group")


def _after(body: bytes, field: WireField) -> int:
    if field.wire_type != START_GROUP:
        return field.end
    return varint_at(body, field.end, len(body), _MOST_TAG_BYTES)[1]
