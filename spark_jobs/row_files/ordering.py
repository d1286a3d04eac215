"""Reorders files of a table of records, and commits new files in place of old ones.

``optimize`` reorders all files that another engine mixed; ``replace`` first reorders those that a request meets.
``file_order`` assigns rows to new files, and ``ordered_files`` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from logcore.logs.model.findings import found
from spark_jobs.lake.delta.commits import file_commits
from spark_jobs.lake.delta.files.file_contents import FileContents, FileUnreadable, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files
from spark_jobs.lake.delta.tables.table_location import table_uri
from spark_jobs.lake.errors import ConcurrentChange
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup.policies.policies_file import Policies
from spark_jobs.lake.store.written_file import WrittenFile, first_error
from spark_jobs.row_files.file_order import Order, log_in_statistics, orders_of, to_open
from spark_jobs.row_files.file_runs import Merge
from spark_jobs.row_files.merged_file import discard
from spark_jobs.row_files.ordered_files import OrderTask, order_files
from spark_jobs.row_files.table_columns import extra_columns
from spark_jobs.tasks.executor import run_tasks

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

Planned = TypeVar("Planned", Merge, Order)


def incarnations(lake: str) -> dict[tuple[str, int], list[str]]:
    """Log ids by topic and partition."""
    log_ids: dict[tuple[str, int], list[str]] = {}
    for row in archive.read_logs(lake).values():
        log_ids.setdefault((row.topic, row.partition), []).append(row.log_id)
    return log_ids


def plan_orders(
    lake: str,
    name: str,
    files: Sequence[LiveFile],
    target: int,
    log_ids: Mapping[tuple[str, int], Sequence[str]],
    ends: Mapping[str, int | None] | None = None,
) -> tuple[list[Order], list[str]]:
    """Plan the orders for a table of records. Also returns the topics with a file whose logs are unknown."""
    orders: list[Order] = []
    unplaced: list[str] = []
    by_topic = sorted(files, key=lambda file: file.partition_values["topic"])
    for topic, found_there in groupby(by_topic, key=lambda file: file.partition_values["topic"]):
        of_topic = list(found_there)
        contents: dict[str, FileContents] = {}
        unreadable: set[str] = set()
        while left := [file for file in to_open(of_topic, log_ids, contents) if file.path not in unreadable]:
            for file in left:
                try:
                    contents[file.path] = read_contents(lake, name, file.path)
                except FileUnreadable:
                    unreadable.add(file.path)
        if all(log_in_statistics(file, log_ids) is not None for file in of_topic if file.path in unreadable):
            orders += orders_of(name, topic, of_topic, contents, log_ids, target, ends)
        else:
            unplaced.append(topic)
    return orders, unplaced


@dataclass(slots=True)
class Ordered:
    """The result of executing orders."""

    done: list[tuple[Order, list[WrittenFile]]] = field(default_factory=list)
    failed: list[PlacedFinding] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Files that cannot be read, by path, with the reason."""


def put_in_order(
    lake: str, orders: Sequence[Order], run_id: str, executor: Executor | None, policies: Policies
) -> Ordered:
    """Write the new files and commit them. The result also names files that could not be read."""
    extra = {name: extra_columns(lake, name) for name in {order.table for order in orders}}
    tasks = [
        OrderTask(lake, order.table, order.topic, outputs, extra[order.table], policies.compression_of(order.topic))
        for order in orders
        for outputs in order.tasks
    ]
    results = iter(run_tasks(executor, order_files, tasks))
    written: list[tuple[Order, list[WrittenFile]]] = []
    outcome = Ordered()
    for order in orders:
        results_of_parts = [next(results) for _ in order.tasks]
        files = [file for result in results_of_parts for file in result.files]
        problem = first_error(results_of_parts)
        if problem is None:
            written.append((order, files))
            continue
        discard(table_uri(lake, order.table), [file.path for file in files])
        outcome.failed.append(damaged_files(order.table, order.topic, None, order.files, problem))
        outcome.lost |= {result.lost: result.error or "" for result in results_of_parts if result.lost is not None}
    for (table, _), of_topic in groupby(written, key=lambda each: (each[0].table, each[0].topic)):
        outcome.done += commit_in_place(lake, run_id, table, list(of_topic))
    return outcome


def commit_in_place(
    lake: str, run_id: str, table: str, merges: Sequence[tuple[Planned, list[WrittenFile]]]
) -> list[tuple[Planned, list[WrittenFile]]]:
    """Commit all merges or orders whose files are all live, in one commit. Retries after another commit.

    An object store may answer a repeated put with a conflict although the first attempt succeeded. So an attempted
    commit is searched for in the log before it counts as lost, and its files are never deleted here.
    """
    chosen: list[tuple[Planned, list[WrittenFile]]] = []
    tried: set[str] = set()

    def attempt() -> None:
        live = {file.path for file in newest_files(lake, table)}
        added = {file.path for _, files in chosen for file in files}
        if added and added <= live:
            return
        chosen[:] = [(merge, files) for merge, files in merges if all(file.path in live for file in merge.files)]
        removed = [file.path for merge, _ in chosen for file in merge.files]
        new = [file for _, files in chosen for file in files]
        tried.update(file.path for file in new)
        file_commits.rewrite_files(lake, table, removed, new, run_id, data_change=False)

    try:
        retried(attempt)
    except ConcurrentChange:
        chosen = []
    discard(table_uri(lake, table), [f.path for _, files in merges for f in files if f.path not in tried])
    return chosen


def damaged_files(
    table: str,
    topic: str | None,
    partition: int | None,
    files: Sequence[LiveFile],
    problem: str,
    log: str | None = None,
) -> PlacedFinding:
    """Build the finding that files are left as they are, with the reason."""
    place = "-".join(str(part) for part in (topic, partition) if part is not None)
    finding = found(
        "table-file-damaged",
        f"Table {table}{', ' if place else ''}{place}: {len(files)} files are left as they are: {problem}. Publish "
        "their rows again from the archive, or restore the file.",
    )
    return PlacedFinding(finding, log, topic, partition)
