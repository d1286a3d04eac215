"""Tables of topics as assets: the decoded ones and those of the latest rows, for each topic whose policy has one.

The steps `decode` and `latest` of a run write them. A table has no partition keys. After the step a materialization
says which version the table has now; a run that did not change it records none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topic_asset import COORDINATES, TopicAsset
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from spark_jobs.policies.policies_file import read_policies

from ..events import as_metadata
from ..metadata.values import Metadata
from ..run.check_definitions import RECORDS
from .names import asset_key, owners_of, table_name, tags_of_assets
from .queried_tables import VERSION
from .tables import version_of_last


def topic_key(lake: RegisteredLake, topic: TopicAsset) -> dg.AssetKey:
    """The key of the table of a topic."""
    return dg.AssetKey([lake.name, topic.KIND, topic.topic])


def topic_assets(lake: RegisteredLake, group: str) -> list[dg.AssetSpec]:
    """The tables of the topics that the lake has now, by its registered policies.

    Policies or tables that cannot be read give none: the runs of the lake report them.

    Args:
        group: The group in which Dagster shows them.
    """
    try:
        policies = read_policies(lake.policies)
        topics = [*DecodedTopic.all_of(lake.path, policies), *LatestTopic.all_of(lake.path, policies)]
        return [_asset(lake, topic, group) for topic in topics]
    except (JobError, UsageError, OSError):
        return []


def _asset(lake: RegisteredLake, topic: TopicAsset, group: str) -> dg.AssetSpec:
    columns = topic.columns()
    records = asset_key(lake, RECORDS)
    sources = {column: column for column in COORDINATES} | dict(topic.sources)
    lineage = {column.name: [dg.TableColumnDep(records, sources[column.name])] for column in columns}
    schema = [dg.TableColumn(column.name, column.type, description=column.meaning) for column in columns]
    known = {"dagster/column_schema": dg.TableSchema(schema), "dagster/column_lineage": dg.TableColumnLineage(lineage)}
    return dg.AssetSpec(
        topic_key(lake, topic),
        deps=[records],
        description=topic.meaning,
        group_name=group,
        owners=owners_of(lake),
        tags=tags_of_assets(lake),
        kinds={"table", "deltalake"},
        code_version="1",
        metadata={"dagster/table_name": table_name(lake, topic.table.name), **(known if columns else {})},
    )


def materialized_topics(
    lake: RegisteredLake, instance: dg.DagsterInstance, topics: Sequence[TopicAsset]
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization for each table whose version Dagster does not show.

    Args:
        instance: Knows which version was materialized last.
        topics: The topics of the run.
    """
    for topic in topics:
        version = topic.version
        key = topic_key(lake, topic)
        if version is not None and version != version_of_last(instance, key):
            figures: Metadata = {VERSION: version, **topic.figures, "dagster/uri": topic.table.uri}
            yield dg.AssetMaterialization(key, metadata=as_metadata(figures))
