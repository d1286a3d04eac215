"""Tables that another engine changed: what our commits keep right is worked on, everything else is refused by name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.columns.records_columns import RECORDS_SCHEMA
from spark_jobs import launch
from spark_jobs.contracts import CONFIGS, JobConfig, OptimizeConfig, PublishConfig, ReplaceConfig
from spark_jobs.errors import TableRefused
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables import table_features
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.delta.tables.table_creation import ensure_table
from spark_jobs.lake.table_specs import TABLES
from tests.broker_directory import LogDirectory
from tests.harm.sampling import EVERY_HARM
from tests.sampling import drawn
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

SET = "SET TBLPROPERTIES ('delta.{}'='{}')"
ALLOWED: dict[str, tuple[str, ...]] = {
    "append-only": (SET.format("appendOnly", "true"),),
    "change data feed": (SET.format("enableChangeDataFeed", "true"),),
    "a constraint that was dropped": ("ADD CONSTRAINT positive CHECK (offset >= 0)", "DROP CONSTRAINT positive"),
    "generated columns supported, and none there": (SET.format("feature.generatedColumns", "supported"),),
    "columns of the user": (
        "ADD COLUMNS (label string, m map<string,int>, s struct<a:int,b:array<string>>, d decimal(10,2), on date)",
    ),
}
REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "deletion vectors": ("deletionVectors", (SET.format("enableDeletionVectors", "true"),)),
    "column mapping": ("columnMapping", (SET.format("columnMapping.mode", "name"),)),
    "a dropped column": (
        "columnMapping",
        (SET.format("columnMapping.mode", "name"), "DROP COLUMN header_keys_raw"),
    ),
    "row tracking": ("domainMetadata, rowTracking", (SET.format("enableRowTracking", "true"),)),
    "type widening": (
        "typeWidening",
        (SET.format("enableTypeWidening", "true"), "ALTER COLUMN partition TYPE bigint"),
    ),
    "in-commit timestamps": ("inCommitTimestamp", (SET.format("enableInCommitTimestamps", "true"),)),
    "newer checkpoints": ("v2Checkpoint", (SET.format("checkpointPolicy", "v2"),)),
    "vacuum check": ("vacuumProtocolCheck", (SET.format("feature.vacuumProtocolCheck", "supported"),)),
    "variants": ("variantType", ("ADD COLUMNS (v variant)",)),
    "column defaults": (
        "allowColumnDefaults",
        (
            SET.format("feature.allowColumnDefaults", "supported"),
            "ADD COLUMNS (label string)",
            "ALTER COLUMN label SET DEFAULT 'x'",
        ),
    ),
    "a check constraint": ("check constraint positive", ("ADD CONSTRAINT positive CHECK (offset >= 0)",)),
    "what a dropped feature leaves": (
        "checkpointProtection",
        (
            SET.format("enableDeletionVectors", "true"),
            SET.format("enableDeletionVectors", "false"),
            "DROP FEATURE deletionVectors",
        ),
    ),
}
LEAVES_A_TRACE = {"deletion vectors", "column mapping", "newer checkpoints", "vacuum check"}
ONLY_REBUILT = {"variants", "a dropped column", "type widening", "what a dropped feature leaves", "column defaults"}
"""What the SQL of a message can't undo, at least not at once; the others are dropped, and the table is worked on."""
DROPPED = [name for name in REFUSED if name not in ONLY_REBUILT]
TRIED = DROPPED if EVERY_HARM else ["deletion vectors", "a check constraint", *drawn(DROPPED[1:-1], 1, "features")]
"""Whose SQL is run; Spark takes up to ten seconds for one. `make test-long` runs all."""


def _rows(*offsets: int) -> pa.RecordBatch:
    rows = [{"topic": "t", "partition": 0, "offset": o, "timestamp_ms": 0, "log_id": "l"} for o in offsets]
    return pa.RecordBatch.from_pylist(rows, schema=RECORDS_SCHEMA)


def _add(lake: str, *offsets: int) -> None:
    written = write_file(table_uri(lake, "records"), TABLES["records"], [_rows(*offsets)], {"topic": "t"})
    assert written is not None
    commits.add_files(lake, "records", [written], "run")


@pytest.fixture
def lake(tmp_path: Path) -> str:
    _add(str(tmp_path), 1, 2, 3)
    return str(tmp_path)


@pytest.fixture
def alter(spark: Any, lake: str) -> Callable[..., None]:
    def run(*changes: str, table: str = "records") -> None:
        for change in changes:
            spark.sql(f"ALTER TABLE delta.`{table_uri(lake, table)}` {change}").collect()

    return run


def _offsets(spark: Any, lake: str) -> list[int]:
    return sorted(row.offset for row in spark.read.format("delta").load(table_uri(lake, "records")).collect())


@pytest.mark.long
@pytest.mark.parametrize("name", ALLOWED)
def test_a_table_with_a_feature_of_the_list_is_appended_to_and_spark_reads_all_rows(name, spark, lake, alter):
    alter(*ALLOWED[name])
    table_features.refuse_unsupported(lake)
    _add(lake, 4, 5)
    assert _offsets(spark, lake) == [1, 2, 3, 4, 5]


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_any_other_feature_is_refused_by_name_and_its_message_says_the_way_out(name, spark, lake, alter):
    feature, changes = REFUSED[name]
    alter(*changes)
    with pytest.raises(TableRefused, match=re.escape(feature)) as refused:
        table_features.refuse_unsupported(lake)
    said = str(refused.value)
    assert f"loglake repair {lake} --rebuild records --apply" in said
    if name in ONLY_REBUILT:
        return
    assert name not in LEAVES_A_TRACE or "leaves the feature checkpointProtection" in said
    sql = re.search(r"in Spark: (.*?)\. (?:Or|That)", said)
    assert sql is not None
    if name not in TRIED:
        return
    for statement in sql[1].split("; "):
        spark.sql(statement).collect()
    if name in LEAVES_A_TRACE:
        with pytest.raises(TableRefused, match="uses checkpointProtection,"):
            table_features.refuse_unsupported(lake)
        return
    table_features.refuse_unsupported(lake)
    _add(lake, 4, 5)
    assert _offsets(spark, lake) == [1, 2, 3, 4, 5]


def test_clustering_of_a_state_table_is_refused(lake, alter):
    ensure_table(lake, "logs")
    alter("CLUSTER BY (log)", table="logs")
    with pytest.raises(TableRefused, match=r"Table logs uses clustering, domainMetadata.*--rebuild logs --apply"):
        table_features.refuse_unsupported(lake)


@pytest.mark.long
def test_an_append_only_table_is_not_rewritten_and_an_append_only_state_table_is_refused(lake, alter):
    ensure_table(lake, "offset_ledger")
    alter(SET.format("appendOnly", "true"))
    table_features.refuse_unsupported(lake)
    with pytest.raises(TableRefused, match="append-only"):
        table_features.refuse_unsupported(lake, rewrites=True)
    alter("UNSET TBLPROPERTIES ('delta.appendOnly')")
    table_features.refuse_unsupported(lake, rewrites=True)
    alter(SET.format("appendOnly", "true"), table="offset_ledger")
    with pytest.raises(TableRefused, match="Table offset_ledger: it is append-only"):
        table_features.refuse_unsupported(lake)
    table_features.refuse_unsupported(lake, ["records"], rewrites=True)


def test_a_generated_column_is_refused(spark, tmp_path):
    lake = str(tmp_path)
    columns = ", ".join(
        f"{name} {kind}"
        for name, kind in spark.createDataFrame([], _spark_schema()).dtypes
        if name not in ("topic", "day")
    )
    spark.sql(
        f"CREATE TABLE delta.`{table_uri(lake, 'records')}` (topic string, {columns}, day date GENERATED ALWAYS AS "
        "(CAST(timestamp AS date))) USING delta PARTITIONED BY (topic)"
    )
    with pytest.raises(TableRefused, match="its column day is generated"):
        table_features.refuse_unsupported(lake)


def _spark_schema() -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(RECORDS_SCHEMA)


def _overwritten(lake: str, rows: pa.Table, **options: Any) -> None:
    write_deltalake(table_uri(lake, "records"), rows, mode="overwrite", schema_mode="overwrite", **options)


def test_columns_of_another_type_lost_columns_and_another_partitioning_are_refused(lake):
    rows = pa.Table.from_batches([_rows(1, 2)])
    at = RECORDS_SCHEMA.names.index("offset")
    for changed, reason in (
        (rows.set_column(at, "offset", rows["offset"].cast(pa.string())), "column offset is of the type string"),
        (rows.drop_columns(["header_keys_raw"]), "lost the column header_keys_raw"),
        (rows.drop_columns(["position"]), "lost the column position"),
    ):
        _overwritten(lake, changed)
        with pytest.raises(TableRefused, match=reason):
            table_features.refuse_unsupported(lake)
    shutil.rmtree(table_uri(lake, "records"))
    write_deltalake(table_uri(lake, "records"), rows)
    with pytest.raises(TableRefused, match="partitioned by nothing"):
        table_features.refuse_unsupported(lake)


def test_a_state_table_from_before_its_newest_columns_is_worked_on(tmp_path):
    lake = str(tmp_path)
    old = pa.schema(list(TABLES["segments"].schema)[:-2])
    write_deltalake(table_uri(lake, "segments"), old.empty_table())
    table_features.refuse_unsupported(lake)


# --- the jobs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    source = LogDirectory(folder / "source")
    source.partition("orders-0").append(30, per_batch=10)
    source.high_watermarks(orders_0=20)
    Lake(folder / "lake").turn(source.path)
    return folder


@pytest.fixture
def published(published_once: Path, tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(published_once / "lake", tmp_path / "lake")))


def _config(job: str, lake: Lake, source: Path) -> JobConfig:
    given: dict[str, Any] = {"lake": str(lake.path), "run_id": "after", "as_of_ms": AS_OF_MS}
    if job == "ingest":
        given["sources"] = (str(source),)
    if job in ("optimize", "retention", "compaction", "tidy_archive", "recover"):
        given["apply"] = True
    return CONFIGS[job](**given)


def _files(lake: Lake) -> dict[str, int]:
    lease = {"lease", "lease.json", ".lease"}
    return {
        str(path.relative_to(lake.path)): path.stat().st_mtime_ns
        for path in lake.path.rglob("*")
        if path.is_file() and path.name not in lease and "lease" not in path.name
    }


@pytest.fixture(scope="module")
def with_vectors(published_once: Path, tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Lake:
    """One lake for all jobs, because none may write."""
    lake = Lake(Path(shutil.copytree(published_once / "lake", tmp_path_factory.mktemp("vectors") / "lake")))
    uri = lake.path / "tables" / "records"
    spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')")
    spark.sql(f"DELETE FROM delta.`{uri}` WHERE offset IN (3, 4)")
    assert spark.read.format("delta").load(str(uri)).count() == 18
    return lake


@pytest.mark.parametrize("job", CONFIGS)
def test_with_deletion_vectors_every_job_refuses_and_writes_nothing(job, with_vectors, published_once):
    before = _files(with_vectors)
    said = r"records uses deletionVectors.*DROP FEATURE deletionVectors.*--rebuild records --apply"
    with pytest.raises(TableRefused, match=said):
        launch.run(_config(job, with_vectors, published_once / "source"))
    assert _files(with_vectors) == before


def test_publish_goes_on_with_an_append_only_table_and_replace_and_optimize_do_not(published, published_once, spark):
    uri = published.path / "tables" / "records"
    spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.appendOnly'='true')")
    source = LogDirectory(published_once / "source")
    source.high_watermarks(orders_0=30)
    published.turn(source.path)
    assert sorted(published.published("orders")) == list(range(30))
    version = DeltaTable(str(uri)).version()
    lake = str(published.path)
    for config in (
        ReplaceConfig(lake, "r", AS_OF_MS, start_offset=0),
        OptimizeConfig(lake, "r", AS_OF_MS, apply=True, force=True),
    ):
        with pytest.raises(TableRefused, match="append-only"):
            launch.run(config)
    assert DeltaTable(str(uri)).version() == version
    launch.run(PublishConfig(lake, "r", AS_OF_MS))
