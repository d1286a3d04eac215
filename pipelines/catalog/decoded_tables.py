"""Decoded tables of topics as assets: one for each topic that a policy decodes.

The step `decode` of a run writes them. A table has no partition keys. After the step a materialization says which
version the table has now; a run that did not change it records none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from pipelines.catalog.names import asset_key, owners_of, tags_of_assets
from pipelines.catalog.queried_tables import VERSION
from pipelines.events import as_metadata
from pipelines.metadata.values import Metadata
from pipelines.run.check_definitions import RECORDS
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.view.decoded.topics import COORDINATES, DecodedTopic, decoded_topics
from spark_jobs.lake.view.registered_lakes import RegisteredLake

FOLDER = "decoded"


def decoded_key(lake: RegisteredLake, topic: str) -> dg.AssetKey:
    """The key of the decoded table of a topic."""
    return dg.AssetKey([lake.name, FOLDER, topic])


def decoded_assets(lake: RegisteredLake, group: str) -> list[dg.AssetSpec]:
    """The decoded tables of the topics that the lake has now, by its registered policies.

    Policies or tables that cannot be read give none: the runs of the lake report them.

    Args:
        group: The group in which Dagster shows them.
    """
    try:
        return [_asset(lake, topic, group) for topic in decoded_topics(lake.path, lake.policies)]
    except (JobError, UsageError, OSError):
        return []


def _asset(lake: RegisteredLake, topic: DecodedTopic, group: str) -> dg.AssetSpec:
    columns = topic.columns()
    records = asset_key(lake, RECORDS)
    sources = {column: column for column in (*COORDINATES, "key", "value")} | {"is_tombstone": "value"}
    lineage = {column.name: [dg.TableColumnDep(records, sources[column.name])] for column in columns}
    schema = [dg.TableColumn(column.name, column.type, description=column.meaning) for column in columns]
    known = {"dagster/column_schema": dg.TableSchema(schema), "dagster/column_lineage": dg.TableColumnLineage(lineage)}
    return dg.AssetSpec(
        decoded_key(lake, topic.topic),
        deps=[records],
        description=f"Keys and values of the topic {topic.topic} as typed columns. Records that could not be decoded "
        f"are in the table undecoded/{topic.topic}.",
        group_name=group,
        owners=owners_of(lake),
        tags=tags_of_assets(lake),
        kinds={"table", "deltalake"},
        code_version="1",
        metadata={"dagster/table_name": f"{FOLDER}/{topic.topic}", **(known if columns else {})},
    )


def materialized_decoded(
    lake: RegisteredLake, instance: dg.DagsterInstance, topics: Sequence[DecodedTopic]
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization for each decoded table whose version Dagster does not show.

    Args:
        instance: Knows which version was materialized last.
        topics: The topics of the run.
    """
    for topic in topics:
        version = topic.version
        key = decoded_key(lake, topic.topic)
        if version is not None and version != _version_of_last(instance, key):
            yield dg.AssetMaterialization(key, metadata=as_metadata(_figures(topic, version)))


def _figures(topic: DecodedTopic, version: int) -> Metadata:
    return {
        VERSION: version,
        "dagster/row_count": topic.rows,
        "undecoded rows": topic.undecoded,
        "dagster/uri": topic.address,
    }


def _version_of_last(instance: dg.DagsterInstance, key: dg.AssetKey) -> int | None:
    event = instance.get_latest_materialization_event(key)
    found = None if event is None or event.asset_materialization is None else event.asset_materialization.metadata
    version = None if found is None else found.get(VERSION)
    return version.value if isinstance(version, dg.IntMetadataValue) else None
