"""What a terminal obeys, by code points, and JSON and text without it. Nothing here is of the product."""

from __future__ import annotations

import unicodedata

_BIDI_AND_BREAKS = [0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
OBEYED = frozenset(chr(point) for point in [*range(0x20), *range(0x7F, 0xA0), *_BIDI_AND_BREAKS])
"""ECMA-48 controls, line and paragraph separators, marks of direction and width, and the byte order mark."""


def json_escaped(text: str) -> str:
    """JSON in which Python left only characters from 127 on as they are."""
    return "".join(f"\\u{ord(each):04x}" if each in OBEYED - {"\n"} else each for each in text)


def text_escaped(text: str) -> str:
    """A name for people: what is not printable as Python's literals have it."""
    return "".join(_literal(each) if _is_hidden(each) else each for each in text)


def _is_hidden(character: str) -> bool:
    return character != " " and unicodedata.category(character)[0] in "CZ"


def _literal(character: str) -> str:
    point = ord(character)
    if character in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[character]
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
