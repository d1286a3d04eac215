"""`decode` where values name their schemas: ids from `_schemas`, evolution of the columns, and what waits."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig
from spark_jobs.decode import decode_job
from spark_jobs.engine import job_engine
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.decoded.topic_tables import decoded_spec, topic_table
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.policies.policies_file import read_policies
from tests.in_process import InProcessExecutor
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag
from tests.registry_server import Registry
from tests.spark.cycle import AS_OF_MS

ID = {"name": "id", "type": "long"}
SCHEMAS = 300
MANY_SCHEMAS = 10_000
WAITING = 1100
"""More rows than a run decodes without a look at the first of them."""
NOTE = {"name": "note", "type": ["null", "string"]}
FIRST, SECOND = avro(ID), avro(ID, NOTE)


@pytest.fixture
def lake(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def first(id: int) -> bytes:
    return named(1, zigzag(id))


def second(id: int, note: str) -> bytes:
    return named(2, zigzag(id) + b"\x02" + text(note))


def test_rows_of_two_schemas_share_a_table_and_others_have_a_reason(lake: Registered) -> None:
    lake.register(1, FIRST)
    lake.register(2, SECOND, version=2)
    lake.register(3, FIRST.replace("Order", "Other"), "refunds-value")
    lake.append(
        (b"a", first(7)), (b"b", second(8, "x")), (b"c", None), (b"d", named(9, b"")), (b"e", named(3, b"\x02"))
    )
    lake.append((b"f", b"\x00\x00"), (b"g", b"\x05"), (b"h", first(9)), (b"i", first(1) + b"x"), (b"j", named(1, b"")))
    report = lake.decode()
    assert lake.values() == [{"id": 7, "note": None}, {"id": 8, "note": "x"}, None, {"id": 9, "note": None}]
    assert lake.reasons() == [
        (3, 9, "UNKNOWN_SCHEMA"),
        (4, 3, "OTHER_SUBJECT"),
        (5, None, "SHORT_PREFIX"),
        (6, None, "NO_PREFIX"),
        (8, 1, "TRAILING_BYTES"),
        (9, 1, "TRUNCATED"),
    ]
    assert report.metrics == {"decoded": 4, "undecoded": 6, "waiting": 0}


def test_new_fields_become_columns_that_older_files_do_not_have(lake: Registered) -> None:
    items = {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "I", "fields": [ID]}}}
    more = {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "I", "fields": [ID, NOTE]}}}
    lake.register(1, avro(ID, items))
    lake.append((b"a", named(1, zigzag(7) + b"\x02" + zigzag(1) + b"\x00")))
    lake.decode()
    lake.register(2, avro(NOTE, more, ID), version=2)
    lake.append((b"b", named(2, b"\x02" + text("n") + b"\x02" + zigzag(2) + b"\x02" + text("m") + b"\x00" + zigzag(8))))
    lake.decode()
    expected = [
        {"id": 7, "items": [{"id": 1, "note": None}], "note": None},
        {"id": 8, "items": [{"id": 2, "note": "m"}], "note": "n"},
    ]
    assert lake.values() == expected
    table = str(lake.lake.path / "tables" / "decoded" / "orders")
    assert pl.scan_delta(table).sort("offset").collect()["value"].to_list() == expected
    files = lake.table().file_uris()
    assert len(files) == 2
    read = duckdb.sql(f"select value from read_parquet({files}, union_by_name=true) order by value.id").fetchall()
    assert [row[0] for row in read] == expected
    assert lake.reasons() == []


def test_a_schema_that_changes_a_column_stops_its_log_until_the_policy_allows_it(lake: Registered) -> None:
    lake.register(1, FIRST)
    lake.append((b"a", first(7)))
    lake.decode()
    lake.register(2, avro({"name": "id", "type": "string"}), version=2)
    lake.append_elsewhere("orders-1", 1)
    lake.append((b"b", first(8)), (b"c", named(2, text("nine"))), (b"d", first(10)))
    said = lake.said()
    assert said is not None
    assert "partition 0 waits at offset 2: value: schema 2 cannot be aligned" in said
    assert "value.id: int64 → string" in said
    assert f"`loglake config set {lake.policies} orders on_schema_change=undecoded && " in said
    assert [row["value"] for row in lake.rows() if row["partition"] == 0] == [{"id": 7}, {"id": 8}]
    assert len(lake.rows("undecoded")) == 1  # of partition 1: its value names no schema
    before = lake.versions()
    assert lake.said() == said
    assert lake.versions() == before
    lake.policy("    on_schema_change: undecoded\n")
    assert lake.said() is None
    assert [row["value"] for row in lake.rows() if row["partition"] == 0] == [{"id": 7}, {"id": 8}, {"id": 10}]
    assert (2, 2, "INCOMPATIBLE_SCHEMA") in lake.reasons()


def test_a_wider_number_waits_where_there_are_rows_and_a_replacement_takes_it(lake: Registered) -> None:
    lake.register(1, avro({"name": "id", "type": "int"}))
    lake.append((b"a", first(7)))
    lake.decode()
    lake.register(2, FIRST, version=2)
    lake.append((b"b", named(2, zigzag(1 << 40))))
    said = str(lake.said())
    assert "value.id: int32 → int64" in said
    assert said.endswith(f"To write the wider column and all rows again: `loglake decode {lake.path} --replace orders`")
    lake.decode(replace=("orders",))
    assert lake.values() == [{"id": 7}, {"id": 1 << 40}]


def test_new_fields_wait_if_the_policy_says_so(lake: Registered) -> None:
    lake.policy("    on_schema_change: wait\n")
    lake.register(1, FIRST)
    lake.append((b"a", first(7)))
    assert lake.said() is None
    lake.register(2, SECOND, version=2)
    lake.append((b"b", second(8, "x")))
    assert lake.said() == (
        "its schemas have new fields: + value.note: string. To add them: `loglake config set "
        f"{lake.policies} orders on_schema_change=add && loglake decode {lake.path} --topic orders`"
    )
    assert lake.values() == [{"id": 7}]
    lake.policy("    on_schema_change: add\n")
    lake.decode()
    assert lake.values() == [{"id": 7, "note": None}, {"id": 8, "note": "x"}]


def test_the_header_names_the_schema_of_a_value_without_a_prefix(lake: Registered) -> None:
    lake.register(1, FIRST)
    lake.register(2, SECOND, version=2)
    header = b"__value_schema_id"
    lake.with_headers(
        (zigzag(7), [(header, named(1, b""))]),
        (first(8), [(b"other", b"x")]),
        (zigzag(9) + b"\x00", [(header, named(1, b"")), (header, named(2, b""))]),
        (zigzag(9), [(header, b"\x00")]),
    )
    lake.decode()
    assert lake.values() == [{"id": 7, "note": None}, {"id": 8, "note": None}, {"id": 9, "note": None}]
    assert lake.reasons() == [(3, None, "SHORT_PREFIX")]
    lake.policy("    decode.framing: prefix\n")
    lake.decode(replace=("orders",))
    assert lake.values() == [{"id": 8, "note": None}]


def test_a_header_that_differs_from_the_prefix_is_a_reason(lake: Registered) -> None:
    lake.policy("    decode.framing: prefix\n")
    lake.register(1, FIRST)
    lake.register(2, SECOND, version=2)
    header = b"__value_schema_id"
    lake.with_headers((first(7), [(header, named(1, b""))]), (first(8), [(header, named(2, b""))]))
    lake.decode()
    assert lake.values() == [{"id": 7, "note": None}]
    assert [reason for _, _, reason in lake.reasons()] == ["HEADER_DIFFERS"]


def test_a_topic_waits_while_its_schemas_cannot_be_read(lake: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append((b"a", first(7)))
    assert lake.said() == (
        "no schema can be read: the lake has no published record of the topic _schemas. When that is corrected: "
        f"`loglake decode {lake.path} --topic orders`"
    )
    lake.policy("", place="env:REGISTRY_OF_THIS_TEST")
    assert "The variable REGISTRY_OF_THIS_TEST is not set" in str(lake.said())
    monkeypatch.setenv("REGISTRY_OF_THIS_TEST", "http://127.0.0.1:9")
    assert "127.0.0.1 did not answer: ConnectionRefusedError" in str(lake.said())
    lake.policy("")
    lake.register(1, '"nonsense"')
    lake.publish()
    assert "no schema of orders-value can be used: schema 1" in str(lake.said())
    assert lake.rows() == []
    lake.register(2, FIRST, version=2)
    lake.append((b"b", named(2, zigzag(8))))
    assert lake.said() is None
    assert lake.values() == [{"id": 8}]
    assert lake.reasons() == [(0, 1, "BAD_SCHEMA")]


def test_subjects_of_the_policy_are_the_schemas_that_may_be_named(lake: Registered) -> None:
    lake.policy("    decode.value.subjects: [refunds, sales]\n")
    lake.register(1, FIRST)
    lake.register(2, avro(ID, NOTE), "sales")
    lake.register(3, avro(ID, {"name": "why", "type": "string"}), "refunds")
    lake.append((b"a", first(1)), (b"b", second(2, "x")), (b"c", named(3, zigzag(3) + text("y"))))
    lake.decode()
    assert lake.values() == [{"id": 2, "note": "x", "why": None}, {"id": 3, "note": None, "why": "y"}]
    assert lake.reasons() == [(0, 1, "OTHER_SUBJECT")]


def test_schemas_that_change_between_two_commits_double_no_row(lake: Registered, monkeypatch) -> None:
    lake.register(1, FIRST)
    lake.append((b"a", first(7)), (b"b", second(8, "x")))
    real = Table.commit

    def only_undecoded(self, *arguments, **options):
        if self.kind == "decoded":
            raise KeyboardInterrupt
        real(self, *arguments, **options)

    monkeypatch.setattr(Table, "commit", only_undecoded)
    with pytest.raises(KeyboardInterrupt):
        lake.decode()
    monkeypatch.undo()
    assert lake.reasons() == [(1, 2, "UNKNOWN_SCHEMA")]
    lake.register(2, SECOND, version=2)
    lake.publish()
    report = lake.decode()
    assert "schemas changed after a run ended between two commits" in str(report.plan)
    assert lake.values() == [{"id": 7, "note": None}, {"id": 8, "note": "x"}]
    assert lake.reasons() == []


def test_a_replacement_that_ended_between_two_commits_loses_no_row(lake: Registered, monkeypatch) -> None:
    lake.register(1, FIRST)
    lake.append((b"a", first(7)), (b"b", second(8, "x")))
    lake.decode()
    assert lake.reasons() == [(1, 2, "UNKNOWN_SCHEMA")]
    lake.register(2, SECOND, version=2)
    lake.publish()
    real = Table.commit

    def only_undecoded(self, *arguments, **options):
        if self.kind == "decoded":
            raise KeyboardInterrupt
        real(self, *arguments, **options)

    monkeypatch.setattr(Table, "commit", only_undecoded)
    with pytest.raises(KeyboardInterrupt):
        lake.decode(replace=("orders",))
    monkeypatch.undo()
    lake.decode()
    assert lake.values() == [{"id": 7, "note": None}, {"id": 8, "note": "x"}]
    assert lake.reasons() == []


def test_a_referenced_schema_cannot_bring_code(tmp_path: Path) -> None:
    lake = Registered(tmp_path, "protobuf")
    mark = tmp_path / "ran"
    lake.register(1, "", "a", schemaType="PROTOBUF")
    lake.register(2, f"open({str(mark)!r}, 'w')", "b", schemaType="PROTOBUF")
    names = ["grpc_tools/__init__.py", "grpc_tools/protoc.py"]
    references = [{"name": name, "subject": subject, "version": 1} for name, subject in zip(names, "ab", strict=True)]
    lake.register(3, 'syntax = "proto3"; message Order { int64 id = 1; }', schemaType="PROTOBUF", references=references)
    lake.append((b"a", named(3, b"\x00\x08\x07")))
    assert "the name of a referenced schema does not end with .proto" in str(lake.said())
    assert not mark.exists()


def test_very_many_schemas_of_one_topic_share_a_table(lake: Registered) -> None:
    for id in range(1, SCHEMAS + 1):
        lake.register(id, avro(ID, {"name": f"f{id}", "type": ["null", "long"]}), version=id)
    lake.append(*((b"k", named(id, zigzag(id) + b"\x02" + zigzag(id))) for id in range(1, SCHEMAS + 1)))
    lake.decode()
    rows = lake.values()
    assert [row["id"] for row in rows] == list(range(1, SCHEMAS + 1))
    assert all(row[f"f{row['id']}"] == row["id"] for row in rows)


@pytest.mark.long
def test_ten_thousand_schema_ids_of_one_topic_share_a_table(lake: Registered) -> None:
    ids = range(1, MANY_SCHEMAS + 1)
    for id in ids:
        lake.register(id, avro(ID, {"name": f"f{id % 7}", "type": ["null", "long"], "doc": str(id)}), version=id)
    lake.append(*((b"k", named(id, zigzag(id) + b"\x02" + zigzag(-id))) for id in ids))
    assert lake.said() is None
    assert lake.reasons() == []
    none = {f"f{number}": None for number in range(7)}
    assert lake.values() == [{"id": id, **none, f"f{id % 7}": -id} for id in ids]


def test_schemas_from_an_address_decode_as_those_of_the_topic(lake: Registered) -> None:
    versions = "/subjects/orders-value/versions"
    answers = {
        f"{versions}?deleted=true": [1, 2],
        f"{versions}/1?deleted=true": {"subject": "orders-value", "version": 1, "id": 1, "schema": FIRST},
        f"{versions}/2?deleted=true": {"subject": "orders-value", "version": 2, "id": 2, "schema": SECOND},
    }
    lake.append((b"a", first(7)), (b"b", second(8, "x")), (b"c", named(3, b"\x02")))
    with Registry(answers) as registry:
        lake.policy("", place=registry.address)
        assert lake.said() is None
        asked = len(registry.asked)
        assert lake.said() is None
        assert len(registry.asked) == asked == 3
    assert lake.values() == [{"id": 7, "note": None}, {"id": 8, "note": "x"}]
    assert lake.reasons() == [(2, 3, "UNKNOWN_SCHEMA")]


@pytest.mark.parametrize("at", [0, 3, 12])
def test_a_log_of_many_tasks_ends_before_the_first_row_that_waits(lake: Registered, monkeypatch, at: int) -> None:
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    monkeypatch.setattr(decode_job, "TASK_ROWS", 3)
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    lake.register(1, FIRST)
    lake.register(2, avro({"name": "id", "type": "string"}), version=2)
    rows = [(b"k", named(2, text("x")) if row == at else first(row)) for row in range(13)]
    for start in range(0, 13, 5):
        lake.append(*rows[start : start + 5])
    assert f"partition 0 waits at offset {at}" in str(lake.said())
    assert lake.values() == [{"id": row} for row in range(at)]
    lake.policy("    on_schema_change: undecoded\n")
    assert lake.said() is None
    assert lake.values() == [{"id": row} for row in range(13) if row != at]
    assert lake.reasons() == [(at, 2, "INCOMPATIBLE_SCHEMA")]


@pytest.mark.parametrize("change", ["policy", "schema"])
def test_a_log_that_waits_decodes_no_row_until_the_policy_or_the_schemas_change(
    lake: Registered, monkeypatch, change: str
) -> None:
    lake.register(1, FIRST)
    lake.append((b"a", first(7)))
    lake.decode()
    lake.register(2, avro({"name": "id", "type": "string"}), version=2)
    lake.append((b"b", named(2, text("x"))), *((b"c", first(row)) for row in range(WAITING)))
    said, before = lake.said(), lake.versions()
    assert "partition 0 waits at offset 1" in str(said)
    decoded: list[int] = []
    real = decode_job.decode_rows
    monkeypatch.setattr(decode_job, "decode_rows", lambda task: (decoded.append(task.span.start), real(task))[1])
    lake.append((b"d", first(8)))
    assert lake.said() == said
    assert decoded == []
    assert lake.versions() == before
    if change == "policy":
        lake.policy("    on_schema_change: undecoded\n")
    else:
        lake.register(2, FIRST, version=2)  # now the id names two schemas
        lake.publish()
    assert lake.said() is None
    assert decoded == [1]
    assert lake.values() == [{"id": 7}, *({"id": row} for row in range(WAITING)), {"id": 8}]
    assert lake.reasons() == [(1, 2, "INCOMPATIBLE_SCHEMA" if change == "policy" else "BAD_SCHEMA")]


ITEM = 'syntax = "proto3";\nmessage Item { string sku = 1; }\n'
ORDER = (
    'syntax = "proto3";\nimport "shop/item.proto";\nmessage Other { int32 x = 1; }\n'
    "message Order { int64 id = 1; repeated Item items = 2; }\n"
)


def test_protobuf_in_text_with_an_import_and_a_named_message(tmp_path: Path) -> None:
    lake = Registered(tmp_path, "protobuf", more="    decode.value.message: Order\n")
    lake.register(1, ITEM, "item", schemaType="PROTOBUF")
    reference = {"name": "shop/item.proto", "subject": "item", "version": 1}
    lake.register(2, ORDER, schemaType="PROTOBUF", references=[reference])
    order = b"\x08\x07\x12\x03\x0a\x01s"
    lake.append((b"a", named(2, b"\x02\x02" + order)), (b"b", named(2, b"\x00" + b"\x08\x01")))
    assert "partition 0 waits at offset 1: value: schema 2: message (0,), the table has (1,)" in str(lake.said())
    assert lake.values() == [{"id": 7, "items": [{"sku": "s"}]}]
    lake.register(3, "message {", schemaType="PROTOBUF", version=2)
    lake.register(4, ORDER, schemaType="PROTOBUF", version=3, references=[{**reference, "name": "../item.proto"}])
    lake.policy("    decode.value.message: Order\n    on_schema_change: undecoded\n", "protobuf")
    lake.append((b"c", named(3, b"\x00")), (b"d", named(4, b"\x02\x02" + order)))
    lake.decode()
    assert lake.reasons() == [(1, 2, "INCOMPATIBLE_SCHEMA"), (2, 3, "BAD_SCHEMA"), (3, 4, "BAD_SCHEMA")]


def test_a_topic_waits_if_the_compiler_dies_and_is_decoded_by_the_next_run(tmp_path: Path, monkeypatch) -> None:
    lake = Registered(tmp_path, "protobuf")
    lake.register(1, 'syntax = "proto3"; message Unlucky { int64 id = 1; }', schemaType="PROTOBUF")
    lake.append((b"a", named(1, b"\x00\x08\x07")))
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -SEGV $$\n")
    script.chmod(0o700)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(script))
        said = lake.said()
    assert str(said).startswith("The compiler of Protobuf schemas was ended by signal 11. Try again. ")
    assert str(said).endswith(f"`loglake decode {lake.path} --topic orders`")
    assert lake.rows("undecoded") == []
    assert lake.said() is None
    assert lake.values() == [{"id": 7}]


def test_a_run_that_adds_columns_does_not_pass_over_a_commit_that_came_before(lake: Registered, monkeypatch) -> None:
    lake.register(1, FIRST)
    lake.append((b"a", first(7)))
    lake.decode()
    lake.append((b"b", first(8)))
    table = topic_table(lake.path, "decoded", "orders")
    log = next(name for name, each in read_logs(lake.path).items() if each.topic == "orders")
    frontier = table.application_id(log)
    spec = decoded_spec("orders", pa.field("key", pa.string()), pa.field("value", pa.struct([("id", pa.int64())])))
    lake.register(2, SECOND, version=2)
    lake.publish()
    real = commits.bring_up_to_date
    raced: list[int] = []

    def late(opened, wanted):
        if wanted.name == "decoded/orders" and not raced:
            raced.append(1)
            table.commit(spec, [], "another", [Guard(frontier, 1, 2)], whole=False)
        return real(opened, wanted)

    monkeypatch.setattr(commits, "bring_up_to_date", late)
    config = DecodeConfig(lake.path, "late", AS_OF_MS, read_policies(str(lake.policies)))
    with pytest.raises(ConcurrentChange):
        decode_job.apply(decode_job.plan(config), config, None)
    assert raced
    assert [row["offset"] for row in lake.rows()] == [0], "the other run has the row at offset 1"


def test_json_of_two_schemas(tmp_path: Path) -> None:
    lake = Registered(tmp_path, "json")
    lake.register(1, '{"type":"object","properties":{"id":{"type":"integer"}}}', schemaType="JSON")
    lake.register(2, '{"type":"object","properties":{"at":{"type":"string"}}}', schemaType="JSON", version=2)
    lake.register(3, FIRST, version=3)
    lake.append((b"a", named(1, b'{"id": 1}')), (b"b", named(2, b'{"at": "x"}')), (b"c", named(3, b"\x02")))
    lake.decode()
    assert lake.values() == [{"id": 1, "at": None}, {"id": None, "at": "x"}]
    assert lake.reasons() == [(2, 3, "OTHER_FORMAT")]
