"""The steps of a run in their order: of the intake, and of maintenance."""

from __future__ import annotations

from dataclasses import dataclass

from . import maintenance_steps, steps
from .steps import Work
from .topics import cluster_step, topic_steps


@dataclass(frozen=True, slots=True)
class Link:
    """A step of a chain, and the asset that it makes."""

    name: str
    work: Work
    asset: str | None = None


INTAKE = (
    Link("ingest", steps.ingest, "archived_segments"),
    Link("validate", steps.validate, "validated_segments"),
    Link("publish", steps.publish, "records"),
    Link("check_tables", steps.check_tables),
    Link("decode", topic_steps.decode),
    Link("latest", topic_steps.latest),
    Link("cluster", cluster_step.cluster),
    Link("expectations", steps.expect),
)
MAINTENANCE = (
    Link("retention", maintenance_steps.retain, "retained_log"),
    Link("compaction", maintenance_steps.compact, "compacted_log"),
    Link("tidy_archive", maintenance_steps.tidy_archive, "tidy_archive"),
    Link("rebuild_indexes", maintenance_steps.rebuild_indexes, "rebuilt_indexes"),
    Link("optimize", maintenance_steps.optimize, "optimized_tables"),
)
INTAKE_JOB, MAINTENANCE_JOB = "intake", "maintenance"
CHAINS = {INTAKE_JOB: INTAKE, MAINTENANCE_JOB: MAINTENANCE}
"""By name of the job; in Dagster the name of the lake comes before it."""
