"""Which small files of all tables become fewer, and which tables are left alone.

Decoding adds files in each run and never joins them, so ``decoded/<topic>`` and ``undecoded/<topic>`` are merged as
``records`` is, log by log in the order of offsets. A commit of a merge records no version: frontiers, policy and
schemas stay as the last decoding left them. If a decoding commits at the same moment, Delta refuses one of both, which
plans again.

``latest/<topic>`` is left alone. Its job joins small files by itself, and keeps them small so that a changed key costs
little. A table of a topic is also left alone if its log is damaged, if it has features that Loglake does not support,
or if a file has rows of several logs. ``loglake verify`` names it; ``--replace`` writes it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.errors import StorageError, TableUnreadable
from spark_jobs.lake.decoded.topic_tables import tables_of
from spark_jobs.lake.delta.commits import commit_guards
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_creation import separating_column
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.repair_commands import rebuild_command, replace_command, topic_command
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store.written_file import is_own_file
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.outlines import LeftTable
from spark_jobs.row_files.file_runs import RECORD_TABLES, Merge, Sizes, log_merges, state_merges

_DAMAGED = "its log is damaged. Remove its directory, then write it again"
_FEATURES = "it has features that Loglake does not support. Remove its directory, then write it again"
_SEVERAL_LOGS = "a file has rows of several logs, or its statistics do not name their log. Write it again"


def plan_merges(config: OptimizeConfig, names: Sequence[str] | None = None) -> tuple[list[Merge], list[LeftTable]]:
    """Plan merges. Also returns the tables, and the topics of ``records``, that are left alone.

    Args:
        names: Only of these tables; None: of all.
    """
    sizes = Sizes(config.small_bytes, config.target_bytes)
    if names is None:
        topics = (row.topic for row in archive.read_logs(config.lake).values())
        names = [*TABLES, *(table.name for table in tables_of(config.lake, topics))]
    merges: list[Merge] = []
    left: list[LeftTable] = []
    log_ids = archive.incarnations(config.lake) if any(name in RECORD_TABLES for name in names) else {}
    for name in names:
        if name not in TABLES:
            merges_of_topic, why = _of_topic(Table(config.lake, name), sizes)
            merges += merges_of_topic
            left += why
            continue
        table = open_table(config.lake, name)
        if table is None:
            continue
        files = live_files(table)
        if name not in RECORD_TABLES:
            merges += state_merges(name, files, sizes, separating_column(table, name))
            continue
        ends = None
        if name == "records_uncommitted":
            # After the decided offsets follows a tail that is replaced as a whole: no merged file may span its start.
            logs = {f"{log_id}/{partition}" for (_, partition), ids in log_ids.items() for log_id in ids}
            decided = commit_guards.versions(config.lake, name, [f"{name}/{log}" for log in logs])
            ends = {log: decided[f"{name}/{log}"] for log in logs}
        disordered = {file.partition_values["topic"] for file in files if not _is_ordered(config.lake, name, file)}
        of_records, unplaced = log_merges(
            name, [file for file in files if file.partition_values["topic"] not in disordered], sizes, log_ids, ends
        )
        merges += of_records
        left += [_left(config.lake, name, topic) for topic in sorted({*disordered, *unplaced})]
    return merges, left


def _of_topic(table: Table, sizes: Sizes) -> tuple[list[Merge], list[LeftTable]]:
    why = _SEVERAL_LOGS
    try:
        opened = table.open()
        if opened is None:
            return [], []
        with table.reading():
            files = live_files(opened)
            merges, unplaced = log_merges(table.name, files, sizes, {})
            if not is_supported(opened):
                why = _FEATURES
            elif not unplaced and not any(file.partition_values for file in files):
                return merges, []
    except StorageError:
        raise
    except TableUnreadable:
        why = _DAMAGED
    return [], [LeftTable(table.name, f"{why}: `{topic_command(table.lake, 'decode', table.topic)}`")]


def _is_ordered(lake: str, name: str, file: LiveFile) -> bool:
    """Whether a file of records has rows of one log in the order of their offsets. Only foreign files are opened."""
    try:
        return is_own_file(file.path) or read_contents(lake, name, file.path).is_ordered
    except FileUnreadable:
        return False


def _left(lake: str, name: str, topic: str) -> LeftTable:
    again = replace_command(lake, topic) if name == "records" else rebuild_command(lake, name)
    why = "a file cannot be read, or does not have the rows of one log in the order of their offsets. Write it again"
    return LeftTable(f"{name}/{topic}", f"{why}: `{again}`")
