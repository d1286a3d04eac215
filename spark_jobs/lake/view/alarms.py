"""Alarms of a lake: all damage, and logs that no longer grow. Problems: these, old transactions and lag, in short."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from shlex import quote
from typing import NamedTuple

from logcore.logs.model.findings import Severity, offsets_text
from logcore.logs.rules import Persistence
from logcore.logs.rules.advice import HarmedPlace, advice
from logcore.segments.filenames import HIGH_WATERMARK_FILE
from logcore.texts import sentences
from spark_jobs.errors import DISK_FULL
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.repair_commands import run_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.segments.ledger_ranges import NOT_ARCHIVED
from spark_jobs.lake.setup.registry import has_sources, home, recall
from spark_jobs.lake.store import lease
from spark_jobs.lake.view.harm import Harm, look_at_tables
from spark_jobs.lake.view.harmed_places import harmed_place
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.ledger_states import ALARMING, is_alarming
from spark_jobs.lake.view.log_state import LogState, natural_order
from spark_jobs.lake.view.open_findings import have_offsets_in_common, persistence_of
from spark_jobs.lake.view.open_transactions import duration
from spark_jobs.lake.view.registered_lakes import lake_name, read_registered
from spark_jobs.lake.view.runs.run_ends import FORGOTTEN, SOURCE_UNREAD, RunEnds, killed_run
from spark_jobs.lake.view.unread_sources import unread_sources
from spark_jobs.lake.view.verified_damage import verified_damage
from spark_jobs.placed_finding import PlacedFinding

_ABOUT_ROWS = frozenset(
    {
        Persistence.WHILE_ROWS_DIFFER,
        Persistence.WHILE_FILE_DIFFERS,
        Persistence.WHILE_LEDGER_HAS_HOLE,
        Persistence.UNTIL_EXPECTATIONS_MET,
    }
)
"""Findings about published rows and about the ledger itself: other checks show them."""

TIMED_INTAKE = "timed_intake"
"""The schedule that starts an intake at each interval of the policies, without the name of its lake."""

_LEAST_ROOM = 1 << 20
"""Free bytes below which a disk is full: no commit fits."""

_CHOSEN = frozenset({"COPY", "DIR", "FILE", "LAKE", "RULE"})
"""Words of a command in advice that only its reader can replace."""
_OF_RANGES = frozenset({"corrupt-offsets", "missing-offsets"})
"""Findings about a range of the ledger, whatever the reason. Findings with the reason replace them."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One reason for a failed check: its place and its kind."""

    lake: str
    topic_partition: str
    rule: str
    """A ledger state, a verdict, or the rule id of a finding."""
    message: str
    file: str | None = None
    position: int | None = None
    nbytes: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    log: str | None = None
    """Log key."""
    row: LogRow | None = None
    """The log; None for a ledger whose log the lake does not know."""

    @property
    def place(self) -> HarmedPlace:
        """Where it is, for advice."""
        return harmed_place(self.lake, log=self.row, offsets=(self.start_offset, self.end_offset))

    @property
    def what_to_do(self) -> str:
        """One command for this harm, or one sentence why there is none."""
        return advice(self.rule, self.place)

    @property
    def command(self) -> str:
        """The first command of what to do. `status` if one has a word that only the reader knows: he has to choose."""
        commands = re.findall(r"`(loglake [^`]+)`", self.what_to_do)
        is_choice = any(_CHOSEN & set(each.split()) for each in commands)
        return commands[0] if commands and not is_choice else f"loglake status {quote(self.lake)}"

    @property
    def where(self) -> str:
        """``orders-0 of lake shop, offsets [4, 9), file …/0000.log, position 512``."""
        place = [f"{self.topic_partition} of lake {lake_name(self.lake)}"]
        if self.offsets:
            place.append(f"offset{'' if self.end_offset is None else 's'} {self.offsets}")
        if self.file is not None:
            place.append(f"file {self.file}" + ("" if self.position is None else f", position {self.position}"))
        return ", ".join(place)

    @property
    def offsets(self) -> str:
        """``[4, 9)``, or ``4`` if the end is not known; empty if it is not about offsets."""
        return offsets_text(self.start_offset, self.end_offset)


def damage_of(state: LakeState) -> tuple[Alarm, ...]:
    """Return the damage of a lake: one alarm per open error, and one per damaged ledger range without such an error."""
    alarms = [alarm for log in state.logs for alarm in _of_log(log)]
    alarms += [_of_range(state.lake, row, None) for row in state.strays]
    return tuple(sorted(alarms, key=lambda a: (*natural_order(a.topic_partition), a.start_offset or 0)))


def stops_of(state: LakeState) -> tuple[Alarm, ...]:
    """Return logs that no longer grow, and why."""
    return tuple(
        Alarm(
            state.lake,
            row.topic_partition,
            row.stopped,
            row.stopped_because or "",
            file=row.source,
            log=row.log,
            row=row,
        )
        for row in (log.row for log in state.logs)
        if row.stopped is not None
    )


def _of_log(log: LogState) -> Iterator[Alarm]:
    ranges = [row for row in log.ledger if is_alarming(row)]
    errors = [placed for placed in log.findings if _is_damage(placed, log)]
    # A finding in bytes has a place; a finding about the ledger's range repeats it without a place.
    of_bytes = [placed for placed in errors if not _is_about_a_range(placed)]
    for placed in errors:
        if _is_about_a_range(placed) and any(_overlap(placed, other) for other in of_bytes):
            continue
        f = placed.finding
        end = f.end_offset
        if end is None:
            end = next((row.end_offset for row in ranges if have_offsets_in_common(f, row)), None)
        place = (f.file, f.position, f.nbytes, f.start_offset, end, log.log, log.row)
        yield Alarm(log.lake, f"{placed.topic}-{placed.partition}", f.rule, f.message, *place)
    for row in ranges:
        if not any(have_offsets_in_common(placed.finding, row) for placed in errors):
            yield _of_range(log.lake, row, log.row)
    for start, end in log.unarchived:
        place = (None, None, None, start, end, log.log, log.row)
        text = NOT_ARCHIVED.format(start=start, end=end)
        yield Alarm(log.lake, log.topic_partition, "offsets-not-archived", text, *place)


def _of_range(lake: str, row: LedgerRow, log: LogRow | None) -> Alarm:
    what = row.state + (f" ({row.evidence})" if row.evidence else "")
    place = (None, None, None, row.start_offset, row.end_offset, row.log, log)
    return Alarm(lake, f"{row.topic}-{row.partition}", row.state, what, *place)


def _is_damage(placed: PlacedFinding, log: LogState) -> bool:
    f = placed.finding
    return f.severity is Severity.ERROR and f.rule != log.row.stopped and persistence_of(f.rule) not in _ABOUT_ROWS


def _is_about_a_range(placed: PlacedFinding) -> bool:
    return placed.finding.rule in _OF_RANGES


def _overlap(one: PlacedFinding, other: PlacedFinding) -> bool:
    """Return whether two findings of one log have an offset in common; without an end, only the first offset counts."""
    (start, end), (low, high) = ((f.start_offset, f.end_offset) for f in (one.finding, other.finding))
    if start is None or low is None:
        return False
    return start < (high or low + 1) and low < (end or start + 1)


class ProblemKind(NamedTuple):
    """A kind of problem: how bad it is, and what it says."""

    severity: Severity
    meaning: str


_MOST_FILES = 3
"""So many damaged files are named."""

UNREAD_LAKE = "unread-lake"
KINDS = {
    "damage": ProblemKind(Severity.ERROR, "Offsets, files or tables of a lake are damaged or lost."),
    "stopped": ProblemKind(Severity.ERROR, "A log does not grow, because its source changed or cannot be used."),
    "unread-source": ProblemKind(Severity.ERROR, "A source is gone, or the newest intake could not read it."),
    UNREAD_LAKE: ProblemKind(
        Severity.ERROR,
        "The lake or its policies cannot be read. With such policies no intake or maintenance starts by itself.",
    ),
    "failing": ProblemKind(Severity.ERROR, "The newest runs of the intake failed."),
    "missed-schedule": ProblemKind(Severity.ERROR, "The last intake succeeded more than three intervals ago."),
    "hanging-transaction": ProblemKind(
        Severity.WARNING, "A transaction is open for more than 15 minutes and longer than its timeout."
    ),
    "stale-table": ProblemKind(
        Severity.WARNING, "A decoded table, or one of the latest rows, follows no policy any more and gets no new rows."
    ),
    "lag": ProblemKind(Severity.WARNING, "More offsets wait to be published than alerts.max.lag allows."),
}
"""Kinds of problems."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. Two with the same ``kind`` and ``place`` are the same problem, whatever their numbers are now."""

    kind: str
    """One of :data:`KINDS`."""
    place: str
    """Log and offsets, for people."""
    what: str
    """One sentence."""
    command: str
    """What to type next. It only reads, except for a stopped log, and for lag that nothing but a run ends."""

    @property
    def severity(self) -> Severity:
        """``error`` or ``warning``, as of a finding."""
        return KINDS[self.kind].severity


def problems_of_files(lake: str, now_ms: int) -> Iterator[Problem]:
    """Yield what is wrong with the files of tables and archive, by listing them; nothing while a process writes.

    Args:
        lake: The lake.
        now_ms: The clock, epoch milliseconds.

    Raises:
        JobError: The files of the lake cannot be listed.
    """
    if not lease.is_held(lake, now_ms):
        for harm in look_at_tables(lake).harm():
            if harm.is_error or KINDS[harm.kind].severity is Severity.WARNING:
                yield _of_harm(lake, harm)


def _of_harm(lake: str, harm: Harm) -> Problem:
    place = f"{harm.topic_partition or 'the tables'} of lake {lake_name(lake)}"
    place += f", offsets {harm.offsets}" if harm.offsets else ""
    look = "verify" if harm.is_error else "status"
    return Problem(harm.kind, place, harm.what, f"loglake {look} {quote(lake)}")


def problems_of(state: LakeState, now_ms: int, max_lag: int | None) -> Iterator[Problem]:
    """Yield the problems of the logs of a lake.

    Args:
        state: The lake.
        now_ms: The clock, epoch milliseconds.
        max_lag: Offsets that a log may have ingested and not published; None: any number.
    """
    lake = quote(state.lake)
    for alarm in damage_of(state):
        look = f"loglake lineage {lake} --offset {quote(f'{alarm.topic_partition}:{alarm.start_offset or 0}')}"
        yield Problem("damage", alarm.where, f"{alarm.rule}: {alarm.message}", look)
    for alarm in stops_of(state):
        yield Problem("stopped", alarm.topic_partition, f"{alarm.rule}: {alarm.message}", alarm.command)
    for log in state.logs:
        oldest = log.hanging(now_ms)
        if oldest is not None:
            look = _look_at_transactions(log)
            yield Problem("hanging-transaction", log.topic_partition, oldest.described(now_ms), look)
        if max_lag is not None and log.lag > max_lag:
            yield _of_lag(log, now_ms)


def _look_at_transactions(log: LogState) -> str:
    if log.is_source_gone:
        return f"loglake status {quote(log.lake)}"
    return f"loglake transactions {quote(log.row.source)} --state open"


def _of_lag(log: LogState, now_ms: int) -> Problem:
    """Say what the first offset that is not published waits for, with the command that shows it. Else a run is due."""
    what, command = f"{log.lag:,} offsets are ingested and not published", run_command(log.lake, log.row.source)
    at = log.published_to or 0
    first = next((row for row in log.ledger if row.end_offset > at and not row.published), None)
    oldest = next(iter(log.open_transactions), None)
    if first is not None and first.state in ALARMING:
        what += f"; offsets {offsets_text(first.start_offset, first.end_offset)} are {first.state}"
        command = f"loglake lineage {quote(log.lake)} --offset {quote(f'{log.topic_partition}:{first.start_offset}')}"
    elif oldest is not None and oldest.first_offset <= max(at, log.last_stable_offset):
        what += f"; they wait for the transaction of {oldest.described(now_ms)}"
        command = _look_at_transactions(log)
    elif first is not None and first.start_offset >= log.last_stable_offset:
        what += f"; they are at or above the source's high watermark, {log.row.high_watermark}"
        if log.lacks_line:
            what += f", because {HIGH_WATERMARK_FILE} has no line of the log"
        again = run_command(log.lake, log.row.source, log.row.topic, log.row.partition)
        what += f". If that is wrong, `{again} --high-watermark log-end` publishes them"
        command = f"loglake offsets {quote(log.row.source)} --at latest"
    return Problem("lag", log.topic_partition, what, command)


def held_back(state: LakeState, now_ms: int) -> Iterator[str]:
    """Yield a sentence for each log with offsets at or above the high watermark, where nothing else is in the way."""
    for log in state.logs:
        if log.lag and not (log.is_damaged or log.open_transactions):
            problem = _of_lag(log, now_ms)
            if problem.command.startswith("loglake offsets "):
                yield f"{problem.place}: {problem.what}"


def _of_disks(lake: str, ends: RunEnds) -> Problem | None:
    """A disk that is full now, or was when the newest intake failed. A full disk may keep no record of a failure."""
    free = {place: _free_bytes(place) for place in [*([] if "://" in lake else [lake]), home()]}
    has_failed = ends.is_failing and ends.error == DISK_FULL
    if not has_failed and all(room is None or room >= _LEAST_ROOM for room in free.values()):
        return None
    rooms = " and ".join(f"{room:,} bytes on that of {place}" for place, room in free.items() if room is not None)
    what = "the newest intake failed because a disk was full" if has_failed else "a disk is full"
    what += f"; free are {rooms}. Make room, then run again: `{run_command(lake)}`"
    return Problem("failing", "the lake", what, f"df -h {' '.join(map(quote, free))}")


def _free_bytes(place: str) -> int | None:
    """Bytes that this user may write; None where nothing can be written anyway, or nothing is there, or the file system
    does not say its size, as some on a network do.
    """
    try:
        disk = os.statvfs(place)
    except OSError:
        return None
    return None if disk.f_flag & os.ST_RDONLY or not disk.f_blocks else disk.f_bavail * disk.f_frsize


def run_problems(lake: str, ends: RunEnds, now_ms: int, ingest: str | int) -> Iterator[Problem]:
    """Yield what is wrong with the runs of a lake: a source, a step, or the schedule.

    Args:
        lake: The lake.
        ends: The newest ends of its intakes.
        now_ms: The clock, epoch milliseconds.
        ingest: When its policies start an intake: milliseconds of an interval, or another word.
    """
    gone = unread_sources(lake)  # first: the other looks leave out what does not answer
    killed = killed_run(lake, now_ms)
    if killed is not None:
        yield Problem("failing", "the lake", killed, f"loglake runs {quote(lake)}")
    of_disks = _of_disks(lake, ends)
    if of_disks is not None:
        yield of_disks
    is_lost = ends.unread == FORGOTTEN
    if not has_sources(lake):  # a lake that forgot all of them takes nothing in, and nothing is due
        is_lost |= ends.error == SOURCE_UNREAD
        ends = replace(ends, succeeded_ms=None)
    if is_lost:
        ends = replace(ends, failed_ms=None)
    if ends.harmed:
        sources = " ".join(dict.fromkeys(quote(path) for each in recall(lake).intakes for path in each.sources))
        yield Problem(
            "damage", "the sources", sentences(list(ends.harmed.values())), f"loglake verify {sources or quote(lake)}"
        )
    if damaged := verified_damage(lake):
        files = [f"{rule}: {path}." for path, rule in sorted(damaged.items())]
        more = f" {len(files) - _MOST_FILES:,} more files." if len(files) > _MOST_FILES else ""
        what = f"A verification found damaged files. {sentences(files[:_MOST_FILES])}{more}"
        yield Problem("damage", "the files of the lake", what, f"loglake verify {quote(lake)}")
    unread = ends.unread if ends.is_failing and ends.unread is not None else ""
    unread = sentences([unread, *(why for why in gone.values() if why not in unread)])
    if unread:
        yield Problem("unread-source", "the sources", unread, f"loglake doctor --lake {quote(lake)}")
    elif ends.is_failing and ends.error != DISK_FULL:
        look = f"loglake runs {quote(lake)} --failed --last 1"
        yield Problem("failing", "the lake", f"the newest intake failed with {ends.error}", look)
    if isinstance(ingest, int) and ends.succeeded_ms is not None and now_ms - ends.succeeded_ms > 3 * ingest:
        minutes = (now_ms - ends.succeeded_ms) // 60_000
        schedule = read_registered(lake).name_of(TIMED_INTAKE)
        what = (
            f"no intake has succeeded for {minutes:,} minutes, and one is due every {duration(ingest)}; look whether "
            f"`loglake ui` runs, and whether the schedule {schedule} is on: its page is "
            f"/locations/loglake/schedules/{schedule}"
        )
        yield Problem("missed-schedule", "the lake", what, f"loglake runs {quote(lake)} --last 5")
