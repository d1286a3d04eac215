"""`loglake verify LAKE` names each harm to files of the archive and to data files of tables."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from logcore.logs.model.findings import Severity
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake_verification import files
from spark_jobs.lake_verification.comparison import Archive
from spark_jobs.lake_verification.files import data_file, read_statistics
from spark_jobs.lake_verification.state import read_lake
from spark_jobs.lake_verification.verified_thing import DataUnreadable
from tests.unit.spark_jobs.lake_verification.harmed_files import (
    ORDERS_ROWS,
    PAYMENTS_ROWS,
    files_of,
    flip,
    segments_of,
    spans,
    table,
)

pytestmark = pytest.mark.slow


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
    verified = data_file(state, archived, name, file)
    for at in range(0, path.stat().st_size, 13):
        flip(path, at, at % 8)
        findings = verified.verify().findings
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
    monkeypatch.setattr(files, "read_statistics", os._exit)
    with pytest.raises(DataUnreadable, match="ends the process"):
        files.footers().statistics(9)  # the child ends with this code
    monkeypatch.undo()
    without_proof = replace(data_file(state, archived, "records", file), content_digest=None)
    assert without_proof.verify().findings == []


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
