"""`loglake decode` with Avro: from a schema file to typed columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jobs.decoded_lake import Decoded

POLICIES = "topics:\n  orders:\n    decode.value: avro\n    decode.value.schema: order.avsc\n"
SCHEMA = {
    "type": "record", "name": "Order", "doc": "An order of the shop.",
    "fields": [
        {"name": "id", "type": "long", "doc": "Number of the order."},
        {"name": "what", "type": ["null", "string", "long"]},
        {"name": "skus", "type": {"type": "array", "items": "string"}},
    ],
}  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    return Decoded(tmp_path, POLICIES)


def test_an_avro_schema_becomes_columns_with_comments(lake: Decoded) -> None:
    lake.append((b"a", b"\x0e\x02\x02x\x02\x02s\x00"), (b"b", b"\x10\x04\x06\x00"), (b"c", b"\x12\x00\x00\x00"))
    lake.append((b"d", None), (b"e", b"\x14\x00\x00"))
    lake.decode()
    assert [(row["key"], row["value"]) for row in lake.rows()] == [
        (b"a", {"id": 7, "what": {"string": "x", "long": None}, "skus": ["s"]}),
        (b"b", {"id": 8, "what": {"string": None, "long": 3}, "skus": []}),
        (b"d", None),
        (b"e", {"id": 10, "what": None, "skus": []}),
    ]
    assert [(row["key"], row["reason"], row["place"]) for row in lake.rows("undecoded")] == [
        (b"c", "TRAILING_BYTES", "byte 3")
    ]
    fields = {field.name: field for field in lake.table().schema().fields}
    assert "An order of the shop." in fields["value"].metadata["comment"]
    assert fields["value"].type.fields[0].metadata["comment"] == "Number of the order."
