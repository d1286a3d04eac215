"""The tables that users query beside `records`, as assets of their own: their texts, and when they are materialized.

The steps of a run write them. A table has no partition keys: after the step that writes it last, one materialization
says which version the table has now. A run that did not change the table records none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import dagster as dg

from logcore.logs.model.findings import Severity
from pipelines.catalog.names import asset_key, documentation_of, owners_of, tags_of_assets
from pipelines.events import as_metadata, table_schema
from pipelines.metadata.values import Metadata
from pipelines.run import chains
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from spark_jobs.lake.view.shown_tables import description_of, table_address, table_figures, table_version

VERSION = "table version"
"""Name of metadata: the version of a table that a materialization describes."""


@dataclass(frozen=True, slots=True)
class QueriedTable:
    """A table as an asset."""

    name: str
    after: str
    """The step after which the table is materialized: the last one of a run that writes it."""
    made_from: tuple[str, ...]
    """Assets that it comes from."""
    figures: Callable[[LakeState], Metadata]
    """Figures of the lake that Dagster plots over time."""


def _of_ledger(state: LakeState) -> Metadata:
    records = table_figures(state.lake, "records")
    return {
        "offsets": sum(log.row.next_offset for log in state.logs),
        "offsets not published": sum(log.lag for log in state.logs),
        "rows of records": sum(log.published_records for log in state.logs),
        "bytes of records": 0 if records is None else records.size,
        "bytes of the archive": sum(log.archive_bytes for log in state.logs),
        "topic partitions": len(state.logs),
        "damaged topic partitions": sum(log.is_damaged for log in state.logs),
    }


def _of_findings(state: LakeState) -> Metadata:
    return {
        f"open findings: {severity}": sum(log.findings_by_severity.get(severity, 0) for log in state.logs)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)
    }


def _of_batches(state: LakeState) -> Metadata:
    return {
        "records in any state": sum(log.records for log in state.logs),
        "quarantined bytes": sum(log.quarantined_bytes for log in state.logs),
    }


def _of_transactions(state: LakeState) -> Metadata:
    return {"open transactions": sum(len(log.open_transactions) for log in state.logs)}


_VALIDATE, _PUBLISH, _LAST = chains.INTAKE[1].name, chains.INTAKE[2].name, chains.INTAKE[-1].name

TABLES = (
    QueriedTable("batches", _VALIDATE, ("validated_segments",), _of_batches),
    QueriedTable("transactions", _VALIDATE, ("validated_segments",), _of_transactions),
    QueriedTable("offset_ledger", _PUBLISH, ("validated_segments", "records"), _of_ledger),
    QueriedTable("findings", _LAST, ("validated_segments",), _of_findings),
)


def table_assets(lake: RegisteredLake, group: str) -> list[dg.AssetSpec]:
    """The tables as assets that no run can choose: the steps of a run write them.

    Args:
        group: The group in which Dagster shows them.
    """
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
                "dagster/table_name": table.name,
                **documentation_of(table.name),
            },
        )
        for table in TABLES
    ]


def materialized_tables(
    lake: RegisteredLake, instance: dg.DagsterInstance, step: str, state: LakeState
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization for each table that a step has changed.

    Args:
        instance: Knows which version was materialized last.
        step: The step that has just run.
        state: The lake after it.
    """
    for table in TABLES:
        if table.after != step or _version_of_last(lake, instance, table) == table_version(lake.path, table.name):
            continue
        figures = table_figures(lake.path, table.name)
        if figures is None:
            continue
        metadata: Metadata = {
            VERSION: figures.version,
            **({} if figures.rows is None else {"dagster/row_count": figures.rows}),
            "bytes": figures.size,
            "files": figures.files,
            **table.figures(state),
            "dagster/uri": table_address(lake.path, table.name),
        }
        yield dg.AssetMaterialization(asset_key(lake, table.name), metadata=as_metadata(metadata))


def _version_of_last(lake: RegisteredLake, instance: dg.DagsterInstance, table: QueriedTable) -> int | None:
    event = instance.get_latest_materialization_event(asset_key(lake, table.name))
    found = None if event is None or event.asset_materialization is None else event.asset_materialization.metadata
    version = None if found is None else found.get(VERSION)
    return version.value if isinstance(version, dg.IntMetadataValue) else None
