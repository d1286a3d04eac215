"""Files of a table of records put in order, and the commit that puts new files in the place of old ones.

``optimize`` does so with every file that another engine mixed, ``replace`` first of all with those that a request
meets. Which rows go into which new file is ``file_order``'s, writing them ``ordered_files``'s.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from logcore.logs.model.findings import found
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import WrittenFile
from spark_jobs.lake.delta.file_contents import FileContents, FileUnreadable, read_contents
from spark_jobs.lake.delta.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import open_table, table_uri
from spark_jobs.lake.errors import ConcurrentChange
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive
from spark_jobs.row_files.file_order import Order, orders_of, to_open, told_log
from spark_jobs.row_files.file_runs import Merge
from spark_jobs.row_files.merged_file import discard
from spark_jobs.row_files.ordered_files import OrderTask, order_files
from spark_jobs.row_files.table_columns import extra_columns

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

COMMIT_ATTEMPTS = 8

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
    """What of a table of records is to be put in order, and the topics with a file whose logs nobody can tell."""
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
        if all(told_log(file, log_ids) is not None for file in of_topic if file.path in unreadable):
            orders += orders_of(name, topic, of_topic, contents, log_ids, target, ends)
        else:
            unplaced.append(topic)
    return orders, unplaced


@dataclass(slots=True)
class Ordered:
    """What became of orders."""

    done: list[tuple[Order, list[WrittenFile]]] = field(default_factory=list)
    failed: list[PlacedFinding] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Files that cannot be read, by path, with the reason."""


def put_in_order(lake: str, orders: Sequence[Order], run_id: str, executor: Executor | None) -> Ordered:
    """Write and commit: what was committed, and what could not be read as it was when it was planned."""
    extra = {name: extra_columns(lake, name) for name in {order.table for order in orders}}
    tasks = [
        asdict(OrderTask(lake, order.table, order.topic, outputs, extra[order.table]))
        for order in orders
        for outputs in order.tasks
    ]
    if executor is None:
        results = iter([order_files(task) for task in tasks])
    else:
        results = iter(executor.run(tasks, order_files))
    written: list[tuple[Order, list[WrittenFile]]] = []
    outcome = Ordered()
    for order in orders:
        told = [next(results) for _ in order.tasks]
        files = [WrittenFile(**file) for result in told for file in result["files"]]
        problem = next((result["error"] for result in told if result["error"] is not None), None)
        if problem is None:
            written.append((order, files))
            continue
        discard(table_uri(lake, order.table), [file.path for file in files])
        outcome.failed.append(damaged_files(order.table, order.topic, None, order.files, problem))
        outcome.lost |= {result["lost"]: result["error"] for result in told if result["lost"] is not None}
    for (table, _), of_topic in groupby(written, key=lambda each: (each[0].table, each[0].topic)):
        outcome.done += commit_in_place(lake, run_id, table, list(of_topic))
    return outcome


def commit_in_place(
    lake: str, run_id: str, table: str, merges: Sequence[tuple[Planned, list[WrittenFile]]]
) -> list[tuple[Planned, list[WrittenFile]]]:
    """One commit of all merges, or orders, whose files are all live; another commit in between makes it look again.

    A commit may land although it is told that another was first: a store answers so to a put that its client repeats.
    So what was once to be committed is looked for before it counts as overtaken, and is never deleted here.
    """
    standing: list[tuple[Planned, list[WrittenFile]]] = []
    tried: set[str] = set()
    for attempt in range(COMMIT_ATTEMPTS):
        opened = open_table(lake, table)
        live = {file.path for file in live_files(opened)} if opened is not None else set()
        added = {file.path for _, files in standing for file in files}
        if added and added <= live:
            break
        standing = [(merge, files) for merge, files in merges if all(file.path in live for file in merge.files)]
        if not standing:
            break
        removed = [file.path for merge, _ in standing for file in merge.files]
        new = [file for _, files in standing for file in files]
        tried |= {file.path for file in new}
        try:
            commits.rewrite_files(lake, table, removed, new, run_id, data_change=False)
            break
        except ConcurrentChange:
            time.sleep(0.05 * 2**attempt)
    else:
        standing = []
    discard(table_uri(lake, table), [f.path for _, files in merges for f in files if f.path not in tried])
    return standing


def damaged_files(
    table: str,
    topic: str | None,
    partition: int | None,
    files: Sequence[LiveFile],
    problem: str,
    log: str | None = None,
) -> PlacedFinding:
    """Say that files are left as they are, and why."""
    place = "-".join(str(part) for part in (topic, partition) if part is not None)
    finding = found(
        "table-file-damaged",
        f"Table {table}{', ' if place else ''}{place}: {len(files)} files are left as they are: {problem}. Publish "
        "what they hold again from the archive, or restore the file.",
    )
    return PlacedFinding(finding, log, topic, partition)
