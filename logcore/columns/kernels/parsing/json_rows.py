"""JSON documents of one shape, one in each row, become columns. The plain decoder is the specification.

A row is used only if everything about it is certain. Otherwise it is a doubt: it counts as null, and the caller decodes
it plainly. Doubts are all errors, and what is rare or hard: numbers of more than 18 digits, fractions where rounding is
not exact, surrogates, objects and arrays that the schema lacks. Of maps: two equal keys, escapes in keys, many entries.

No byte outside of a row is read. There is no recursion: the levels are those of the schema.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.machine.values import is_utf8
from logcore.columns.kernels.parsing.parsing_frames import (
    CLOSED,
    COUNT,
    ESCAPED,
    EXTRA,
    EXTRA_OPENED,
    EXTRA_SIZE,
    EXTRA_START,
    FIELD,
    FIELD_NAME,
    FIELD_NODE,
    FIELD_SIZE,
    FIRST,
    KEYED,
    KIND,
    LEVEL,
    LEVEL_INDEX,
    LEVEL_NEXT,
    LEVEL_NODE,
    LEVEL_OPENED,
    LEVEL_SEEN,
    MOST_EXTRAS,
    NODE,
    NULLABLE,
    REQUIRED,
    SCOPE,
    SIZES,
    VALID,
    VALUES,
    NodeKind,
)
from logcore.columns.kernels.parsing.scopes import DOUBT, NO_ROOM, WHOLE, is_new_key, next_item, rows_by
from logcore.columns.kernels.parsing.texts import byte_at, hexadecimal, is_digit

_STRUCT, _LIST, _INTEGER, _NUMBER = (int(NodeKind[name]) for name in ("STRUCT", "LIST", "INTEGER", "NUMBER"))
_TRUTH, _TEXT, _DATE, _MOMENT = (int(NodeKind[name]) for name in ("TRUTH", "TEXT", "DATE", "MOMENT"))
_VALUE, _AFTER, _KEY = range(3)
"""What comes next in a row: a value; what follows a value; a key."""
_MOST_DIGITS = 18
_EXACT = 1 << 53
_LARGEST_EXACT_POWER = 22
_DAYS_TO_1970 = 719_468
_FIRST_MOMENT, _END_OF_MOMENTS = -62_135_596_800_000_000, 253_402_300_800_000_000
"""In microseconds: the beginning of year 1, and of year 10000."""


@inlined
def _is_blank(character):
    return character == 32 or character == 10 or character == 13 or character == 9


@inlined
def _after_blanks(source, position, end):
    while position < end and _is_blank(byte_at(source, position)):
        position += 1
    return position


@called
def _is_word(source, position, end, first, second, third, fourth):
    """Whether four characters follow."""
    return (
        end - position >= 4
        and byte_at(source, position) == first
        and byte_at(source, position + 1) == second
        and byte_at(source, position + 2) == third
        and byte_at(source, position + 3) == fourth
    )


@called
def _number(source, position, end):
    """Read a number that is certain.

    Returns:
        The position after it, -1 for a doubt; its digits as an integer with its sign; the power of ten to multiply
        with; whether it is written without fraction and exponent.
    """
    nothing = (nb.int64(-1), nb.int64(0), nb.int64(0), False)
    is_negative = byte_at(source, position) == 45
    if is_negative:
        position += 1
    begun = position
    value, power = nb.int64(0), nb.int64(0)
    while position < end and is_digit(byte_at(source, position)):
        if position - begun >= _MOST_DIGITS:
            return nothing
        value = value * 10 + (byte_at(source, position) - 48)
        position += 1
    digits = position - begun
    if digits == 0 or (digits > 1 and byte_at(source, begun) == 48):
        return nothing
    is_integer = True
    if position < end and byte_at(source, position) == 46:
        is_integer = False
        position += 1
        fraction = position
        while position < end and is_digit(byte_at(source, position)):
            if digits + (position - fraction) >= _MOST_DIGITS:
                return nothing
            value = value * 10 + (byte_at(source, position) - 48)
            position += 1
        power = fraction - position
        if power == 0:
            return nothing
    if position < end and (byte_at(source, position) | 32) == 101:
        is_integer = False
        position += 1
        is_small = False
        if position < end and (byte_at(source, position) == 43 or byte_at(source, position) == 45):
            is_small = byte_at(source, position) == 45
            position += 1
        exponent, written = nb.int64(0), position
        while position < end and is_digit(byte_at(source, position)):
            if position - written >= 4:
                return nothing
            exponent = exponent * 10 + (byte_at(source, position) - 48)
            position += 1
        if position == written:
            return nothing
        power += -exponent if is_small else exponent
    if not is_integer:
        if value > _EXACT or power > _LARGEST_EXACT_POWER or power < -_LARGEST_EXACT_POWER:
            return nothing
        if value == 0 and is_negative:  # -0.0, which has no integer
            return nothing
    return position, -value if is_negative else value, power, is_integer


@called
def _text_end(source, position, end):
    """The position of the quote that ends a text, -1 for a doubt; and whether it has escapes.

    Args:
        position: After the first quote.
    """
    begun = position
    is_escaped, is_wide = False, False
    while position < end:
        character = byte_at(source, position)
        if character == 34:
            if is_wide and not is_utf8(source, begun, position):
                return nb.int64(-1), False
            return position, is_escaped
        if character < 32:
            return nb.int64(-1), False
        if character >= 128:
            is_wide = True
        if character == 92:
            is_escaped = True
            if position + 1 >= end:
                return nb.int64(-1), False
            position = _escape_end(source, position + 1, end)
            if position < 0:
                return nb.int64(-1), False
        else:
            position += 1
    return nb.int64(-1), False


@called
def _escape_end(source, position, end):
    """The position after an escape, -1 for a doubt. `position`: after the backslash."""
    mark = byte_at(source, position)
    if mark == 117:
        code = hexadecimal(source, position + 1, end)
        return nb.int64(-1) if code < 0 or (code >= 0xD800 and code <= 0xDFFF) else position + 5
    is_known = (
        mark == 34 or mark == 92 or mark == 47 or mark == 98 or mark == 102 or mark == 110 or mark == 114 or mark == 116
    )
    return position + 1 if is_known else nb.int64(-1)


@called
def _two(source, position):
    """A number of two digits, -1 if they are not there. The bytes exist."""
    first, second = byte_at(source, position), byte_at(source, position + 1)
    if not is_digit(first) or not is_digit(second):
        return nb.int64(-1)
    return (first - 48) * 10 + (second - 48)


@called
def _days(source, position, end):
    """Days since 1970 of a date `YYYY-MM-DD` at a position; whether it is one."""
    nothing = (nb.int64(0), False)
    if end - position < 10 or byte_at(source, position + 4) != 45 or byte_at(source, position + 7) != 45:
        return nothing
    century, rest = _two(source, position), _two(source, position + 2)
    month, day = _two(source, position + 5), _two(source, position + 8)
    if century < 0 or rest < 0 or month < 1 or month > 12 or day < 1:
        return nothing
    year = century * 100 + rest
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = nb.int64(31)
    if month == 2:
        length = nb.int64(29) if is_leap else nb.int64(28)
    elif month == 4 or month == 6 or month == 9 or month == 11:
        length = nb.int64(30)
    if year < 1 or day > length:
        return nothing
    # Years that begin in March, in eras of 400 years: the leap day is the last one.
    shifted = year - 1 if month <= 2 else year
    era, of_era = shifted // 400, shifted % 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _DAYS_TO_1970, True


@called
def _moment(source, position, end):
    """Microseconds since 1970 of a date-time of RFC 3339 that fills the text; whether it is one."""
    nothing = (nb.int64(0), False)
    days, is_date = _days(source, position, end)
    if not is_date or end - position < 20:
        return nothing
    mark = byte_at(source, position + 10)
    if (mark | 32) != 116 and mark != 32:
        return nothing
    if byte_at(source, position + 13) != 58 or byte_at(source, position + 16) != 58:
        return nothing
    hour, minute, second = _two(source, position + 11), _two(source, position + 14), _two(source, position + 17)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return nothing
    position += 19
    micros, digits = nb.int64(0), nb.int64(0)
    if byte_at(source, position) == 46:
        position += 1
        while position < end and is_digit(byte_at(source, position)):
            if digits >= 6:
                return nothing
            micros = micros * 10 + (byte_at(source, position) - 48)
            digits += 1
            position += 1
        if digits == 0:
            return nothing
        while digits < 6:
            micros *= 10
            digits += 1
    if position >= end:
        return nothing
    away = nb.int64(0)
    sign = byte_at(source, position)
    if (sign | 32) == 122:
        position += 1
    elif sign == 43 or sign == 45:
        if end - position != 6 or byte_at(source, position + 3) != 58:
            return nothing
        hours, minutes = _two(source, position + 1), _two(source, position + 4)
        if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
            return nothing
        away = (hours * 60 + minutes) * (60 if sign == 43 else -60)
        position += 6
    if position != end:
        return nothing
    found = (days * 86_400 + hour * 3_600 + minute * 60 + second - away) * 1_000_000 + micros
    return found, found >= _FIRST_MOMENT and found < _END_OF_MOMENTS


@called
def _field_of(source, position, end, fields, names, first, count, following):
    """Which field of a struct a key names: its number, -1 for none. `position`: after the quote of the key.

    Args:
        following: The field to look at first.
    """
    for turn in range(count):
        at = following + turn
        if at >= count:
            at -= count
        entry = (first + at) * FIELD
        size, begun = fields[entry + FIELD_SIZE], fields[entry + FIELD_NAME]
        if position + size >= end or byte_at(source, position + size) != 34:
            continue
        place = nb.int64(0)
        while place < size and byte_at(source, position + place) == byte_at(names, begun + place):
            place += 1
        if place == size:
            return at
    return nb.int64(-1)


@called
def _is_new_extra(source, extras, count, opened, start, size):
    """Whether no earlier key of the same struct is the same."""
    for number in range(count):
        at = number * EXTRA
        if extras[at + EXTRA_OPENED] == opened and extras[at + EXTRA_SIZE] == size:
            begun, place = extras[at + EXTRA_START], nb.int64(0)
            while place < size and byte_at(source, begun + place) == byte_at(source, start + place):
                place += 1
            if place == size:
                return False
    return True


@called
def _plain_end(source, position, end):
    """The position after a value without parts, whatever its type; -1 for a doubt. The first byte exists."""
    character = byte_at(source, position)
    if character == 34:
        stop, _ = _text_end(source, position + 1, end)
        return stop + 1 if stop >= 0 else stop
    if character == 110 and _is_word(source, position, end, 110, 117, 108, 108):
        return position + 4
    if character == 116 and _is_word(source, position, end, 116, 114, 117, 101):
        return position + 4
    if character == 102 and end - position >= 5 and byte_at(source, position + 4) == 101:
        return position + 5 if _is_word(source, position, end, 102, 97, 108, 115) else nb.int64(-1)
    if character == 45 or is_digit(character):
        return _number(source, position, end)[0]
    return nb.int64(-1)


@called
def _row(source, position, end, index, frame):
    """Decode a row; return WHOLE, DOUBT or NO_ROOM."""
    nodes, fields, names = numbers(frame.nodes), numbers(frame.fields), pointer(frame.names)
    scopes, stack, levels = numbers(frame.scopes), numbers(frame.stack), pointer(frame.stack)
    scopes_bytes = pointer(frame.scopes)
    extras, extras_bytes = numbers(frame.extras), pointer(frame.extras)
    node, depth, state = nb.int64(0), nb.int64(0), nb.int64(_VALUE)
    opened, extra_count = nb.int64(0), nb.int64(0)
    while True:
        position = _after_blanks(source, position, end)
        if state == _AFTER:
            if depth == 0:
                return nb.int64(WHOLE if position == end else DOUBT)
            if position >= end:
                return nb.int64(DOUBT)
            top = (depth - 1) * LEVEL
            node, index = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX]
            character = byte_at(source, position)
            position += 1
            if nodes[node * NODE + KIND] == _STRUCT:
                if character == 44:
                    state = nb.int64(_KEY)
                elif character == 125:
                    needed = nodes[node * NODE + REQUIRED]
                    if (stack[top + LEVEL_SEEN] & needed) != needed:
                        return nb.int64(DOUBT)
                    depth -= 1
                else:
                    return nb.int64(DOUBT)
            elif character == (125 if nodes[node * NODE + KEYED] else 93):
                depth -= 1
            elif character == 44 and nodes[node * NODE + KEYED]:
                state = nb.int64(_KEY)
            elif character == 44:
                state = nb.int64(_VALUE)
                index = next_item(nodes, scopes, scopes_bytes, node, index)
                if index < 0:
                    frame.full_scope = nodes[node * NODE + SCOPE]
                    return nb.int64(NO_ROOM)
                node = nodes[node * NODE + FIRST]
            else:
                return nb.int64(DOUBT)
            continue
        if position >= end:
            return nb.int64(DOUBT)
        character = byte_at(source, position)
        if state == _KEY:
            top = (depth - 1) * LEVEL
            node, index = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX]
            if character != 34:
                return nb.int64(DOUBT)
            first = nodes[node * NODE + FIRST]
            if nodes[node * NODE + KIND] == _LIST:  # a map: the key begins an entry
                start = position + 1
                stop, is_escaped = _text_end(source, start, end)
                if stop < 0 or is_escaped:
                    return nb.int64(DOUBT)
                item = next_item(nodes, scopes, scopes_bytes, node, index)
                if item < 0:
                    frame.full_scope = nodes[node * NODE + SCOPE]
                    return nb.int64(NO_ROOM)
                store8(to_bytes(nodes[first * NODE + VALID]), item, 1)
                entry = nodes[first * NODE + FIRST] * FIELD
                key = fields[entry + FIELD_NODE] * NODE
                store64(to_bytes(nodes[key + VALUES]), item, start)
                store64(to_bytes(nodes[key + SIZES]), item, stop - start)
                store8(to_bytes(nodes[key + VALID]), item, 1)
                if not is_new_key(source, nodes, fields, node, index, item):
                    return nb.int64(DOUBT)
                position = _after_blanks(source, stop + 1, end)
                if position >= end or byte_at(source, position) != 58:
                    return nb.int64(DOUBT)
                position += 1
                node, index = fields[entry + FIELD + FIELD_NODE], item
                state = nb.int64(_VALUE)
                continue
            found = _field_of(
                source, position + 1, end, fields, names, first, nodes[node * NODE + COUNT], stack[top + LEVEL_NEXT]
            )
            if found < 0:
                stop, is_escaped = _text_end(source, position + 1, end)
                start, this = position + 1, stack[top + LEVEL_OPENED]
                if stop < 0 or is_escaped or nodes[node * NODE + CLOSED] or extra_count >= MOST_EXTRAS:
                    return nb.int64(DOUBT)
                if not _is_new_extra(source, extras, extra_count, this, start, stop - start):
                    return nb.int64(DOUBT)
                store64(extras_bytes, extra_count * EXTRA + EXTRA_OPENED, this)
                store64(extras_bytes, extra_count * EXTRA + EXTRA_START, start)
                store64(extras_bytes, extra_count * EXTRA + EXTRA_SIZE, stop - start)
                extra_count += 1
                position = _after_blanks(source, stop + 1, end)
                if position >= end or byte_at(source, position) != 58:
                    return nb.int64(DOUBT)
                position = _after_blanks(source, position + 1, end)
                if position >= end:
                    return nb.int64(DOUBT)
                position = _plain_end(source, position, end)
                if position < 0:
                    return nb.int64(DOUBT)
                state = nb.int64(_AFTER)
                continue
            bit = nb.int64(1) << found
            if stack[top + LEVEL_SEEN] & bit:
                return nb.int64(DOUBT)
            store64(levels, top + LEVEL_SEEN, stack[top + LEVEL_SEEN] | bit)
            store64(levels, top + LEVEL_NEXT, found + 1)
            entry = (first + found) * FIELD
            position = _after_blanks(source, position + fields[entry + FIELD_SIZE] + 2, end)
            if position >= end or byte_at(source, position) != 58:
                return nb.int64(DOUBT)
            position += 1
            node = fields[entry + FIELD_NODE]
            state = nb.int64(_VALUE)
            continue
        entry = node * NODE
        kind = nodes[entry + KIND]
        values, valid = to_bytes(nodes[entry + VALUES]), to_bytes(nodes[entry + VALID])
        state = nb.int64(_AFTER)
        if character == 110:
            if not nodes[entry + NULLABLE] or not _is_word(source, position, end, 110, 117, 108, 108):
                return nb.int64(DOUBT)
            position += 4
        elif kind in (_STRUCT, _LIST):
            is_object = kind == _STRUCT or nodes[entry + KEYED] != 0
            if character != (123 if is_object else 91):
                return nb.int64(DOUBT)
            store8(valid, index, 1)
            top = depth * LEVEL
            store64(levels, top + LEVEL_NODE, node)
            store64(levels, top + LEVEL_INDEX, index)
            store64(levels, top + LEVEL_SEEN, 0)
            store64(levels, top + LEVEL_NEXT, 0)
            store64(levels, top + LEVEL_OPENED, opened)
            opened += 1
            depth += 1
            position = _after_blanks(source, position + 1, end)
            if position < end and byte_at(source, position) == (125 if is_object else 93):
                continue  # an empty one: what follows a value ends it
            if is_object:
                state = nb.int64(_KEY)
            else:
                state = nb.int64(_VALUE)
                index = next_item(nodes, scopes, scopes_bytes, node, index)
                if index < 0:
                    frame.full_scope = nodes[entry + SCOPE]
                    return nb.int64(NO_ROOM)
                node = nodes[entry + FIRST]
        elif kind in (_TEXT, _DATE, _MOMENT):
            if character != 34:
                return nb.int64(DOUBT)
            position += 1
            stop, is_escaped = _text_end(source, position, end)
            if stop < 0:
                return nb.int64(DOUBT)
            if kind == _TEXT:
                store64(values, index, position)
                size = stop - position
                store64(to_bytes(nodes[entry + SIZES]), index, size | ESCAPED if is_escaped else size)
            else:
                if kind == _DATE:
                    found, is_one = _days(source, position, stop)
                    is_one = is_one and stop - position == 10
                else:
                    found, is_one = _moment(source, position, stop)
                if not is_one:
                    return nb.int64(DOUBT)
                store64(values, index, found)
            store8(valid, index, 1)
            position = stop + 1
        elif kind == _TRUTH:
            if _is_word(source, position, end, 116, 114, 117, 101):
                store64(values, index, 1)
                position += 4
            elif _is_word(source, position, end, 102, 97, 108, 115) and (
                end - position >= 5 and byte_at(source, position + 4) == 101
            ):
                store64(values, index, 0)
                position += 5
            else:
                return nb.int64(DOUBT)
            store8(valid, index, 1)
        else:
            if character != 45 and not is_digit(character):
                return nb.int64(DOUBT)
            position, value, power, is_integer = _number(source, position, end)
            if position < 0 or (kind == _INTEGER and not is_integer):
                return nb.int64(DOUBT)
            store64(values, index, value)
            store64(to_bytes(nodes[entry + SIZES]), index, power)
            store8(valid, index, 1)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The sources of the kernels of this module."""
    return {"json_rows": rows_by(_row)}
