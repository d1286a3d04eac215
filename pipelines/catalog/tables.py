"""The tables that users query beside `records`, as assets of their own, and their materializations.

The steps of a run write them. A table has no partition keys: after the step that writes it last, one materialization
says which version the table has now. A run that did not change the table records none.
"""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.cluster.followed_topics import cluster_tables
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from spark_jobs.lake.view.shown_tables import description_of, table_version

from ..events import as_metadata, table_schema
from ..run.chains import Step
from .names import asset_key, documentation_of, owners_of, table_name, tags_of_assets
from .queried_tables import TABLES, VERSION, table_metadata


def table_assets(lake: RegisteredLake, group: str) -> list[dg.AssetSpec]:
    """The tables as assets that no run can choose: the steps of a run write them.

    Of the tables of the cluster, those that the lake has: most lakes have no internal topics.

    Args:
        group: The group in which Dagster shows them.
    """
    of_cluster = _cluster_tables(lake)
    return [
        dg.AssetSpec(
            asset_key(lake, table.name),
            deps=[asset_key(lake, source) for source in table.made_from],
            description=description_of(table.name),
            group_name=group,
            owners=owners_of(lake),
            tags=tags_of_assets(lake),
            kinds={"table", "deltalake"},
            code_version="1",
            metadata={
                "dagster/column_schema": table_schema(table.name),
                "dagster/table_name": table_name(lake, table.name),
                **documentation_of(table.name),
            },
        )
        for table in TABLES
        if not table.is_of_cluster or table.name in of_cluster
    ]


def _cluster_tables(lake: RegisteredLake) -> tuple[str, ...]:
    """Tables of the cluster that the lake has. A store that fails gives none: the runs of the lake report it."""
    try:
        return cluster_tables(lake.path)
    except (JobError, UsageError, OSError):
        return ()


def materialized_tables(
    lake: RegisteredLake, instance: dg.DagsterInstance, step: Step, state: LakeState
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization for each table that a step has changed.

    Args:
        instance: Knows which version was materialized last.
        step: The step that has just run.
        state: The lake after it.
    """
    for table in TABLES:
        key = asset_key(lake, table.name)
        if table.name not in step.tables or version_of_last(instance, key) == table_version(lake.path, table.name):
            continue
        metadata = table_metadata(lake.path, table, state)
        if metadata is not None:
            yield dg.AssetMaterialization(key, metadata=as_metadata(metadata))


def version_of_last(instance: dg.DagsterInstance, key: dg.AssetKey) -> int | None:
    """The version of a table that its last materialization has; None: Dagster knows none."""
    event = instance.get_latest_materialization_event(key)
    found = None if event is None or event.asset_materialization is None else event.asset_materialization.metadata
    version = None if found is None else found.get(VERSION)
    return version.value if isinstance(version, dg.IntMetadataValue) else None
