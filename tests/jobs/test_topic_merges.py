"""`optimize` joins the small files of decoded tables; rows, frontiers and what the next decoding does stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, JobReport, OptimizeConfig
from spark_jobs.decode import decode_job
from spark_jobs.lake.decoded.table_columns import extra_columns
from spark_jobs.optimize import optimize_job
from spark_jobs.optimize.merged_file import FileMergeTask, merge_files
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.field_ids import ids_of_file, ids_of_table
from tests.jobs.decoded_lake import KINDS, Decoded
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag
from tests.spark.cycle import AS_OF_MS

RUNS = 3
LATER_MS = 4_000_000_000_000
"""Long after anything in these tests was written."""


def config(lake: Decoded, **changes: Any) -> OptimizeConfig:
    usual = {"as_of_ms": AS_OF_MS, "apply": True, "policies": read_policies(str(lake.policies))}
    return OptimizeConfig(lake.path, "optimize", **usual | changes)


def optimize(lake: Decoded, **changes: Any) -> JobReport:
    return launch.run(config(lake, **changes))


class TwoLogs(Decoded):
    """With a second log of the topic."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        self.other = self.source.partition("orders-1")


def night(lake: TwoLogs, number: int) -> None:
    """Rows of two logs, one of them not text, and a run of decode."""
    lake.other.append(2)
    lake.marks["orders_1"] = lake.other.next_offset
    lake.append((b"a", b"%d" % number), (b"b", b"\xff%d" % number), (b"c", None))
    lake.decode()


@pytest.fixture
def lake(tmp_path: Path) -> TwoLogs:
    made = TwoLogs(tmp_path)
    for number in range(RUNS):
        night(made, number)
    return made


def files(lake: Decoded, kind: str = "decoded") -> list[Path]:
    root = Path(lake.path) / "tables" / kind / "orders"
    return sorted(root / Path(uri).name for uri in lake.table(kind).file_uris())


def everything(lake: TwoLogs) -> list[list[str]]:
    return [sorted(map(repr, lake.rows(kind))) for kind in KINDS]


def recorded(lake: TwoLogs) -> list[Any]:
    """What the tables record of frontiers, policies and schemas, by Delta's own reader of the log."""
    ids = ["policy", "seen", "schemas"]
    logs = {f"{row['log_id']}/{row['partition']}" for kind in KINDS for row in lake.rows(kind)}
    return [
        lake.table(kind).transaction_version(f"{kind}/orders/{what}") for kind in KINDS for what in sorted(logs) + ids
    ]


def test_merged_files_have_the_field_ids_that_the_table_keeps(lake: TwoLogs) -> None:
    ids = {kind: ids_of_file(str(files(lake, kind)[0])) for kind in KINDS}
    optimize(lake)
    for kind in KINDS:
        assert -1 not in ids[kind].values()
        merged = files(lake, kind)
        assert [ids_of_file(str(path)) for path in merged] == [ids[kind]] * len(merged)
        assert ids_of_table(lake.table(kind)).items() <= ids[kind].items()


def left_of(report: JobReport) -> list[tuple[str, str]]:
    """Tables that are left alone, and why. Each reason ends with the command that writes the table again."""
    assert report.plan is not None
    left: Any = report.plan.left
    repair = f"rite it again: `loglake decode {report.lake} --replace orders`"
    assert all(each.why.endswith(repair) for each in left)
    return [(each.table, each.why.split(". ")[0].split(", or")[0]) for each in left]


def merged_of(report: JobReport) -> set[tuple[str, int, int]]:
    assert report.plan is not None
    merges: Any = report.plan.merges
    return {(each.table, each.partition, each.files) for each in merges if "/" in each.table}


def test_small_files_become_one_for_each_log_with_the_same_rows_for_every_reader(lake: TwoLogs) -> None:
    before, versions = everything(lake), recorded(lake)
    seen_by_others = [polars.read_delta(str(lake.table(kind).table_uri)).sort("partition", "offset") for kind in KINDS]
    assert [len(files(lake, kind)) for kind in KINDS] == [2 * RUNS, RUNS]
    report = optimize(lake)
    assert merged_of(report) == {
        ("decoded/orders", 0, RUNS),
        ("decoded/orders", 1, RUNS),
        ("undecoded/orders", 0, RUNS),
    }
    assert [len(files(lake, kind)) for kind in KINDS] == [2, 1]
    assert everything(lake) == before
    assert recorded(lake) == versions
    for kind, rows in zip(KINDS, seen_by_others, strict=True):
        assert polars.read_delta(str(lake.table(kind).table_uri)).sort("partition", "offset").equals(rows)
        for file in files(lake, kind):
            found = duckdb.sql(f"select partition, \"offset\" from '{file}'").fetchall()
            assert found == sorted(found), "rows are in another order"
            assert len({partition for partition, _ in found}) == 1
    assert merged_of(optimize(lake)) == set()
    assert main.main(["verify", lake.path]) == 0


def test_a_stream_of_the_table_sees_no_rows_again(lake: TwoLogs) -> None:
    optimize(lake)
    version = lake.table().version()
    log = Path(lake.path) / "tables" / "decoded" / "orders" / "_delta_log" / f"{version:020d}.json"
    said = log.read_text()
    assert '"remove"' in said
    assert '"dataChange":true' not in said


def test_the_next_decoding_adds_exactly_the_new_rows(lake: TwoLogs) -> None:
    optimize(lake)
    before = lake.rows()
    assert lake.decode().changed == ()
    night(lake, 9)
    added = [row for row in lake.rows() if row not in before]
    assert sorted((row["partition"], row["offset"]) for row in added) == [
        (0, 3 * RUNS),
        (0, 3 * RUNS + 2),
        (1, 2 * RUNS),
        (1, 2 * RUNS + 1),
    ]
    assert len(lake.rows()) == len(before) + 4
    assert main.main(["verify", lake.path]) == 0


def test_a_decoding_that_was_planned_before_the_merge_adds_its_rows_once(lake: TwoLogs) -> None:
    lake.append((b"a", b"new"))
    asked = DecodeConfig(lake.path, "decode", AS_OF_MS, read_policies(str(lake.policies)))
    planned = decode_job.plan(asked)
    optimize(lake)
    decode_job.apply(planned, asked, None)
    assert [row["value"] for row in lake.rows()].count("new") == 1
    assert lake.decode().changed == ()
    assert main.main(["verify", lake.path]) == 0


def test_rows_that_were_decoded_after_the_plan_stay(lake: TwoLogs) -> None:
    planned = optimize_job.plan(config(lake))
    night(lake, 9)
    before = everything(lake)
    report = optimize_job.apply(planned, config(lake), None)
    assert everything(lake) == before
    assert report.metrics["overtaken"] == 0
    assert len(files(lake)) == 4


def test_a_table_that_was_written_again_after_the_plan_is_left_as_it_is(lake: TwoLogs) -> None:
    planned = optimize_job.plan(config(lake))
    lake.decode(replace=("orders",))
    before, there = everything(lake), [files(lake, kind) for kind in KINDS]
    report = optimize_job.apply(planned, config(lake), None)
    assert report.metrics["overtaken"] == 0, "planned again, there was nothing left to merge"
    assert everything(lake) == before
    assert [files(lake, kind) for kind in KINDS] == there
    assert main.main(["verify", lake.path]) == 0


def test_files_that_another_engine_joined_across_logs_are_left_alone_until_the_table_is_written_again(
    lake: TwoLogs,
) -> None:
    lake.table().optimize.compact()
    before, version = everything(lake), lake.table().version()
    report = optimize(lake)
    assert report.plan is not None
    assert left_of(report) == [("decoded/orders", "a file has rows of several logs")]
    assert merged_of(report) == {("undecoded/orders", 0, RUNS)}
    assert (everything(lake), lake.table().version()) == (before, version)
    lake.decode(replace=("orders",))
    assert left_of(optimize(lake)) == []
    assert everything(lake) == before


def test_a_table_whose_log_is_damaged_keeps_no_other_table_from_its_merge(lake: TwoLogs) -> None:
    log = Path(lake.path) / "tables" / "decoded" / "orders" / "_delta_log"
    for commit in log.glob("*.json"):
        commit.write_text("{")
    report = optimize(lake)
    assert left_of(report) == [("decoded/orders", "its log is damaged")]
    assert len(files(lake, "undecoded")) == 1


def test_a_damaged_file_is_named_and_its_log_is_left_as_it_is(lake: TwoLogs) -> None:
    before = files(lake)
    harmed = next(file for file in before if pq.read_table(file, columns=["partition"])["partition"][0].as_py() == 0)
    group = pq.ParquetFile(harmed).metadata.row_group(0)
    [times] = [each for at in range(len(lake.rows()[0])) if (each := group.column(at)).path_in_schema == "published_at"]
    # Not compressed: only the checksum of the page can show it.
    harmed.write_bytes(handmade.flip(harmed.read_bytes(), times.data_page_offset + times.total_compressed_size - 1))
    report = optimize(lake)
    [found] = report.findings
    assert "table-file-damaged" in repr(found)
    assert "decoded/orders" in repr(found)
    assert "orders-0" in repr(found)
    assert len(files(lake)) == RUNS + 1
    assert {file for file in before if file in files(lake)} >= {harmed}


def test_a_merge_whose_statistics_lie_about_the_log_writes_nothing(lake: TwoLogs) -> None:
    [merge] = [each for each in optimize_job.plan(config(lake)).merges if each.table == "undecoded/orders"]
    folder = Path(lake.path) / "tables" / "undecoded" / "orders"
    there = sorted(folder.glob("*.parquet"))
    extra = extra_columns(lake.path, merge.table)
    result = merge_files(FileMergeTask(lake.path, replace(merge, partition=1), extra))
    assert result.error is not None
    assert "holds rows of another log" in result.error
    assert sorted(folder.glob("*.parquet")) == there


def test_a_column_of_the_user_and_its_values_stay(lake: TwoLogs) -> None:
    table = lake.table()
    first = table.to_pyarrow_table(filters=[("partition", "=", 0), ("offset", "=", 0)])
    table.delete('partition = 0 and "offset" = 0')
    with_note = first.append_column("note", [["mine"]])
    write_deltalake(str(table.table_uri), with_note, mode="append", schema_mode="merge")
    before = everything(lake)
    optimize(lake)
    assert everything(lake) == before
    assert [row["note"] for row in lake.rows() if row["note"] is not None] == ["mine"]


def test_the_codec_of_the_topics_policy_applies(lake: TwoLogs) -> None:
    lake.policies.write_text('topics: {"*": {decode.value: string, decode.key: string, parquet.codec: snappy}}')
    optimize(lake)
    footer = pq.ParquetFile(files(lake, "undecoded")[0]).metadata.row_group(0)
    codecs = {footer.column(at).path_in_schema: footer.column(at).compression for at in range(footer.num_columns)}
    assert codecs["value"] == "SNAPPY"


def test_without_apply_the_plan_names_the_merges_and_nothing_is_written(lake: TwoLogs) -> None:
    before = [DeltaTable(str(lake.table(kind).table_uri)).version() for kind in KINDS]
    assert len(merged_of(optimize(lake, apply=False))) == 3
    assert [lake.table(kind).version() for kind in KINDS] == before


def test_files_of_a_schema_with_fewer_fields_are_joined_with_files_of_the_next(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    number = {"name": "id", "type": "long"}
    note = {"name": "note", "type": ["null", "string"], "default": None}
    parts: Any = [
        {"type": "array", "items": {"type": "record", "name": "Part", "fields": each}}
        for each in ([number], [number, note])
    ]
    lake.register(1, avro(number, {"name": "parts", "type": parts[0]}))
    lake.append((b"a", named(1, zigzag(7) + b"\x02" + zigzag(1) + b"\x00")), (b"b", None))
    lake.decode()
    lake.register(2, avro(note, {"name": "parts", "type": parts[1]}, number), version=2)
    lake.append((b"c", named(2, b"\x02" + text("n") + b"\x02" + zigzag(2) + b"\x02" + text("m") + b"\x00" + zigzag(8))))
    lake.decode()
    assert len(files(lake)) == 2
    optimize(lake)
    [file] = files(lake)
    expected = [
        {"id": 7, "parts": [{"id": 1, "note": None}], "note": None},
        None,
        {"id": 8, "parts": [{"id": 2, "note": "m"}], "note": "n"},
    ]
    assert [row["value"] for row in lake.rows()] == expected
    assert [row[0] for row in duckdb.sql(f"select value from '{file}'").fetchall()] == expected
    lake.append((b"d", named(1, zigzag(9) + b"\x00")))
    lake.decode()
    assert lake.rows()[-1]["value"] == {"id": 9, "parts": [], "note": None}


def on_disk(lake: TwoLogs, kind: str) -> set[str]:
    return {path.name for path in (Path(lake.path) / "tables" / kind / "orders").glob("*.*")}


def test_replaced_files_go_after_seven_days_and_all_others_stay(lake: TwoLogs) -> None:
    optimize(lake)
    before, there = everything(lake), [on_disk(lake, kind) for kind in KINDS]
    early = optimize(lake, as_of_ms=LATER_MS)  # a clock that is wrong: the store's own clock counts
    assert early.metrics.get("removed_files", 0) == 0
    assert [on_disk(lake, kind) for kind in KINDS] == there
    report = optimize(lake, as_of_ms=LATER_MS, force=True, vacuum_after_ms=0)
    assert report.plan is not None
    listed: Any = report.plan.vacuum
    assert sum("/" in each.table for each in listed.files) == 3 * RUNS
    assert [on_disk(lake, kind) for kind in KINDS] == [{file.name for file in files(lake, kind)} for kind in KINDS]
    assert everything(lake) == before
    assert main.main(["verify", lake.path]) == 0


def test_files_of_a_table_with_features_of_another_engine_stay_as_they_are(lake: TwoLogs) -> None:
    vector = Path(lake.path) / "tables" / "decoded" / "orders" / "deletion_vector_1.bin"
    vector.write_bytes(b"rows")
    lake.table().alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    report = optimize(lake, as_of_ms=LATER_MS, force=True, vacuum_after_ms=0)
    assert left_of(report) == [("decoded/orders", "it has features that Loglake does not support")]
    assert vector.exists()
    assert len(files(lake)) == 2 * RUNS
