"""The options of a run, declared once.

The command line and Dagster's configuration each make one request, and the steps read it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

from logcore.logs.model.log_selection import LogSelection
from logcore.reading.read_options import OffsetRange
from logcore.segments.filenames import parse_topic_partition
from spark_jobs.contracts import Intake
from spark_jobs.lake.view import registered_lakes
from spark_jobs.policies.policies_file import Policies, read_policies

AS_OF = "The run's clock, ISO-8601 or milliseconds as 1772323200000ms; empty: when the run was created"
"""Help of a field ``as_of`` in Dagster."""


@dataclass(frozen=True, slots=True)
class RunRequest(Intake):
    """The options of a run. The text of a field is its help in Dagster.

    A run without ``sources`` reads the sources that are registered for its lake in the operator's home, never those
    that only the lake itself names.
    """

    sources: Annotated[tuple[str, ...], "Log directories, partition directories or .log files to ingest"] = ()
    logs: Annotated[
        tuple[str, ...],
        "Only these topic partitions, for instance orders-0. A run for chosen partitions of Dagster has none here",
    ] = ()
    forget_remote: Annotated[
        bool,
        "First forget the remote storage that earlier runs of these sources named; refused while segments of the lake "
        "are registered there",
    ] = False
    move_source: Annotated[bool, "Read logs from these sources that were read from others, if both agree"] = False
    at_once: Annotated[bool, "Archive and publish however little is new; without it, policies say what may wait"] = True
    replace: Annotated[
        OffsetRange | None, "Publish this offset range again, below the frontier: A..B, A.., ..B, or .. for all"
    ] = None
    replace_since_ms: Annotated[
        int | None,
        "With replace: only batches from this time on. ISO-8601 as 2026-03-01T00:00:00Z, or milliseconds as "
        "1772323200000ms",
    ] = None
    replace_until_ms: Annotated[int | None, "With replace: only batches before this time"] = None
    replace_withdrawn: Annotated[bool, "With replace: publish withdrawn rows again, and delete the withdrawal"] = False
    as_of_ms: Annotated[int | None, AS_OF] = None
    apply: Annotated[bool, "Let maintenance act; otherwise it only plans"] = False
    engine: Annotated[
        Literal["auto", "local", "spark"],
        "What runs the tasks: local (processes of this machine), spark, or auto: the engine of the lake's policies, "
        "else of LOGLAKE_JOB_ENGINE, else spark, if Java is usable",
    ] = "auto"
    # Long enough that the time between rounds does not count, short enough to be lost.
    max_bytes_per_round: Annotated[
        int, "A large load is archived, validated and published in rounds of so many bytes; 0: in one"
    ] = 64 << 30
    max_tasks_per_round: Annotated[int, "The same by tasks; small segments share a task. 0: no limit"] = 1_000

    def intakes(self, lake: str) -> tuple[Intake, ...]:
        """The sources of this run: its own, or those that are registered for the lake.

        Raises:
            NoSourceError: The lake is registered without sources, and names some itself.
        """
        return (self.intake,) if self.sources else registered_lakes.intakes_of(lake)

    @property
    def intake(self) -> Intake:
        """The sources and their options, as they are registered."""
        return Intake(**{field.name: getattr(self, field.name) for field in fields(Intake)})

    @property
    def selection(self) -> LogSelection:
        """The logs to work on."""
        return LogSelection(self.topics, self.partitions, self.logs)

    @property
    def to_register(self) -> tuple[Intake, ...]:
        """What later runs read too: nothing if this run is for chosen topic partitions and moves none."""
        if not self.sources or (self.logs and not self.move_source):
            return ()
        chosen: dict[str, set[int]] = {}
        for name in map(parse_topic_partition, self.logs):
            if name is not None:
                chosen.setdefault(name.topic, set()).add(name.partition)
        made = (replace(self.intake, topics=(topic,), partitions=tuple(sorted(chosen[topic]))) for topic in chosen)
        return tuple(made) or (self.intake,)

    def is_registered(self, lake: str) -> bool:
        """Whether the sources are registered for the lake, as of this cluster."""
        known = registered_lakes.read_registered(lake).intakes
        return set(self.sources) <= {it for each in known if each.cluster == self.cluster for it in each.sources}

    def policies_of(self, lake: str) -> Policies:
        """Read the policies of this run, or those that are registered for the lake.

        Raises:
            UsageError: The file cannot be used.
        """
        return read_policies(self.policies or registered_lakes.read_registered(lake).policies)
