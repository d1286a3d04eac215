"""The settings of a run: what it works on, and how. The class ``LakeRunConfig`` has these as Dagster's fields."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from logcore.cli.reading.arguments import offset_range
from logcore.reading.read_options import OffsetRange
from spark_jobs.contracts import Intake, JobConfig, JobReport
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.setup.policies.policies_file import Policies, read_policies
from spark_jobs.lake.view import registered_lakes

MAX_BYTES_PER_ROUND = 64 << 30
MAX_TASKS_PER_ROUND = 1_000
"""A round of a large load: long enough that the time between rounds does not count, short enough to be lost."""


class Launcher(Protocol):
    """Starts one job of :mod:`spark_jobs` and waits for its report."""

    def run(self, config: JobConfig) -> JobReport:
        """Run the job of this configuration. An empty plan starts nothing."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run; :class:`pipelines.catalog.run_configuration.LakeRunConfig` describes each field.

    A run without ``sources`` reads the sources that are registered for its lake in the operator's home, never those
    that only the lake itself names.
    """

    sources: Sequence[str] = ()
    topics: Sequence[str] = ()
    partitions: Sequence[int] = ()
    logs: Sequence[str] = ()
    mode: str = "copy"
    high_watermark: str = "checkpoint"
    cluster: str = ""
    include_internal: bool = False
    policies: str = ""
    isolation_level: str = ""
    fill_from: Sequence[str] = ()
    remote: Sequence[str] = ()
    forget_remote: bool = False
    move_source: bool = False
    at_once: bool = True
    replace: str = ""
    replace_since_ms: int | None = None
    replace_until_ms: int | None = None
    replace_withdrawn: bool = False
    as_of_ms: int = -1
    apply: bool = False
    max_bytes_per_round: int = MAX_BYTES_PER_ROUND
    max_tasks_per_round: int = MAX_TASKS_PER_ROUND

    def intakes(self, lake: str) -> tuple[Intake, ...]:
        """The sources of this run: its own, or those that are registered for the lake.

        Raises:
            NoSourceError: The lake is registered without sources, and names some itself.
        """
        return (self.as_intake(),) if self.sources else registered_lakes.intakes_of(lake)

    def policies_of(self, lake: str) -> Policies:
        """Read the policies of this run, or those that are registered for the lake.

        Raises:
            UsageError: The file cannot be used.
        """
        return read_policies(self.policies or registered_lakes.read_registered(lake).policies)

    def as_intake(self) -> Intake:
        """These settings in their registered form."""
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
            remote=tuple(self.remote),
        )

    def replacement(self) -> OffsetRange | None:
        """Offsets to publish again; None: none.

        Raises:
            UsageError: ``replace`` is not a range, or times are given without it.
        """
        if not self.replace:
            if self.replace_since_ms is not None or self.replace_until_ms is not None:
                raise UsageError('replace_since and replace_until bound what is replaced; add replace: ".."')
            return None
        try:
            return offset_range(self.replace)
        except ArgumentTypeError as error:
            raise UsageError(f"replace: {error}") from error
