"""The resources of a run in Dagster: the launcher of jobs, and the settings of the run.

:mod:`pipelines.assets` uses them.
"""

from __future__ import annotations

import dataclasses

import dagster as dg
from pydantic import Field

from pipelines.run.settings import MAX_BYTES_PER_ROUND, MAX_TASKS_PER_ROUND, RunSettings
from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.view.registered_lakes import read_registered

ENGINE_TAG = "loglake/engine"
"""Run tag: what runs the tasks, and why."""


class JobLauncher(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Starts one job of :mod:`spark_jobs` and waits for its report; tests replace it with a fake."""

    mode: str = Field(default="inprocess", description="inprocess: one executor for a whole run; subprocess")
    engine: str = Field(
        default="auto",
        description="What runs the tasks: local (processes of this machine), spark, or auto: the engine of the lake's "
        "policies, else spark where LOGLAKE_SPARK_MASTER names a cluster, else local",
    )

    def run(self, config: JobConfig) -> JobReport:
        """Run the job of this configuration. An empty plan starts nothing."""
        return launch.run(config.JOB, config, mode=self.mode, engine=self.engine_for(config.lake))

    def engine_for(self, lake: str) -> str:
        """The engine that this run names, else the one of the policies that are registered for the lake.

        Raises:
            UsageError: Registration or policies cannot be used.
        """
        return self.engine if self.engine != "auto" else read_registered(lake).policy.engine


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """How a run works on its lake, which its assets name.

    All fields are optional. A run without ``sources`` reads the sources that are registered for its lake in the
    operator's home, never those that only the lake itself names.
    """

    sources: list[str] = Field(default=[], description="Log directories, partition directories or .log files to ingest")
    topics: list[str] = Field(default=[], description="Only topics that match one of these globs")
    partitions: list[int] = Field(default=[], description="Only these partition numbers")
    logs: list[str] = Field(default=[], description="Only these topic partitions, for instance orders-0")
    mode: str = Field(default="copy", description="copy into the archive, or reference: register bytes at their source")
    high_watermark: str = Field(default="checkpoint", description="checkpoint, log-end, or an offset")
    cluster: str = Field(default="", description="Name of the cluster where no source states one")
    include_internal: bool = Field(default=False, description="Also publish Kafka's internal topics")
    policies: str = Field(default="", description="policies.yaml with Kafka's config names per topic pattern")
    isolation_level: str = Field(
        default="", description="read_committed (default), or read_uncommitted: keep records_uncommitted too"
    )
    fill_from: list[str] = Field(
        default=[], description="Other copies of the logs, where missing and corrupt offsets are searched for"
    )
    move_source: bool = Field(
        default=False, description="Read logs from these sources that were read from others, if both agree"
    )
    at_once: bool = Field(
        default=True, description="Archive and publish however little is new; without it, policies say what may wait"
    )
    replace: str = Field(
        default="", description="Publish this offset range again, below the frontier: A..B, A.., ..B, or .. for all"
    )
    replace_since_ms: int | None = Field(
        default=None, description="With replace: only batches from this time on, epoch milliseconds"
    )
    replace_until_ms: int | None = Field(
        default=None, description="With replace: only batches before this time, epoch milliseconds"
    )
    replace_withdrawn: bool = Field(
        default=False, description="With replace: publish withdrawn rows again, and delete the withdrawal"
    )
    as_of_ms: int = Field(default=-1, description="The run's clock, epoch milliseconds; -1: when the run was created")
    verified_part: int = Field(
        default=0, description="Which seventh of the lake the job `verification` verifies; 0: today's"
    )
    apply: bool = Field(default=False, description="Let maintenance act; otherwise it only plans")
    max_bytes_per_round: int = Field(
        default=MAX_BYTES_PER_ROUND,
        description="A large load is archived, validated and published in rounds of so many bytes; 0: in one",
    )
    max_tasks_per_round: int = Field(
        default=MAX_TASKS_PER_ROUND, description="The same by tasks; small segments share a task. 0: no limit"
    )

    def settings(self) -> RunSettings:
        """These fields as plain values."""
        return RunSettings(**{each.name: getattr(self, each.name) for each in dataclasses.fields(RunSettings)})
