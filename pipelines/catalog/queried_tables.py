"""The tables that users query beside `records`: when a run has written them, and what pages show of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from logcore.logs.model.findings import Severity
from logcore.topics.placement import NO_LEADER, NOT_PREFERRED, UNDER_REPLICATED
from spark_jobs.lake.view.cluster_tables import TABLES_OF, group_lags
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.placement import read_placement
from spark_jobs.lake.view.shown_tables import table_address, table_figures

from ..metadata.values import Metadata, table_value
from ..run.chains import SOURCES
from ..run.check_definitions import RECORDS, VALIDATED

MOST_GROUPS = 8
"""Groups with a figure of their own at most: those with the greatest lag."""


def _of_partitions(state: LakeState) -> Metadata:
    placement = read_placement(state.lake)
    brokers = [
        [each.broker, each.rack, each.state, each.replicas, each.leaders, each.preferred, each.out_of_sync]
        for each in placement.brokers
    ]
    columns = ["broker", "rack", "state", "replicas", "leaders", "preferred", "out of sync"]
    problems = [
        [
            each.topic_partition,
            each.problem,
            each.leader,
            ", ".join(map(str, each.replicas)),
            ", ".join(map(str, each.isr)),
        ]
        for each in placement.problems
    ]
    directories = [
        [each.broker, each.directory, each.replicas, each.found, each.bytes, each.path]
        for each in placement.directories
    ]
    return {
        "partitions": placement.partitions,
        "partitions without leader": placement.count(NO_LEADER),
        "partitions under-replicated": placement.count(UNDER_REPLICATED),
        "partitions not led by the preferred leader": placement.count(NOT_PREFERRED),
        "placement": table_value(columns, brokers),
        "log directories": table_value(
            ["broker", "directory", "replicas", "topic partitions found", "bytes", "path"], directories
        ),
        **(
            {"need attention": table_value(["topic partition", "problem", "leader", "replicas", "isr"], problems)}
            if problems
            else {}
        ),
    }


def _of_group_offsets(state: LakeState) -> Metadata:
    lags = group_lags(state.lake)
    shown = {f"lag of {group}": lag for group, lag in islice(lags.items(), MOST_GROUPS)}
    return {"lag of all groups": sum(lags.values()), **shown}


CLUSTER_FIGURES: Mapping[str, Callable[[LakeState], Metadata]] = {
    "cluster_partitions": _of_partitions,
    "cluster_group_offsets": _of_group_offsets,
}
"""By table; others have no figures of their own."""


VERSION = "table version"
"""Name of metadata: the version of a table that a materialization describes."""


@dataclass(frozen=True, slots=True)
class QueriedTable:
    """A table as an asset."""

    name: str
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
        f"open findings: {severity}": state.open_findings.get(severity, 0)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)
    }


def _of_batches(state: LakeState) -> Metadata:
    return {
        "records in any state": sum(log.records for log in state.logs),
        "quarantined bytes": sum(log.quarantined_bytes for log in state.logs),
    }


def _of_transactions(state: LakeState) -> Metadata:
    return {"open transactions": sum(len(log.open_transactions) for log in state.logs)}


_ALSO_FROM = {"cluster_group_offsets": ("transactions",)}
"""Assets that a table of the cluster comes from, beside the sources."""

TABLES = (
    QueriedTable("batches", (VALIDATED,), _of_batches),
    QueriedTable("transactions", (VALIDATED,), _of_transactions),
    QueriedTable("offset_ledger", (VALIDATED, RECORDS), _of_ledger),
    QueriedTable("findings", (VALIDATED,), _of_findings),
    *(
        QueriedTable(name, (SOURCES, *_ALSO_FROM.get(name, ())), CLUSTER_FIGURES.get(name, lambda _: {}))
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
