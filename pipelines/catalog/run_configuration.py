"""The configuration of a run in Dagster: typed fields with help and defaults, as its Launchpad shows them.

It belongs to the op `begin` of a chain of steps. All steps of the chain read it there.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentTypeError
from collections.abc import Mapping
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from logcore.cli.reading.arguments import clock_ms, time_ms
from pipelines.catalog.names import graph_name
from pipelines.run.settings import MAX_BYTES_PER_ROUND, MAX_TASKS_PER_ROUND, RunSettings
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake

BEGIN = "begin"
"""The op of a chain that has the configuration."""

AS_OF = "The run's clock, ISO-8601 or milliseconds as 1772323200000ms; empty: when the run was created"
"""Help of the field ``as_of``."""

_TIMES = {"as_of_ms": "as_of", "replace_since_ms": "replace_since", "replace_until_ms": "replace_until"}
"""By setting in milliseconds: the field that states it as a text."""


class SourceMode(Enum):
    """What becomes of a source's bytes."""

    copy = "copy"
    reference = "reference"


class Isolation(Enum):
    """Which records are published, with the names of a Kafka consumer."""

    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


class EngineChoice(Enum):
    """What runs the tasks."""

    auto = "auto"
    local = "local"
    spark = "spark"


class LakeRunConfig(dg.Config):
    """How a run works on its lake, which its assets name.

    All fields are optional. A run without ``sources`` reads the sources that are registered for its lake in the
    operator's home, never those that only the lake itself names.
    """

    logs: list[str] = Field(
        default=[],
        description="Only these topic partitions, for instance orders-0. A run for chosen partitions of Dagster has "
        "none here",
    )
    topics: list[str] = Field(default=[], description="Only topics that match one of these globs")
    partitions: list[int] = Field(default=[], description="Only these partition numbers")
    sources: list[str] = Field(default=[], description="Log directories, partition directories or .log files to ingest")
    mode: SourceMode = Field(
        default=SourceMode.copy, description="copy into the archive, or reference: register bytes at their source"
    )
    high_watermark: str = Field(default="checkpoint", description="checkpoint, log-end, or an offset")
    cluster: str = Field(default="", description="Name of the cluster where no source states one")
    include_internal: bool = Field(default=False, description="Also publish Kafka's internal topics")
    policies: str = Field(default="", description="policies.yaml with Kafka's config names per topic pattern")
    isolation_level: Isolation = Field(
        default=Isolation.read_committed, description="read_uncommitted: keep the table records_uncommitted too"
    )
    fill_from: list[str] = Field(
        default=[], description="Other copies of the logs, where missing and corrupt offsets are searched for"
    )
    remote: list[str] = Field(
        default=[], description="Remote storage of tiered topics: directories or s3:// prefixes, read as one log"
    )
    forget_remote: bool = Field(
        default=False,
        description="First forget the remote storage that earlier runs of these sources named; refused while segments "
        "of the lake are registered there",
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
    replace_since: str = Field(
        default="",
        description="With replace: only batches from this time on. ISO-8601 as 2026-03-01T00:00:00Z, or milliseconds "
        "as 1772323200000ms",
    )
    replace_until: str = Field(default="", description="With replace: only batches before this time")
    replace_withdrawn: bool = Field(
        default=False, description="With replace: publish withdrawn rows again, and delete the withdrawal"
    )
    as_of: str = Field(default="", description=AS_OF)
    apply: bool = Field(default=False, description="Let maintenance act; otherwise it only plans")
    engine: EngineChoice = Field(
        default=EngineChoice.auto,
        description="What runs the tasks: local (processes of this machine), spark, or auto: the engine of the lake's "
        "policies, else spark where LOGLAKE_SPARK_MASTER names a cluster, else local",
    )
    max_bytes_per_round: int = Field(
        default=MAX_BYTES_PER_ROUND,
        description="A large load is archived, validated and published in rounds of so many bytes; 0: in one",
    )
    max_tasks_per_round: int = Field(
        default=MAX_TASKS_PER_ROUND, description="The same by tasks; small segments share a task. 0: no limit"
    )

    def settings(self) -> RunSettings:
        """These fields as plain values.

        Raises:
            UsageError: A field cannot be used, and why.
        """
        values: dict[str, Any] = {}
        for each in dataclasses.fields(RunSettings):
            if each.name in _TIMES:
                stated = parsed_time(getattr(self, _TIMES[each.name]), _TIMES[each.name])
                values[each.name] = each.default if stated is None else stated
            else:
                value = getattr(self, each.name)
                values[each.name] = value.value if isinstance(value, Enum) else value
        if "isolation_level" not in self.model_fields_set:
            values["isolation_level"] = ""  # then the registration of the lake says it
        return RunSettings(**values)


def parsed_time(text: str, field: str) -> int | None:
    """Epoch milliseconds of a time in the configuration; None: it is empty.

    Raises:
        UsageError: It is no time.
    """
    try:
        return (clock_ms if field == "as_of" else time_ms)(text) if text else None
    except ArgumentTypeError as error:
        raise UsageError(f"{field}: {error}") from error


def configured(run: dg.DagsterRun, lake: RegisteredLake, job: str) -> LakeRunConfig:
    """The configuration of a chain in a run. Dagster has checked it.

    Args:
        job: ``intake`` or ``maintenance``: the chain.
    """
    found: Any = run.run_config
    for name in ("ops", graph_name(lake, job), "ops", BEGIN, "config"):
        found = found.get(name) or {} if isinstance(found, Mapping) else {}
    return LakeRunConfig(**found)


def started_by(tags: Mapping[str, str]) -> str:
    """What started a run of Dagster, as the table ``runs`` names it, by the run's tags."""
    known = {"dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor", "dagster/backfill": "backfill"}
    return next((name for tag, name in known.items() if tag in tags), "dagster")


def run_config(lake: RegisteredLake, job: str, **settings: Any) -> dict[str, Any]:
    """Build the configuration of a run.

    Args:
        lake: The lake of the run.
        job: ``intake`` or ``maintenance``.
        settings: Fields of :class:`pipelines.run.settings.RunSettings`, and ``engine``.
    """
    said: dict[str, Any] = {}
    for name, value in settings.items():
        if value in (None, "", [], ()):
            continue
        said[_TIMES.get(name, name)] = f"{value}ms" if name in _TIMES else value
    return {"ops": {graph_name(lake, job): {"ops": {BEGIN: {"config": said}}}}}
