"""Jobs that do next to nothing, for tests of orchestration: a `World` of logs that grow, and a launcher that moves
them through the tables of a real lake. No bytes of Kafka, no Spark; what the real jobs do is tested elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.offset_ledger import BLOCKING, OffsetState
from logcore.storage.discovery import discover
from pipelines.resources import JobLauncher
from spark_jobs.contracts import IngestConfig, JobConfig, JobReport, LogChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.setup.identity import claim
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES, VALIDATIONS
from spark_jobs.lake.view.expectation_results import mark_checked
from spark_jobs.outlines import (
    CompactionOutline,
    DirtyLog,
    DueLog,
    ExpectationResult,
    ForeignFiles,
    IndexesOutline,
    IngestOutline,
    OptimizeOutline,
    Outline,
    RangesOutline,
    ReplaceOutline,
    RetentionOutline,
    TidyOutline,
    VerifiedPart,
)
from spark_jobs.placed_finding import PlacedFinding

TOPIC_ID = "dGVzdHRvcGljaWQwMDAwMQ"
SEGMENT_BYTES = 1000


@dataclass
class World:
    """What lies at the sources, and the configurations that the jobs received."""

    ends: dict[str, int] = field(default_factory=dict)
    """Log end offset by topic partition."""
    corrupt: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Damaged offsets by topic partition."""
    ledger_hole: str | None = None
    """A topic partition whose ledger leaves out an offset: a fault of the job itself."""
    unmet: set[str] = field(default_factory=set)
    """Topic partitions on which an expectation fails."""
    no_outcomes: bool = False
    """Whether the job `expectations` reports nothing."""
    answers: dict[str, Any] = field(default_factory=dict)
    """How files of other engines compare with the archive."""
    proof: list[PlacedFinding] = field(default_factory=list)
    """What a proof of the lake finds."""
    not_held: set[str] = field(default_factory=set)
    """Topic partitions of which nothing can be published again."""
    reported: dict[str, Any] = field(default_factory=dict)
    """Plan, findings and metrics of a maintenance job, in place of the usual ones."""
    error: dict[str, Exception] = field(default_factory=dict)
    """What a job raises instead of working."""
    error_once: dict[str, Exception] = field(default_factory=dict)
    """What a job raises the first time."""
    before: dict[str, Callable[[], object]] = field(default_factory=dict)
    """What happens before a job, by its name."""
    asked: list[JobConfig] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    """The engine that each job was run with."""

    def of(self, job: str) -> list[JobConfig]:
        """The configurations that a job was run with."""
        return [config for config in self.asked if job == config.JOB]


WORLDS: dict[str, World] = {}


class FakeLauncher(JobLauncher):
    """Runs the jobs of the world with this name."""

    world: str

    def run(self, config: JobConfig, engine: str = "auto", results: object = None) -> JobReport:
        world = WORLDS[self.world]
        named = self.engine_for(config.lake, engine).partition(":")[0]
        world.engines.append(named)
        world.asked.append(config)
        world.before.get(config.JOB, lambda: None)()
        if config.JOB in world.error_once:
            raise world.error_once.pop(config.JOB)
        if config.JOB in world.error:
            raise world.error[config.JOB]
        changed, extra = JOBS[config.JOB](world, config)
        ran_by = "" if named == "auto" else f"{named}: as requested"
        plan = {"plan": Outline(), **extra}
        return JobReport(config.JOB, config.run_id, config.lake, tuple(changed), engine=ran_by, **plan)


def blank(kind: type, **known: object) -> Any:
    """A row of a table whose other columns are null."""
    return kind(**{**dict.fromkeys(f.name for f in fields(kind)), **known})


def seed(world: World, lake: str) -> None:
    """Put the logs of the world into a lake's archive, as if a run had done so long ago."""
    _ingest(world, IngestConfig(lake, ("/before",), "long-ago", 1_600_000_000_000))


def log_of(topic_partition: str) -> str:
    """Log key of a topic partition in this world."""
    topic, _, number = topic_partition.rpartition("-")
    return archive.log_key(f"{topic}@test.0", int(number))


def _chosen(config: JobConfig, log: str) -> bool:
    return config.logs is None or log in config.logs


def _ingest(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    claim(config.lake, "test")
    rows, segments, changes = [], [], []
    known = archive.read_logs(config.lake)
    for name, end in world.ends.items():
        topic, _, number = name.rpartition("-")
        log = log_of(name)
        held = known[log].next_offset if log in known else -1
        if end == held or (config.logs and name not in config.logs):
            continue
        row = blank(
            LogRow,
            log=log,
            topic=topic,
            log_id=f"{topic}@test.0",
            partition=int(number),
            incarnation=0,
            cluster="test",
            source=str(Path(config.sources[0], name)),
            next_offset=end,
            log_start_offset=0,
            source_log_start_offset=0,
            high_watermark=end,
            leader_epochs="[]",
            gaps="[]",
            as_of_ms=config.as_of_ms,
        )
        rows.append(row)
        changes.append(LogChange(log, topic, row.partition, {"segments": 1, "bytes": 1000, "end_offset": end}))
        if end == 0:
            continue
        held = max(held, 0)
        identity = archive.segment_id(log, held, str(end))
        place = {"log": log, "topic": topic, "log_id": row.log_id, "partition": row.partition}
        path = archive.segment_path(log, identity, held)
        storage.put(storage.join(config.lake, path), bytes(SEGMENT_BYTES), modified_ms=config.as_of_ms)
        segments.append(
            blank(
                Segment,
                **place,
                segment_id=identity,
                base_offset=held,
                next_offset=end,
                path=path,
                start=0,
                size=SEGMENT_BYTES,
                sealed=True,
                digest="",
                modified_ms=config.as_of_ms,
                generation=0,
            )
        )
    if segments:
        planned = archive.planned_versions(config.lake, [s.log for s in segments])
        archive.commit_segments(config.lake, segments, planned, config.run_id, config.as_of_ms)
    archive.commit_logs(config.lake, rows, config.run_id)
    of_paths = tuple(discover(config.sources).findings)
    return changes, {"metrics": {"segments": len(segments)}, "plan": IngestOutline("test", of_paths=of_paths)}


def _validate(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    ledger = frontier.read_ledger(config.lake)
    changes, rows, validated, placed = [], [], [], []
    for log, row in archive.read_logs(config.lake, config.logs).items():
        before = ledger.get(log, [])
        start = before[-1].end_offset if before else 0
        if start == row.next_offset:
            continue
        rows += before
        bad = world.corrupt.get(row.topic_partition)
        for low, high, state in _pieces(start, row.next_offset, bad):
            if state is OffsetState.CORRUPT:
                what = Finding(
                    "crc-mismatch", Severity.ERROR, "the checksum is wrong", f"{log}.log", 512, 78, low, high
                )
                placed.append(PlacedFinding(what, log, row.topic, row.partition))
            count = high - low if state is OffsetState.PRESENT else 0
            if row.topic_partition == world.ledger_hole:
                low += 1
            rows.append(
                LedgerRow(low, high, state, count, log=log, topic=row.topic, log_id=row.log_id, partition=row.partition)
            )
        changes.append(LogChange(log, row.topic, row.partition, {"records": row.next_offset - start}))
    if not changes:
        return [], {}
    frontier.commit_ledger(config.lake, rows, [change.log for change in changes], config.run_id)
    for segment in archive.read_segments(config.lake, [change.log for change in changes]):
        place = {"segment_id": segment.segment_id, "log": segment.log, "topic": segment.topic, "verdict": "clean"}
        numbers = dict.fromkeys([f.name for f in VALIDATIONS if pa.types.is_integer(f.type)], 0)
        good = sum(
            max(0, min(row.end_offset, segment.next_offset) - max(row.start_offset, segment.base_offset))
            for row in rows
            if row.log == segment.log and row.state is OffsetState.PRESENT
        )
        validated.append({**dict.fromkeys(VALIDATIONS.names), **numbers, **place, "batches": 1, "records": good})
    commits.append(config.lake, "validations", pa.Table.from_pylist(validated, schema=VALIDATIONS), config.run_id)
    found = record(config.lake, placed, config.run_id, config.as_of_ms)
    return changes, {"findings": tuple(found)}


def _pieces(start: int, end: int, bad: tuple[int, int] | None) -> list[tuple[int, int, OffsetState]]:
    if bad is None or bad[0] >= end:
        return [(start, end, OffsetState.PRESENT)]
    pieces = [(start, bad[0], OffsetState.PRESENT), (*bad, OffsetState.CORRUPT), (bad[1], end, OffsetState.PRESENT)]
    return [piece for piece in pieces if piece[1] > piece[0]]


def _row(schema: pa.Schema, first: LedgerRow, offset: int) -> dict[str, Any]:
    place = {"topic": first.topic, "partition": first.partition, "log_id": first.log_id, "offset": offset}
    return {**dict.fromkeys(schema.names), **place}


def _publish(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    changes = []
    schema = TABLES["records"].schema
    for log, ranges in frontier.read_ledger(config.lake, config.logs).items():
        at = frontier.read_frontiers(config.lake, [log])[log]
        start = at or 0
        blocked = [r.start_offset for r in ranges if r.state in BLOCKING and r.end_offset > start]
        end = min([*blocked, ranges[-1].end_offset])
        if end == start:
            continue
        first = ranges[0]
        offsets = [o for r in ranges if r.state is OffsetState.PRESENT for o in range(r.start_offset, r.end_offset)]
        rows = [_row(schema, first, offset) for offset in offsets if start <= offset < end]
        guard = Guard(frontier.application_id(log), at, end)
        commits.append(config.lake, "records", pa.Table.from_pylist(rows, schema=schema), config.run_id, [guard])
        ledger_ranges.sync_published(config.lake, config.run_id, [log])
        figures = {"records": len(rows), "start_offset": start, "end_offset": end}
        changes.append(LogChange(log, first.topic, first.partition, figures))
    return changes, {}


def _replace(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    """Publishes what came late; what a person asks for by a range is refused where the world says so."""
    changes, refused = [], []
    for log, ranges in frontier.read_ledger(config.lake, config.logs).items():
        to = max((r.end_offset for r in ranges if r.published), default=0)
        late = [r for r in ranges if r.state is OffsetState.PRESENT and not r.published and r.end_offset <= to]
        first = ranges[0]
        name = f"{first.topic}-{first.partition}"
        if config.names_a_range:
            if name in world.not_held:
                why = Finding("replacement-refused", Severity.WARNING, f"{name}: not held any more")
                refused.append(PlacedFinding(why))
            else:
                changes.append(LogChange(log, first.topic, first.partition, {"start_offset": config.start_offset}))
        elif late:
            schema = TABLES["records"].schema
            rows = [
                _row(schema, first, offset)
                for r in ranges
                if r.state is OffsetState.PRESENT and (r.published or r in late)
                for offset in range(r.start_offset, r.end_offset)
            ]
            predicate = f"topic = '{first.topic}' AND partition = {first.partition}"
            said = {"userMetadata": json.dumps({"run_id": config.run_id})}
            write_deltalake(
                table_uri(config.lake, "records"),
                pa.Table.from_pylist(rows, schema=schema),
                mode="overwrite",
                predicate=predicate,
                commit_properties=CommitProperties(custom_metadata=said),
            )
            frontier.commit_ledger(
                config.lake, [replace(r, published=r.published or r in late) for r in ranges], [log], config.run_id
            )
            changes.append(LogChange(log, first.topic, first.partition, {"records": len(rows)}))
    return changes, {"plan": ReplaceOutline(), "findings": tuple(refused)}


def _expectations(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    mark_checked(config.lake, config.ranges, config.run_id)
    logs = archive.read_logs(config.lake)
    failing = [log for log in config.ranges if logs[log].topic_partition in world.unmet]
    outcomes = (
        ExpectationResult("offsets_are_unique", not failing, "critical", "", tuple(failing)),
        ExpectationResult("no_lag_behind_log", success=True, severity="info", observed=""),
    )
    return [], {
        "plan": RangesOutline(expectations=() if world.no_outcomes else outcomes),
        "metrics": {"data_docs": str(Path(config.lake, "docs.html"))},
    }


OUTLINES: dict[str, Outline] = {
    "retention": RetentionOutline(),
    "compaction": CompactionOutline(),
    "tidy_archive": TidyOutline(),
    "rebuild_indexes": IndexesOutline(),
    "optimize": OptimizeOutline(),
}
"""What a maintenance job without work reports."""


def _maintenance(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    logs = archive.read_logs(config.lake, getattr(config, "logs", None)).values()
    changed = [LogChange(row.log, row.topic, row.partition, {"segments_removed": 1}) for row in logs]
    plan = OUTLINES[config.JOB]
    if config.JOB == "retention":
        plan = RetentionOutline(tuple(DueLog(row.log, row.topic_partition, 0, 0, (), None, ()) for row in logs))
    if config.JOB == "compaction":
        plan = CompactionOutline(
            tuple(DirtyLog(row.log, row.topic_partition, "exact", 0, 0, 1.0, (), 0, spread=False) for row in logs)
        )
    report = {"plan": plan, **world.reported.get(config.JOB, {})}
    return changed if getattr(config, "apply", False) else [], report


def _verify(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    plan = VerifiedPart(config.part, config.parts)
    return [], {"findings": tuple(world.proof), "plan": plan, "metrics": {"things": 3}}


def _check_foreign_rows(world: World, config: JobConfig) -> tuple[list[LogChange], dict]:
    tables_file.record_state(config.lake, config.run_id, config.as_of_ms, foreign={"records": world.answers})
    return [], {"plan": ForeignFiles((), world.answers)}


JOBS = {
    "check_foreign_rows": _check_foreign_rows,
    "verify": _verify,
    "ingest": _ingest,
    "validate": _validate,
    "publish": _publish,
    "replace": _replace,
    "expectations": _expectations,
    "retention": _maintenance,
    "compaction": _maintenance,
    "rebuild_indexes": _maintenance,
    "tidy_archive": _maintenance,
    "optimize": _maintenance,
}
