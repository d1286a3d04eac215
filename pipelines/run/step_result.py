"""What a step of a run did: reports of its jobs, answers of checks, and observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.contracts import JobReport, LogChange
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import Outline

from ..metadata.values import Observation
from .check_definitions import CheckAnswer

_ADDED_UP = frozenset({"segments", "bytes", "batches", "records", "quarantined_bytes", "files"})
"""Figures of a log's change that rounds add up. Of the others the last round's counts."""


@dataclass(slots=True)
class StepResult:
    """What a step did."""

    reports: list[JobReport[Outline]] = field(default_factory=list)
    answers: list[CheckAnswer] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    """Observations to show although nothing changed."""
    state: LakeState | None = None
    """The lake after the step, if the step has read it."""
    plans: dict[str, Outline] = field(default_factory=dict)
    """Plans that the step made and was not allowed to execute, by asset."""
    refused: list[str] = field(default_factory=list)
    """Parts of the request that were refused: why."""
    topics: Sequence[TopicAsset] = ()
    """The topics whose tables the step writes."""

    @property
    def changes(self) -> dict[str, LogChange]:
        """The change of each log, by log key: of all rounds of the last job that changed it."""
        changes: dict[str, LogChange] = {}
        jobs: dict[str, str] = {}
        for report in self.reports:
            for change in report.changed:
                before = changes.get(change.log) if jobs.get(change.log) == report.job else None
                changes[change.log] = change if before is None else _joined(before, change)
                jobs[change.log] = report.job
        return changes


def _joined(before: LogChange, change: LogChange) -> LogChange:
    """One change of two of the same log by one job, the later one last."""
    metrics = dict(change.metrics)
    for name in _ADDED_UP & before.metrics.keys() & change.metrics.keys():
        metrics[name] = int(before.metrics[name] or 0) + int(change.metrics[name] or 0)
    if "start_offset" in before.metrics:
        metrics["start_offset"] = before.metrics["start_offset"]
    return replace(change, metrics=metrics)
