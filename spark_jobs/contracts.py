"""A frozen configuration and a report per job, JSON both ways.

This is all that a caller (Dagster, the command line, ``python -m spark_jobs``) has to know of a job.
No behaviour lives here beyond reading and writing JSON; no import is heavier than ``dataclasses``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

Scalar = str | int | float | bool | None


class JsonContract:
    """Reads and writes a frozen dataclass as one JSON object whose keys are the field names."""

    def to_json(self) -> str:
        """The object as JSON text, keys in field order."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of :meth:`to_json`.

        Raises:
            ValueError: the text is no JSON object, or names a field that this contract does not have.
        """
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError(f"{cls.__name__}: expected a JSON object, got {type(value).__name__}")
        return cls.from_dict(value)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Build from plain values; JSON arrays become tuples.

        Raises:
            ValueError: unknown or missing fields.
        """
        fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(value) - set(fields))
        if unknown:
            raise ValueError(f"{cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(fields)}")
        single = [n for n, v in value.items() if isinstance(v, str) and str(fields[n].type).startswith("tuple")]
        if single:
            raise ValueError(f'{cls.__name__}.{single[0]} is a list, got one text; write it as ["..."]')
        try:
            return cls(**{name: _frozen(item) for name, item in value.items()})
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class IngestConfig(JsonContract):
    """What ``ingest`` reads and where it puts it."""

    JOB: ClassVar[str] = "ingest"
    lake: str
    """Directory of the lake."""
    sources: tuple[str, ...]
    """Log directories, partition directories or ``.log`` files; read, never written."""
    run_id: str
    as_of_ms: int
    """The run's clock, epoch milliseconds."""
    mode: str = "copy"
    """``copy`` into the archive, or ``reference``: register byte ranges where they lie."""
    topics: tuple[str, ...] = ()
    """Globs; empty means all."""
    partitions: tuple[int, ...] = ()
    """Partition numbers; empty means all."""
    logs: tuple[str, ...] = ()
    """Topic partitions by directory name (``orders-0``); empty means all."""
    high_watermark: str = "checkpoint"
    """``checkpoint``, ``log-end`` or an offset as text."""
    cluster: str | None = None
    """Name of the cluster where a source states none."""
    policies: str | None = None
    """Path of a ``policies.yaml``; its ``on_truncate``, ``on_recreate`` and ``active.min.growth`` count."""
    at_once: bool = True
    """Take every growth, however small; without it a small one waits (``active.min.growth``)."""
    fill_from: tuple[str, ...] = ()
    """Directories beside a log's own source in which offsets that are ``missing`` or ``corrupt`` are looked for."""
    move_source: bool = False
    """Keep logs that were taken from another directory to the one named now, if it agrees with what is held."""


@dataclass(frozen=True, slots=True)
class ValidateConfig(JsonContract):
    """Which logs ``validate`` looks at; by default every one with something new."""

    JOB: ClassVar[str] = "validate"
    lake: str
    run_id: str
    as_of_ms: int
    logs: tuple[str, ...] | None = None
    """Log keys ``<log_id>/<partition>``; None means all of the lake."""
    policies: str | None = None
    """Path of a ``policies.yaml``; topics whose ``cleanup.policy`` has ``compact`` may have gaps."""


@dataclass(frozen=True, slots=True)
class PublishConfig(JsonContract):
    """Which decided offsets ``publish`` adds to ``records``."""

    JOB: ClassVar[str] = "publish"
    lake: str
    run_id: str
    as_of_ms: int
    logs: tuple[str, ...] | None = None
    topics: tuple[str, ...] = ()
    """Topic names or globs as given by the user; an internal topic named here exactly is published."""
    include_internal: bool = False
    policies: str | None = None
    """Path of a ``policies.yaml``; its ``salvage``, ``publish.max.delay`` and ``publish.min.bytes`` count."""
    at_once: bool = True
    """Publish whatever is decided; without it a log waits until enough of it has come, or for long enough."""
    isolation_level: str = "read_committed"
    """``read_uncommitted`` also keeps ``records_uncommitted`` up to the high watermark."""


@dataclass(frozen=True, slots=True)
class ReplaceConfig(JsonContract):
    """Which published ranges ``replace`` publishes again, below the frontier; without a range those filled late."""

    JOB: ClassVar[str] = "replace"
    lake: str
    run_id: str
    as_of_ms: int
    logs: tuple[str, ...] | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    """Exclusive."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive; records whose timestamp lies in [since, until), widened to whole record batches."""
    policies: str | None = None
    include_withdrawn: bool = False
    """Bring rows back that were withdrawn, and forget the withdrawal; without it they stay away."""

    @property
    def names_a_range(self) -> bool:
        """Whether a person asked for a range; else only what was filled late is due."""
        return any(v is not None for v in (self.start_offset, self.end_offset, self.since_ms, self.until_ms))


@dataclass(frozen=True, slots=True)
class OptimizeConfig(JsonContract):
    """Merge small files of the tables in their order, then remove files that no version within the floor names."""

    JOB: ClassVar[str] = "optimize"
    lake: str
    run_id: str
    as_of_ms: int
    apply: bool = False
    target_bytes: int = 128 << 20
    """Size that merged files come near to."""
    small_bytes: int = 32 << 20
    """Files below this are merged with their neighbours."""
    vacuum_after_ms: int = 7 * 86_400_000
    """Age that a file must have before it is removed; never less than seven days unless ``force`` says so."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class ExpectationsConfig(JsonContract):
    """Which published ranges ``expectations`` checks."""

    JOB: ClassVar[str] = "expectations"
    lake: str
    run_id: str
    as_of_ms: int
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Log key to the half-open offset range that was published by this run."""


@dataclass(frozen=True, slots=True)
class RetentionConfig(JsonContract):
    """Retention of the archive by Kafka's predicates; without ``apply`` only the plan."""

    JOB: ClassVar[str] = "retention"
    lake: str
    run_id: str
    as_of_ms: int
    policies: str | None = None
    logs: tuple[str, ...] | None = None
    apply: bool = False


@dataclass(frozen=True, slots=True)
class CompactionConfig(JsonContract):
    """Cleaning of the archive by key; without ``apply`` only the plan."""

    JOB: ClassVar[str] = "compaction"
    lake: str
    run_id: str
    as_of_ms: int
    policies: str | None = None
    logs: tuple[str, ...] | None = None
    apply: bool = False


@dataclass(frozen=True, slots=True)
class RebuildIndexesConfig(JsonContract):
    """Side files of the archive's live segments."""

    JOB: ClassVar[str] = "rebuild_indexes"
    lake: str
    run_id: str
    as_of_ms: int
    logs: tuple[str, ...] | None = None
    policies: str | None = None
    """Path of a ``policies.yaml``; its ``index.interval.bytes`` counts."""
    apply: bool = True
    """Without it, only the plan. It adds files and removes none, so it acts unless told not to."""
    again: bool = False
    """Make all side files anew, also those that are there: after another `index.interval.bytes`, for instance."""


@dataclass(frozen=True, slots=True)
class RecoverConfig(JsonContract):
    """What a broker's start would leave of archived logs; with ``apply`` as log directories under ``out``."""

    JOB: ClassVar[str] = "recover"
    lake: str
    run_id: str
    as_of_ms: int
    logs: tuple[str, ...] | None = None
    """Log keys ``<log_id>/<partition>``; None: the newest of every topic partition."""
    out: str | None = None
    """A local directory outside of the lake; ``<out>/<topic>-<partition>`` must not exist."""
    salvage: bool = False
    """Keep what a broker would lose: good batches behind damage, later segments."""
    policies: str | None = None
    """Path of a ``policies.yaml``; its ``index.interval.bytes`` counts."""
    apply: bool = False


@dataclass(frozen=True, slots=True)
class MaintainConfig(JsonContract):
    """Delete files of the archive that nobody needs, join small slices; without ``apply`` only the plan."""

    JOB: ClassVar[str] = "maintain"
    lake: str
    run_id: str
    as_of_ms: int
    policies: str | None = None
    """Path of a ``policies.yaml``; its ``file.delete.delay.ms`` and ``segment.bytes`` count."""
    apply: bool = False
    longest_run_ms: int = 86_400_000
    """A run, or a reader of the archive, has ended after so long."""
    orphan_after_ms: int = 7 * 86_400_000
    """Age from which files go that no row names; at least seven days and twice the longest run."""
    force: bool = False
    """Nobody else reads or writes this lake: only the run's clock, `file.delete.delay.ms` and ``orphan_after_ms``
    count."""


@dataclass(frozen=True, slots=True)
class VerifyConfig(JsonContract):
    """Prove one of several equal parts of a lake; only read, without the lease."""

    JOB: ClassVar[str] = "verify"
    lake: str
    run_id: str
    as_of_ms: int
    part: int = 1
    """Counted from 1."""
    parts: int = 1


@dataclass(frozen=True, slots=True)
class ProveConfig(JsonContract):
    """Files of ``records`` that other engines wrote since the last run, compared with the archive."""

    JOB: ClassVar[str] = "prove"
    lake: str
    run_id: str
    as_of_ms: int
    logs: tuple[str, ...] | None = None
    """Log keys whose findings are reported; None: all. Every file is compared: no later run looks at it."""


JobConfig = (
    IngestConfig
    | ValidateConfig
    | PublishConfig
    | ReplaceConfig
    | OptimizeConfig
    | ExpectationsConfig
    | RetentionConfig
    | CompactionConfig
    | RebuildIndexesConfig
    | RecoverConfig
    | MaintainConfig
    | VerifyConfig
    | ProveConfig
)

CONFIGS: Mapping[str, type[JobConfig]] = {
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
        MaintainConfig,
        VerifyConfig,
        ProveConfig,
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
    """Named figures and words, for instance ``bytes``, ``start_offset``, ``stopped``."""

    @property
    def topic_partition(self) -> str:
        """Kafka's directory name, and Dagster's partition key."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class JobReport(JsonContract):
    """What a job did, or would do."""

    job: str
    run_id: str
    lake: str
    changed: tuple[LogChange, ...] = ()
    findings: tuple[Mapping[str, Scalar], ...] = ()
    """New ``findings`` rows of this run, without their run id."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The plan as printed by a dry run."""
    used_spark: bool = False
    metrics: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Build from plain values, with ``changed`` as :class:`LogChange`."""
        plain = dict(value)
        plain["changed"] = tuple(LogChange.from_dict(item) for item in plain.get("changed", ()))
        plain["findings"] = tuple(dict(item) for item in plain.get("findings", ()))
        return cls(**plain)
