"""Limits of values and of schemas, the same for every format, so that bad input costs little memory and no stack."""

from __future__ import annotations

from logcore.values.undecodable import Reason, Undecodable

DEEPEST_VALUE = 100
"""Levels of nesting. The parser of JSON in the standard library does not descend further either."""

LARGEST_VALUE = 32 << 20
"""Bytes of one key or value. Its Python objects may take some thirty times as much memory."""

MOST_COLUMNS = 10_000
"""Fields of one schema, counted in each place where a named type is used."""

LARGEST_SCHEMA = 4 << 20
"""Bytes of one schema's text."""


def check_size(body: bytes) -> None:
    """Refuse a value that is too large to decode.

    Raises:
        Undecodable: TOO_LARGE.
    """
    if len(body) > LARGEST_VALUE:
        raise Undecodable(Reason.TOO_LARGE, "", f"{len(body)} bytes; at most {LARGEST_VALUE} are decoded")
