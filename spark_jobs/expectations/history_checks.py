"""Built-in checks of topics that a policy decodes: shares of nulls, and kinds of keys, against their own history.

A topic has two results, both only warnings. A result that looked at nothing, or that has no earlier rows to compare
with, is not met and says so, with the severity ``info``. A departure is a finding at the first row concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.logs.model.findings import found
from spark_jobs.expectations.key_kinds import settled
from spark_jobs.expectations.range_checks import INFO, WARNING, ExpectationResult
from spark_jobs.expectations.row_history import FileTallies, HistoryTask, count_file, tasks_of, together
from spark_jobs.expectations.share_change import TalliedPlace, Tally
from spark_jobs.expectations.suite_rows import PublishedRange
from spark_jobs.lake.decoded.topic_tables import DECODED, TopicTable
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.tables.table_location import table_uri
from spark_jobs.lake.errors import TableUnreadable
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive
from spark_jobs.lake.view.expectation_results import KEY_TYPES, NULL_SHARES, name_of

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

_RULES = {NULL_SHARES: "null-share-departs", KEY_TYPES: "key-type-changed"}
FIRST_ROWS = "first rows: there are none before them to compare with"
NO_ROWS = "nothing was looked at: the table has no row with a time of publication"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class HistoryChecks:
    """Results, and what they found."""

    results: tuple[ExpectationResult, ...]
    findings: tuple[PlacedFinding, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """What is read for one check of one topic."""

    topic: str
    check: str
    tasks: tuple[HistoryTask, ...]
    has_rows: bool
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Departure:
    """One share that is another one than before."""

    what: str
    place: TalliedPlace


def check_history(
    lake: str, ranges: Sequence[PublishedRange], topics: Sequence[str], executor: Executor
) -> HistoryChecks:
    """Check the topics; without one nothing is opened.

    Args:
        lake: The lake.
        ranges: The ranges whose logs get the results.
        topics: Topics that a policy decodes.
        executor: Reads the files.
    """
    if not topics:
        return HistoryChecks((), ())
    tables = [table for topic in topics for table in _tables(lake, topic)]
    tasks = [task for table in tables for task in table.tasks]
    counted = iter(executor.run(count_file, tasks, [task.size for task in tasks]) if tasks else [])
    keys = {(row.log_id, row.partition): row.log for row in archive.read_logs(lake).values()}
    results, findings = [], []
    for table in tables:
        tallies = together([next(counted) for _ in table.tasks])
        departures = _departures(table.check, tallies.tallies)
        logs = tuple(sorted({each.log for each in ranges if each.topic == table.topic}))
        failing = {keys.get((each.place.log_id, each.place.partition), "") for each in departures}
        results.append(_result(table, tallies, departures, logs, tuple(sorted(failing.intersection(logs)))))
        findings += [_finding(table, each, keys) for each in departures]
    return HistoryChecks(tuple(results), tuple(findings))


def _tables(lake: str, topic: str) -> Iterator[_Table]:
    records = [file for file in newest_files(lake, "records") if file.partition_values["topic"] == topic]
    tasks = tasks_of(table_uri(lake, "records"), records)
    yield _Table(topic, KEY_TYPES, tuple(tasks), any("published_at" in file.greatest for file in records))
    decoded = TopicTable(lake, DECODED, topic)
    try:
        files = decoded.files()
    except TableUnreadable as error:
        yield _Table(topic, NULL_SHARES, (), has_rows=False, problem=str(error))
        return
    tasks = tasks_of(decoded.uri, files, ("key", "value"))
    yield _Table(topic, NULL_SHARES, tuple(tasks), any("published_at" in file.greatest for file in files))


def _departures(check: str, tallies: Mapping[str, Tally]) -> list[_Departure]:
    departures = []
    if check == KEY_TYPES:
        shares = settled(tallies)
        before = max(shares, key=lambda kind: shares[kind].earlier_true, default=None)
        for kind, tally in shares.items():
            if tally.appears and tally.first_true is not None:
                departures.append(
                    _Departure(
                        f"{_counted(tally.newest_true, tally.newest)} newest keys are {kind}, before that "
                        f"{_counted(tally.earlier_true, tally.earlier)}, and most were {before}",
                        tally.first_true,
                    )
                )
        return departures
    for name, tally in tallies.items():
        if tally.departs and tally.first_other is not None:
            departures.append(
                _Departure(
                    f"{name} is null in {_counted(tally.newest_true, tally.newest)} newest rows, before that in "
                    f"{_counted(tally.earlier_true, tally.earlier)}",
                    tally.first_other,
                )
            )
    return departures


def _counted(rows: int, of: int) -> str:
    return f"{rows:,} of {of:,}"


def _result(
    table: _Table,
    tallies: FileTallies,
    departures: Sequence[_Departure],
    logs: tuple[str, ...],
    failing: tuple[str, ...],
) -> ExpectationResult:
    name = name_of(table.check, table.topic)
    problem = table.problem or tallies.problem
    if problem is not None:
        return ExpectationResult(name, False, WARNING, f"could not be checked: {problem}", logs, about=logs)
    if departures:
        more = len(departures) - _SHOWN
        texts = [
            f"{each.what}; first at partition {each.place.partition}, offset {each.place.offset}"
            for each in departures[:_SHOWN]
        ]
        observed = "; ".join(texts) + (f"; and {more} more" if more > 0 else "")
        return ExpectationResult(name, False, WARNING, observed, failing or logs, about=logs)
    compared = [tally for tally in tallies.tallies.values() if tally.is_comparable]
    if not compared:
        return ExpectationResult(name, False, INFO, FIRST_ROWS if table.has_rows else NO_ROWS, about=logs)
    rows = max(tally.newest for tally in compared), max(tally.earlier for tally in compared)
    return ExpectationResult(
        name, True, WARNING, f"{rows[0]:,} newest rows are like the {rows[1]:,} before them", about=logs
    )


def _finding(table: _Table, departure: _Departure, keys: Mapping[tuple[str, int], str]) -> PlacedFinding:
    place = departure.place
    message = f"{table.topic}-{place.partition}: {departure.what}. The first such row is at offset {place.offset}."
    finding = found(_RULES[table.check], message, start_offset=place.offset, end_offset=place.offset + 1)
    log = keys.get((place.log_id, place.partition))
    return PlacedFinding(finding, log, table.topic, place.partition)
