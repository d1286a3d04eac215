"""The tokens of a JSON document: words, numbers, texts, and the dates in texts. What is not certain is a doubt."""

import numba as nb

from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.values import is_utf8
from logcore.columns.kernels.parsing.texts import byte_at, hexadecimal, is_digit

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
def after_blanks(source, position, end):
    """The position of the next character that is not blank, or the end."""
    while position < end and _is_blank(byte_at(source, position)):
        position += 1
    return position


@called
def is_word(source, position, end, first, second, third, fourth):
    """Whether four characters follow."""
    return (
        end - position >= 4
        and byte_at(source, position) == first
        and byte_at(source, position + 1) == second
        and byte_at(source, position + 2) == third
        and byte_at(source, position + 3) == fourth
    )


@called
def number_at(source, position, end):
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
def text_end(source, position, end):
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
def days_at(source, position, end):
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
def moment_at(source, position, end):
    """Microseconds since 1970 of a date-time of RFC 3339 that fills the text, further digits cut; whether it is one."""
    nothing = (nb.int64(0), False)
    days, is_date = days_at(source, position, end)
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
            if digits < 6:
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
def plain_end(source, position, end):
    """The position after a value without parts, whatever its type; -1 for a doubt. The first byte exists."""
    character = byte_at(source, position)
    if character == 34:
        stop, _ = text_end(source, position + 1, end)
        return stop + 1 if stop >= 0 else stop
    if character == 110 and is_word(source, position, end, 110, 117, 108, 108):
        return position + 4
    if character == 116 and is_word(source, position, end, 116, 114, 117, 101):
        return position + 4
    if character == 102 and end - position >= 5 and byte_at(source, position + 4) == 101:
        return position + 5 if is_word(source, position, end, 102, 97, 108, 115) else nb.int64(-1)
    if character == 45 or is_digit(character):
        return number_at(source, position, end)[0]
    return nb.int64(-1)
