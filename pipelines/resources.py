"""What a run is given: the way to start a job, and the lake it works on.

Resources are settings and one method each; what a run does with them is in :mod:`pipelines.assets`.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from importlib.machinery import ModuleSpec

import dagster as dg
from pydantic import Field

from logcore.cli.reading.arguments import OffsetRange, offset_range
from pipelines.view import lakes
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.registry import Intake

LAKE_TAG = "loglake/lake"
"""Run tag that names the lake, where run configuration does not."""


class JobLauncher(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Starts one job of :mod:`spark_jobs` and waits for its report; tests put a fake in its place."""

    mode: str = Field(default="inprocess", description="inprocess: one Spark session for a whole run; subprocess")

    def run(self, config: JobConfig) -> JobReport:
        """Run the job that this configuration belongs to. A plan with nothing in it starts no JVM."""
        from spark_jobs import launch

        _name_the_main_module()
        return launch.run(config.JOB, config, mode=self.mode)


def _name_the_main_module() -> None:
    """Give the main module of this process a spec, if it has neither that nor a file.

    Dagster's run workers are such processes, and pyspark.sql.connect takes such a process for a doctest and ends it.
    """
    main = sys.modules["__main__"]
    if not hasattr(main, "__file__") and getattr(main, "__spec__", None) is None:
        main.__spec__ = ModuleSpec("__main__", None)


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Which lake a run works on, and how.

    Everything may be left out. A run without ``sources`` takes in what is registered for its lake in the operator's
    home, never what the lake itself names; a run without ``lake`` works on the lake that has its partition keys, or on
    the only one there is.
    """

    lake: str = Field(default="", description="Directory or URL of the lake, or the name of a registered one")
    home: str = Field(default="", description="Where lakes are registered; default: LOGLAKE_HOME, else ./.loglake")
    sources: list[str] = Field(
        default=[], description="Log directories, partition directories or .log files to take in"
    )
    topics: list[str] = Field(default=[], description="Only topics that match one of these globs")
    partitions: list[int] = Field(default=[], description="Only these partition numbers")
    logs: list[str] = Field(default=[], description="Only these topic partitions, for instance orders-0")
    mode: str = Field(default="copy", description="copy into the archive, or reference: register bytes where they lie")
    high_watermark: str = Field(default="checkpoint", description="checkpoint, log-end, or an offset")
    cluster: str = Field(default="", description="Name of the cluster where no source states one")
    include_internal: bool = Field(default=False, description="Also publish Kafka's internal topics")
    policies: str = Field(default="", description="policies.yaml with Kafka's config names per topic pattern")
    isolation_level: str = Field(
        default="", description="read_committed (default), or read_uncommitted: keep records_uncommitted too"
    )
    fill_from: list[str] = Field(
        default=[], description="Other copies of the logs, where missing and corrupt offsets are looked for"
    )
    move_source: bool = Field(
        default=False, description="Take logs from these sources that were taken from others, if both agree"
    )
    at_once: bool = Field(
        default=True, description="Take and publish however little is new; without it, policies say what may wait"
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
        default=False, description="With replace: bring back rows that were withdrawn, and forget the withdrawal"
    )
    as_of_ms: int = Field(default=-1, description="The run's clock, epoch milliseconds; -1: when the run was created")
    proof_part: int = Field(
        default=0, description="Which seventh of the lake the job proof proves; 0: the one of today"
    )
    apply: bool = Field(default=False, description="Let maintenance act; without it, it only plans")

    def find(self, named: str | None, keys: tuple[str, ...] | None) -> str:
        """Directory of the lake of this run; ``named`` is what the run's tag says."""
        return lakes.find_lake(self.home or registry.home(), self.lake or named, keys)

    def intakes(self, lake: str) -> tuple[Intake, ...]:
        """What this run takes in: its own sources, or those that are registered for the lake.

        Raises:
            NoLakeError: the lake is not registered, and names sources of its own.
        """
        if self.sources:
            return (self.as_intake(),)
        if not registry.is_registered(lake) and (hinted := registry.hinted(lake)):
            raise lakes.NoLakeError(lakes.how_to_adopt(lake, hinted))
        return registry.recall(lake).intakes

    def policy_file(self, lake: str) -> str | None:
        """The policies of this run, or those that are registered for the lake."""
        return self.policies or registry.recall(lake).policies

    def as_intake(self) -> Intake:
        """This configuration as it would be remembered."""
        return Intake(
            paths=tuple(self.sources),
            topics=tuple(self.topics),
            partitions=tuple(self.partitions),
            mode=self.mode,
            high_watermark=self.high_watermark,
            cluster=self.cluster or None,
            include_internal=self.include_internal,
            policies=self.policies or None,
            isolation_level=self.isolation_level or None,
            fill_from=tuple(self.fill_from),
        )

    def replacement(self) -> OffsetRange | None:
        """Offsets that are to be published again; None: none are.

        Raises:
            UsageError: ``replace`` is no range, or times are given without it.
        """
        if not self.replace:
            if self.replace_since_ms is not None or self.replace_until_ms is not None:
                raise UsageError('replace_since_ms and replace_until_ms bound what is replaced; add replace: ".."')
            return None
        try:
            return offset_range(self.replace)
        except ArgumentTypeError as error:
            raise UsageError(f"replace: {error}") from error
