"""The tables that users query beside `records`, as assets of their own, and their materializations.

The steps of a run write them, and a run may choose them alone. A table has no partition keys: after the step that
writes it last, one materialization says which version the table has now. A run that did not change the table records
none. A table of a topic has the name that `loglake query` uses, such as ``decoded_orders``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import dagster as dg

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.cluster_tables import cluster_tables
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topic_asset import COORDINATES, TopicAsset
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from spark_jobs.lake.view.shown_tables import description_of, table_version
from spark_jobs.policies.policies_file import read_policies

from ..metadata.values import Metadata
from ..run.chains import Step
from ..run.check_definitions import RECORDS
from ..run.outcome import StepResult
from .dagster_values import as_metadata, table_schema
from .names import asset_key, asset_spec, documentation_of, table_name
from .queried_tables import TABLES, VERSION, table_metadata

_OF_TOPICS: dict[str, type[TopicAsset]] = {"decode": DecodedTopic, "latest": LatestTopic}
"""By step: the topics whose tables it writes."""


def table_specs(lake: RegisteredLake, step: Step, group: str) -> list[dg.AssetSpec]:
    """The tables that a step writes, as assets: of tables of the cluster and of topics those that the lake has now.

    Policies, tables or a store that cannot be read give none: the runs of the lake report them.

    Args:
        group: The group in which Dagster shows them.
    """
    try:
        if step.name in _OF_TOPICS:
            topics = _OF_TOPICS[step.name].all_of(lake.path, read_policies(lake.policies))
            return [_topic_spec(lake, topic, group) for topic in topics]
        tables = [table for table in TABLES if table.name in step.tables]
        of_cluster = cluster_tables(lake.path) if step.name == "cluster" else ()
    except (JobError, UsageError, OSError):
        return []
    return [
        asset_spec(
            lake,
            table.name,
            group,
            made_from=table.made_from,
            description=description_of(table.name),
            kinds={"table", "deltalake"},
            code_version="1",
            metadata={
                "dagster/column_schema": table_schema(table.name),
                "dagster/table_name": table_name(lake, table.name),
                **documentation_of(table.name),
            },
        )
        for table in tables
        if step.name != "cluster" or table.name in of_cluster
    ]


def _topic_spec(lake: RegisteredLake, topic: TopicAsset, group: str) -> dg.AssetSpec:
    columns = topic.columns()
    records = asset_key(lake, RECORDS)
    sources = {column: column for column in COORDINATES} | dict(topic.sources)
    lineage = {column.name: [dg.TableColumnDep(records, sources[column.name])] for column in columns}
    schema = [dg.TableColumn(column.name, column.type, description=column.meaning) for column in columns]
    known = {"dagster/column_schema": dg.TableSchema(schema), "dagster/column_lineage": dg.TableColumnLineage(lineage)}
    return asset_spec(
        lake,
        topic.name,
        group,
        made_from=(RECORDS,),
        description=topic.meaning,
        kinds={"table", "deltalake"},
        code_version="1",
        metadata={"dagster/table_name": table_name(lake, topic.name), **(known if columns else {})},
    )


def table_events(
    lake: RegisteredLake,
    instance: dg.DagsterInstance,
    step: Step,
    done: StepResult,
    chosen: Collection[dg.AssetKey] = (),
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization for each table that a step has changed.

    Args:
        instance: Knows which version was materialized last.
        step: The step that has just run.
        done: What it did.
        chosen: These tables have one in any case, because a backfill waits for it.
    """
    state = done.state
    for table in TABLES:
        key = asset_key(lake, table.name)
        if state is None or table.name not in step.tables:
            continue
        if key in chosen or _last_version(instance, key) != table_version(lake.path, table.name):
            metadata = table_metadata(lake.path, table, state)
            if metadata is not None:
                yield dg.AssetMaterialization(key, metadata=as_metadata(metadata))
    for topic in done.topics:
        key, version = asset_key(lake, topic.name), topic.version
        if version is not None and (key in chosen or version != _last_version(instance, key)):
            figures: Metadata = {VERSION: version, **topic.figures, "dagster/uri": topic.table.uri}
            yield dg.AssetMaterialization(key, metadata=as_metadata(figures))


def _last_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> int | None:
    """The version of a table that its last materialization has; None: Dagster knows none."""
    event = instance.get_latest_materialization_event(key)
    found = None if event is None or event.asset_materialization is None else event.asset_materialization.metadata
    version = None if found is None else found.get(VERSION)
    return version.value if isinstance(version, dg.IntMetadataValue) else None
