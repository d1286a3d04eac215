"""``loglake repair LAKE``: repair what other engines did to a lake's tables.

    loglake repair LAKE --frontiers            which logs have lost their frontier, and whether rows and ledger agree
    loglake repair LAKE --frontiers --apply    … and restore the frontiers of those that agree
    loglake repair LAKE --rebuild TABLE        how the table would be rebuilt
    loglake repair LAKE --rebuild TABLE --apply
    loglake repair LAKE --archive              which archived files are gone or changed, and which copies match
    loglake repair LAKE --archive --from COPY --apply

A table is rebuilt in one of two ways. `records` and all tables that cannot be derived are copied: their rows, as
Delta's reader sees them, go into a table with our own layout. Any other table is moved aside, and the next
``loglake run`` derives it from the archive. So is `records` if it cannot be opened and no archived file was deleted,
and a table of the cluster if it cannot be read: the next run reads the internal topics at the sources again.
`withdrawals` that cannot be read are recorded again as the offset ledger has them, without who withdrew rows and why.
Their cause is `unknown` where the rows may have been withdrawn or may have expired.
Maintenance records `log_actions` that cannot be read again, as far as `segments` says what was done.
If another program removed or wrote rows of a table that cannot be derived, the version before is restored.
The old directory is kept in both cases. Copying needs a JVM.

Archived files are restored from the log's source, or from a copy of it, if its bytes have the recorded SHA-256.

Exit codes: 0 nothing to repair, or repaired · 1 there is something to repair, and nothing was written · 2 something was
not repaired: rows and ledger disagree, or no copy has the bytes · 3 could not be done · 64 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.exit_codes import ExitCode
from spark_jobs.errors import JobError, TableUnreadable, UsageError, guarded
from spark_jobs.lake.repair_commands import replace_command
from spark_jobs.lake_commands.outcome import lake_at, working

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from spark_jobs.lake.published.frontier_repair import FrontierPlan

FEW = 20
"""At most this many disagreements of a log are listed."""

FROM_SEGMENTS = ("validations", "batches", "quarantine", "findings", "transactions")
"""Derived by validating segments. Only segments without a row in ``validations`` are validated, so that goes too."""
DERIVED = (*FROM_SEGMENTS, "offset_ledger")
_LOSSES = {
    "runs": "the history of earlier runs is lost",
    "withdrawals": "who withdrew rows, and why, is lost",
    "log_actions": "maintenance records again what `segments` says, other reasons are lost",
}
"""What is lost with the rows of a table. Of others it is what the archive no longer has."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """How a table is rebuilt."""

    name: str
    copies: bool
    aside: tuple[str, ...]
    """Tables that are moved aside, in this order."""
    why: str
    version: int | None = None
    """The version that is restored; None: none."""


def repair_command(parser: argparse.ArgumentParser) -> None:
    """``loglake repair LAKE``."""
    parser.description = "Repair what other engines did to a lake's tables. Without --apply it only reports."
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--frontiers",
        action="store_true",
        help="restore lost frontiers of logs whose rows and ledger agree in every offset",
    )
    asked.add_argument(
        "--rebuild",
        metavar="TABLE",
        help="rebuild a table: from its rows, or by the next run; the old directory is kept",
    )
    asked.add_argument(
        "--archive",
        action="store_true",
        help="read every archived file, and restore those that are gone or changed",
    )
    parser.add_argument(
        "--from",
        dest="copies",
        action="append",
        default=[],
        metavar="COPY",
        help="with --archive: a log directory or partition directory that may have the same bytes; repeatable",
    )
    parser.add_argument("--apply", action="store_true", help="do it; without it nothing is written")
    parser.set_defaults(func=guarded(_repair))


def _repair(options: argparse.Namespace) -> int:
    if options.archive:
        return _archive(options)
    return _frontiers(options) if options.frontiers else _rebuild(options)


# --- frontiers --------------------------------------------------------------------------------------------------------


def _frontiers(options: argparse.Namespace) -> int:
    from spark_jobs.lake.published import frontier_repair

    lake = lake_at(options.lake)
    if options.apply:
        with working(lake, "repair", options.now_ms) as run:
            made = frontier_repair.plan(lake)
            if made.repairable or made.forgetting:
                run.wrote = True
                frontier_repair.apply(lake, made, run.run_id)
    else:
        made = frontier_repair.plan(lake)
    for line in _frontier_lines(lake, made, applied=options.apply):
        print(line)
    if any(log.disagreements for log in made.logs):
        return ExitCode.DAMAGE
    return ExitCode.CLEAN if made.is_empty or options.apply else ExitCode.WARNING


def _frontier_lines(lake: str, made: FrontierPlan, *, applied: bool) -> list[str]:
    lines = []
    for name, kept_for in sorted(made.forgetting.items()):
        done = "is set to keep them" if applied else "--apply sets it to keep them"
        lines.append(
            f"table {name} forgets application ids after {kept_for} (delta.setTransactionRetentionDuration): {done}"
        )
    for log in made.logs:
        name = f"{log.row.topic_partition}  log {log.row.log}  table {log.table}"
        if not log.disagreements:
            lines.append(
                f"{name}: rows and ledger agree; the frontier {'is' if applied else 'would be'} {log.frontier}"
            )
            continue
        lines.append(f"{name}: rows and ledger disagree; left alone")
        lines += [f"  offsets [{d.start_offset}, {d.end_offset}): {d.what}" for d in log.disagreements[:FEW]]
        if len(log.disagreements) > FEW:
            lines.append(f"  and {len(log.disagreements) - FEW:,} more")
        lines.append(f"  bring the rows back first ({replace_command(lake)}), or restore the table, then repair again")
    if made.is_empty:
        lines.append("no frontier is gone")
    elif not applied:
        lines.append("nothing was written; --apply does it")
    return lines


# --- archive ----------------------------------------------------------------------------------------------------------


def _archive(options: argparse.Namespace) -> int:
    from spark_jobs.lake.segments import archive_restore

    lake = lake_at(options.lake)
    if options.apply:
        with working(lake, "repair", options.now_ms) as run:
            made = archive_restore.plan(lake, options.copies)
            run.wrote = any(each.found_in is not None for each in made.harmed)
            archive_restore.apply(lake, made)
    else:
        made = archive_restore.plan(lake, options.copies)
    done = "put back from" if options.apply else "--apply puts it back from"
    for each in made.harmed:
        segment = each.segment
        name = f"{segment.topic}-{segment.partition}, offsets [{segment.base_offset}, {segment.next_offset})"
        way_out = (
            "no copy of its bytes was found; name one by --from"
            if each.found_in is None
            else (f"{done} {each.found_in}")
        )
        print(f"{name}, {segment.path}: {each.problem}; {way_out}")
    if options.apply and made.restorable:
        print(f"{len(made.restorable)} archived files were restored")
    harmed = made.lost if options.apply else made.harmed
    print(f"{len(harmed)} of {made.looked_at} archived files are harmed")
    if made.at_source:
        print(
            f"{made.at_source} segments are registered at their source and were not looked at: `loglake verify "
            f"{shlex.quote(lake)}` checks them, and what is harmed must be put back there"
        )
    if made.lost:
        return ExitCode.DAMAGE
    return ExitCode.CLEAN if not made.harmed or options.apply else ExitCode.WARNING


# --- tables -----------------------------------------------------------------------------------------------------------


def _rebuild(options: argparse.Namespace) -> int:
    from spark_jobs.lake.delta.state import tables_file
    from spark_jobs.lake.published import withdrawals
    from spark_jobs.lake.table_specs import TABLES
    from spark_jobs.lake_commands import table_rebuild

    lake, name = lake_at(options.lake), options.rebuild
    if name not in TABLES:
        raise UsageError(f"--rebuild {name}: no table of a lake; they are {', '.join(TABLES)}.")
    if not options.apply:
        if table_rebuild.is_half_done(lake, name):
            print(f"table {name}: its rebuild was interrupted; --apply gives the new table its place")
            return ExitCode.WARNING
        made = plan(lake, name)
        print("\n".join(_plan_lines(made)))
        print("nothing was written; --apply does it")
        return ExitCode.WARNING
    with working(lake, "repair", options.now_ms) as run:
        if table_rebuild.is_half_done(lake, name):
            run.wrote = True
            print(f"table {name} has its place; the old one is kept as {table_rebuild.finish(lake, name)}")
            tables_file.forget(lake, [name])
            return ExitCode.CLEAN
        made = plan(lake, name)
        run.wrote = True
        if made.version is not None:
            _restore(lake, name, made.version, run.run_id)
        elif made.copies:
            _copy(lake, name, run.run_id)
        else:
            for each in made.aside:
                kept = table_rebuild.step_aside(lake, each)
                print(f"table {each}: " + ("is not there" if kept is None else f"the old one is kept as {kept}"))
            if name == "withdrawals":
                who = {"who": "loglake repair", "reason": "recorded again: the table was lost"}
                ranges = withdrawals.record_again(lake, **who, run_id=run.run_id, as_of_ms=options.now_ms)
                print(f"table {name}: {ranges:,} ranges that the offset ledger has as withdrawn are recorded again")
            else:
                print("the next loglake run rebuilds them")
        tables_file.forget(lake, [name, *made.aside])
    return ExitCode.CLEAN


def plan(lake: str, name: str) -> Rebuild:
    """Plan how to rebuild table ``name``.

    Raises:
        JobError: The table is on an object store and cannot be derived.
    """
    from spark_jobs.lake.cluster_columns import CLUSTER_TABLES
    from spark_jobs.lake.store import storage

    before = None if name in (*DERIVED, "records") else _before_others(lake, name)
    if before is not None:
        return Rebuild(name, False, (), "another program removed or wrote rows, and no commit of ours followed", before)
    copies, why = False, "it is derived from the archive"
    if name in FROM_SEGMENTS and _has_deleted_files(lake):
        copies, why = True, "retention or compaction deleted archived files that it describes"
    elif name not in DERIVED:
        copies, why = True, "it cannot be derived"
    if name == "records" and not _can_be_opened(lake, name):
        if _has_deleted_files(lake):
            raise JobError(
                f"Table {name}: it cannot be opened, and the archive no longer has all that it held. Restore it from "
                "a backup of the lake."
            )
        return Rebuild(name, False, (name,), "it cannot be opened, so it is published again from the archive")
    if copies and name != "records" and not _is_readable(lake, name):
        losses = _LOSSES | {
            table.name: "rows that the cluster's internal topics no longer have are lost" for table in CLUSTER_TABLES
        }
        lost = losses.get(name, "rows that the archive no longer has are lost")
        copies, why = False, f"its rows cannot be read; {lost}"
    if copies and storage.is_remote(lake):
        raise JobError(
            f"Table {name}: an object store has no renames, so readers could see a replaced table half written. "
            "Copy the lake to a local disk, rebuild it there and copy it back; or drop the feature in Spark."
        )
    if copies:
        return Rebuild(name, True, (), why)
    aside = tuple(dict.fromkeys(("validations", name))) if name in FROM_SEGMENTS else (name,)
    return Rebuild(name, False, aside, why)


def _before_others(lake: str, name: str) -> int | None:
    """The version before other programs removed or wrote rows; None: they did not, or a commit of ours followed."""
    from spark_jobs.lake.delta.files.row_counts import WITHOUT_PROOF, row_counts, version_before_others
    from spark_jobs.lake.delta.state.foreign_commits import commits_since
    from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading

    with contextlib.suppress(TableUnreadable), reading(lake, name):
        table = latest_snapshot(lake, name)
        written, there = (0, 0) if table is None else row_counts(table, name)
        before = version_before_others(lake, name) if name in WITHOUT_PROOF else None
        if before is not None:
            return before
        versions = (each.version for each in commits_since(lake, name, -1).kept if each.is_ours)
        ours = next(versions, None) if there < written else None
        return None if table is None or ours == table.version() else ours
    return None


def _restore(lake: str, name: str, version: int, run_id: str) -> None:
    from deltalake import CommitProperties

    from spark_jobs.lake.delta.tables.snapshots import open_table, reading

    table = open_table(lake, name)
    assert table is not None
    ours = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": run_id})})
    with reading(lake, name):
        table.restore(version, protocol_downgrade_allowed=True, commit_properties=ours)
    print(f"table {name}: version {version} is restored")


def _plan_lines(made: Rebuild) -> list[str]:
    if made.version is not None:
        return [f"table {made.name}: {made.why}", f"  version {made.version} is restored"]
    if made.copies:
        return [
            f"table {made.name}: {made.why}, so its rows are copied into a table with our own layout",
            "  kept: rows as Delta's reader sees them, other users' columns, application ids (frontiers)",
            "  not kept: features, table properties, constraints and the history of versions; a stream that reads the "
            "table begins again",
            f"  made in tables/.{made.name}-rebuilding, then renamed; the old directory stays as "
            f"tables/.{made.name}-before-<n>",
        ]
    return [
        f"table {made.name}: {made.why}",
        *(f"  tables/{name} is renamed to tables/.{name}-before-<n>" for name in made.aside),
        "  the ranges that the offset ledger has as withdrawn are recorded again"
        if made.name == "withdrawals"
        else "  the next loglake run rebuilds them",
    ]


def _copy(lake: str, name: str, run_id: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from spark_jobs.engine.session import get_session
    from spark_jobs.lake_commands import table_rebuild
    from spark_jobs.lake_commands.table_rebuild import rebuild

    spark = get_session(lake)
    folder = table_rebuild.begin(lake, name)
    try:
        made = rebuild(spark, lake, name, folder, run_id)
    except (PySparkException, Py4JError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise JobError(f"Table {name}: its rows cannot be copied: {said[-1]}") from error
    kept = table_rebuild.put_in_place(lake, name, made.version)
    print(f"table {name}: {made.rows:,} rows of version {made.version} in {made.files:,} files")
    if made.extra:
        print(f"  columns carried over: {', '.join(made.extra)}")
    if made.missing:
        print(
            f"  missing columns, now empty: {', '.join(made.missing)}; {replace_command(lake)} fills them from the "
            "archive"
        )
    print(f"  the old one is kept as {kept}; delete it when it is no longer needed")
    if name == "records":
        print(f"  compare its rows with the archive: {replace_command(lake)}")


def _has_deleted_files(lake: str) -> bool:
    from spark_jobs.lake.segments import archive

    return any(segment.deleted_ms is not None for segment in archive.ingested_segments(lake))


def _can_be_opened(lake: str, name: str) -> bool:
    """Return whether the table is there, and its log can be read."""
    from spark_jobs.lake.delta.tables.snapshots import open_table

    try:
        return open_table(lake, name) is not None
    except TableUnreadable as error:
        sys.stderr.write(f"{error}\n")
        return False


def _is_readable(lake: str, name: str) -> bool:
    """Return whether every row can be read, and each file has the bytes that were written. Delta's reader and Spark
    do not compare checksums: a changed value would be copied as if it was right.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    from spark_jobs.lake.delta.tables.snapshots import open_table

    try:
        table = open_table(lake, name)
        if table is None:
            return False
        changed = _changed_file(lake, name, table)  # first: readers may crash on damaged files
        if changed is None:
            rows = QueryBuilder().register("t", table).execute("SELECT * FROM t")
            for _ in pa.RecordBatchReader.from_stream(rows):
                pass
    except (DeltaError, pa.ArrowException, OSError, JobError) as error:
        sys.stderr.write(f"table {name} cannot be read: {error}\n")
        return False
    if changed is not None:
        sys.stderr.write(f"table {name} cannot be read: its file {changed} has other bytes than were written\n")
    return changed is None


def _changed_file(lake: str, name: str, table: DeltaTable) -> str | None:
    """The path of the first file whose bytes are not those that our commit names.

    Raises:
        TableUnreadable: A file without such a digest is damaged.
    """
    from spark_jobs.lake.delta.files.live_files import live_files, read_batches
    from spark_jobs.lake.delta.files.row_digest import of_bytes
    from spark_jobs.lake.delta.tables import delta_log
    from spark_jobs.lake.delta.tables.snapshots import table_uri
    from spark_jobs.lake.store import storage

    written: dict[str, str] = {}
    for version in delta_log.log_files(lake, name).commits:
        commit = delta_log.read_commit(lake, name, version)
        written |= {} if commit is None else commit.contents
    for file in live_files(table):
        if file.path not in written:
            for _ in read_batches(lake, name, file.path):
                pass
        elif of_bytes(storage.join(table_uri(lake, name), file.path)) != written[file.path]:
            return file.path
    return None
