"""``maintain``: what of a lake's files could be deleted or merged. It lists; it deletes and merges nothing.

Files of tables are merged and removed by ``optimize``.

    orphans        files that no row and no table names: left behind by a run that was killed
    superseded     files of tables that only earlier versions name
    deletable      segments retired longer ago than `file.delete.delay.ms`: their rows stay as history
    mergeable      neighbouring slices of one source segment, as a log that grows in small steps leaves them

Ages are told by the run's clock. Young orphans may belong to a run that is still working.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from logcore.segments.filenames import LOG_SUFFIX
from spark_jobs.contracts import JobReport, MaintainConfig
from spark_jobs.lake import archive, storage
from spark_jobs.lake.archive import Segment
from spark_jobs.lake.live_files import idle_files, read_history
from spark_jobs.lake.policies import Policies, TopicPolicy, read_policies
from spark_jobs.lake.storage import StoredFile
from spark_jobs.lake.tables import TABLES, table_uri
from spark_jobs.rebuild_indexes import SIDE_FILES, side_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTED_FILES = 1000
"""At most so many files of a kind are named in a report, oldest first; all are counted."""

_NO_POLICY = TopicPolicy("*", ())


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the lake: path relative to it, bytes, and age by the run's clock.

    A superseded file is as old as the commit that removed it from its table.
    """

    path: str
    size: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class Slices:
    """Neighbouring live segments that would make one of at most `segment.bytes`."""

    log: str
    base_offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class MaintainPlan:
    """What could be done."""

    orphans: tuple[LakeFile, ...]
    superseded: tuple[LakeFile, ...]
    deletable: tuple[LakeFile, ...]
    mergeable: tuple[Slices, ...]

    @property
    def is_empty(self) -> bool:
        """Always: nothing is done about what is listed."""
        return True

    @property
    def needs_spark(self) -> bool:
        """Never."""
        return False

    def as_dict(self) -> dict[str, Any]:
        """The lists as plain values."""
        return {
            "orphans": _listed(self.orphans),
            "superseded": _listed(self.superseded),
            "deletable": _listed(self.deletable),
            "mergeable": {
                "count": len(self.mergeable),
                "bytes": sum(slices.size for slices in self.mergeable),
                "logs": [asdict(slices) for slices in self.mergeable[:LISTED_FILES]],
            },
        }


def plan(config: MaintainConfig) -> MaintainPlan:
    """Look at the tables and walk over the lake's files."""
    policies = read_policies(config.policies)
    segments = archive.read_segments(config.lake, live=False)
    orphans = list(_archive_orphans(config, segments))
    superseded: list[LakeFile] = []
    for name in TABLES:
        of_no_version, of_earlier_versions = _unnamed_files(config, name)
        orphans += of_no_version
        superseded += of_earlier_versions
    return MaintainPlan(
        _by_age(orphans),
        _by_age(superseded),
        _by_age(_deletable(config, segments, policies)),
        tuple(_mergeable([s for s in segments if s.retired_ms is None], policies)),
    )


def apply(plan: MaintainPlan, config: MaintainConfig, spark: SparkSession | None = None) -> JobReport:
    """Report the lists."""
    return JobReport(config.JOB, config.run_id, config.lake, plan=plan.as_dict())


def _archive_orphans(config: MaintainConfig, segments: Iterable[Segment]) -> Iterator[LakeFile]:
    named = {side_file(segment.path, suffix) for segment in segments for suffix in (LOG_SUFFIX, *SIDE_FILES)}
    for file in storage.files_below(storage.join(config.lake, "archive")):
        relative = storage.relative(file.path, config.lake)
        if relative not in named:
            yield _lake_file(config, file)


def _unnamed_files(config: MaintainConfig, name: str) -> tuple[list[LakeFile], list[LakeFile]]:
    """Files below a table that no version names, and those that only earlier ones do."""
    root = storage.relative(table_uri(config.lake, name), config.lake)
    orphans: list[LakeFile] = []
    superseded: list[LakeFile] = []
    for file in idle_files(config.lake, name, read_history(config.lake, name)):
        seen = LakeFile(storage.join(root, file.path), file.size, config.as_of_ms - file.since_ms)
        (superseded if file.was_live else orphans).append(seen)
    return orphans, superseded


def _deletable(config: MaintainConfig, segments: Iterable[Segment], policies: Policies) -> Iterator[LakeFile]:
    for segment in segments:
        policy = policies.for_topic(segment.topic) or _NO_POLICY
        # A segment registered where it lies is the source's: its row may go, its bytes never.
        if segment.retired_ms is None or segment.lies_at_source:
            continue
        if config.as_of_ms - segment.retired_ms > policy.file_delete_delay_ms:
            for suffix in (LOG_SUFFIX, *SIDE_FILES):
                with suppress(FileNotFoundError):
                    path = storage.join(config.lake, side_file(segment.path, suffix))
                    yield _lake_file(config, storage.stat(path))


def _mergeable(live: Iterable[Segment], policies: Policies) -> Iterator[Slices]:
    """Slices of one source segment, in groups of at most `segment.bytes`."""
    archived = [segment for segment in live if not segment.lies_at_source]
    archived.sort(key=lambda s: (s.log, s.base_offset))
    for (log, _, _), of_one_source in groupby(archived, key=lambda s: (s.log, s.origin_base_offset, s.generation)):
        group: list[Segment] = []
        size = 0
        for segment in of_one_source:
            limit = (policies.for_topic(segment.topic) or _NO_POLICY).segment_bytes
            if group and size + segment.size > limit:
                yield from _slices(log, group)
                group, size = [], 0
            group.append(segment)
            size += segment.size
        yield from _slices(log, group)


def _slices(log: str, group: list[Segment]) -> Iterator[Slices]:
    if len(group) > 1:
        yield Slices(log, tuple(s.base_offset for s in group), sum(s.size for s in group))


def _lake_file(config: MaintainConfig, file: StoredFile) -> LakeFile:
    return LakeFile(storage.relative(file.path, config.lake), file.size, config.as_of_ms - file.modified_ms)


def _by_age(files: Iterable[LakeFile]) -> tuple[LakeFile, ...]:
    return tuple(sorted(files, key=lambda file: (-file.age_ms, file.path)))


def _listed(files: tuple[LakeFile, ...]) -> dict[str, Any]:
    return {
        "count": len(files),
        "bytes": sum(file.size for file in files),
        "files": [asdict(file) for file in files[:LISTED_FILES]],
    }
