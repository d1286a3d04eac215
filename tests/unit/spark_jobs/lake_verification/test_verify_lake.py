"""`loglake verify LAKE`: a healthy lake is proved whole, each harm is named, and nothing looked at is not clean."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.cli.main import main
from logcore.logs.model.findings import Severity
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake_verification import footers
from spark_jobs.lake_verification.comparison import Archive
from spark_jobs.lake_verification.files import verify_file
from spark_jobs.lake_verification.footers import read_statistics
from spark_jobs.lake_verification.state import read_lake
from spark_jobs.lake_verification.verified_thing import DataUnreadable
from tests.pseudo_terminal import on_terminal
from tests.spark.cycle import Lake

pytestmark = pytest.mark.slow

ORDERS_ROWS, PAYMENTS_ROWS = 30, 4


def table(lake: Lake, name: str = "records") -> DeltaTable:
    return DeltaTable(str(lake.path / "tables" / name))


def files_of(lake: Lake, name: str = "records", topic: str = "orders") -> list[Path]:
    """Live data files by path; of records those of one topic."""
    actions = pa.table(table(lake, name).get_add_actions(flatten=True)).to_pylist()
    chosen = [a for a in actions if name != "records" or a["partition.topic"] == topic]
    ordered = sorted(chosen, key=lambda a: a.get("min.offset", 0))
    return [lake.path / "tables" / name / a["path"] for a in ordered]


def segments_of(lake: Lake, topic: str = "orders") -> list[Path]:
    rows = [r for r in lake.rows("segments") if r["topic"] == topic and r["retired_ms"] is None]
    return [lake.path / r["path"] for r in sorted(rows, key=lambda r: r["base_offset"])]


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Flip one bit; size and time stay."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def spans(findings: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(each["offset"], each["end_offset"]) for each in findings}


def test_a_healthy_lake_is_clean_and_every_row_is_proved_by_its_digest(lake, verified):
    done = verified(lake)
    assert (done.code, done.findings, done.errors) == (0, [], "")
    archived = sum(path.stat().st_size for path in (lake.path / "archive").rglob("*.log"))
    assert done.summary["archive_bytes"] == archived
    assert done.summary["archive_files"] == len(list((lake.path / "archive").rglob("*.log")))
    assert done.summary["rows"] == done.summary["rows_by_digest"] == ORDERS_ROWS + PAYMENTS_ROWS
    assert (done.summary["rows_by_archive"], done.summary["rows_not_provable"]) == (0, 0)
    assert done.summary["logs"] == 2
    live = sum(len(files_of(lake, path.name)) for path in (lake.path / "tables").iterdir() if path.name != "records")
    assert done.summary["table_files"] == live + len(files_of(lake)) + len(files_of(lake, topic="payments"))
    assert done.summary["findings"] == {"info": 0, "warning": 0, "error": 0}


@pytest.mark.long
def test_every_bundled_sample_becomes_a_lake_that_is_proved(sample, tmp_path, verified):
    from tests.in_process import without_spark

    for name in ("codecs-v2-4.3.1", "transactions-4.4.0", "timestamps-v2-4.4.0", "damaged"):
        made = Lake(tmp_path / name)
        with without_spark():
            made.turn(sample(name).logdir)
        done = verified(made)
        assert (done.code, done.findings) == (0, []), name
        assert done.summary["rows"] == done.summary["rows_by_digest"] == len(made.rows("records"))


def test_another_cluster_in_the_description_of_the_lake_is_named(lake, verified):
    described = lake.path / "lake.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"cluster": "another"}))
    done = verified(lake)
    assert done.code == 2
    assert [finding["rule"] for finding in done.findings] == ["lake-identity-differs"]


def test_verify_writes_nothing_into_the_lake(lake, verified):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in lake.path.rglob("*") if path.is_file()}
    verified(lake)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in lake.path.rglob("*") if p.is_file()} == before


# archive


def test_an_archived_file_that_is_gone_is_named_with_its_offsets(lake, verified):
    segments_of(lake)[1].unlink()
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("archive-file-missing")) == {(10, 20)}
    assert done.rules == {"archive-file-missing"}


@pytest.mark.long
def test_a_flipped_bit_of_an_archived_file_is_found_though_size_and_time_are_the_same(lake, verified):
    for at in (0, 30, 70):
        path = segments_of(lake)[0]
        flip(path, at)
        done = verified(lake)
        assert (done.code, done.rules) == (2, {"archive-file-changed"})
        assert spans(done.findings) == {(0, 10)}
        flip(path, at)
    assert verified(lake).code == 0


def test_a_zeroed_or_cut_or_grown_archived_file_is_found(lake, verified):
    first, second, third = segments_of(lake)[:3]
    first.write_bytes(bytes(first.stat().st_size))
    second.write_bytes(second.read_bytes()[:-1])
    third.write_bytes(third.read_bytes() + b"\0")
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("archive-file-changed")) == {(0, 10), (10, 20), (20, 35)}


def test_swapped_archived_files_are_found(lake, verified):
    first, second = segments_of(lake)[:2]
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert spans(verified(lake).of("archive-file-changed")) == {(0, 10), (10, 20)}


def test_stray_files_of_the_archive_are_information(lake, verified):
    stray = lake.path / "archive" / "nobody" / "00000000000000000000.log"
    stray.parent.mkdir()
    stray.write_bytes(b"stray")
    done = verified(lake)
    assert (done.code, done.rules) == (0, {"stray-archive-file"})
    assert "archive/nobody/00000000000000000000.log" in done.findings[0]["message"]


def test_what_validation_recorded_of_a_segment_is_made_again_from_its_bytes(lake, verified):
    rows = pa.Table.from_pylist(
        [row | {"batches": row["batches"] + 1} for row in lake.rows("validations")],
        schema=pa.schema(table(lake, "validations").schema().to_arrow()),
    )
    write_deltalake(table(lake, "validations"), rows, mode="overwrite")
    done = verified(lake)
    assert done.code == 2
    assert {each["table"] for each in done.of("rows-differ-from-archive")} == {"validations"}
    assert "foreign-commit" in done.rules


# data files


def test_a_data_file_that_is_gone_is_named_and_so_are_its_rows(lake, verified):
    files_of(lake)[1].unlink()
    done = verified(lake)
    assert done.code == 2
    assert spans(done.of("table-file-missing")) == {(10, 20)}
    assert spans(done.of("rows-differ-from-ledger")) == {(10, 20)}


def test_a_cut_data_file_is_named(lake, verified):
    path = files_of(lake)[0]
    path.write_bytes(path.read_bytes()[:-100])
    done = verified(lake)
    assert done.code == 2
    assert {"table-file-size", "table-file-damaged"} <= done.rules


@pytest.mark.long
@pytest.mark.parametrize("name", ["records", "logs", "offset_ledger"])
def test_any_flipped_byte_of_a_data_file_is_named_or_changes_nothing_that_can_be_read(lake, name):
    state = read_lake(str(lake.path))
    archived = Archive(str(lake.path), state.held(), state.segments)
    file = state.tables[name].files[0]
    path = lake.path / "tables" / name / file.path
    before, statistics = pq.read_table(path), read_statistics(str(path))
    silent = 0
    with state.footers:
        for at in range(0, path.stat().st_size, 13):
            flip(path, at, at % 8)
            findings = verify_file(state, archived, name, file).findings
            if not findings:
                silent += 1
                assert pq.read_table(path).equals(before), at
                used = TABLES[name].statistics
                now = [{k: v for k, v in group.items() if k in used} for group in read_statistics(str(path))]
                assert now == [{k: v for k, v in group.items() if k in used} for group in statistics], at
            assert {each.finding.severity for each in findings} <= {Severity.ERROR}, at
            flip(path, at, at % 8)
    assert silent * 3 < path.stat().st_size / 13, "most bytes of a file count"


def test_a_footer_that_ends_the_process_of_its_reader_is_a_finding(lake, monkeypatch):
    state = read_lake(str(lake.path))
    archived = Archive(str(lake.path), state.held(), state.segments)
    file = state.tables["records"].files[0]
    monkeypatch.setattr(footers, "read_statistics", os._exit)
    with state.footers:
        with pytest.raises(DataUnreadable, match="ends the process"):
            state.footers.statistics(9)  # the child ends with this code
        monkeypatch.undo()
        assert verify_file(state, archived, "records", file).findings == []


@pytest.mark.parametrize("name", ["segments", "validations", "batches", "offset_ledger", "logs", "transactions"])
def test_zeros_in_the_middle_of_a_state_table_are_an_error_and_the_rest_continues(lake, verified, name):
    path = files_of(lake, name)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 64] = bytes(64)
    path.write_bytes(bytes(data))
    done = verified(lake)
    assert done.code == 2
    assert name in {each["table"] for each in done.findings}
    assert done.summary["rows"] == ORDERS_ROWS + PAYMENTS_ROWS


def test_a_state_table_without_its_log_is_named(lake, verified):
    shutil.rmtree(lake.path / "tables" / "offset_ledger" / "_delta_log")
    done = verified(lake)
    assert done.code == 2
    assert [each["table"] for each in done.of("table-missing")] == ["offset_ledger"]


def test_a_file_that_another_engine_swapped_for_an_earlier_one_is_found(lake, verified):
    first, second = files_of(lake)[:2]
    first.write_bytes(second.read_bytes())
    assert verified(lake).code == 2


# rows


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
    assert "--replace 13..14" in found["message"]
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
    assert "loglake withdraw" in done.of("rows-differ-from-ledger")[0]["message"]


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
    write_deltalake(table(lake, "segments"), pa.Table.from_pylist(rows, schema=schema), mode="overwrite")
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


# ledger


def rewrite(lake: Lake, name: str, change: Any) -> None:
    schema = pa.schema(table(lake, name).schema().to_arrow())
    rows = [new for row in lake.rows(name) if (new := change(row)) is not None]
    write_deltalake(table(lake, name), pa.Table.from_pylist(rows, schema=schema), mode="overwrite")


def test_a_hole_in_the_ledger_is_named(lake, verified):
    rewrite(
        lake, "offset_ledger", lambda row: None if row["topic"] == "payments" and row["state"] == "aborted" else row
    )
    done = verified(lake)
    assert done.code == 2
    assert [each["table"] for each in done.of("ledger-has-a-hole")] == ["offset_ledger"]
    assert spans(done.of("ledger-has-a-hole")) == {(0, 8)}


def test_a_lost_frontier_is_named_with_the_command_that_writes_it_again(lake, verified):
    path = lake.path / "tables" / "records"
    rows = table(lake).to_pyarrow_table()
    shutil.rmtree(path)
    write_deltalake(str(path), rows, partition_by=["topic"])
    done = verified(lake)
    assert done.code == 2
    assert len(done.of("frontier-missing")) == 2
    assert "loglake repair LAKE --frontiers" in done.of("frontier-missing")[0]["message"]


def test_a_missing_validation_is_named(lake, verified):
    rewrite(lake, "validations", lambda row: None if row["topic"] == "orders" and row["base_offset"] == 10 else row)
    done = verified(lake)
    assert done.code == 2
    assert (10, 20) in spans(done.of("ledger-has-a-hole"))


def test_a_missing_segment_is_named(lake, verified):
    rewrite(lake, "segments", lambda row: None if row["topic"] == "orders" and row["base_offset"] == 10 else row)
    done = verified(lake)
    assert done.code == 2
    assert (10, 20) in spans([each for each in done.of("ledger-has-a-hole") if each["table"] == "segments"])


def test_batches_that_are_gone_are_named(lake, verified):
    rewrite(lake, "batches", lambda row: None if row["topic"] == "orders" and row["base_offset"] == 10 else row)
    done = verified(lake)
    assert done.code == 2
    assert spans([each for each in done.findings if each["table"] == "batches" and each["severity"] == "error"]) == {
        (10, 20)
    }


def test_a_transaction_after_the_log_end_is_named(lake, verified):
    rewrite(lake, "transactions", lambda row: row | {"marker_offset": 99})
    done = verified(lake)
    assert done.code == 2
    assert {each["table"] for each in done.findings if each["severity"] == "error"} == {"transactions"}


def test_quarantined_bytes_are_those_of_the_archive(sample, tmp_path, verified):
    from tests.in_process import without_spark

    made = Lake(tmp_path / "lake")
    with without_spark():
        made.turn(sample("damaged").logdir)
    rewrite(made, "quarantine", lambda row: row | {"bytes": bytes(len(row["bytes"]))})
    done = verified(made)
    assert done.code == 2
    assert {each["table"] for each in done.findings if each["severity"] == "error"} == {"quarantine"}


# logs of tables


def test_a_commit_that_is_gone_or_repeated_or_unreadable_is_named(lake, verified):
    log = lake.path / "tables" / "records" / "_delta_log"
    second = log / f"{1:020d}.json"
    content = second.read_bytes()
    newest = max(log.glob("*.json"))
    again = log / f"{int(newest.stem) + 1:020d}.json"
    again.write_bytes(newest.read_bytes())
    assert "commit-file-damaged" in verified(lake).rules
    again.unlink()
    second.write_bytes(content[:-20])
    done = verified(lake)
    assert done.code == 2
    assert "records" in {each["table"] for each in done.findings}
    second.unlink()
    done = verified(lake)
    assert done.code == 2
    assert "records" in {each["table"] for each in done.findings}


def test_a_missing_commit_before_a_checkpoint_is_named(lake, verified):
    table(lake).create_checkpoint()
    assert verified(lake).code == 0
    (lake.path / "tables" / "records" / "_delta_log" / f"{1:020d}.json").unlink()
    done = verified(lake)
    assert done.code == 2
    assert {each["rule"] for each in done.findings} == {"commit-file-damaged"}


# what was not looked at has not passed


def test_an_empty_lake_or_none_is_exit_3(tmp_path, verified):
    (tmp_path / "lake.json").write_text('{"layout": 1, "cluster": null}')
    done = verified(tmp_path)
    assert (done.code, done.summary) == (3, {})
    assert "empty" in done.errors


def test_a_newer_layout_is_refused(lake, verified):
    (lake.path / "lake.json").write_text('{"layout": 99, "cluster": null}')
    done = verified(lake)
    assert done.code == 3
    assert "layout 99" in done.errors


def test_a_choice_that_matches_nothing_is_exit_3(lake, verified):
    done = verified(lake, "--topic", "ordrs")
    assert done.code == 3
    assert "--topic 'ordrs' matches no topic; the nearest names are orders." in done.errors


def test_a_topic_can_be_chosen(lake, verified):
    done = verified(lake, "--topic", "pay*")
    assert (done.code, done.summary["logs"], done.summary["rows"]) == (0, 1, PAYMENTS_ROWS)
    flip(segments_of(lake)[0], 5)
    assert verified(lake, "--topic", "pay*").code == 0
    assert verified(lake, "--topic", "orders", "--partition", "0").code == 2


def test_lakes_and_logs_do_not_mix(lake, made_once, capsys):
    logs = str(made_once[0] / "source")
    assert main(["verify", str(lake.path), logs]) == 64
    assert main(["verify", str(lake.path), str(lake.path)]) == 64
    assert main(["verify", logs, "--sample", "1/2"]) == 64
    assert main(["verify", str(lake.path), "--sample", "3/2"]) == 64
    assert main(["verify", str(lake.path), "--config", "cleanup.policy=compact"]) == 64


def test_without_the_package_that_knows_tables_it_is_named(lake, monkeypatch, capsys):
    from importlib import metadata

    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    assert main(["verify", str(lake.path)]) == 3
    assert ".whl[lake]'" in capsys.readouterr().err


def test_the_text_has_a_line_for_each_finding_and_a_summary(lake, capsys):
    segments_of(lake)[1].unlink()
    assert main(["verify", str(lake.path)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error archive-file-missing: orders-0, archived offsets [10, 20): ")
    assert lines[-1] == "findings: 1 error, 0 warning, 0 info"


# sample and resume


@pytest.mark.long
def test_the_parts_of_a_sample_together_are_the_whole_lake(lake, verified):
    segments_of(lake)[1].unlink()
    files_of(lake, topic="payments")[0].unlink()
    whole = verified(lake)
    parts = [verified(lake, "--sample", f"{n}/5") for n in range(1, 6)]
    for name in ("archive_files", "table_files", "table_bytes", "logs", "ledger_ranges", "rows"):
        assert sum(part.summary[name] for part in parts) == whole.summary[name], name
    said = sorted(json.dumps(each) for part in parts for each in part.findings)
    assert said == sorted(json.dumps(each) for each in whole.findings)
    assert all(part.summary["skipped"]["sample"] for part in parts)
    assert [verified(lake, "--sample", "2/5").findings] == [parts[1].findings]


def test_a_resumed_proof_proves_only_what_is_left_or_was_changed(lake, verified, tmp_path):
    segments_of(lake)[2].unlink()
    progress = tmp_path / "progress"
    whole = verified(lake, "--resume", str(progress))
    lines = progress.read_text().splitlines()
    things = [json.loads(line)["thing"] for line in lines if line.startswith('{"thing"')]
    assert len(things) == len(set(things))
    again = verified(lake, "--resume", str(progress))
    assert again.summary["skipped"]["resume"] == len(things)
    assert (again.code, sorted(map(json.dumps, again.findings))) == (2, sorted(map(json.dumps, whole.findings)))
    # killed in the middle of a line
    progress.write_text("\n".join(lines[:10]) + "\n" + lines[11][:30])
    left = verified(lake, "--resume", str(progress))
    assert 0 < left.summary["skipped"]["resume"] < len(things)
    assert sorted(map(json.dumps, left.findings)) == sorted(map(json.dumps, whole.findings))
    # changed since
    first = segments_of(lake)[0]
    first.write_bytes(bytes(first.stat().st_size))
    changed = verified(lake, "--resume", str(progress))
    assert spans(changed.of("archive-file-changed")) == {(0, 10)}
    assert changed.summary["skipped"]["resume"] == len(things) - 1


def test_the_progress_of_another_lake_or_in_the_lake_is_refused(lake, verified, tmp_path):
    progress = tmp_path / "progress"
    assert verified(lake, "--resume", str(progress)).code == 0
    other = Path(shutil.copytree(lake.path, tmp_path / "other"))
    assert verified(other, "--resume", str(progress)).code == 64
    assert verified(lake, "--resume", str(lake.path / "progress")).code == 64
    assert not (lake.path / "progress").exists()
    text = tmp_path / "text"
    text.write_text("my notes")
    assert verified(lake, "--resume", str(text)).code == 64
    assert text.read_text() == "my notes"


def test_a_table_with_a_feature_that_we_refuse_is_exit_3(lake, verified):
    log = lake.path / "tables" / "records" / "_delta_log"
    newest = int(max(log.glob("*.json")).stem)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    (log / f"{newest + 1:020d}.json").write_text(json.dumps({"protocol": protocol | features}) + "\n")
    done = verified(lake)
    assert (done.code, done.summary) == (3, {})
    assert "deletionVectors" in done.errors


@pytest.mark.long
def test_on_a_terminal_findings_are_below_their_log_and_the_progress_counts_bytes(lake):
    flip(segments_of(lake)[0], 5)
    impatient = "import logcore.cli.output.progress as p; p.TERMINAL_SECONDS = 0"
    shown = on_terminal("verify", lake.path, before=impatient)
    assert shown.code == 2
    progress, _, rest = shown.text.rpartition("\r\x1b[2K")
    assert re.search(r"\d+ of \d+ verified, [\d.]+ of [\d.]+ KiB, \d+ MB/s, .*1 finding, ", progress)
    heading, finding = rest.splitlines()[:2]
    assert heading == "\x1b[1morders-0\x1b[0m"
    assert finding.startswith("  \x1b[31merror\x1b[0m archive-file-changed: ")
    assert " KiB; " in rest
    assert "verified in " in rest
    quiet = on_terminal("verify", lake.path, "--format", "jsonl", shows_errors=False)
    assert "\x1b" not in quiet.text
    assert [json.loads(line).get("rule") for line in quiet.text.splitlines()] == ["archive-file-changed", None]
