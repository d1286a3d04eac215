"""The checks of the tables of the cluster, on what the job `cluster` found at the sources."""

from __future__ import annotations

from logcore.logs.model.findings import Severity
from spark_jobs.contracts import JobReport
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import ClusterOutline

from ..check_definitions import (
    CLUSTER_FOLLOWS_SOURCES,
    NO_COMMIT_BEYOND_LOG_END,
    CheckAnswer,
    Failure,
    counted,
)


def cluster_follows_sources(state: LakeState, report: JobReport[ClusterOutline]) -> CheckAnswer:
    """Check that no internal topic waits.

    Args:
        state: The lake.
        report: Of the job `cluster`.
    """
    waits = sorted(report.plan.waits.items())
    return CLUSTER_FOLLOWS_SOURCES.answer(
        state.lake,
        [Failure(f"{log} waits: {why}", severity=Severity.WARNING) for log, why in waits],
        f"the tables follow {counted(len(report.plan.logs), 'internal log')}",
        {"internal logs": len(report.plan.logs)},
    )


def no_commit_beyond_log_end(state: LakeState, report: JobReport[ClusterOutline]) -> CheckAnswer:
    """Check that no group has committed an offset beyond the end of a log.

    Args:
        state: The lake.
        report: Of the job `cluster`.
    """
    found = report.plan.beyond_log_end
    return NO_COMMIT_BEYOND_LOG_END.answer(
        state.lake,
        [Failure(message.removesuffix("."), severity=Severity.WARNING) for message in found],
        "every committed offset is within its log",
        {"commits beyond the end of a log": len(found)},
    )
