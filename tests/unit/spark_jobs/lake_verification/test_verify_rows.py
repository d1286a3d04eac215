"""`loglake verify LAKE` proves rows by their digest or by the archive, and names those that it cannot prove."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.spark.cycle import OF_OURS
from tests.unit.spark_jobs.lake_verification.harmed_files import (
    ORDERS_ROWS,
    PAYMENTS_ROWS,
    flip,
    segments_of,
    spans,
    table,
)

pytestmark = pytest.mark.slow


def test_rows_that_another_engine_only_rewrote_are_proved_by_the_archive(lake, verified):
    table(lake).optimize.compact()
    done = verified(lake)
    assert done.code == 0
    assert done.rules <= {"foreign-commit", "rows-out-of-order"}
    assert "foreign-commit" in done.rules
    assert done.summary["rows_by_archive"] == ORDERS_ROWS
    assert done.summary["rows"] == ORDERS_ROWS + PAYMENTS_ROWS


@pytest.mark.parametrize(
    "updates",
    [
        {"value": "key"},
        {"key": "null"},
        {"timestamp": "timestamp + INTERVAL '1 second'"},
        {"timestamp_ms": "timestamp_ms + 1"},
        {"leader_epoch": "77"},
        {"timestampType": "1"},
        {"position": "position + 1"},
        {"segment_id": "'nobody'"},
    ],
    ids=lambda updates: next(iter(updates)),
)
def test_an_edited_row_is_named_with_its_offset_and_what_to_do(lake, verified, updates):
    table(lake).update(predicate="topic = 'orders' AND offset = 13", updates=updates)
    done = verified(lake)
    assert done.code == 2
    (found,) = done.of("rows-differ-from-archive")
    assert (found["offset"], found["end_offset"], found["table"]) == (13, 14, "records")
    assert f"--lake {lake.path} " in found["what_to_do"]
    assert "--topic orders --partition 0 --replace 13..14" in found["what_to_do"]
    assert found["log"].endswith("/0")
    assert done.rules == {"rows-differ-from-archive", "foreign-commit"}


def test_values_swapped_between_two_rows_are_named(lake, verified):
    table(lake).update(
        predicate="topic = 'orders' AND offset IN (3, 7)",
        updates={"offset": "10 - offset"},
    )
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("rows-differ-from-archive")) == {(3, 4), (7, 8)}


def test_rows_in_another_order_are_information(lake, verified):
    rows = table(lake).to_pyarrow_table().sort_by([("topic", "ascending"), ("offset", "descending")])
    write_deltalake(table(lake), rows, mode="overwrite")
    done = verified(lake)
    assert done.code == 0
    assert done.rules == {"rows-out-of-order", "foreign-commit"}
    assert done.summary["rows_by_archive"] == ORDERS_ROWS + PAYMENTS_ROWS


def test_deleted_rows_are_named(lake, verified):
    table(lake).delete("topic = 'orders' AND (offset IN (4, 5) OR offset = 17)")
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("rows-differ-from-ledger")) == {(4, 6), (17, 18)}
    assert "loglake withdraw" in done.of("rows-differ-from-ledger")[0]["what_to_do"]


def test_doubled_rows_are_named(lake, verified):
    rows = table(lake).to_pyarrow_table()
    twice = rows.filter((pa.compute.field("topic") == "orders") & (pa.compute.field("offset") == 21))
    write_deltalake(table(lake), twice, mode="append")
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("rows-differ-from-ledger")) == {(21, 22)}
    assert "more than once" in done.of("rows-differ-from-ledger")[0]["message"]


def test_rows_without_a_record_are_named(lake, verified):
    rows = table(lake).to_pyarrow_table()
    at = rows.schema.get_field_index("offset")
    strange = rows.filter(pa.compute.field("topic") == "payments").slice(0, 1)
    strange = strange.set_column(at, rows.schema.field(at), pa.array([3], pa.int64()))  # of the aborted transaction
    write_deltalake(table(lake), strange, mode="append")
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("rows-differ-from-ledger")) == {(3, 4)}
    assert spans(done.of("rows-differ-from-archive")) == {(3, 4)}


def test_a_table_that_went_back_is_named_by_its_rows_and_by_what_the_last_run_recorded(lake, verified):
    (lake.path / "tables.json").write_text(
        json.dumps({"version": 1, "tables": {"records": {"version": table(lake).version(), "rows": 34, "files": 4}}})
    )
    assert verified(lake).code == 0
    log = lake.path / "tables" / "records" / "_delta_log"
    max(log.glob("*.json")).unlink()
    done = verified(lake)
    assert done.code == 2
    assert [each["table"] for each in done.of("table-went-back")] == ["records"]
    assert (20, 30) in spans(done.of("rows-differ-from-ledger"))


def test_a_restored_table_is_named(lake, verified):
    table(lake).restore(1)
    done = verified(lake)
    assert done.code == 2
    assert "rows-differ-from-ledger" in done.rules
    assert "RESTORE" in done.of("foreign-commit")[0]["message"]


def test_users_columns_are_not_looked_at(lake, verified):
    import deltalake

    table(lake).alter.add_columns([deltalake.Field("label", deltalake.schema.PrimitiveType("string"), nullable=True)])
    table(lake).update(predicate="topic = 'orders'", updates={"label": "'mine'"})
    done = verified(lake)
    assert done.code == 0
    assert done.rules <= {"foreign-commit", "rows-out-of-order"}
    assert done.summary["rows_by_archive"] == ORDERS_ROWS


def test_rows_that_neither_digest_nor_archive_prove_are_a_warning_and_never_clean(lake, verified):
    table(lake).optimize.compact()
    rows = [
        row | {"retired_ms": 1, "retired_because": "retention", "deleted_ms": 2} if row["base_offset"] == 10 else row
        for row in lake.rows("segments")
    ]
    for row in rows:
        if row["deleted_ms"]:
            (lake.path / row["path"]).unlink()
    schema = pa.schema(table(lake, "segments").schema().to_arrow())
    ours, kept = CommitProperties(OF_OURS), pa.Table.from_pylist(rows, schema=schema)
    write_deltalake(table(lake, "segments"), kept, mode="overwrite", commit_properties=ours)
    done = verified(lake)
    assert done.code == 1
    about_rows = [each for each in done.of("not-provable") if each["table"] == "records"]
    assert spans(about_rows) == {(10, 20)}
    assert "retention removed these offsets from the archive" in about_rows[0]["message"]
    assert done.summary["rows_not_provable"] == 10
    assert done.summary["rows_by_archive"] == 20


def test_rows_are_not_blamed_where_the_archive_is_what_changed(lake, verified):
    table(lake).optimize.compact()
    flip(segments_of(lake)[1], 75)
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("archive-file-changed")) == {(10, 20)}
    assert done.of("rows-differ-from-archive") == []
    assert spans(done.of("not-provable")) <= {(10, 20), (10, 15), (15, 20)}
    assert done.of("not-provable")
