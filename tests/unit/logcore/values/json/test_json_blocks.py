"""The kernel for JSON gives what the plain decoder gives: values, failed rows, and their reasons."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from logcore.values.column import BlockDecoder, decode_column
from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from tests.sampling import chance
from tests.unit.logcore.values.both_ways import ROWS, check_same

AT_ONCE = 2000
MAP_KEYS = ("a", "bb", "", "é", "x y", "bc", "aé", "hhhhhhhhhhhh")
OF_MAPS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "m": {"type": ["object", "null"], "additionalProperties": {"type": ["integer", "null"]}},
        "d": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}},
        "o": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "l": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
    },
}

SCALARS: tuple[dict[str, Any], ...] = (
    {"type": "integer"},
    {"type": "number"},
    {"type": "string"},
    {"type": "boolean"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
)
WHOLE = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "n": {"type": ["number", "null"]},
        "s": {"type": ["string", "null"]},
        "b": {"type": "boolean"},
        "d": {"type": "string", "format": "date"},
        "t": {"type": "string", "format": "date-time"},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}, "é": {"type": "string"}}, "required": ["x"]},
        "l": {"type": "array", "items": {"type": ["array", "null"], "items": {"type": ["integer", "null"]}}},
        "r": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
    },
    "required": ["i"],
}


def of(schema: Any) -> ValueDecoder:
    """The decoder of a schema."""
    return decoder_of("json", json.dumps(schema))


def random_schema(draw: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema of objects, arrays, maps and plain types, about half of them with null."""
    kind = draw.randrange(5 if depth < 3 else 2)
    if kind < 2 and depth:
        made = dict(draw.choice(SCALARS))
    elif kind == 2 and depth:
        made = {"type": "array", "items": random_schema(draw, depth + 1)}
    elif kind == 3:
        made = {"type": "object", "additionalProperties": random_schema(draw, depth + 1)}
    else:
        names = draw.sample(["a", "bb", "c c", "dé", "e", "f-1", "g", "hhhhhhhhhhhh"], draw.randrange(1, 6))
        made = {"type": "object", "properties": {name: random_schema(draw, depth + 1) for name in names}}
        made["required"] = [name for name in names if draw.random() < 0.3]
    if draw.random() < 0.5:
        made["type"] = [made["type"], "null"]
    return made


def random_value(schema: dict[str, Any], draw: random.Random) -> Any:
    """A value that fits, mostly."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in types and draw.random() < 0.2:
        return None
    match types[0]:
        case "object" if "properties" not in schema:
            names = draw.sample(MAP_KEYS, draw.choice((0, 1, 3, len(MAP_KEYS))))
            return {name: random_value(schema["additionalProperties"], draw) for name in names}
        case "object":
            needed = schema.get("required", [])
            found: list[tuple[str, Any]] = [
                (name, random_value(inner, draw))
                for name, inner in schema["properties"].items()
                if name in needed or draw.random() < 0.8
            ]
            if draw.random() < 0.2:
                found.append((draw.choice(("new", "é", "x y")), draw.choice((1, 2.5, "t", None, True, [1], {"a": 1}))))
            if draw.random() < 0.2:
                draw.shuffle(found)
            return dict(found)
        case "array":
            return [random_value(schema["items"], draw) for _ in range(draw.choice((0, 1, 2, 5, 40)))]
        case "integer":
            return draw.choice((1, -1)) * draw.getrandbits(draw.randrange(1, 64))
        case "number":
            return draw.choice((0, -0.0, 1.5, -2, 1e300, 1e-7, draw.random(), round(draw.random() * 1000, 2), 10**20))
        case "boolean":
            return draw.random() < 0.5
    form = schema.get("format")
    if form == "date":
        return f"{draw.randrange(1, 9999):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 30):02}"
    if form == "date-time":
        fraction = draw.choice(("", ".5", ".123456", ".1234560", ".0000001", ".999999999", ".123456789012"))
        zone = draw.choice(("Z", "z", "+00:00", "-05:30", "+23:59", "-24:00"))
        day = f"{draw.randrange(1, 9999):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 30):02}"
        hour, minute, second = draw.randrange(25), draw.randrange(60), draw.randrange(61)
        return f"{day}{draw.choice('Tt ')}{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
    return "".join(draw.choice('ab"\\/\n\té€\U0001f600\x7f\u2028') for _ in range(draw.randrange(12)))


def text(value: Any, draw: random.Random) -> bytes:
    """The value in one of the ways that others write it."""
    indent = draw.choice((None, None, 1))
    return json.dumps(value, ensure_ascii=draw.random() < 0.5, indent=indent).encode()


def damaged(body: bytes, draw: random.Random) -> bytes:
    """A value with one to three changes."""
    changed = bytearray(body)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = draw.choice(
                    (b'"', b",", b"{", b"}", b"[", b"]", b":", b"0", b"-", b".", b"e", b"null")
                )
            case 3:
                changed[at:at] = changed[at : at + draw.randrange(20)]
            case 4 if at < len(changed):
                del changed[at]
            case _:
                changed[at:at] = bytes([draw.randrange(256)])
    return bytes(changed)


def test_random_values_of_random_schemas_are_the_same_in_both_ways() -> None:
    draw = chance("json blocks")
    decided = 0
    for _ in range(max(1, ROWS // AT_ONCE)):
        for schema in (random_schema(draw) for _ in range(8)):
            decided += check_same(
                of(schema),
                [None if draw.random() < 0.01 else text(random_value(schema, draw), draw) for _ in range(AT_ONCE // 8)],
            )
    assert decided > ROWS // 4


def test_damaged_values_are_the_same_in_both_ways() -> None:
    draw = chance("damaged json blocks")
    decided = 0
    for _ in range(max(1, ROWS // AT_ONCE)):
        for schema in (WHOLE, random_schema(draw)):
            bodies = [damaged(text(random_value(schema, draw), draw), draw) for _ in range(AT_ONCE // 2)]
            decided += check_same(of(schema), list(bodies))
    assert decided > 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"{}",
        b'{"i":1}',
        b' {\t"i"\r\n:\n1 } ',
        b'{"i":1}{"i":2}',
        b'{"i":1} x',
        b'{"i":1,}',
        b'{,"i":1}',
        b'{"i":1,"i":1}',
        b'{"i":1,"unknown":[{}]}',
        b'{"u":1,"i":1,"v":"x","w":null,"x":true,"y":false,"z":-1.5e3}',
        b'{"u":1,"i":1,"u":2}',
        b'{"u":1,"i":1,"o":{"x":1,"u":2,"u":3}}',
        b'{"u":1,"i":1,"o":{"x":1,"u":2},"v":1,"r":[{"u":1},{"u":2}]}',
        b'{"u":1,"i":1,"\\u0075":2}',
        b'{"u":01,"i":1}',
        b'{"u":"\xff","i":1}',
        b'{"u":nul,"i":1}',
        b'{"u":falsy,"i":1}',
        b'{"u":,"i":1}',
        b'{"u" 1,"i":1}',
        b'{"u":1 "i":1}',
        b'{"i":1,"u":',
        b'{"i":1,"u"',
        b'{"i":1.0}',
        b'{"i":1e2}',
        b'{"i":01}',
        b'{"i":-}',
        b'{"i":-0}',
        b'{"i":+1}',
        b'{"i":9223372036854775807}',
        b'{"i":9223372036854775808}',
        b'{"i":999999999999999999}',
        b'{"i":1,"n":NaN}',
        b'{"i":1,"n":Infinity}',
        b'{"i":1,"n":-0}',
        b'{"i":1,"n":-0.0}',
        b'{"i":1,"n":.5}',
        b'{"i":1,"n":5.}',
        b'{"i":1,"n":1e400}',
        b'{"i":1,"n":1e23}',
        b'{"i":1,"n":0.1}',
        b'{"i":1,"n":123456789012345678}',
        b'{"i":1,"n":9007199254740993.0}',
        b'{"i":1,"n":8.5e-22}',
        b'{"i":1,"n":1E+2}',
        b'{"i":1,"s":"\xff"}',
        b'{"i":1,"s":"\xc0\x80"}',
        b'{"i":1,"s":"\xed\xa0\x80"}',
        b'{"i":1,"s":"\n"}',
        b'{"i":1,"s":"\\ud83d\\ude00"}',
        b'{"i":1,"s":"\\ud83d"}',
        b'{"i":1,"s":"\\u00e9\\u0800\\u0000"}',
        b'{"i":1,"s":"\\x"}',
        b'{"i":1,"s":"\\"',
        b'{"i":1,"s":"a',
        b'{"\\u0069":1}',
        b'{"i":1,"b":tru}',
        b'{"i":1,"b":True}',
        b'{"i":1,"b":falsey}',
        b'{"i":1,"d":"2023-02-29"}',
        b'{"i":1,"d":"2000-02-29"}',
        b'{"i":1,"d":"1900-02-29"}',
        b'{"i":1,"d":"0001-01-01"}',
        b'{"i":1,"d":"9999-12-31"}',
        b'{"i":1,"d":"0000-01-01"}',
        b'{"i":1,"d":"2000-01-01 "}',
        b'{"i":1,"t":"0001-01-01T00:00:00+00:01"}',
        b'{"i":1,"t":"9999-12-31T23:59:59.999999Z"}',
        b'{"i":1,"t":"9999-12-31T23:59:59-00:01"}',
        b'{"i":1,"t":"9999-12-31T23:59:59.999999999Z"}',
        b'{"i":1,"t":"1969-12-31T23:59:59.999999999+00:00"}',
        b'{"i":1,"t":"2016-12-31T23:59:59.123456789"}',
        b'{"i":1,"t":"2016-12-31T23:59:59.123456789012345678901234567890Z"}',
        b'{"i":1,"t":"2016-12-31T23:59:59.1234567 Z"}',
        b'{"i":1,"t":"2016-12-31T23:59:59.123456/Z"}',
        b'{"i":1,"t":"2016-12-31T23:59:59.1234567',
        b'{"i":1,"t":"2016-12-31T23:59:60Z"}',
        b'{"i":1,"t":"2016-12-31T23:59:59"}',
        b'{"i":1,"o":{}}',
        b'{"i":1,"o":{"x":1,"\xc3\xa9":"y"}}',
        b'{"i":1,"o":[1]}',
        b'{"i":1,"l":[]}',
        b'{"i":1,"l":[[],null,[1,null,3]]}',
        b'{"i":1,"l":[[1,2],[3,"x"]]}',
        b'{"i":1,"l":[[1,]]}',
        b'{"i":1,"l":[,]}',
        b'{"i":1,"l":{"a":1}}',
        b"[" * 100_000,
        b'{"i":1,"o":' * 200,
        b'\xef\xbb\xbf{"i":1}',
        b'{"i":1}\x00',
    ],
    ids=lambda body: body[:30].decode(errors="replace"),
)
def test_a_value_is_the_same_in_both_ways_beside_others(body: bytes) -> None:
    check_same(of(WHOLE), [b'{"i":1,"l":[[7]],"r":[{"k":"x"}]}', body, None, b'{"i":2,"s":"y","l":[[8,9]]}'])


def test_what_is_certain_is_decided_by_the_kernel() -> None:
    row = {
        "i": -5, "n": 12.25, "s": 'q"é', "b": True, "d": "2024-05-17", "t": "2024-05-17T08:30:00.5+02:00",
        "o": {"x": 1, "é": "y"}, "l": [[1, None], None], "r": [{"k": "a\nb"}, {}],
    }  # fmt: skip
    bodies = [json.dumps(row, ensure_ascii=False).encode(), json.dumps(row | {"o": None}).encode(), None]
    assert check_same(of(WHOLE), bodies) == 2  # o may not be null


def test_digits_below_microseconds_are_certain() -> None:
    decoder = of({"type": "string", "format": "date-time"})
    texts = ["2024-05-17T08:30:00.123456789Z", "1969-12-31T23:59:59.9999999+01:00", "2024-05-17T08:30:00.0000001Z"]
    assert check_same(decoder, [json.dumps(text).encode() for text in texts]) == len(texts)


def test_keys_that_the_schema_lacks_are_certain_while_they_are_few_and_plain() -> None:
    def row(count: int) -> bytes:
        return json.dumps({"i": 1, **{f"new-{number}": number / 2 for number in range(count)}}).encode()

    assert check_same(of(WHOLE), [row(1), row(16), row(17)]) == 2
    closed = {"type": "object", "properties": {"i": {"type": "integer"}}, "additionalProperties": False}
    assert check_same(of(closed), [row(0), row(1)]) == 1


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    draw = chance("json neighbours")
    decoder = decoder_of("json", json.dumps(WHOLE))
    bodies = [damaged(text(random_value(WHOLE, draw), draw), draw) for _ in range(300)]
    together = decode_column(decoder, pa.array(bodies, pa.binary())).values.to_pylist()
    alone = [decode_column(decoder, pa.array([body], pa.binary())).values.to_pylist()[0] for body in bodies]
    assert repr(together) == repr(alone)


def test_a_slice_of_a_column_is_decoded_as_a_column_of_its_own() -> None:
    decoder = decoder_of("json", json.dumps(WHOLE))
    column = pa.array([b'{"i":%d}' % number for number in range(10)] + [None], pa.binary())
    rows = decode_column(decoder, column.slice(3, 8)).values.to_pylist()
    assert [None if row is None else row["i"] for row in rows] == [3, 4, 5, 6, 7, 8, 9, None]


def test_maps_are_decided_by_the_kernel() -> None:
    decoder = of({"type": "object", "additionalProperties": {"type": "integer"}})
    assert isinstance(decoder, BlockDecoder)
    bodies = pa.array([b'{"a":1, "b" : 2}', b"{ }", None, b'{"":3,"\xc3\xa9":4}'], pa.binary())
    block = decoder.decode_block(bodies)
    assert block is not None
    assert block.doubts.tolist() == []
    assert block.values.to_pylist() == [[("a", 1), ("b", 2)], [], None, [("", 3), ("é", 4)]]
    assert check_same(of(OF_MAPS), [json.dumps(row).encode() for row in MAP_ROWS]) == len(MAP_ROWS)


MAP_ROWS: tuple[dict[str, Any], ...] = (
    {"m": {"a": 1, "b": None}, "d": {"x": {"y": "z", "z": "y"}, "y": {}}},
    {"m": None, "o": {"p": {"x": 1}, "q": {"x": 2, "new": 3}, "r": {}}},
    {"l": {"a": [1, 2], "b": [], "c": [3]}, "m": {}},
    {"m": {str(number): number for number in range(256)}},
)


@pytest.mark.parametrize(
    ("body", "is_decided"),
    [
        (b'{"m":{"a":1,"a":2}}', False),
        (b'{"m":{"a":1,"b":2,"a":2}}', False),
        (b'{"m":{"a":1,"\\u0061":2}}', False),
        (b'{"m":{"a\\n":1}}', False),
        (b'{"m":{"a":1,}}', False),
        (b'{"m":{,"a":1}}', False),
        (b'{"m":{"a"}}', False),
        (b'{"m":{"a" 1}}', False),
        (b'{"m":{"a":}}', False),
        (b'{"m":{"a":1]}', False),
        (b'{"m":["a",1]}', False),
        (b'{"m":[]}', False),
        (b'{"m":{1:1}}', False),
        (b'{"m":{"a":"x"}}', False),
        (b'{"m":{"\xff":1}}', False),
        (b'{"m":{"a":1', False),
        (b'{"l":{"a":{1}}}', False),
        (b'{"l":{"a":[1}]}', False),
        (b'{"d":{"x":{"y":"1"},"y":{"y":"2"}}}', True),
        (b'{"d":{"x":{"y":"1","y":"2"}}}', False),
        (b'{"d":{"x":{"y":"1"},"x":{"y":"2"}}}', False),
        (b'{"d":{"x":null}}', False),
        (json.dumps({"m": {str(number): number for number in range(257)}}).encode(), False),
    ],
    ids=lambda value: value[:40].decode(errors="replace") if isinstance(value, bytes) else None,
)
def test_a_map_is_the_same_in_both_ways_beside_others(body: bytes, is_decided: bool) -> None:
    beside = b'{"m":{"k":7},"d":{"p":{"q":"r"}}}'
    assert check_same(of(OF_MAPS), [beside, body, None, beside]) == 3 + is_decided


def test_names_that_json_writes_with_escapes_have_the_plain_way_alone() -> None:
    schema = {"type": "object", "properties": {"a\\n": {"type": "integer"}, "a\n": {"type": "integer"}}}
    decoder = decoder_of("json", json.dumps(schema))
    rows = decode_column(decoder, pa.array([b'{"a\\n": 1, "a\\\\n": 2}'], pa.binary())).values.to_pylist()
    assert rows == [{"a\\n": 2, "a\n": 1}]
