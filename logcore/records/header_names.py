"""Names of record headers as a broker writes them again: bytes that are no UTF-8 do not survive.

Java reads a name as text and writes the text. Each malformed sequence becomes U+FFFD, by Java's own idea of where it
ends, which is not Python's: a surrogate in three bytes is one, and a character cut off by the end takes the rest.

Source: java.lang.String (decodeUTF8_UTF16, JDK 17), Kafka DefaultRecord.writeTo. Belongs here: names alone; keys and
values are bytes.
"""

from __future__ import annotations

_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()

Headers = tuple[tuple[bytes, bytes | None], ...]


def rewritten(headers: Headers) -> Headers:
    """The headers of a record whose batch is written again."""
    return tuple((rewritten_name(name), value) for name, value in headers)


def rewritten_name(name: bytes) -> bytes:
    """A header's name, read and written by Java."""
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return _replaced(name)
    return name


def _replaced(name: bytes) -> bytes:
    out = bytearray()
    at = 0
    while at < len(name):
        size = _sequence(name[at])
        character = name[at : at + size]
        if size and len(character) == size and _is_character(character):
            out += character
            at += size
            continue
        out += _REPLACED
        at += _malformed(name, at, size)
    return bytes(out)


def _sequence(first: int) -> int:
    """How many bytes a character takes that begins so; 0 for a byte that begins none."""
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF:
        return 2
    if 0xE0 <= first <= 0xEF:
        return 3
    return 4 if 0xF0 <= first <= 0xF7 else 0


def _is_character(sequence: bytes) -> bool:
    try:
        sequence.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _malformed(name: bytes, at: int, size: int) -> int:
    """How many bytes one U+FFFD stands for."""
    left = len(name) - at
    if size <= 1:
        return 1
    if size == 2:
        return 1
    second = name[at + 1] if left > 1 else None
    if size == 3:
        bad = second is not None and (not _continues(second) or (name[at] == 0xE0 and second < 0xA0))
        if bad:
            return 1
        if left < 3:
            return left
        return 3 if _continues(name[at + 2]) else 2  # three that continue: a surrogate
    if second is None:
        return 1
    bad = (
        name[at] > 0xF4
        or not _continues(second)
        or (name[at] == 0xF0 and second < 0x90)
        or (name[at] == 0xF4 and second > 0x8F)
    )
    if bad:
        return 1
    if left < 4:
        return 2 if left == 3 and not _continues(name[at + 2]) else left
    return 2 if not _continues(name[at + 2]) else 3


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80
