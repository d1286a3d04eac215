"""Small files of ``decoded/<topic>`` and ``undecoded/<topic>`` become fewer.

Decoding adds files in each run and never joins them. So these tables are merged here, log by log in the order of
offsets. A commit of a merge records no version: frontiers, policy and schemas stay as the last decoding left them. If a
decoding commits at the same moment, Delta refuses one of both, which plans again.

``latest/<topic>`` is left alone. Its job joins small files by itself, and keeps them small so that a changed key costs
little. Files that no version names are removed there too. A table is also left alone if its log is damaged, if it has
features that Loglake does not support, or if a file has rows of several logs. ``loglake verify`` names it;
``--replace`` writes it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from logcore.logs.model.findings import found
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, existing, tables_of, written_spec
from spark_jobs.lake.delta.commits import file_commits
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.delta_log import History, read_history
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.errors import ConcurrentChange, StorageError, TableUnreadable
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup.policies.policies_file import Policies
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.optimize.topic_merge_task import TopicMergeTask, encoded, merge_topic_files
from spark_jobs.row_files.file_runs import Merge, Sizes, topic_merges
from spark_jobs.row_files.merged_file import discard
from spark_jobs.tasks.executor import run_tasks

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor


_DAMAGED = "its log is damaged. Remove its directory, then write it again"
_FEATURES = "it has features that Loglake does not support. Remove its directory, then write it again"
_SEVERAL_LOGS = "a file has rows of several logs, or its statistics do not name their log. Write it again"


@dataclass(frozen=True, slots=True)
class LeftTable:
    """A table whose files stay as they are, or files of one topic in it, and why."""

    table: str
    """``decoded/<topic>``, ``records/<topic>``."""
    why: str
    """The reason, and the command that writes the files again."""


@dataclass(frozen=True, slots=True)
class TopicTablePlan:
    """The merges of one table."""

    table: Table
    merges: tuple[Merge, ...]


def plan_topics(lake: str, sizes: Sizes) -> tuple[tuple[TopicTablePlan, ...], tuple[LeftTable, ...]]:
    """Plan the merges of all tables of topics. Also returns the tables that are left alone."""
    plans: list[TopicTablePlan] = []
    left: list[LeftTable] = []
    for place in tables_of(lake, (row.topic for row in archive.read_logs(lake).values())):
        try:
            merges = _planned(place, sizes)
        except StorageError:
            raise
        except TableUnreadable:
            merges = _DAMAGED
        if isinstance(merges, str):
            left.append(LeftTable(place.name, f"{merges}: `{topic_command(lake, 'decode', place.topic)}`"))
        elif merges:
            plans.append(TopicTablePlan(place, tuple(merges)))
    return tuple(plans), tuple(left)


def _planned(place: Table, sizes: Sizes) -> list[Merge] | str:
    """The merges of a table, or why it is left alone."""
    table = place.open()
    if table is None:
        return []
    with place.reading():
        if not is_supported(table):
            return _FEATURES
        merges = topic_merges(place.name, place.topic, live_files(table), sizes)
        return _SEVERAL_LOGS if merges is None else merges


def topic_histories(lake: str) -> dict[str, History]:
    """Return the history of each table of a topic, by kind and folder.

    A table that can't be read is left out, and so is one with other features than ours: a deletion vector is a file too
    that only the table's log names.
    """
    histories: dict[str, History] = {}
    for kind in (DECODED, UNDECODED, LATEST):
        for folder in existing(lake, (kind,)):
            name = f"{kind}/{folder}"
            try:
                table = open_table(lake, name)
                if table is not None and is_supported(table):
                    histories[name] = read_history(lake, name)
            except StorageError:
                raise
            except TableUnreadable:
                continue  # verify names it
    return histories


@dataclass(slots=True)
class TopicsMerged:
    """What became of the merges."""

    done: list[tuple[Merge, list[WrittenFile]]]
    overtaken: list[Merge]
    """Merges whose files another commit replaced meanwhile. The next run plans them again."""
    failed: list[PlacedFinding]


def merge_topics(
    plans: Sequence[TopicTablePlan], run_id: str, executor: Executor | None, policies: Policies
) -> TopicsMerged:
    """Write and commit merges, with one commit for each table."""
    columns = {each.table: encoded(each.table.columns()) for each in plans}
    merges = [(each.table, merge) for each in plans for merge in each.merges]
    results = run_tasks(
        executor, merge_topic_files, [_task(place, merge, columns[place], policies) for place, merge in merges]
    )
    outcome = TopicsMerged([], [], [])
    written: list[tuple[Table, Merge, list[WrittenFile]]] = []
    for (place, merge), result in zip(merges, results, strict=True):
        if result.error is None:
            written.append((place, merge, list(result.files)))
        else:
            outcome.failed.append(_left_alone(place, merge, result.error))
    for place, of_table in groupby(written, key=lambda each: each[0]):
        _commit(place, [(merge, files) for _, merge, files in of_table], run_id, outcome)
    return outcome


def _task(place: Table, merge: Merge, columns: str, policies: Policies) -> TopicMergeTask:
    assert merge.log_id is not None
    assert merge.partition is not None
    return TopicMergeTask(
        table=place,
        columns=columns,
        paths=tuple(file.path for file in merge.files),
        rows=merge.rows,
        log_id=merge.log_id,
        partition=merge.partition,
        compression=policies.compression_of(place.topic),
    )


def _commit(
    place: Table, merges: Sequence[tuple[Merge, list[WrittenFile]]], run_id: str, outcome: TopicsMerged
) -> None:
    """Commit the merges of a table whose files are all live. Retries after another commit.

    A store may answer a repeated put with a conflict although the first attempt succeeded. So files of an attempted
    commit are never deleted here, and the next attempt finds them in the table.
    """
    chosen: list[tuple[Merge, list[WrittenFile]]] = []
    tried: set[str] = set()

    def attempt() -> None:
        live = {file.path for file in place.files()}
        if chosen and all(file.path in live for _, files in chosen for file in files):
            return
        chosen[:] = [(merge, files) for merge, files in merges if all(file.path in live for file in merge.files)]
        new = [file for _, files in chosen for file in files]
        if not new:
            return
        tried.update(file.path for file in new)
        removed, spec = [file.path for merge, _ in chosen for file in merge.files], written_spec(place, place.columns())
        file_commits.rewrite_files(place.lake, place.name, removed, new, run_id, data_change=False, spec=spec)

    try:
        retried(attempt)
    except ConcurrentChange:
        chosen = []
    discard(place.uri, [file.path for _, files in merges for file in files if file.path not in tried])
    outcome.done += chosen
    outcome.overtaken += [merge for merge, _ in merges if merge not in [each for each, _ in chosen]]


def _left_alone(place: Table, merge: Merge, problem: str) -> PlacedFinding:
    finding = found(
        "table-file-damaged",
        f"Table {place.name}, partition {merge.partition}: {len(merge.files)} files are left as they are: {problem}. "
        f"Write the table again: {topic_command(place.lake, 'decode', place.topic)}",
    )
    return PlacedFinding(finding, merge.log, place.topic, merge.partition)
