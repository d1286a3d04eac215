"""Strict JSON text: what RFC 8259 allows, each key once, and numbers as exact as they are written."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from logcore.values.limits import DEEPEST_VALUE, check_size
from logcore.values.undecodable import Reason, Undecodable

_LONGEST_PLAIN_INTEGER = 20
"""Characters of the longest int64. Longer ones stay text: Python needs quadratic time for long integers."""
_BLANKS = re.compile(r"[ \t\n\r]*")
_MARKS = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)


class ExactNumber(str):
    """A number with a fraction or an exponent, or a very long one, as it is written."""

    __slots__ = ()


def parse_json(body: bytes) -> object:
    """Parse one JSON document.

    Returns:
        Objects of the standard library's parser, but `ExactNumber` where a number is no short integer.

    Raises:
        Undecodable: The bytes are not exactly one JSON document. The place is a byte where it is known.
    """
    check_size(body)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(Reason.INVALID_UTF8, f"byte {error.start}") from None
    _check_depth(body)
    start = _end_of_blanks(text, 0)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        place = f"byte {len(text[: error.pos].encode())}"
        raise Undecodable(Reason.SYNTAX, place, error.msg.partition(":")[0]) from None
    except RecursionError:
        raise Undecodable(Reason.TOO_DEEP) from None
    end = _end_of_blanks(text, end)
    if end != len(text):
        raise Undecodable(Reason.TRAILING_BYTES, f"byte {len(text[:end].encode())}", "text after the document")
    return value


def _end_of_blanks(text: str, start: int) -> int:
    found = _BLANKS.match(text, start)
    assert found is not None, "the pattern matches the empty text too"
    return found.end()


def _check_depth(body: bytes) -> None:
    """Count brackets outside of strings. Few values have so many brackets that they must be looked at one by one."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST_VALUE:
        return
    depth = 0
    in_text = False
    for found in _MARKS.finditer(body):
        mark = found.group()
        if mark == b'"':
            in_text = not in_text
        elif in_text:
            continue
        elif mark in b"[{":
            depth += 1
            if depth > DEEPEST_VALUE:
                raise Undecodable(Reason.TOO_DEEP, f"byte {found.start()}", f"more than {DEEPEST_VALUE} levels")
        elif mark in b"]}":
            depth -= 1


def _object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Undecodable(Reason.DUPLICATE_KEY, "", f"an object of {len(pairs)} keys has {len(found)} different ones")
    return found


def _integer_of(text: str) -> int | ExactNumber:
    return int(text) if len(text) <= _LONGEST_PLAIN_INTEGER else ExactNumber(text)


def _refuse_constant(name: str) -> NoReturn:
    raise Undecodable(Reason.NOT_A_NUMBER, "", f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of, parse_int=_integer_of, parse_float=ExactNumber, parse_constant=_refuse_constant
)
