"""`loglake decode` with Protobuf: from a `.proto` file to typed columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.cli import main
from tests.jobs.decoded_lake import Decoded

POLICIES = "topics:\n  orders:\n    decode.value: protobuf\n    decode.value.schema: order.proto\n"
ORDER = """
syntax = "proto3";
import "parts/item.proto";
// An order of the shop.
message Order {
  int64 id = 1; // Number of the order.
  repeated Item items = 2;
}
"""
ITEM = 'syntax = "proto3"; message Item { string sku = 1; optional uint32 n = 2; }'


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    (tmp_path / "parts").mkdir()
    (tmp_path / "order.proto").write_text(ORDER)
    (tmp_path / "parts" / "item.proto").write_text(ITEM)
    return Decoded(tmp_path, POLICIES)


def test_a_proto_file_with_imports_becomes_columns_with_comments(lake: Decoded) -> None:
    lake.append(
        (b"a", b"\x08\x07\x12\x05\x0a\x01x\x10\x02\x12\x03\x0a\x01y"), (b"b", b""), (b"c", b"\x08"), (b"d", None)
    )
    lake.decode()
    assert [(row["key"], row["value"]) for row in lake.rows()] == [
        (b"a", {"id": 7, "items": [{"sku": "x", "n": 2}, {"sku": "y", "n": None}]}),
        (b"b", {"id": 0, "items": []}),
        (b"d", None),
    ]
    assert [(row["key"], row["reason"], row["place"]) for row in lake.rows("undecoded")] == [(b"c", "NOT_PROTOBUF", "")]
    fields = {field.name: field for field in lake.table().schema().fields}
    assert "An order of the shop." in fields["value"].metadata["comment"]
    assert fields["value"].type.fields[0].metadata["comment"] == "Number of the order."


def test_a_changed_import_is_a_changed_schema(lake: Decoded, tmp_path: Path) -> None:
    lake.append((b"a", b"\x08\x07"))
    lake.decode()
    (tmp_path / "parts" / "item.proto").write_text(ITEM.replace("uint32", "uint64"))
    lake.append((b"b", b"\x08\x08"))
    [topic] = lake.decode().plan.topics
    assert "policy or a schema differs" in topic.waits
    assert len(lake.rows()) == 1


def test_a_schema_that_cannot_be_compiled_is_named_with_the_line(
    lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "order.proto").write_text('syntax = "proto3";\nmessage Order { int64 id = 0; }\n')
    lake.append((b"a", b"\x08\x07"))
    assert main.main(["decode", lake.path, "--policies", str(lake.policies)]) == 1
    said = capsys.readouterr().out
    assert "waits: The schema" in said
    assert "order.proto:2:28" in said


@pytest.mark.parametrize("name", ["Cancellation", "shop.Cancellation", ".shop.Cancellation"])
def test_the_policy_names_another_message_than_the_first(lake: Decoded, tmp_path: Path, name: str) -> None:
    (tmp_path / "order.proto").write_text(
        'syntax = "proto3"; package shop; message Order { int64 id = 1; } message Cancellation { string why = 1; }'
    )
    lake.policies.write_text(f"{POLICIES}    decode.value.message: {name}\n")
    lake.append((b"a", b"\x0a\x03bad"))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == [{"why": "bad"}]


def test_a_message_that_the_schema_does_not_have_is_named(lake: Decoded, capsys: pytest.CaptureFixture[str]) -> None:
    lake.policies.write_text(f"{POLICIES}    decode.value.message: Nothing\n")
    lake.append((b"a", b"\x08\x07"))
    assert main.main(["decode", lake.path, "--policies", str(lake.policies)]) == 1
    assert "The schema has no message Nothing" in capsys.readouterr().out


def test_the_name_of_a_message_concerns_protobuf_only(lake: Decoded) -> None:
    lake.policies.write_text("topics:\n  orders:\n    decode.value: string\n    decode.value.message: Order\n")
    lake.append((b"a", b"x"))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == ["x"]
