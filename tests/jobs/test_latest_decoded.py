"""`latest` of a decoded topic: its rows have the values of the decoded table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs import launch
from spark_jobs.contracts import JobReport, LatestConfig
from spark_jobs.lake.decoded.topic_tables import LATEST, topic_table
from spark_jobs.lake.segments import archive
from spark_jobs.lake_verification import topic_verification
from spark_jobs.latest import decoded_values
from spark_jobs.policies.policies_file import read_policies
from tests.field_ids import ids_of_file
from tests.jobs.decoded_lake import Decoded
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag
from tests.spark.cycle import AS_OF_MS

POLICY = "topics:\n  orders:\n    decode.key: json\n    decode.key.schema: key.json\n    decode.value: json\n    "
POLICY += "decode.value.schema: value.json\n    latest: soft-delete\n"
VALUE: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}}
WIDER = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
ID, NOTE = {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}


def latest(lake: Decoded, **options: Any) -> JobReport:
    config = LatestConfig(lake.path, "latest", AS_OF_MS, read_policies(str(lake.policies)), **options)
    return launch.run(config)


def said(report: JobReport) -> tuple[str | None, str | None]:
    """Why the topic waits, and why all rows were computed again."""
    [topic] = report.plan.topics
    return topic.waits, topic.note


def shown(lake: Decoded) -> list[tuple[Any, ...]]:
    """Offset, key, value, is_deleted, and both as bytes."""
    columns = ("offset", "key", "value", "is_deleted", "key_bytes", "value_bytes")
    return [tuple(row[name] for name in columns) for row in lake.rows("latest")]


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    (tmp_path / "key.json").write_text('{"type": "integer"}')
    (tmp_path / "value.json").write_text(json.dumps(VALUE))
    return Decoded(tmp_path, POLICY)


def test_rows_have_the_decoded_values_and_those_that_could_not_be_decoded_their_bytes(lake: Decoded) -> None:
    lake.append((b"1", b'{"id": 1}'), (b"2", b'{"id": 2}'), (b"x", b'{"id": 3}'), (b"3", b"no json"))
    lake.append((b"1", b'{"id": 4}'), (b"2", None), (b"4", b'{"id": 5}'), (None, b'{"id": 6}'), (b" 4", b'{"id": 7}'))
    lake.decode()
    assert said(latest(lake)) == (None, None)
    expected = [
        (2, None, None, False, b"x", b'{"id": 3}'),
        (3, None, None, False, b"3", b"no json"),
        (4, 1, {"id": 4}, False, b"1", None),
        (5, 2, None, True, b"2", None),
        (6, 4, {"id": 5}, False, b"4", None),
        (8, 4, {"id": 7}, False, b" 4", None),
    ]
    assert shown(lake) == expected
    read = polars.scan_delta(str(lake.lake.path / "tables" / "latest" / "orders")).sort("offset").collect()
    assert read["value"].to_list() == [row[2] for row in expected]
    for path in lake.table("latest").file_uris():
        ids = ids_of_file(path)
        assert -1 not in ids.values()
        assert ids.items() >= {"key": 7, "value": 8, "is_deleted": 9, "key_bytes": 10, "value_bytes": 11}.items()
        assert ids["value.id"] == ids_of_file(lake.table().file_uris()[0])["value.id"]


@pytest.mark.parametrize("keys_in_memory", [2, 1_000])
def test_after_each_run_the_rows_are_the_newest_ones(
    lake: Decoded, monkeypatch: pytest.MonkeyPatch, keys_in_memory: int
) -> None:
    monkeypatch.setattr(decoded_values, "_BATCH_ROWS", 3)
    newest: dict[bytes, tuple[Any, ...]] = {}
    for run in range(4):
        rows = [(b"%d" % (at * 7 % 11), b'{"id": %d}' % (100 * run + at) if at % 5 else b"bad") for at in range(12)]
        lake.append(*rows)
        lake.decode()
        latest(lake, keys_in_memory=keys_in_memory)
        for at, (key, value) in enumerate(rows):
            decoded = (int(key), {"id": 100 * run + at}, None) if at % 5 else (None, None, value)
            newest[key] = (12 * run + at, *decoded[:2], False, key, decoded[2])
        assert shown(lake) == sorted(newest.values()), run
    table = topic_table(lake.path, LATEST, "orders")
    found = list(
        topic_verification.latest_differences(
            table,
            table.files(),
            list(archive.read_logs(lake.path).values()),
        )
    )
    assert found == []


def test_it_waits_for_the_decoded_table_and_a_second_run_writes_nothing(lake: Decoded) -> None:
    lake.append((b"1", b'{"id": 1}'))
    waits, note = said(latest(lake))
    assert waits is None
    assert note is not None
    assert note.startswith("rows end where decoded/orders ends. To decode more: `loglake decode ")
    assert lake.rows("latest") == []
    lake.decode()
    lake.append((b"1", b'{"id": 2}'))
    latest(lake)
    assert [row[0] for row in shown(lake)] == [0]
    lake.decode()
    latest(lake)
    assert [row[0] for row in shown(lake)] == [1]
    before = lake.table("latest").version()
    assert latest(lake).changed == ()
    assert lake.table("latest").version() == before


def test_all_rows_are_computed_again_when_the_decoded_table_was_written_again(lake: Decoded, tmp_path: Path) -> None:
    lake.append((b"1", b'{"id": 1, "note": "a"}'), (b"2", b'{"id": 2}'))
    lake.decode()
    latest(lake)
    (tmp_path / "value.json").write_text(json.dumps(WIDER))
    lake.append((b"2", b'{"id": 3, "note": "b"}'))
    lake.decode(replace=("orders",))
    assert said(latest(lake)) == (None, "decoded/orders was written again: all rows were computed again")
    assert [row[2] for row in shown(lake)] == [{"id": 1, "note": "a"}, {"id": 3, "note": "b"}]
    assert said(latest(lake)) == (None, None)
    lake.decode(replace=("orders",))
    assert said(latest(lake))[1] is not None, "each time, also if nothing changed"


def test_new_fields_are_null_in_rows_that_stay(tmp_path: Path) -> None:
    lake = Registered(tmp_path, more="    latest: delete\n")
    lake.register(1, avro(ID))
    lake.append((b"a", named(1, zigzag(7))), (b"b", named(1, zigzag(8))))
    lake.decode()
    latest(lake)
    lake.register(2, avro(ID, NOTE), version=2)
    lake.append((b"b", named(2, zigzag(9) + b"\x02" + text("n"))))
    lake.decode()
    assert said(latest(lake)) == (None, None)
    assert [row["value"] for row in lake.rows("latest")] == [{"id": 7, "note": None}, {"id": 9, "note": "n"}]
    assert [row["key"] for row in lake.rows("latest")] == ["a", "b"]


def test_a_topic_that_becomes_decoded_waits_until_its_table_is_computed_again(lake: Decoded) -> None:
    decoded = lake.policies.read_text()
    lake.policies.write_text("topics:\n  orders:\n    latest: soft-delete\n")
    lake.append((b"1", b'{"id": 1}'))
    latest(lake)
    assert lake.rows("latest")[0]["value"] == b'{"id": 1}'
    assert "value_bytes" not in lake.rows("latest")[0]
    lake.policies.write_text(decoded)
    lake.decode()
    waits, _ = said(latest(lake))
    assert waits is not None
    assert waits.endswith(f"`loglake latest {lake.path} --replace orders`")
    latest(lake, replace=("orders",))
    assert shown(lake) == [(0, 1, {"id": 1}, False, b"1", None)]


def test_rows_that_are_gone_from_the_decoded_table_hold_the_topic_up(lake: Decoded) -> None:
    lake.append((b"1", b'{"id": 1}'), (b"2", b'{"id": 2}'))
    lake.decode()
    DeltaTable(str(lake.lake.path / "tables" / "decoded" / "orders")).delete("offset = 0")
    waits, _ = said(latest(lake))
    assert waits is not None
    assert f"`loglake decode {lake.path} --replace orders`" in waits
    assert lake.rows("latest") == []
    lake.decode(replace=("orders",))
    assert said(latest(lake))[0] is None
    assert len(shown(lake)) == 2


def test_rows_of_records_in_another_order_have_their_own_values(lake: Decoded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine joined the files of `records` in its own order."""
    monkeypatch.setattr(decoded_values, "_BATCH_ROWS", 2)
    for number in range(3):
        lake.append(*((b"1%d%d" % (number, at), b'{"id": 1%d%d}' % (number, at)) for at in range(1, 4)))
    lake.decode()
    table = DeltaTable(str(lake.lake.path / "tables" / "records"))
    rows = table.to_pyarrow_table().sort_by([("offset", "descending")])
    table.delete()
    write_deltalake(str(lake.lake.path / "tables" / "records"), rows, mode="append")
    lake.decode(replace=("orders",))
    latest(lake)
    assert [(row[1], row[2]) for row in shown(lake)] == [
        (100 + number * 10 + at, {"id": 100 + number * 10 + at}) for number in range(3) for at in range(1, 4)
    ]
