"""Values of any shape as JSON text, for parts of a schema that have no columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from decimal import Decimal
from math import isfinite

from logcore.values.json.text import ExactNumber
from logcore.values.undecodable import Reason, Undecodable


class Fragment(str):
    """JSON text. Other JSON text has it as it is."""

    __slots__ = ()


class Entries(list[tuple[object, object]]):
    """The entries of a map, as Arrow takes them."""

    __slots__ = ()


def json_text(value: object) -> Fragment:
    """Return a decoded value, or parsed JSON, as JSON text without blanks. Numbers stay exact, but ``-0`` is ``0``.

    Bytes become base64.

    Raises:
        Undecodable: OUT_OF_RANGE for NaN and infinities, INVALID_UTF8 for half of a surrogate pair.
    """
    match value:
        case dict():
            return _object(value.items())
        case Entries():
            return _object(value)
        case list():
            return Fragment("[" + ",".join(map(json_text, value)) + "]")
        case Fragment():
            return value
        case ExactNumber() | Decimal():
            return Fragment(value)
        case bytes():
            return json_text(base64.b64encode(value).decode())
        case float() if not isfinite(value):
            raise Undecodable(Reason.OUT_OF_RANGE, "", "a number that JSON does not have")
        case str() if not value.isascii():
            return _text(value)
    return Fragment(json.dumps(value))


def _object(entries: Iterable[tuple[object, object]]) -> Fragment:
    named = ((name if isinstance(name, str) else str(json_text(name)), value) for name, value in entries)
    said = (f"{json_text(name)}:{json_text(value)}" for name, value in named)
    return Fragment("{" + ",".join(said) + "}")


def _text(value: str) -> Fragment:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Undecodable(Reason.INVALID_UTF8, "", "half of a surrogate pair") from None
    return Fragment(json.dumps(value, ensure_ascii=False))
