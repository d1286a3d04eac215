"""Tables and columns say what they are, and a table gets the columns of a later version with the next commit."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from spark_jobs.errors import ConcurrentChange, TableRefused
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.delta.tables import delta_log, table_creation
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.table_specs import LOGS, SEGMENTS, TABLES
from spark_jobs.lake.view import harm

LOG = "topic.0/0"


def logs(**next_offsets: int) -> pa.Table:
    rows = [dict.fromkeys(LOGS.names) | {"log": f"{log}/0", "next_offset": end} for log, end in next_offsets.items()]
    return pa.Table.from_pylist(rows, schema=LOGS)


def made_before(lake: str, name: str) -> None:
    """The table as a version without its last column would create it."""
    spec = TABLES[name]
    fields = [
        Field(each.name, each.type, nullable=each.nullable, metadata={"comment": spec.meaning(each.name)})
        for each in Schema.from_arrow(spec.schema).fields[:-1]
    ]
    ours = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": "tables"})})
    DeltaTable.create(
        table_uri(lake, name),
        Schema(fields),
        partition_by=list(spec.partition_by),
        description=spec.one_row,
        commit_properties=ours,
    )


def older(rows: pa.Table) -> pa.Table:
    """The rows without the column that the table does not have yet."""
    return rows.select(rows.schema.names[:-1])


def comments(table: DeltaTable) -> dict[str, str | None]:
    return {field.name: field.metadata.get("comment") for field in table.schema().fields}


def opened(lake: str, name: str) -> DeltaTable:
    return DeltaTable(table_uri(lake, name))


def is_described(table: DeltaTable, name: str) -> bool:
    spec = TABLES[name]
    return table.metadata().description == spec.one_row and comments(table) == dict(spec.meanings)


@pytest.mark.parametrize("name", TABLES)
def test_a_new_table_has_its_description_and_a_comment_for_each_column(tmp_path, name):
    lake = str(tmp_path)
    table = ensure_table(lake, name)
    assert is_described(table, name)
    assert all(comments(table).values())
    assert ensure_table(lake, name).version() == 0, "nothing is missing"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_gets_a_column_once_by_a_commit_that_is_ours_and_changes_no_data(tmp_path, name):
    lake = str(tmp_path)
    made_before(lake, name)
    tables_file.record_state(lake, "run", 0)
    ensure_table(lake, name)
    assert is_described(opened(lake, name), name)
    commit = delta_log.read_commit(lake, name, 1)
    assert commit is not None
    assert commit.is_ours
    assert (commit.added, commit.removed, commit.data_change) == ((), (), False)
    assert [finding.message for finding in harm.cheap_check(lake)] == []
    ensure_table(lake, name)
    assert opened(lake, name).version() == 1


def test_the_next_commit_to_a_table_brings_the_column(tmp_path):
    lake = str(tmp_path)
    made_before(lake, "logs")
    commits.append(lake, "logs", logs(a=1), "run")
    assert is_described(opened(lake, "logs"), "logs")
    commits.append(lake, "logs", logs(b=2), "run")
    assert opened(lake, "logs").version() == 3, "the column, and two commits of rows"
    rows = read_rows(lake, "logs", ["log", "next_offset"]).to_pylist()
    assert {row["log"]: row["next_offset"] for row in rows} == {"a/0": 1, "b/0": 2}


def test_what_a_user_wrote_stays(tmp_path):
    lake = str(tmp_path)
    made_before(lake, "logs")
    table = opened(lake, "logs")
    table.alter.set_table_description("our logs")
    table.alter.set_column_metadata("source", {"comment": "where it was", "owner": "ops"})
    commits.append(lake, "logs", logs(a=1), "run")
    table = opened(lake, "logs")
    assert table.metadata().description == "our logs"
    expected = dict(TABLES["logs"].meanings) | {"source": "where it was"}
    assert comments(table) == expected
    assert {f.name: f.metadata for f in table.schema().fields}["source"]["owner"] == "ops"


def test_a_plan_that_expects_a_version_of_an_older_table_is_carried_out(tmp_path):
    lake = str(tmp_path)
    made_before(lake, "logs")
    expected = TableVersions.of(lake, "logs")
    commits.append(lake, "logs", logs(a=1), "run", expected=expected)
    commits.replace(lake, "logs", ("log", ["a/0"]), logs(a=2), "run", expected=expected)
    assert read_rows(lake, "logs", ["next_offset"]).to_pylist() == [{"next_offset": 2}]


def test_a_commit_of_another_beside_ours_is_not_taken_for_one_of_them(tmp_path, monkeypatch):
    """It comes between the check of the plan and the new column, which Delta rebases onto it."""
    lake = str(tmp_path)
    made_before(lake, "logs")
    expected = TableVersions.of(lake, "logs")
    real = table_creation.bring_up_to_date

    def overtaken(table, name):
        write_deltalake(table_uri(lake, "logs"), older(logs(other=9)), mode="append")
        assert real(table, name) == 1
        assert table.version() == 2
        return 1

    monkeypatch.setattr(commits, "bring_up_to_date", overtaken)
    with pytest.raises(ConcurrentChange):
        commits.append(lake, "logs", logs(a=1), "run", expected=expected)
    assert read_rows(lake, "logs", ["log"]).to_pylist() == [{"log": "other/0"}]


def test_a_guard_is_compared_after_the_column(tmp_path, monkeypatch):
    lake = str(tmp_path)
    made_before(lake, "segments")
    guard = Guard(f"segments/{LOG}", None, 1)
    rows = pa.Table.from_pylist([dict.fromkeys(SEGMENTS.names) | {"log": LOG}], schema=SEGMENTS)
    moved = CommitProperties(app_transactions=[Transaction(guard.application_id, 1)])
    real = table_creation.bring_up_to_date

    def overtaken(table, name):
        write_deltalake(table_uri(lake, "segments"), older(rows), mode="append", commit_properties=moved)
        return real(table, name)

    monkeypatch.setattr(commits, "bring_up_to_date", overtaken)
    with pytest.raises(ConcurrentChange, match="the plan was made at None"):
        commits.append(lake, "segments", rows, "run", [guard])
    assert read_rows(lake, "segments", ["log"]).num_rows == 1


def test_a_refused_table_is_left_without_them(tmp_path):
    lake = str(tmp_path)
    made_before(lake, "records")
    table = opened(lake, "records")
    table.alter.add_constraint({"above": "offset >= 0"})
    version = opened(lake, "records").version()
    with pytest.raises(TableRefused, match="check constraint above"):
        commits.add_files(lake, "records", [], "run", [Guard("records/x", None, 1)])
    assert opened(lake, "records").version() == version


def test_a_column_of_the_user_named_like_ours_is_refused_where_its_type_is_another(tmp_path):
    lake = str(tmp_path)
    made_before(lake, "records")
    table = opened(lake, "records")
    table.alter.add_columns([Field("published_at", PrimitiveType("string"))])
    with pytest.raises(TableRefused, match="its column published_at is of the type string"):
        commits.add_files(lake, "records", [], "run", [Guard("records/x", None, 1)])
