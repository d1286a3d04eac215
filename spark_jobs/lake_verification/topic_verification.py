"""Tables of topics: their logs can be read, their files have the bytes that were written, no row is missing.

Decoded tables and those of the latest rows are derived from ``records``. So every harm has one repair: write the table
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from logcore.columns.cleaning.offset_map import Offsets
from logcore.logs.model.findings import Severity
from logcore.logs.rules.advice import NOT_WANTED
from spark_jobs.errors import StorageError, TableUnreadable
from spark_jobs.groups import by_key
from spark_jobs.lake.decoded.balance import balances
from spark_jobs.lake.decoded.followed_topics import POLICY, keeps_tombstones
from spark_jobs.lake.decoded.topic_tables import (
    DECODED,
    LATEST,
    UNDECODED,
    accepts_loss,
    remembered_tables,
    topic_table,
)
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.file_contents import of_log
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files, open_parquet
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store import storage
from spark_jobs.lake.view.harmed_places import is_wanted
from spark_jobs.lake.view.unfollowed_tables import RULE, unfollowed_tables
from spark_jobs.lake_verification.verified_thing import (
    DataUnreadable,
    Thing,
    ThingCounts,
    ThingResult,
    finding,
    identity_of,
    readable,
    stored_as,
)
from spark_jobs.newest.newest_keys import NewestKeys
from spark_jobs.newest.newest_rows import KEY_COLUMNS, add_keys
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class NewestDifference:
    """How the rows of a log differ."""

    partition: int
    end: int
    """Frontier of the table."""
    missing: int
    """Newest rows that the table does not have."""
    outdated: int
    """Rows of the table that are not the newest of their key."""


def latest_differences(table: Table, files: Sequence[LiveFile], logs: Sequence[LogRow]) -> Iterator[NewestDifference]:
    """Yield the logs whose rows differ. The values of rows are compared by the digests of files.

    Args:
        table: A table of the kind ``latest``.
        files: Its live files.
        logs: Of the topic.

    Raises:
        TableUnreadable: A file of ``records`` or of the table is missing or damaged.
    """
    recorded = table.versions([*(log.log for log in logs), POLICY])
    published = [each for each in newest_files(table.lake, "records") if each.partition_values["topic"] == table.topic]
    for log in logs:
        end = recorded[log.log]
        if end is None:
            continue
        span = Span(table.topic, log.log_id, log.partition, 0, end)
        expected = _newest(table.lake, published, span, keeps_tombstones=keeps_tombstones(recorded[POLICY]))
        found = _offsets(table, files, log)
        missing, outdated = len(np.setdiff1d(expected, found)), len(np.setdiff1d(found, expected))
        twice = len(found) - len(np.unique(found))
        if missing or outdated or twice:
            yield NewestDifference(log.partition, end, missing, outdated + twice)


def _newest(lake: str, files: Sequence[LiveFile], span: Span, *, keeps_tombstones: bool) -> Offsets:
    """Offsets of the newest row of each key."""
    with NewestKeys() as newest:
        add_keys(newest, published_rows(lake, files, span, KEY_COLUMNS))
        chosen = newest.newest()
    columns = ("log_id", "partition", "offset") if keeps_tombstones else ("log_id", "partition", "offset", "value")
    parts = [np.zeros(0, np.int64)]
    for batch in published_rows(lake, files, span, columns):
        offsets = np.asarray(batch["offset"])
        wanted = chosen.has(offsets)
        if not keeps_tombstones:
            wanted &= np.asarray(batch["value"].is_valid())
        parts.append(offsets[wanted])
    return np.concatenate(parts)


def _offsets(table: Table, files: Sequence[LiveFile], log: LogRow) -> Offsets:
    batches = (
        of_log(batch, (log.log_id, log.partition))
        for file in files
        if file.may_have(log.log_id, log.partition)
        for batch in table.batches(file, ["log_id", "partition", "offset"])
    )
    return np.concatenate([np.zeros(0, np.int64), *(np.asarray(batch["offset"]) for batch in batches)])


CHUNK_ROWS = 8192
_OF_LOG = "commit-file-damaged"
_COMMANDS = {DECODED: "decode", UNDECODED: "decode", LATEST: "latest"}
"""The command that writes a table again, by its kind."""
_PAIR = {DECODED, UNDECODED}
"""Kinds that are created together."""


@dataclass(slots=True)
class _Opened:
    """A table at the version that is verified."""

    place: Table
    files: tuple[LiveFile, ...] = ()
    contents: dict[str, str] = field(default_factory=dict)
    """Digest of the bytes by path, as the commit that added the file recorded it."""
    identity: str = ""
    size: int = 0
    findings: list[PlacedFinding] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        """Whether its log cannot be read."""
        return any(each.finding.severity is Severity.ERROR for each in self.findings)


def _said(place: Table, rule: str, message: str, file: str | None = None) -> PlacedFinding:
    """A finding about a table, with the way out."""
    first = f"Remove its directory {place.uri}, then run" if rule == _OF_LOG else "Run"
    to_do = f"{first} `{topic_command(place.lake, _COMMANDS[place.kind], place.topic)}` to write it again."
    return finding(
        rule,
        f"Table {place.name}: {message} {to_do if is_wanted(place.lake, place.name) else NOT_WANTED}",
        table=place.name,
        topic=place.topic,
        file=file,
    )


def decoded_things(lake: str, logs: Sequence[LogRow]) -> Iterator[Thing]:
    """Yield the tables of topics, their files, and which rows they have."""
    known = remembered_tables(lake)
    by_topic = by_key(logs, lambda log: log.topic)
    for each in unfollowed_tables(lake):
        if (name := each.table.name) and each.table.topic in by_topic:
            said = finding(RULE, f"Table {name}: {each.what}.", table=name, topic=each.table.topic)
            yield Thing(f"policy/{name}", RULE, 0, partial(ThingResult, [said]))
    for topic, of_topic in sorted(by_topic.items()):
        opened_now = {kind: _open(topic_table(lake, kind, topic)) for kind in _COMMANDS}
        yield from _absent(lake, topic, opened_now, known)
        tables = [each for kind, each in opened_now.items() if each is not None and kind != LATEST]
        latest = opened_now[LATEST]
        for opened in [*tables, *([] if latest is None else [latest])]:
            found = partial(ThingResult, opened.findings)
            yield Thing(f"table/{opened.place.name}", opened.identity, opened.size, found)
            for file in opened.files:
                yield Thing(
                    f"file/{opened.place.name}/{file.path}",
                    _identity(opened, file),
                    file.size,
                    partial(_of_file, opened.place, file, opened.contents.get(file.path)),
                )
        if len(tables) == len(_PAIR) and not any(opened.is_damaged for opened in tables):
            both = identity_of([opened.identity for opened in tables])
            yield Thing(f"rows/{tables[0].place.name}", both, 0, partial(_of_rows, tables[0].place, of_topic))
        if latest is not None and not latest.is_damaged:
            rows = partial(_of_latest, latest.place, latest.files, of_topic)
            yield Thing(f"rows/{latest.place.name}", latest.identity, 0, rows)


def _absent(lake: str, topic: str, opened_now: Mapping[str, _Opened | None], known: frozenset[str]) -> Iterator[Thing]:
    """Yield the tables of a topic that have no log: those that there were, and those that a killed job had begun."""
    for kind in (kind for kind, opened in opened_now.items() if opened is None):
        place = topic_table(lake, kind, topic)
        if place.folder in known:
            absent = _said(place, "table-missing", f"it was there and is gone. {accepts_loss(lake)}")
        elif storage.has_files(place.uri) or any(
            opened is not None and {kind, other} == _PAIR for other, opened in opened_now.items()
        ):
            absent = _said(place, "table-not-complete", "the job that begins it did not end.")
        else:
            continue
        yield Thing(f"table/{place.name}", absent.finding.rule, 0, partial(ThingResult, [absent]))


def _open(place: Table) -> _Opened | None:
    """The table as it is now; None if it was never created."""
    log = delta_log.log_files(place.lake, place.name)
    if not log.all:
        return None
    stored = [(file.path, file.size, file.modified_ms) for file in log.all]
    opened = _Opened(place, identity=identity_of(stored))
    opened.size = sum(file.size for file in log.all)
    try:
        opened.files = tuple(place.files())
    except StorageError:
        raise
    except TableUnreadable as error:
        why = " ".join(str(error.__cause__).split())[:200]
        opened.findings.append(_said(place, _OF_LOG, f"its log cannot be read ({why})."))
    for version, file in log.commits.items():
        opened.contents |= _contents(opened, version, file.path)
    return opened


def _contents(opened: _Opened, version: int, path: str) -> Mapping[str, str]:
    try:
        commit = delta_log.commit_of(version, delta_log.actions_in(storage.read(path)))
    except FileNotFoundError:
        return {}  # removed meanwhile
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"the commit file of version {version} cannot be read: {error!r}."
        opened.findings.append(_said(opened.place, _OF_LOG, what, path))
        return {}
    if not commit.is_ours:
        what = f"version {version} is a commit of another program."
        opened.findings.append(_said(opened.place, "foreign-commit", what, path))
    return commit.contents


def _identity(opened: _Opened, file: LiveFile) -> str:
    there = stored_as(storage.join(opened.place.uri, file.path))
    return identity_of(there, file.size, file.rows, opened.contents.get(file.path))


def _of_file(place: Table, file: LiveFile, recorded: str | None) -> ThingResult:
    """Compare size, bytes and number of rows with what the commit says; ``recorded`` is its digest of the bytes."""
    result = ThingResult(counts=ThingCounts(table_files=1, table_bytes=file.size))
    path = storage.join(place.uri, file.path)
    try:
        size = storage.stat(path).size
        if size != file.size:
            what = f"{file.path} has {size} bytes, its commit records {file.size}."
            result.findings.append(_said(place, "table-file-size", what, path))
            return result
        with readable():
            if recorded is not None and recorded != row_digest.of_bytes(path):
                what = f"the bytes of {file.path} are not those that were written."
                result.findings.append(_said(place, "table-file-damaged", what, path))
                return result
            rows = _rows(path)
        if file.rows not in (-1, rows):
            what = f"{file.path} has {rows:,} rows, its commit records {file.rows:,}."
            result.findings.append(_said(place, "table-file-damaged", what, path))
    except (FileNotFoundError, NotADirectoryError):
        result.findings.append(_said(place, "table-file-missing", f"{file.path} is gone.", path))
    except DataUnreadable as error:
        result.findings.append(_said(place, "table-file-damaged", f"{file.path} cannot be read: {error}.", path))
    return result


def _rows(path: str) -> int:
    """The rows of a file, all of which were read. Pages are compared with their checksums."""
    with open_parquet(path, page_checksum_verification=True) as parquet:
        return sum(batch.num_rows for batch in parquet.iter_batches(CHUNK_ROWS, use_threads=False))


def _of_rows(place: Table, logs: Sequence[LogRow]) -> ThingResult:
    """Compare the number of rows of both tables with that of ``records``."""
    try:
        found = balances(place.lake, place.topic, logs)
    except TableUnreadable:
        return ThingResult()  # a finding of the file or table itself
    wrong = [
        f"of partition {each.partition} it has {each.decoded:,} decoded and {each.undecoded:,} undecoded rows below "
        f"offset {each.end:,}, where records has {each.records:,}."
        for each in found
        if not each.holds
    ]
    return _differs(place, wrong) if wrong else _counted(place, topic_table(place.lake, UNDECODED, place.topic))


def _differs(place: Table, wrong: Iterable[str]) -> ThingResult:
    return ThingResult([_said(place, "row-digest-differs", what) for what in wrong])


def _counted(*tables: Table) -> ThingResult:
    """Compare the number of rows that Delta's reader sees with the one that our commits left."""
    result = ThingResult()
    for table in tables:
        with suppress(TableUnreadable):  # a finding of the file or table itself
            written, there = table.row_counts()
            if written != there:
                what = f"it has {there:,} rows, and {written:,} were written: another program changed it."
                result.findings.append(_said(table, "row-digest-differs", what))
            elif table.has_rows_of_others():
                what = "it has rows that another program wrote, and nothing proves them."
                result.findings.append(_said(table, "row-digest-differs", what))
    return result


def _of_latest(place: Table, files: Sequence[LiveFile], logs: Sequence[LogRow]) -> ThingResult:
    """Compare the rows of a table of the latest rows with ``records``."""
    try:
        found = list(latest_differences(place, files, logs))
    except TableUnreadable:
        return ThingResult()  # a finding of the file or table itself
    wrong = [
        f"of partition {each.partition} it lacks {each.missing:,} of the newest rows below offset {each.end:,} of "
        f"records, and has {each.outdated:,} others."
        for each in found
    ]
    return _differs(place, wrong) if wrong else _counted(place)
