"""Names of record headers after a broker has rewritten their batch: bytes that are not UTF-8 are replaced.

Java reads a name as text and writes the text. Each malformed sequence becomes U+FFFD. Java and Python disagree about
the end of such a sequence. In Java a surrogate in three bytes is one sequence, and so is the rest of a name that ends
inside a character.

Source: java.lang.String (decodeUTF8_UTF16, JDK 17), Kafka DefaultRecord.writeTo. Belongs here: names only. Keys and
values are bytes.
"""

from __future__ import annotations

_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()

Headers = tuple[tuple[bytes, bytes | None], ...]


def rewritten(headers: Headers) -> Headers:
    """The headers of a record after its batch is rewritten."""
    return tuple((rewritten_name(name), value) for name, value in headers)


def rewritten_name(name: bytes) -> bytes:
    """A header's name after Java has read and written it."""
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
    """The number of bytes of a character with this first byte; 0 if no character begins with it."""
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
    """The number of bytes that one U+FFFD replaces."""
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
        return 3 if _continues(name[at + 2]) else 2  # three continuation bytes: a surrogate
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
