"""``latest``: the newest row of each key and log of ``records`` in ``latest/<topic>``, exactly once.

    plan     per topic with a policy and per log [frontier of the table, frontier of ``records``)
    keys     those of the new rows, looked up in the keys of the table's files: which of their rows are outdated
    write    files that lost rows are written again without them; the newest of the new rows become a file
    commit   files, frontiers, policy and number of rows at once, guarded by the frontiers of the plan

Files hold rows of one log in the order of offsets, so keys that change often are in the newest files, and files of keys
that rest stay as they are. Small files at the end of a log are joined when they are written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.contracts import JobReport, LatestConfig, LogChange
from spark_jobs.lake.decoded.followed_topics import POLICY, SEEN
from spark_jobs.lake.decoded.topic_tables import LATEST, TopicTable, latest_spec
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.live_files import LiveFile, open_parquet
from spark_jobs.lake.errors import ConcurrentChange, JobError
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TableSpec
from spark_jobs.latest.plan import ROWS, KeyedSpan, KeyedTopicPlan, LatestPlan, plan
from spark_jobs.row_files.newest.newest_keys import NewestKeys
from spark_jobs.row_files.newest.newest_rows import KEY_COLUMNS, NewestCounts, add_keys, chosen_rows
from spark_jobs.row_files.newest.offset_set import OffsetSet
from spark_jobs.row_files.published_rows import Span, published_rows
from spark_jobs.row_files.typed_files import TypedFiles

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

__all__ = ["apply", "plan"]

FILE_BYTES = 8 << 20
"""Bytes of rows in memory of a file: a changed key costs the rewriting of one."""
_BATCH_ROWS, _KEYS = 8192, 65_536
"""Rows that are read at once, and keys."""


def apply(plan: LatestPlan, config: LatestConfig, executor: Executor | None) -> JobReport:
    """Bring each topic up to its frontiers; a topic that fails does not keep the others from their rows.

    Raises:
        ConcurrentChange: Another process committed to a table meanwhile; the plan has to be made again.
    """
    changed: list[LogChange] = []
    topics: list[dict[str, object]] = []
    for topic in plan.topics:
        described = topic.as_dict()
        if topic.is_due:
            try:
                made = _Work(config, topic).done()
                changed += made
                described |= {"left": 0, "logs": [dict(each.metrics) for each in made]}
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
        metrics={
            "rows_read": sum(int(str(each.metrics["rows_read"])) for each in changed),
            "waiting": sum(int(topic["waits"] is not None) for topic in topics),
        },
    )


@dataclass(slots=True)
class _Work:
    """The work on one topic."""

    config: LatestConfig
    plan: KeyedTopicPlan
    table: TopicTable = field(init=False)
    spec: TableSpec = field(init=False)
    files: TypedFiles = field(init=False)
    removed: list[LiveFile] = field(default_factory=list)
    changes: list[LogChange] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = TopicTable(self.config.lake, LATEST, self.plan.topic)
        self.spec = latest_spec(self.plan.topic)
        self.files = TypedFiles(self.table.uri, self.spec, self.plan.compression, FILE_BYTES)

    def done(self) -> list[LogChange]:
        """Write and commit; return what changed, by log."""
        held = [] if self.plan.replaces else self.table.files()
        if any(file.log_id is None or file.partition is None or file.rows < 0 for file in held):
            raise JobError(
                "another engine merged files of several logs. To make the table again: "
                f"loglake latest {self.config.lake} --replace {self.plan.topic}"
            )
        self._guard(POLICY, self.plan.recorded[POLICY], self.plan.digest)
        self._guard(SEEN, self.plan.recorded[SEEN], self.plan.seen)
        try:
            for span in self.plan.spans:
                of_log = [f for f in held if (f.log_id, f.partition) == (span.log_id, span.partition)]
                self._add(span, sorted(of_log, key=lambda file: (file.min_offset or 0, file.path)))
        except BaseException:
            self.files.abandon()
            raise
        self.table.commit(
            self.spec,
            self.files.written,
            self.config.run_id,
            self.guards,
            whole=self.plan.replaces,
            removed=self.removed,
        )
        return self.changes

    def _guard(self, what: str, planned: int | None, after: int) -> None:
        self.guards.append(Guard(self.table.application_id(what), planned, after))

    def _add(self, span: KeyedSpan, held: Sequence[LiveFile]) -> None:
        """Write what changes in one log."""
        counts = NewestCounts()
        wanted = Span(self.plan.topic, span.log_id, span.partition, span.start, span.end)
        lake, published = self.config.lake, self.plan.files
        with NewestKeys(self.config.keys_in_memory) as newest:
            add_keys(newest, published_rows(lake, published, wanted, KEY_COLUMNS), counts)
            chosen, stays = self._chosen(held, newest)
        written = self.files.rows
        kept = self._kept(held, [bool(staying.all()) for staying in stays], counts.rows)
        for file, staying, is_kept in zip(held, stays, kept, strict=True):
            if is_kept:
                self.files.end_log()
                continue
            self.removed.append(file)
            at = 0
            for batch in self._rows(file, self.spec.schema.names):
                self.files.write(batch.filter(pa.array(staying[at : at + batch.num_rows])))
                at += batch.num_rows
        moved = self.files.rows - written
        new = chosen_rows(
            published_rows(lake, published, wanted),
            chosen,
            self.spec,
            counts,
            keeps_tombstones=self.plan.keeps_tombstones,
        )
        for batch in new:
            self.files.write(batch)
        self.files.end_log()
        rows = counts.rows + (0 if self.plan.replaces else span.rows or 0)
        self._guard(span.log, span.recorded, span.end)
        self._guard(ROWS + span.log, span.rows, rows)
        metrics = {
            "start_offset": span.start,
            "end_offset": span.end,
            "rows_read": counts.rows,
            "without_key": counts.without_key,
            "tombstones": counts.tombstones,
            "rows_written": self.files.rows - written - moved,
            "rows_moved": moved,
        }
        self.changes.append(LogChange(span.log, self.plan.topic, span.partition, metrics))

    def _chosen(self, held: Sequence[LiveFile], newest: NewestKeys) -> tuple[OffsetSet, list[npt.NDArray[np.bool_]]]:
        """Return the newest offsets, and for each file which of its rows stay: those whose keys no new row has.

        Args:
            newest: The keys of the new rows. If they did not fit into one map, the keys of the files are added.
        """
        if not newest.spilled:
            stays = [_joined([~newest.added(batch["key"]) for batch in self._rows(file, ("key",))]) for file in held]
            return newest.newest(), stays
        for file in held:
            add_keys(newest, self._rows(file, ("offset", "key")), NewestCounts())
        chosen = newest.newest()
        return chosen, [
            _joined([chosen.has(np.asarray(batch["offset"])) for batch in self._rows(file, ("offset",))])
            for file in held
        ]

    def _kept(self, held: Sequence[LiveFile], unchanged: Sequence[bool], new_rows: int) -> list[bool]:
        """Which files stay: those without an outdated row, but for small ones at the end, which are joined."""
        kept = list(unchanged)
        joined = new_rows
        for at in range(len(held) - 1, -1, -1):
            if held[at].rows > 2 * joined or held[at].size > FILE_BYTES // 4:
                break
            kept[at] = False
            joined += held[at].rows
        return kept

    def _rows(self, file: LiveFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows of a file of the table.

        Raises:
            TableUnreadable: It is missing or damaged.
        """
        schema = pa.schema([self.spec.schema.field(name) for name in columns]).remove_metadata()
        path = storage.join(self.table.uri, file.path)
        with self.table.reading(), open_parquet(path, page_checksum_verification=True) as parquet:
            for batch in parquet.iter_batches(_KEYS if "value" not in columns else _BATCH_ROWS, columns=list(columns)):
                yield pa.RecordBatch.from_arrays(
                    [batch[each.name].cast(each.type) for each in schema], names=schema.names
                )


def _joined(parts: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)
