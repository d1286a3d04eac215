"""A frozen configuration and a report for each job, with conversion to and from JSON.

A caller (Dagster, the command line, ``python -m spark_jobs``) needs to know only this module of a job. Policies travel
as a value that was read once. In JSON they are the path of their file.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from spark_jobs import outlines
from spark_jobs.outlines import Outline, Outline_co, Topic_co
from spark_jobs.outlines import Scalar as Scalar
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import NO_POLICIES, Policies, read_policies

Reported = TypeVar("Reported", bound=Outline)


class JsonContract:
    """Reads and writes a frozen dataclass as one JSON object whose keys are the field names."""

    def to_json(self) -> str:
        """The object as JSON text, keys in field order."""
        return as_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of :meth:`to_json`.

        Raises:
            ValueError: The text is not a JSON object, or names a field that this contract does not have.
        """
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError(f"{cls.__name__}: expected a JSON object, got {type(value).__name__}")
        return cls.from_dict(value)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Build from plain values; JSON arrays become tuples.

        Raises:
            ValueError: A field is unknown or missing.
            UsageError: The policies cannot be used.
        """
        fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(value) - set(fields))
        if unknown:
            raise ValueError(f"{cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(fields)}")
        single = [n for n, v in value.items() if isinstance(v, str) and "tuple[" in str(fields[n].type)]
        if single:
            raise ValueError(f'{cls.__name__}.{single[0]} is a list, but the value is one string; write it as ["..."]')
        try:
            return cls(
                **{name: _frozen(item) if name != "policies" else read_policies(item) for name, item in value.items()}
            )
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


def as_json(value: object, *, ensure_ascii: bool = False) -> str:
    """A contract or an outline as JSON text, keys in field order."""
    return json.dumps(value, ensure_ascii=ensure_ascii, default=_plain)


def as_values(value: object) -> Any:
    """The same as values of JSON, for a reader that shows whatever there is."""
    return json.loads(as_json(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Policies):
        return value.path
    if isinstance(value, PlacedFinding):
        return dataclasses.asdict(value.finding) | {
            each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.name != "finding"
        }
    return {
        each.name.rstrip("_"): item
        for each in dataclasses.fields(value)
        if (item := getattr(value, each.name)) != each.default or not _is_left_out(value, item)
    }


def _is_left_out(value: object, item: object) -> bool:
    return isinstance(value, Outline) and item in (None, "")


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


class JobConfig(JsonContract, Generic[Outline_co]):
    """Configuration of a job; its type says what the job reports."""

    JOB: ClassVar[str]
    lake: str
    run_id: str
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class LakeJob(JobConfig[Outline_co]):
    """Configuration that every job on a lake has."""

    lake: str
    """Directory of the lake, or its address in an object store."""
    run_id: str
    as_of_ms: int
    """The run's clock, epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class MaintenanceJob(LakeJob[Outline_co]):
    """A job on the archive of selected logs that follows policies."""

    policies: Policies = NO_POLICIES
    logs: tuple[str, ...] | None = None
    """Log keys ``<log_id>/<partition>``; None means all of the lake."""
    apply: bool = False
    """Without it, only the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How sources are read, and what of them is published. The text of a field is its help in Dagster."""

    topics: Annotated[tuple[str, ...], "Only topics that match one of these globs"] = ()
    partitions: Annotated[tuple[int, ...], "Only these partition numbers"] = ()
    mode: Annotated[
        Literal["copy", "reference"], "copy into the archive, or reference: register bytes at their source"
    ] = "copy"
    high_watermark: Annotated[str, "checkpoint, log-end, or an offset"] = "checkpoint"
    cluster: Annotated[str | None, "Name of the cluster, whatever the sources state"] = None
    fill_from: Annotated[
        tuple[str, ...], "Other copies of the logs, where missing and corrupt offsets are searched for"
    ] = ()
    remote: Annotated[
        tuple[str, ...], "Remote storage of tiered topics: directories or s3:// prefixes, read as one log"
    ] = ()
    include_internal: Annotated[bool, "Also publish Kafka's internal topics"] = False
    isolation_level: Annotated[
        Literal["read_committed", "read_uncommitted", None], "read_uncommitted: keep the table records_uncommitted too"
    ] = None


@dataclass(frozen=True, slots=True)
class Intake(SourceOptions):
    """One set of sources and its read options. A run reads from it, and a registration stores it.

    Paths are absolute, or addresses of an object store. The text of a field is its help in Dagster.
    """

    sources: Annotated[tuple[str, ...], "Log directories, partition directories or .log files to ingest"]
    policies: Annotated[str | None, "policies.yaml with Kafka's config names per topic pattern"] = None


@dataclass(frozen=True, slots=True)
class IngestConfig(SourceOptions, JobConfig[outlines.IngestOutline]):
    """What ``ingest`` reads and where it writes."""

    JOB: ClassVar[str] = "ingest"
    lake: str
    """Directory of the lake."""
    sources: tuple[str, ...]
    """Log directories, partition directories or ``.log`` files; read, never written."""
    run_id: str
    as_of_ms: int
    """The run's clock, epoch milliseconds."""
    logs: tuple[str, ...] = ()
    """Topic partitions by directory name (``orders-0``); empty means all."""
    policies: Policies = NO_POLICIES
    """``on_truncate``, ``on_recreate`` and ``active.min.growth`` apply."""
    at_once: bool = True
    """Read every growth. Otherwise a small growth waits (``active.min.growth``)."""
    move_source: bool = False
    """Read logs from the directory named now instead of their earlier one, if it agrees with the archived bytes."""
    max_bytes: int | None = None
    """Bytes after which the job leaves the rest to a later round; None: it reads everything."""
    max_tasks: int | None = None
    """Tasks after which it leaves the rest to a later round; small segments share a task. None: no limit."""

    @classmethod
    def of(cls, intake: Intake, **more: Any) -> Self:
        """Return the job on the sources of an intake, read with its options; ``more`` has the other fields."""
        return cls(sources=intake.sources, **_read_options(intake), **more)

    @property
    def intake(self) -> Intake:
        """The sources with the options of the run, without the file of its policies."""
        return Intake(self.sources, **_read_options(self))


def _read_options(of: SourceOptions) -> dict[str, Any]:
    return {field.name: getattr(of, field.name) for field in dataclasses.fields(SourceOptions)}


@dataclass(frozen=True, slots=True)
class ValidateConfig(LakeJob[outlines.ValidateOutline]):
    """Which logs ``validate`` checks; by default each log with something new."""

    JOB: ClassVar[str] = "validate"
    logs: tuple[str, ...] | None = None
    """Log keys ``<log_id>/<partition>``; None means all of the lake."""
    policies: Policies = NO_POLICIES
    """Topics whose ``cleanup.policy`` has ``compact`` may have gaps."""


@dataclass(frozen=True, slots=True)
class PublishConfig(LakeJob[outlines.PublishOutline]):
    """Which decided offsets ``publish`` adds to ``records``."""

    JOB: ClassVar[str] = "publish"
    logs: tuple[str, ...] | None = None
    topics: tuple[str, ...] = ()
    """Topic names or globs as given by the user; an internal topic named here exactly is published."""
    include_internal: bool = False
    """Also publish internal topics, except ``__cluster_metadata``."""
    policies: Policies = NO_POLICIES
    """``salvage``, ``publish.max.delay`` and ``publish.min.bytes`` apply."""
    at_once: bool = True
    """Publish all decided offsets. Otherwise a log waits for enough bytes or for a maximum delay."""
    isolation_level: str | None = "read_committed"
    """``read_uncommitted`` also keeps ``records_uncommitted`` up to the high watermark. None: of those logs only that
    it was written for before."""


@dataclass(frozen=True, slots=True)
class ReplaceConfig(LakeJob[outlines.ReplaceOutline]):
    """Which published ranges below the frontier ``replace`` publishes again; without a range, those filled late."""

    JOB: ClassVar[str] = "replace"
    logs: tuple[str, ...] | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    """Exclusive."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive; records whose timestamp is in [since, until), widened to whole record batches."""
    policies: Policies = NO_POLICIES
    include_withdrawn: bool = False
    """Publish withdrawn rows again and delete the withdrawal. Otherwise they stay withdrawn."""

    @property
    def names_a_range(self) -> bool:
        """Whether a range is requested. Otherwise only what was filled late is due."""
        return any(v is not None for v in (self.start_offset, self.end_offset, self.since_ms, self.until_ms))


@dataclass(frozen=True, slots=True)
class OptimizeConfig(LakeJob[outlines.OptimizeOutline]):
    """Merge small files of the tables in their order, then remove files that no version within the retention period
    names.
    """

    JOB: ClassVar[str] = "optimize"
    apply: bool = False
    target_bytes: int = 128 << 20
    """Target size of merged files."""
    small_bytes: int = 32 << 20
    """Files below this are merged with their neighbours."""
    vacuum: bool = True
    """Look for files that no version names. Without it, files are only merged: less work in a large lake."""
    vacuum_after_ms: int = 7 * 86_400_000
    """Minimum age of a file before it is removed; never less than seven days unless ``force`` is set."""
    force: bool = False
    policies: Policies = NO_POLICIES
    """``parquet.codec`` and ``parquet.level`` apply to files of records and of decoded tables."""


@dataclass(frozen=True, slots=True)
class ExpectationsConfig(LakeJob[outlines.RangesOutline]):
    """Which published ranges ``expectations`` checks."""

    JOB: ClassVar[str] = "expectations"
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Log key to the half-open offset range that was published by this run."""
    policies: Policies = NO_POLICIES
    """Their ``expectations.suite`` names a user's own suite."""
    is_whole: bool = False
    """Whether a job on Spark checks each row, however few there are."""


@dataclass(frozen=True, slots=True)
class FollowConfig(LakeJob[outlines.FollowingOutline[Topic_co]]):
    """What jobs share whose tables of topics follow ``records``, as the policies say."""

    policies: Policies = NO_POLICIES
    topics: tuple[str, ...] = ()
    """Globs; empty means all."""
    replace: tuple[str, ...] = ()
    """Names of topics whose tables are written again from the first row."""


@dataclass(frozen=True, slots=True)
class DecodeConfig(FollowConfig[outlines.DecodedOutline]):
    """Decoded tables of topics, up to the frontiers of ``records``."""

    JOB: ClassVar[str] = "decode"


@dataclass(frozen=True, slots=True)
class LatestConfig(FollowConfig[outlines.LatestOutline]):
    """Tables of the newest row of each key, up to the frontiers of ``records``."""

    JOB: ClassVar[str] = "latest"
    keys_in_memory: int = 8 << 20
    """Keys that a task has in memory, at most 51 bytes each. Many tasks do a log that may have more."""


@dataclass(frozen=True, slots=True)
class ClusterConfig(LakeJob[outlines.ClusterOutline]):
    """Tables of what the internal topics at the sources say."""

    JOB: ClassVar[str] = "cluster"
    sources: tuple[str, ...] = ()
    """Absolute paths, or addresses of object stores."""
    cluster: str | None = None
    """Name of the cluster, whatever its sources state; None: what they state."""
    only_metadata: bool = False
    """Read only ``__cluster_metadata``, for policies with ``from: cluster``."""
    only_after_intake: bool = False
    """Whether the sources are read only if the job ``ingest`` has found something new since the last such run."""

    @classmethod
    def of(cls, lake: str, run_id: str, as_of_ms: int, intakes: Sequence[Intake], **only: bool) -> Self:
        """Return the job on the sources of some intakes. The last one that names the cluster gives its name."""
        sources = tuple(dict.fromkeys(path for intake in intakes for path in intake.sources))
        cluster = next((intake.cluster for intake in reversed(intakes) if intake.cluster), None)
        return cls(lake, run_id, as_of_ms, sources, cluster, **only)


@dataclass(frozen=True, slots=True)
class RetentionConfig(MaintenanceJob[outlines.RetentionOutline]):
    """Retention of the archive by Kafka's predicates; without ``apply`` only the plan."""

    JOB: ClassVar[str] = "retention"


@dataclass(frozen=True, slots=True)
class CompactionConfig(MaintenanceJob[outlines.CompactionOutline]):
    """Cleaning of the archive by key; without ``apply`` only the plan."""

    JOB: ClassVar[str] = "compaction"


@dataclass(frozen=True, slots=True)
class RebuildIndexesConfig(MaintenanceJob[outlines.IndexesOutline]):
    """Side files of the archive's live segments; of the policies ``index.interval.bytes`` counts."""

    JOB: ClassVar[str] = "rebuild_indexes"
    apply: bool = True
    """Without it, only the plan. The job only adds files, so the default is to act."""
    again: bool = False
    """Rebuild all side files, also existing ones: for example, after `index.interval.bytes` changed."""


@dataclass(frozen=True, slots=True)
class RecoverConfig(MaintenanceJob[outlines.RecoverOutline]):
    """What a broker's start would leave of archived logs; with ``apply`` as log directories under ``out``.

    Without ``logs`` the latest log of each topic partition is used. Of the policies only ``index.interval.bytes``
    applies.
    """

    JOB: ClassVar[str] = "recover"
    out: str | None = None
    """A local directory outside of the lake; ``<out>/<topic>-<partition>`` must not exist."""
    salvage: bool = False
    """Keep what a broker would lose: valid batches after damage, and later segments."""


@dataclass(frozen=True, slots=True)
class TidyArchiveConfig(LakeJob[outlines.TidyOutline]):
    """Delete archive files that are no longer needed, and join small slices; without ``apply`` only the plan."""

    JOB: ClassVar[str] = "tidy_archive"
    policies: Policies = NO_POLICIES
    """``file.delete.delay.ms`` and ``segment.bytes`` apply."""
    apply: bool = False
    longest_run_ms: int = 86_400_000
    """Maximum duration of a run or of a reader of the archive."""
    orphan_after_ms: int = 7 * 86_400_000
    """Age at which files that no row names are removed; at least seven days and twice the longest run."""
    force: bool = False
    """No other process reads or writes this lake. Only the run's clock, `file.delete.delay.ms` and ``orphan_after_ms``
    apply."""
    only_join: bool = False
    """Join slices and delete nothing."""
    small_bytes: int | None = None
    """Slices of at least this size are not joined; None: all are, up to ``segment.bytes``."""


@dataclass(frozen=True, slots=True)
class VerifyConfig(LakeJob[outlines.VerifiedPart]):
    """Prove one of several equal parts of a lake. The job only reads, and takes no lease."""

    JOB: ClassVar[str] = "verify"
    part: int = 1
    """Part number, from 1."""
    parts: int = 1


@dataclass(frozen=True, slots=True)
class CheckForeignRowsConfig(LakeJob[outlines.ForeignFiles]):
    """Files of ``records`` that other engines wrote since the last run, compared with the archive."""

    JOB: ClassVar[str] = "check_foreign_rows"
    logs: tuple[str, ...] | None = None
    """Log keys whose findings are reported; None: all. Each file is compared, because no later run reads it."""


CONFIGS: Mapping[str, type[JobConfig[Outline]]] = {
    config.JOB: config
    for config in (
        IngestConfig,
        ValidateConfig,
        PublishConfig,
        ReplaceConfig,
        OptimizeConfig,
        ExpectationsConfig,
        RetentionConfig,
        CompactionConfig,
        RebuildIndexesConfig,
        RecoverConfig,
        TidyArchiveConfig,
        VerifyConfig,
        CheckForeignRowsConfig,
        DecodeConfig,
        LatestConfig,
        ClusterConfig,
    )
}


@dataclass(frozen=True, slots=True)
class LogChange(JsonContract):
    """What a job did to one log."""

    log: str
    """Log key ``<log_id>/<partition>``."""
    topic: str
    partition: int
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    """Named numbers and words, for example ``bytes``, ``start_offset``, ``stopped``."""

    @property
    def topic_partition(self) -> str:
        """Kafka's directory name, and Dagster's partition key."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class JobReport(JsonContract, Generic[Outline_co]):
    """What a job did, or would do."""

    job: str
    run_id: str
    lake: str
    changed: tuple[LogChange, ...] = ()
    findings: tuple[PlacedFinding, ...] = ()
    """Those that no earlier run recorded; in JSON a finding and its place are one object."""
    plan: Outline_co = field(kw_only=True)
    """What there was to do, as a dry run prints it."""
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    engine: str = ""
    """What ran its tasks, and why: ``local: no Spark cluster is configured``; empty if it had no tasks."""
    left: tuple[str, ...] = ()
    """Topic partitions of which a later round of the same run takes more."""

    @property
    def used_executor(self) -> bool:
        """Whether workers ran tasks of the job."""
        return bool(self.engine)

    @classmethod
    def of(cls, config: JobConfig[Reported], plan: Reported, **more: Any) -> JobReport[Reported]:
        """Return the report of a job; ``more`` has the other fields."""
        return JobReport(config.JOB, config.run_id, config.lake, plan=plan, **more)
