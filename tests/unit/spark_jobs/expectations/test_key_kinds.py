"""Each key has one kind; keys that fit two are of the kind that more of the others have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.expectations.key_kinds import KINDS, KeyKind, kind_codes, settled
from spark_jobs.expectations.share_change import TalliedPlace, Tally

KEYS = {
    None: KeyKind.NONE,
    b"": KeyKind.TEXT,
    b"customer-1": KeyKind.TEXT,
    "Straße".encode(): KeyKind.TEXT,
    b"a\tb\r\n": KeyKind.TEXT,
    b'{"id":1}': KeyKind.JSON,
    b"[]": KeyKind.JSON,
    b"{": KeyKind.TEXT,
    b"\x00\x00\x00\x07": KeyKind.FOUR_BYTES,
    b"\xff\xff\xff\xff": KeyKind.FOUR_BYTES,
    b"\x7f\x00\x00\x00\x00\x00\x00\x07": KeyKind.EIGHT_BYTES,
    b"\x00\x00\x00\x00\x00\x00\x00\x07": KeyKind.ZERO_OF_8,
    b"\x00\x00\x00\x00\x09\x02a": KeyKind.SCHEMA_ID,
    b"\x00\x00\x00\x00\x09": KeyKind.OTHER,
    b"ABCD": KeyKind.TEXT_OF_4,
    b"user-042": KeyKind.TEXT_OF_8,
    b"Stra\xdfe": KeyKind.OTHER,
    b"\x01\x02": KeyKind.OTHER,
    bytes(range(16, 32)): KeyKind.OTHER,
}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_each_key_has_the_kind_of_its_bytes_also_in_a_slice(kind: pa.DataType) -> None:
    keys = pa.array([b"before", *KEYS, None], kind).slice(1, len(KEYS))
    assert [KINDS[code] for code in kind_codes(keys)] == list(KEYS.values())


def test_arrays_without_a_key_or_without_a_row() -> None:
    assert kind_codes(pa.array([], pa.binary())).tolist() == []
    assert [KINDS[code] for code in kind_codes(pa.array([None, None], pa.binary()))] == [KeyKind.NONE] * 2


def tallies(newest: dict[KeyKind, int], earlier: dict[KeyKind, int]) -> dict[str, Tally]:
    rows, before = sum(newest.values()), sum(earlier.values())
    return {
        kind: Tally(rows, newest.get(kind, 0), before, earlier.get(kind, 0), TalliedPlace(0, "a", at))
        for at, kind in enumerate(KINDS)
    }


@pytest.mark.parametrize(
    ("newest", "earlier", "appeared"),
    [
        # Of random numbers of 4 bytes, about 2 in 100 look like text.
        ({KeyKind.FOUR_BYTES: 95, KeyKind.TEXT_OF_4: 5}, {KeyKind.FOUR_BYTES: 100}, set()),
        ({KeyKind.TEXT_OF_4: 100}, {KeyKind.FOUR_BYTES: 100}, {KeyKind.TEXT}),
        ({KeyKind.TEXT_OF_4: 100}, {KeyKind.TEXT: 100}, set()),
        ({KeyKind.TEXT_OF_8: 100}, {KeyKind.ZERO_OF_8: 100}, {KeyKind.TEXT}),
        ({KeyKind.ZERO_OF_8: 100}, {KeyKind.TEXT_OF_8: 100}, {KeyKind.EIGHT_BYTES}),
        ({KeyKind.EIGHT_BYTES: 100}, {KeyKind.ZERO_OF_8: 100}, set()),
        # A number in Avro grows from two bytes to three after the schema id.
        ({KeyKind.ZERO_OF_8: 100}, {KeyKind.SCHEMA_ID: 100}, set()),
        ({KeyKind.SCHEMA_ID: 90, KeyKind.ZERO_OF_8: 10}, {KeyKind.ZERO_OF_8: 100}, {KeyKind.SCHEMA_ID}),
        ({KeyKind.NONE: 100}, {KeyKind.JSON: 100}, {KeyKind.NONE}),
        ({KeyKind.TEXT: 100}, {KeyKind.NONE: 100}, {KeyKind.TEXT}),
        ({KeyKind.TEXT: 70, KeyKind.NONE: 30}, {KeyKind.TEXT: 50, KeyKind.NONE: 50}, set()),
    ],
)
def test_a_kind_appears_if_hardly_a_key_had_it_before(newest, earlier, appeared) -> None:
    shares = settled(tallies(newest, earlier))
    assert {kind for kind, tally in shares.items() if tally.appears} == appeared
    assert not {KeyKind.TEXT_OF_4, KeyKind.TEXT_OF_8, KeyKind.ZERO_OF_8} & shares.keys()
    assert sum(tally.newest_true for tally in shares.values()) == 100
