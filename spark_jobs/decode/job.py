"""``decode``: keys and values of ``records`` become typed columns of ``decoded/<topic>``, exactly once.

    plan     per topic with a policy and per log [frontier of the decoded table, frontier of ``records``)
    write    each batch is split into decoded rows and rows that could not be decoded
    commit   first ``undecoded/<topic>`` with its own frontiers, then ``decoded/<topic>`` with its frontiers

After a kill between the two commits the frontiers differ. The next run decodes from the frontier of the decoded table,
and adds to the other table only rows from its own frontier on. Decoding is deterministic, so no row is lost or doubled.

Both tables record a digest of the policy. With another digest a topic waits until its replacement is requested: earlier
rows stay. It also waits if rows below its frontier were written again in ``records``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.model.log_selection import LogSelection
from spark_jobs.contracts import DecodeConfig, JobReport, LogChange, Scalar
from spark_jobs.decode.decoding import TopicFormats, decoding_of
from spark_jobs.decode.split_rows import split_rows
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, TopicTable, decoded_spec, undecoded_spec
from spark_jobs.lake.delta import delta_log
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import latest_snapshot, reading
from spark_jobs.lake.errors import ConcurrentChange, JobError, UsageError
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.setup.compression import Compression
from spark_jobs.lake.setup.policies import read_policies
from spark_jobs.lake.store.storage import folder_name
from spark_jobs.lake.table_specs import TableSpec
from spark_jobs.row_files.published_rows import Span, published_rows
from spark_jobs.row_files.typed_files import TypedFiles

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

POLICY, SEEN = "policy", "records"
"""What a table records beside frontiers: digest of the policy, and the version of ``records`` that was read."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """What is to be decoded of a log."""

    log: str
    partition: int
    log_id: str
    decoded: int | None
    """Frontier of the decoded table."""
    undecoded: int | None
    """Frontier of the other table; not below the first one, unless rows are replaced."""
    end: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The work on a topic, or why it waits."""

    topic: str
    spans: tuple[LogSpan, ...] = ()
    formats: TopicFormats | None = None
    compression: Compression = Compression()  # noqa: RUF009 - frozen
    recorded: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By kind of table: what it records, by :data:`POLICY` and :data:`SEEN`."""
    seen: int = 0
    """Version of ``records`` that the plan was made on."""
    replaces: bool = False
    waits: str | None = None
    note: str | None = None
    """What could not be checked."""

    @property
    def left(self) -> int:
        """Offsets that are published and not decoded."""
        return sum(span.end - (0 if self.replaces else span.decoded or 0) for span in self.spans)

    def as_dict(self) -> dict[str, object]:
        """The plan as plain values."""
        return {
            "topic": self.topic,
            "left": self.left,
            "replaces": self.replaces,
            "waits": self.waits,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """The work on all topics whose policy decodes keys or values."""

    topics: tuple[TopicPlan, ...]
    needs_executor: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no topic has rows to decode."""
        return not any(topic.spans and topic.waits is None for topic in self.topics)

    def as_dict(self) -> dict[str, object]:
        """The plan as plain values."""
        return {"topics": [topic.as_dict() for topic in self.topics]}


def plan(config: DecodeConfig) -> DecodePlan:
    """Plan, for each topic with a policy, the rows between the frontiers.

    Raises:
        UsageError: A topic is to be replaced that no policy decodes.
        TableUnreadable: ``records`` or a table of state is damaged.
    """
    policies = read_policies(config.policies)
    table = latest_snapshot(config.lake, "records")
    seen = -1 if table is None else table.version()
    by_topic: dict[str, list[LogRow]] = {}
    for log in archive.read_logs(config.lake).values():
        by_topic.setdefault(log.topic, []).append(log)
    selection = LogSelection(config.topics)
    plans = []
    for topic, logs in sorted(by_topic.items()):
        policy = policies.for_topic(topic)
        if policy is None or not policy.decodes or not (selection.matches_topic(topic) or topic in config.topics):
            continue
        try:
            formats = TopicFormats.of(policy)
            plans.append(_plan_topic(config, topic, logs, formats, policy.compression, seen))
        except (JobError, UsageError) as error:  # of this topic only
            plans.append(TopicPlan(topic, waits=str(error)))
    unknown = [topic for topic in config.replace if topic not in {each.topic for each in plans}]
    if unknown:
        raise UsageError(f"--replace {unknown[0]}: no policy decodes a topic of this name in the lake.")
    return DecodePlan(tuple(plans))


def _plan_topic(
    config: DecodeConfig,
    topic: str,
    logs: Sequence[LogRow],
    formats: TopicFormats,
    compression: Compression,
    seen: int,
) -> TopicPlan:
    keys = [log.log for log in logs]
    published = frontier.read_frontiers(config.lake, keys)
    found = {
        kind: TopicTable(config.lake, kind, topic).versions([*keys, POLICY, SEEN]) for kind in (DECODED, UNDECODED)
    }
    recorded = {kind: {what: each[what] for what in (POLICY, SEEN)} for kind, each in found.items()}
    replaces = topic in config.replace
    spans = tuple(
        LogSpan(log.log, log.partition, log.log_id, found[DECODED][log.log], found[UNDECODED][log.log], end)
        for log in sorted(logs, key=lambda each: (each.partition, each.log_id))
        if (end := published[log.log]) is not None and (replaces or end > (found[DECODED][log.log] or 0))
    )
    note = waits = None
    if not replaces:
        others = {each[POLICY] for each in recorded.values()} - {None, formats.digest}
        if others:
            waits = (
                "its policy or a schema differs from the one that its rows were decoded with. To decode all rows "
                f"again: loglake decode {config.lake} --replace {topic}"
            )
        else:
            waits, note = _rewritten(config.lake, topic, recorded[DECODED][SEEN], seen)
    return TopicPlan(topic, spans, formats, compression, recorded, seen, replaces, waits, note)


def _rewritten(lake: str, topic: str, since: int | None, seen: int) -> tuple[str | None, str | None]:
    """Why a topic waits because rows of it were replaced or removed in ``records``; and what could not be checked."""
    folder = folder_name(f"topic={topic}")
    for version in range(seen, seen if since is None else since, -1):
        commit = delta_log.read_commit(lake, "records", version)
        if commit is None:
            return None, f"the commits of records after version {since} are gone: replaced rows would not be noticed"
        if commit.data_change and any(path.startswith(f"{folder}/") for path in commit.removed):
            return (
                f"version {version} of records replaced or removed rows of it. To decode all rows again: "
                f"loglake decode {lake} --replace {topic}"
            ), None
    return None, None


def apply(plan: DecodePlan, config: DecodeConfig, executor: Executor | None) -> JobReport:
    """Decode and commit each topic; a topic that fails does not keep the others from their rows.

    Raises:
        ConcurrentChange: Another process committed to a table meanwhile; the plan has to be made again.
    """
    with reading(config.lake, "records"):
        table = latest_snapshot(config.lake, "records")
        files = [] if table is None else live_files(table)
    changed: list[LogChange] = []
    topics: list[dict[str, object]] = []
    for each in plan.topics:
        described = each.as_dict()
        if each.waits is None and each.spans:
            try:
                made = _decode_topic(config, each, files)
                changed += made.changed
                described |= {"decoded": made.decoded, "undecoded": dict(made.reasons), "left": 0}
            except ConcurrentChange:
                raise
            except JobError as error:
                described["waits"] = str(error)
        topics.append(described)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(changed),
        plan={"topics": topics},
        metrics=_metrics(topics),
    )


def _metrics(topics: Sequence[Mapping[str, object]]) -> dict[str, Scalar]:
    def reasons(topic: Mapping[str, object]) -> Mapping[str, int]:
        return topic.get("undecoded", {})  # type: ignore[return-value]

    return {
        "decoded": sum(int(str(topic.get("decoded", 0))) for topic in topics),
        "undecoded": sum(sum(reasons(topic).values()) for topic in topics),
        "waiting": sum(topic["waits"] is not None for topic in topics),
    }


@dataclass(slots=True)
class _Made:
    decoded: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    changed: list[LogChange] = field(default_factory=list)


def _decode_topic(config: DecodeConfig, plan: TopicPlan, files: Sequence[LiveFile]) -> _Made:
    assert plan.formats is not None
    decoding = decoding_of(plan.formats)
    good = decoded_spec(plan.topic, decoding.key_field, decoding.value_field)
    bad = undecoded_spec(plan.topic)
    tables = {kind: TopicTable(config.lake, kind, plan.topic) for kind in (DECODED, UNDECODED)}
    decoded = TypedFiles(tables[DECODED].uri, good, plan.compression)
    undecoded = TypedFiles(tables[UNDECODED].uri, bad, plan.compression)
    made = _Made()
    try:
        for span in plan.spans:
            _decode_log(config.lake, plan, span, files, decoded, undecoded, made)
    except BaseException:
        decoded.abandon()
        undecoded.abandon()
        raise
    _commit(config, plan, tables[UNDECODED], bad, undecoded)
    _commit(config, plan, tables[DECODED], good, decoded)
    return made


def _decode_log(
    lake: str,
    plan: TopicPlan,
    span: LogSpan,
    files: Sequence[LiveFile],
    decoded: TypedFiles,
    undecoded: TypedFiles,
    made: _Made,
) -> None:
    assert plan.formats is not None
    start = 0 if plan.replaces else span.decoded or 0
    later = 0 if plan.replaces else span.undecoded or 0
    before = decoded.rows
    failed = 0
    wanted = Span(plan.topic, span.log_id, span.partition, start, span.end)
    for batch in published_rows(lake, files, wanted):
        parts = split_rows(batch, decoding_of(plan.formats), decoded.spec, undecoded.spec)
        decoded.write(parts.decoded)
        fresh = parts.undecoded
        if later > start and fresh.num_rows:
            fresh = fresh.filter(pc.greater_equal(fresh["offset"], pa.scalar(later, pa.int64())))
        undecoded.write(fresh)
        failed += parts.undecoded.num_rows
        for reason, rows in parts.reasons.items():
            made.reasons[reason] = made.reasons.get(reason, 0) + rows
    decoded.end_log()
    undecoded.end_log()
    rows = decoded.rows - before
    made.decoded += rows
    metrics: dict[str, Scalar] = {
        "decoded": rows,
        "undecoded": failed,
        "start_offset": start,
        "end_offset": span.end,
    }
    made.changed.append(LogChange(span.log, plan.topic, span.partition, metrics))


def _commit(config: DecodeConfig, plan: TopicPlan, table: TopicTable, spec: TableSpec, files: TypedFiles) -> None:
    """Commit rows, frontiers, policy and the version of ``records`` at once; nothing if the table has all of it."""
    assert plan.formats is not None
    recorded = plan.recorded[table.kind]
    guards = [
        Guard(table.application_id(POLICY), recorded[POLICY], plan.formats.digest),
        Guard(table.application_id(SEEN), recorded[SEEN], plan.seen),
    ]
    for span in plan.spans:
        planned = span.decoded if table.kind == DECODED else span.undecoded
        if plan.replaces or span.end > (planned or 0):
            guards.append(Guard(table.application_id(span.log), planned, span.end))
    if len(guards) == 2 and not files.written:  # a run was killed between the two commits
        return
    table.commit(spec, files.written, config.run_id, guards, whole=plan.replaces)
