"""What kind of bytes a key is: no key, text, JSON, a number of 4 or 8 bytes, bytes after a schema id, other bytes.

Some bytes fit two kinds: `user-042` is text, and could be a number of 8 bytes. Such keys have a kind of their own until
all keys were counted. Then they are of the kind that more of the other keys have.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.expectations.share_change import Tally

_SCHEMA_ID = 5
"""Byte 0 and four bytes of an id; the key follows."""


class KeyKind(StrEnum):
    """A kind of key."""

    NONE = "no key"
    TEXT = "text"
    JSON = "JSON"
    FOUR_BYTES = "4 bytes"
    EIGHT_BYTES = "8 bytes"
    SCHEMA_ID = "a schema id and bytes"
    OTHER = "other bytes"
    TEXT_OF_4 = "text of 4 bytes"
    """Also fits ``FOUR_BYTES``."""
    TEXT_OF_8 = "text of 8 bytes"
    """Also fits ``EIGHT_BYTES``."""
    ZERO_OF_8 = "8 bytes that begin with 0"
    """Fits ``EIGHT_BYTES`` and ``SCHEMA_ID``."""


KINDS = tuple(KeyKind)
_AT = {kind: at for at, kind in enumerate(KINDS)}
_IS_CONTROL = np.zeros(256, dtype=bool)
_IS_CONTROL[:32] = True
_IS_CONTROL[[9, 10, 13]] = False

Codes = npt.NDArray[np.int8]


def kind_codes(keys: pa.Array[pa.BinaryScalar]) -> Codes:
    """Return for each key the place of its kind in :data:`KINDS`.

    Args:
        keys: Keys as bytes, null where a record has none.
    """
    whole = keys.cast(pa.large_binary())
    buffers: Any = whole.buffers()
    _, ends, buffer = buffers
    starts = np.frombuffer(ends, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)[starts[0] : starts[-1]]
    starts = starts - starts[0]  # a slice has the bytes of all rows
    begins, lengths = starts[:-1], np.diff(starts)
    is_text = _count(_IS_CONTROL[data], starts) == 0
    doubtful = np.flatnonzero(is_text & (_count(data >= 128, starts) > 0))
    for row in doubtful:
        is_text[row] = _is_utf8(data[begins[row] : begins[row] + lengths[row]].tobytes())
    first, last = _byte_at(data, begins, lengths > 0), _byte_at(data, begins + lengths - 1, lengths > 0)
    is_json = is_text & (((first == ord("{")) & (last == ord("}"))) | ((first == ord("[")) & (last == ord("]"))))
    chosen = [
        (np.asarray(whole.is_null()), KeyKind.NONE),
        (is_json & (lengths > 1), KeyKind.JSON),
        (is_text & (lengths == 4), KeyKind.TEXT_OF_4),
        (is_text & (lengths == 8), KeyKind.TEXT_OF_8),
        (is_text, KeyKind.TEXT),
        (lengths == 4, KeyKind.FOUR_BYTES),
        ((lengths == 8) & (first == 0), KeyKind.ZERO_OF_8),
        (lengths == 8, KeyKind.EIGHT_BYTES),
        ((lengths > _SCHEMA_ID) & (first == 0), KeyKind.SCHEMA_ID),
    ]
    codes = np.select([which for which, _ in chosen], [_AT[kind] for _, kind in chosen], _AT[KeyKind.OTHER])
    found: Codes = codes.astype(np.int8)
    return found


def _count(which: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many bytes of each key are chosen."""
    before = np.concatenate(([0], np.cumsum(which, dtype=np.int64)))
    counts: npt.NDArray[np.int64] = before[starts[1:]] - before[starts[:-1]]
    return counts


def _byte_at(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], which: npt.NDArray[np.bool_]) -> Codes:
    """Return one byte of each chosen key; -1 for the others."""
    found = np.full(len(at), -1, dtype=np.int16)
    found[which] = data[at[which]]
    return found  # type: ignore[return-value]


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def settled(tallies: Mapping[str, Tally]) -> dict[KeyKind, Tally]:
    """Return tallies of kinds that no other kind fits, from those of all kinds.

    The newest rows and those before are settled for themselves: a number of 8 bytes may become text of 8 bytes.
    """
    counted = {KeyKind(name): tally for name, tally in tallies.items()}
    newest = {kind: tally.newest_true for kind, tally in counted.items()}
    earlier = {kind: tally.earlier_true for kind, tally in counted.items()}
    into_newest, into_earlier = _fits(newest, earlier), _fits(earlier, {})
    empty = next((Tally(newest=each.newest, earlier=each.earlier) for each in counted.values()), Tally())
    found: dict[KeyKind, Tally] = {}
    for kind, tally in counted.items():
        now, before = into_newest.get(kind, kind), into_earlier.get(kind, kind)
        of_now = Tally(newest_true=tally.newest_true, first_true=tally.first_true)
        found[now] = found.get(now, empty).plus(of_now)
        found[before] = found.get(before, empty).plus(Tally(earlier_true=tally.earlier_true))
    return found


def _fits(counts: Mapping[KeyKind, int], before: Mapping[KeyKind, int]) -> dict[KeyKind, KeyKind]:
    """Return the kind of keys that fit two, by the other keys; where these say nothing, by the keys ``before``."""

    def of(kind: KeyKind) -> int:
        return counts.get(kind, 0)

    judged = counts if of(KeyKind.SCHEMA_ID) or of(KeyKind.EIGHT_BYTES) else before
    has_ids = judged.get(KeyKind.SCHEMA_ID, 0) > judged.get(KeyKind.EIGHT_BYTES, 0)
    eights = of(KeyKind.EIGHT_BYTES) + of(KeyKind.ZERO_OF_8)
    return {
        KeyKind.TEXT_OF_4: KeyKind.FOUR_BYTES if of(KeyKind.FOUR_BYTES) > of(KeyKind.TEXT_OF_4) else KeyKind.TEXT,
        KeyKind.TEXT_OF_8: KeyKind.EIGHT_BYTES if eights > of(KeyKind.TEXT_OF_8) else KeyKind.TEXT,
        KeyKind.ZERO_OF_8: KeyKind.SCHEMA_ID if has_ids else KeyKind.EIGHT_BYTES,
    }
