"""``loglake state LAKE TOPIC --at WHEN --out PATH``: the newest row of each key below an offset or a time.

    loglake state LAKE orders --at orders-0:42,orders-1:7 --out state.parquet
    loglake state LAKE orders --at 2026-08-01T12:00 --out state --format delta

It is answered from `records` alone, so that it stays the same after the archive was cleaned. Prints a line for each
log, and a line for the whole. The answer is incomplete if records below the cut may be missing; it says which, and the
file says so too (`loglake.complete`, `loglake.incomplete`).

Exit codes: 0 written and complete; 1 written, and records may be missing; 3 could not be written, or a table is
damaged; 64 wrong usage.

A state as a Parquet file or a Delta table: written under a temporary name, and renamed when it is complete.

What it is the state of, and whether it is complete, is beside the rows: in the metadata of the Parquet file, or in the
properties of the Delta table.

The cut of each log that a command states: the first offset that does not belong to the state.

An offset is stated for a partition, and is the cut of each of its logs: a topic that was created again under its name
has several.

What may be missing in a state: offsets below the cut whose records the lake never had, or no longer has.

    compacted   cleaning at the source removed them before they were read; a removed record may have been the newest of
                its key below the cut
    missing, corrupt, unknown   lost, damaged, or of a transaction with a lost outcome
    remote, trimmed             in the remote tier, or below the log start when the log was first read
    withdrawn   deleted from `records` on purpose
    unpublished not, or not yet, in `records`

Cleaning of the archive itself is none of these: `records` keeps what was published.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction

from logcore.cli.reading.arguments import positive, time_ms
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.errors import UsageError, guarded
from spark_jobs.lake.delta.files.parquet_files import row_groups
from spark_jobs.lake.delta.files.typed_files import TypedFiles
from spark_jobs.lake.field_ids import as_in_table
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published.log_cuts import LogCut, cuts_at_time
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake_commands.outcome import lake_at
from spark_jobs.policies.compression import DEFAULT

if TYPE_CHECKING:
    from spark_jobs.lake.delta.files.live_files import LiveFile
    from spark_jobs.newest.newest_rows import NewestCounts


_LOST = {
    OffsetState.COMPACTED: "compacted",
    OffsetState.EMPTY: "compacted",
    OffsetState.MISSING: "missing",
    OffsetState.CORRUPT: "corrupt",
    OffsetState.UNKNOWN: "unknown",
    OffsetState.REMOTE: "remote",
    OffsetState.TRIMMED: "trimmed",
}
UNPUBLISHED, WITHDRAWN, COMPACTED = "unpublished", "withdrawn", "compacted"


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [start, end) among which records are missing, and why."""

    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}) {self.why}"


def lost_below(lake: str, ledger: Sequence[LedgerRow], cut: int, end: int, *, asks_for_all: bool) -> list[Lost]:
    """Return what may be missing in the state of a log; neighbours of one kind are joined.

    Args:
        ledger: The ranges of the log, in offset order.
        cut: The first offset that does not belong to the state.
        end: The same, at most the frontier.
        asks_for_all: No record is at or after the requested time, so that later offsets may belong to it.
    """
    found = [
        Lost(row.start_offset, min(row.end_offset, cut), why)
        for row in ledger
        if row.start_offset < cut and (why := _why(lake, row, cut)) is not None
    ]
    last = max((row.end_offset for row in ledger), default=0)
    beyond = last if asks_for_all else cut
    if beyond > end and not any(each.end >= beyond for each in found):
        found.append(Lost(max(end, found[-1].end if found else 0), beyond, UNPUBLISHED))
    joined: list[Lost] = []
    for each in found:
        if joined and (joined[-1].end, joined[-1].why) == (each.start, each.why):
            each = Lost(joined.pop().start, each.end, each.why)
        joined.append(each)
    return joined


def _why(lake: str, row: LedgerRow, cut: int) -> str | None:
    if row.state in _LOST:
        return _LOST[row.state]
    if row.state is not OffsetState.PRESENT:
        return UNPUBLISHED if row.state is OffsetState.OPEN else None
    if row.withdrawn:
        return WITHDRAWN
    if not row.published:
        return UNPUBLISHED
    return COMPACTED if row.compacted and _compacted_below(lake, row, cut) else None


def _compacted_below(lake: str, row: LedgerRow, cut: int) -> bool:
    """Whether cleaning left gaps of a range below an offset."""
    if row.end_offset <= cut:
        return True
    try:
        counts = ledger_ranges.count_below(lake, row, cut)
    except (LogError, OSError):  # the batch at the cut is no longer in the archive: nothing is claimed
        return True
    return counts.records + counts.markers < cut - row.start_offset


def stated_offsets(text: str, topic: str) -> dict[int, int] | None:
    """Return offsets by partition from ``orders-0:42,orders-1:7``; None if the text has another form.

    Raises:
        UsageError: It names another topic, or a partition twice.
    """
    form = re.compile(r"(.+)-([0-9]{1,10}):([0-9]{1,18})", re.ASCII)
    parts = [form.fullmatch(part.strip()) for part in text.split(",")]
    stated: dict[int, int] = {}
    for part in parts:
        if part is None:
            return None
        if part[1] != topic:
            raise UsageError(f"--at {part[0]}: the state of {topic} is requested, this is a partition of {part[1]}.")
        if int(part[2]) in stated:
            raise UsageError(f"--at {text}: partition {part[2]} is there twice.")
        stated[int(part[2])] = int(part[3])
    return stated


def cuts_at_offsets(
    logs: Sequence[LogRow], frontiers: Mapping[str, int | None], stated: Mapping[int, int]
) -> list[LogCut]:
    """Return the cuts of the logs of stated partitions.

    Raises:
        UsageError: The topic has no such partition.
    """
    unknown = sorted(set(stated) - {log.partition for log in logs})
    if unknown:
        raise UsageError(f"--at: the lake has no partition {unknown[0]} of {logs[0].topic}.")
    return [LogCut(log, frontiers[log.log] or 0, stated[log.partition]) for log in logs if log.partition in stated]


PARQUET, DELTA = "parquet", "delta"
Logs = Iterable[Iterable[pa.RecordBatch]]
"""The rows of one log after the other."""


def check_place(lake: str, path: str) -> str:
    """Return the absolute path of what is to be written.

    Raises:
        UsageError: Something is there, it is in the lake, or it is not on a local disk.
    """
    if storage.is_remote(path):
        raise UsageError("PATH must be on a local disk.")
    path = os.path.abspath(path)
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already; nothing was written. Name a path that does not exist.")
    if not storage.is_remote(lake) and storage.lies_below(lake, path):
        raise UsageError(f"{path} is in the lake {lake}; nothing was written. Name a path outside of it.")
    return path


def write_parquet(path: str, spec: TableSpec, logs: Logs, described: Callable[[], Mapping[str, str]]) -> None:
    """Write one file.

    Args:
        described: Called after all rows; returns the metadata.

    Raises:
        OSError: It can't be written; then nothing is at its place.
    """
    with storage.writing(path) as local:
        with pq.ParquetWriter(
            local,
            spec.schema,
            compression=DEFAULT.codec,  # type: ignore[arg-type]
            compression_level=DEFAULT.writer_level,
            write_statistics=list(spec.statistics),
            write_page_checksum=True,
        ) as writer:
            for group in row_groups(itertools.chain.from_iterable(logs), spec.schema):
                writer.write_table(group)
            writer.add_key_value_metadata(dict(described()))
        if os.path.lexists(path):
            raise UsageError(f"{path} was made by another program meanwhile; nothing was written.")


def write_delta(path: str, spec: TableSpec, logs: Logs, described: Callable[[], Mapping[str, str]]) -> None:
    """Write a Delta table of one version with rows; the same arguments.

    Raises:
        OSError: It can't be written; then nothing is at its place.
    """
    folder = os.path.join(os.path.dirname(path), f".{uuid.uuid4().hex}.writing")
    files = TypedFiles(folder, spec, DEFAULT)
    try:
        os.makedirs(folder)
        try:
            for rows in logs:
                for batch in rows:
                    files.write(batch)
                files.end_log()
        except BaseException:
            files.abandon()
            raise
        table = DeltaTable.create(
            folder,
            schema=Schema.from_arrow(as_in_table(spec.schema)),
            description=spec.one_row,
            configuration={
                "delta.enableDeletionVectors": "false",
                "delta.dataSkippingStatsColumns": ",".join(spec.statistics),
                **described(),
            },
            raise_if_key_not_exists=False,
        )
        table.create_write_transaction(
            [AddAction(file.path, file.size, {}, file.modified_ms, True, file.statistics) for file in files.written],
            mode="append",
            schema=table.schema(),
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        for name in os.listdir(os.path.join(folder, "_delta_log")):
            disk_sync.sync(os.path.join(folder, "_delta_log", name))
        if os.path.lexists(path):
            raise UsageError(f"{path} was made by another program meanwhile; nothing was written.")
        os.rename(folder, path)
        disk_sync.sync(os.path.dirname(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        raise


def state_command(parser: argparse.ArgumentParser) -> None:
    """``loglake state LAKE TOPIC``."""
    parser.description = (
        "Write the newest row of each key and log of a topic as it was at an offset or a time, from "
        "the published records. Tombstones and records without a key are left out and counted."
    )
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    parser.add_argument("topic", metavar="TOPIC", help="a topic of the lake")
    parser.add_argument(
        "--at",
        required=True,
        metavar="WHEN",
        help="TOPIC-PARTITION:OFFSET[,…] for records below these offsets, other partitions left out; or a time, "
        "which is in each log the first offset whose record is not before it",
    )
    parser.add_argument("--out", required=True, metavar="PATH", help="what to write; it must not exist")
    parser.add_argument("--format", choices=("parquet", "delta"), default="parquet")
    parser.add_argument(
        "--keep-tombstones", action="store_true", help="keep deleted keys, as rows whose is_deleted is true"
    )
    parser.add_argument(
        "--keys-in-memory", type=positive, metavar="N", help="keys in memory, 51 bytes each; more go to files"
    )
    parser.set_defaults(func=guarded(_write))


@dataclass(slots=True)
class _LogState:
    """A log, its cut, and what the state has of it."""

    cut: LogCut
    lost: list[Lost]
    counts: NewestCounts
    shown: int = 0


@dataclass(slots=True)
class _State:
    """All logs of the answer."""

    lake: str
    topic: str
    files: list[LiveFile]
    logs: list[_LogState] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not any(log.lost for log in self.logs)

    def described(self) -> dict[str, str]:
        """What the file says of itself."""
        cuts = [{"log": log.cut.log.log, "partition": log.cut.log.partition, "end": log.cut.end} for log in self.logs]
        lost = [
            {"log": log.cut.log.log, "start": each.start, "end": each.end, "why": each.why}
            for log in self.logs
            for each in log.lost
        ]
        return {
            "loglake.topic": self.topic,
            "loglake.cuts": json.dumps(cuts),
            "loglake.complete": str(self.is_complete).lower(),
            "loglake.incomplete": json.dumps(lost),
        }


def _write(options: argparse.Namespace) -> int:
    from spark_jobs.lake.decoded.topic_tables import latest_spec

    lake = lake_at(options.lake)
    path = check_place(lake, options.out)
    state = _state(lake, options.topic, options.at)
    spec = latest_spec(options.topic)
    write = write_parquet if options.format == PARQUET else write_delta
    write(path, spec, (_rows(state, log, options) for log in state.logs), state.described)
    for log in state.logs:
        sys.stdout.write(_line(log, kept=options.keep_tombstones))
    rows = sum(log.shown for log in state.logs)
    sys.stdout.write(f"{path}: {rows:,} rows, {'complete' if state.is_complete else 'incomplete'}\n")
    return ExitCode.CLEAN if state.is_complete else ExitCode.WARNING


def _state(lake: str, topic: str, at: str) -> _State:
    """The logs with their cuts, and what may be missing below them.

    Raises:
        UsageError: The lake has no such topic, or the cut has no known form.
        TableUnreadable: A table is damaged or lost.
    """
    from spark_jobs.lake.delta.files.live_files import newest_files
    from spark_jobs.lake.delta.state.tables_file import refuse_lost
    from spark_jobs.lake.ledger import frontier
    from spark_jobs.newest.newest_rows import NewestCounts

    refuse_lost(lake, "logs", "offset_ledger", "records")
    found = [log for log in archive.read_logs(lake).values() if log.topic == topic]
    logs: list[LogRow] = sorted(found, key=lambda log: (log.partition, log.incarnation, log.log_id))
    if not logs:
        raise UsageError(f"The lake {lake} has no topic {topic}.")
    keys = [log.log for log in logs]
    frontiers, ledger = frontier.read_frontiers(lake, keys), frontier.read_ledger(lake, keys)
    files = newest_files(lake, "records")
    stated = stated_offsets(at, topic)
    if stated is not None:
        cuts = cuts_at_offsets(logs, frontiers, stated)
    else:
        try:
            moment = time_ms(at)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--at: {error}; offsets are {topic}-0:42,{topic}-1:7.") from error
        cuts = cuts_at_time(lake, files, logs, frontiers, moment)
    state = _State(lake, topic, files)
    for cut in cuts:
        rows = ledger.get(cut.log.log, [])
        asked = cut.end if cut.asked is None else cut.asked
        lost = lost_below(lake, rows, asked, cut.end, asks_for_all=cut.asked is None)
        state.logs.append(_LogState(cut, lost, NewestCounts()))
    return state


def _rows(state: _State, log: _LogState, options: argparse.Namespace) -> Iterator[pa.RecordBatch]:
    from spark_jobs.lake.decoded.topic_tables import latest_spec
    from spark_jobs.lake.published.published_rows import Span
    from spark_jobs.newest.newest_keys import KEYS_IN_MEMORY
    from spark_jobs.newest.newest_rows import newest_rows

    of = log.cut.log
    for batch in newest_rows(
        state.lake,
        state.files,
        Span(state.topic, of.log_id, of.partition, 0, log.cut.end),
        latest_spec(state.topic),
        log.counts,
        keeps_tombstones=options.keep_tombstones,
        keys_in_memory=options.keys_in_memory or KEYS_IN_MEMORY,
    ):
        log.shown += batch.num_rows
        yield batch


def _line(log: _LogState, *, kept: bool) -> str:
    cut, counts = log.cut, log.counts
    name = cut.log.topic_partition + (f" ({cut.log.log_id})" if cut.log.incarnation else "")
    deleted = f"{counts.tombstones:,} deleted keys {'kept' if kept else 'left out'}"
    line = (
        f"{name}: below offset {cut.end:,}: {log.shown:,} rows, {deleted}, {counts.without_key:,} records without a key"
    )
    if log.lost:
        first = ", ".join(map(str, log.lost[:5]))
        more = f" and {len(log.lost) - 5} more" if len(log.lost) > 5 else ""
        line += f"; incomplete: offsets {first}{more}"
    return f"{line}\n"
