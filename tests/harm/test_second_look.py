"""Faults that users of the command line met, each as the claim that holds since it was fixed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests import handmade
from tests.broker_directory import LogDirectory
from tests.commands import Commands
from tests.harm import harms
from tests.harm.place import TRANSACTIONAL, Broker, Original, Place
from tests.harm.sampling import sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


HARMS_OF_ROWS_AND_FILES = {
    "restored to version 0": harms.restored_by_delta_rs,
    "rows appended again": harms.appended_twice,
    "a row deleted": harms.deleted_by_delta_rs,
    "a value edited": harms.updated_by_delta_rs,
    "the largest Parquet file removed": harms.lost_file,
    "the largest Parquet file cut": harms.cut_file,
    "every archived segment zeroed": harms.zeroed_archive_later,
}
HARMS_OF_ROWS = ("restored to version 0", "rows appended again", "a row deleted", "a value edited")


@pytest.mark.long
@pytest.mark.parametrize(
    "harm",
    sampled(HARMS_OF_ROWS_AND_FILES, "a row deleted", "the largest Parquet file cut", "every archived segment zeroed"),
)
def test_the_next_run_exits_2_and_says_which_check_failed_and_what_to_do(harm: str, place: Place, spark: SparkSession):
    HARMS_OF_ROWS_AND_FILES[harm](place, spark)
    done = place.run()

    assert done.code == 2, done.said
    assert "Traceback" not in done.said
    assert re.search(r"loglake (run|repair|withdraw|verify)\b|--replace|--fill-from", done.said), done.said
    assert place.run().code == 2  # it stays so until it is repaired


@pytest.mark.parametrize("harm", sampled(HARMS_OF_ROWS, "restored to version 0", "a value edited"))
def test_remembered_expectations_do_not_count_after_a_commit_of_another_engine(
    harm: str, place: Place, spark: SparkSession
) -> None:
    HARMS_OF_ROWS_AND_FILES[harm](place, spark)
    assert place.run().code == 2
    met = [each for each in place.evaluations() if each.check_name == "expectations_met"]
    assert met
    if harm != "a value edited":  # a value that may be anything: the comparison with the archive finds it
        assert not met[0].passed, met[0].metadata


@pytest.mark.long
@pytest.mark.parametrize("harm", ["the largest Parquet file removed", "the largest Parquet file cut"])
def test_a_published_file_that_is_gone_or_cut_is_made_again_from_the_archive(
    harm: str, place: Place, spark: SparkSession
) -> None:
    HARMS_OF_ROWS_AND_FILES[harm](place, spark)
    done = place.run("--replace", "..")

    assert done.code == 0, done.said
    assert place.read() == place.rows
    assert place.run().code == 0


@pytest.mark.long
def test_rows_that_spark_deleted_by_deletion_vectors_do_not_come_back(
    growing: tuple[Place, Broker], spark: SparkSession
) -> None:
    place, broker = growing
    harms.deletion_vectors(place, spark)
    broker.grow()
    files = sorted(path.name for path in place.table("records").rglob("*"))
    done = place.run("--maintain", "--apply")

    assert done.code == 3, done.said
    assert "deletion" in done.err.lower(), done.said
    assert "records" in done.err
    assert "loglake repair" in done.err or "ALTER TABLE" in done.err
    assert sorted(path.name for path in place.table("records").rglob("*")) == files


@pytest.mark.long
@pytest.mark.parametrize("way", ["optimize", "replace"])
def test_a_column_that_a_user_added_and_filled_keeps_its_values(
    way: str, growing: tuple[Place, Broker], spark: SparkSession
) -> None:
    place, broker = growing
    harms.column_added_and_filled(place, spark)
    labels = place.column("label")
    assert len(labels) == sum(map(len, place.rows.values()))
    assert all(labels.values())
    if way == "optimize":
        broker.grow()
        assert place.run().code == 0
        done = place.run("--maintain", "--apply")
        # Spark wrote rows of several partitions into one file, which only `--replace` takes apart.
        assert done.code == 1, done.said
        assert "--topic orders --replace ..`" in done.out
    else:
        done = place.run("--replace", "..")
        assert done.code == 0, done.said

    after = place.column("label")
    assert {row: after[row] for row in labels} == labels
    assert place.read() == broker.rows()


@pytest.mark.long
@pytest.mark.parametrize("by", sampled(["Spark's OPTIMIZE", "delta-rs compact", "a Spark DELETE"], "a Spark DELETE"))
def test_files_that_mix_partitions_are_read_right_and_put_back_in_order(
    by: str, growing: tuple[Place, Broker], spark: SparkSession
) -> None:
    place, broker = growing
    engine = {
        "Spark's OPTIMIZE": harms.optimized_by_spark,
        "delta-rs compact": harms.compacted_by_delta_rs,
        "a Spark DELETE": harms.deleted_by_spark,
    }
    engine[by](place, spark)
    broker.grow()
    done = place.run()
    if by == "a Spark DELETE":
        assert done.code == 2, done.said
        assert place.run("--replace", "..").code == 0, place.done[-1].said
    else:
        assert done.code == 0, done.said

    assert place.read() == broker.rows()
    assert place.run("--replace", "..").code == 0, place.done[-1].said
    done = place.run("--maintain", "--apply")
    assert done.code == 0, done.said
    assert place.read() == broker.rows()
    for path in harms.live(place):
        [add] = [a for a in adds(place) if path.name in a["path"]]
        assert add["min.partition"] == add["max.partition"], "a file of several partitions"


def adds(place: Place) -> list[dict[str, object]]:
    """Live files of `records` with their statistics."""
    import pyarrow as pa

    return pa.table(DeltaTable(place.table("records")).get_add_actions(flatten=True)).to_pylist()


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    sampled(["expectations.json", "policies", "sources.json", "tables.json", "registered"], "policies", "registered"),
)
def test_a_broken_neighbour_stops_nothing_and_is_named(
    broken: str, original: Original, commands: Commands, tmp_path: Path
) -> None:
    first, broker = original.case(tmp_path / "first", own_source=True)
    source = LogDirectory(tmp_path / "neighbour")
    source.partition("audit-0").append(5)
    source.high_watermarks(audit_0=5)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics: {audit: {cleanup.policy: delete}}")
    lake = first.home / "lakes" / "neighbour"
    lake.parent.mkdir(exist_ok=True)
    made = first.loglake("run", source.path, "--lake", lake, "--policies", policies)
    assert made.code == 0, made.said

    if broken == "policies":
        policies.unlink()
    elif broken == "sources.json":
        (lake / "sources.json").write_text('{"version": 99, "intakes": []}')
    elif broken == "registered":
        for path in (first.home / "registered").glob("neighbour-*"):
            path.write_text("{")
    else:
        (lake / broken).write_text("{")
    broker.grow()
    done = first.run()

    assert done.code == 0, done.said
    assert first.read() == broker.rows()
    assert first.run().out.rstrip().endswith("nothing new"), first.done[-1].said


@pytest.mark.long
@pytest.mark.parametrize("by", ["delta-rs", "Spark"])
def test_a_hole_in_the_ledger_of_one_log_stops_that_log_alone(
    by: str, growing: tuple[Place, Broker], spark: SparkSession
) -> None:
    place, broker = growing
    before = broker.rows()
    if by == "Spark":
        harms.sql(spark, place, "DELETE FROM @table WHERE topic = 'payments' AND start_offset = 0", "offset_ledger")
    else:
        DeltaTable(place.table("offset_ledger")).delete("topic = 'payments' AND start_offset = 0")
    broker.grow()
    done = place.run()

    assert done.code == 2, done.said
    assert "payments-0" in done.said
    found, after = place.read(), broker.rows()
    for log in (("orders", 0), ("orders", 1)):
        assert found[log] == after[log]
    assert found["payments", 0] in (before["payments", 0], after["payments", 0])


def test_what_lies_in_a_lake_is_not_executed(place: Place, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    handler = {"()": "subprocess.Popen", "args": ["touch", str(trace)], "level": "DEBUG"}
    settings = {"python_logs": {"dagster_handler_config": {"handlers": {"x": handler}}}}
    for folder in (place.lake / ".dagster", place.lake / "dagster", place.lake):
        folder.mkdir(exist_ok=True)
        (folder / "dagster.yaml").write_text(json.dumps(settings))
    for name in ("workspace.yaml", "conftest.py", "sitecustomize.py", "log4j2.properties"):
        (place.lake / name).write_text("this must not be read")
    place.loglake("run", place.source, "--lake", place.lake, "--topic", "nosuch")
    assert not trace.exists()
    # nor where the home is the lake itself, as it may be
    place.commands.loglake("run", place.source, "--lake", place.lake, "--topic", "nosuch", home=place.lake)
    assert not trace.exists()


def test_a_lake_inside_its_source_is_refused_before_anything_is_made(place: Place, tmp_path: Path) -> None:
    source = Path(shutil.copytree(place.source, tmp_path / "logdir"))
    link = tmp_path / "link"
    link.symlink_to(source)
    before = sorted(source.rglob("*"))
    for lake in (source / "lake", link / "lake", source / "orders-0" / "lake", source):
        done = place.loglake("run", source, "--lake", lake)
        assert done.code == 64, done.said
        assert "Traceback" not in done.said
    assert sorted(source.rglob("*")) == before


def test_a_source_inside_a_lake_is_refused_before_anything_is_made(place: Place, tmp_path: Path) -> None:
    before = place.versions()
    archive = place.lake / "archive"
    for source in (archive, harms.archived(place)[0].parent):
        inside = place.loglake("run", source, "--lake", place.lake)
        other = place.loglake("run", source, "--lake", tmp_path / "other")
        assert (inside.code, other.code) == (64, 64), inside.said + other.said
    assert not (tmp_path / "other").exists()
    assert place.versions() == before


def test_a_missing_source_creates_no_lake(place: Place, tmp_path: Path) -> None:
    done = place.loglake("run", tmp_path / "nope", "--lake", tmp_path / "l1")
    assert done.code == 3, done.said
    assert str(tmp_path / "nope") in done.err
    assert "nothing new" not in done.out
    assert not (tmp_path / "l1").exists()


def test_the_records_of_a_run_are_those_of_the_ledger_where_there_are_transactions(
    commands: Commands, tmp_path: Path
) -> None:
    source = LogDirectory(tmp_path / "source")
    log = source.partition("orders-0")
    for number in range(6):
        log.append(5, per_batch=5, **TRANSACTIONAL, base_sequence=5 * number)
        log.marker(7, handmade.COMMIT)
    log.append(1)
    source.high_watermarks(orders_0=37)
    place = Place(tmp_path / "place", commands, source.path, {("orders", 0): log.rows})
    done = place.run()

    assert done.code == 0, done.said
    assert place.read() == place.rows
    [line] = [line.split() for line in done.out.splitlines() if line.startswith("orders-0")]
    header = next(each for each in done.out.splitlines() if each.startswith("topic partition")).split()[2:]
    assert dict(zip(header, line[1:], strict=False))["records"] == "31"


@pytest.mark.long
def test_checks_show_links_and_figures_of_the_lake_of_their_run(
    original: Original, commands: Commands, tmp_path: Path
) -> None:
    damaged, _ = original.case(tmp_path / "damaged")
    source = LogDirectory(tmp_path / "sound")
    source.partition("audit-0").append(5)
    source.high_watermarks(audit_0=5)
    sound = damaged.folder / "sound-lake"
    DeltaTable(damaged.table("records")).delete("topic = 'orders' AND \"offset\" = 3")
    assert damaged.run().code == 2
    done = damaged.loglake("run", source.path, "--lake", sound)
    assert done.code == 0, done.said
    assert damaged.run().code == 2

    for lake, other in ((damaged.lake, sound), (sound, damaged.lake)):
        found = damaged.evaluations(lake)
        assert {each.check_name for each in found} >= {"expectations_met", "rows_equal_ledger"}
        for each in found:
            told = repr(each.metadata) + (each.description or "")
            assert f"{other}/" not in told, each.check_name
            assert ("audit-0" in told or "orders" in told) <= (("audit-0" in told) == (lake == sound))
    # The last one is the answer about the whole lake; others are about one topic partition.
    [*_, met] = [each for each in damaged.evaluations() if each.check_name == "expectations_met"]
    records = met.metadata["by expectation"].value.records if "by expectation" in met.metadata else []
    assert met.metadata["not met"].value == sum(row.data["not met"] for row in records)
