"""The tables that users query beside `records`: when a run has written them, and what pages show of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from logcore.logs.model.findings import Severity
from pipelines.catalog.cluster_figures import CLUSTER_FIGURES
from pipelines.catalog.products import SOURCES
from pipelines.metadata.values import Metadata
from pipelines.run import chains
from spark_jobs.lake.view.cluster.followed_topics import TABLES_OF
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.shown_tables import table_address, table_figures

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
    is_of_cluster: bool = False
    """Whether it is one of the tables of the cluster, which not every lake has."""


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


def _nothing(state: LakeState) -> Metadata:
    return {}


_VALIDATE, _PUBLISH, _LAST = chains.INTAKE[1].name, chains.INTAKE[2].name, chains.INTAKE[-1].name
_CLUSTER = "cluster"
_ALSO_FROM = {"cluster_group_offsets": ("transactions",)}
"""Assets that a table of the cluster comes from, beside the sources."""

TABLES = (
    QueriedTable("batches", _VALIDATE, ("validated_segments",), _of_batches),
    QueriedTable("transactions", _VALIDATE, ("validated_segments",), _of_transactions),
    QueriedTable("offset_ledger", _PUBLISH, ("validated_segments", "records"), _of_ledger),
    QueriedTable("findings", _LAST, ("validated_segments",), _of_findings),
    *(
        QueriedTable(name, _CLUSTER, (SOURCES, *_ALSO_FROM.get(name, ())), CLUSTER_FIGURES.get(name, _nothing), True)
        for names in TABLES_OF.values()
        for name in names
    ),
)


def table_metadata(lake: str, table: QueriedTable, state: LakeState) -> Metadata | None:
    """The metadata of a table as it is now; None if the lake does not have it.

    Args:
        lake: Path or address of the lake.
        table: The table.
        state: The state of the lake.
    """
    figures = table_figures(lake, table.name)
    if figures is None:
        return None
    return {
        VERSION: figures.version,
        **({} if figures.rows is None else {"dagster/row_count": figures.rows}),
        "bytes": figures.size,
        "files": figures.files,
        **table.figures(state),
        "dagster/uri": table_address(lake, table.name),
    }
