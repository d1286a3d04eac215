"""A log read once from end to end, for the commands that say what it means: its transactions and its offsets.

Headers and control records are read, and every crc is checked; other records stay closed. Unlike a consumer, who is
not told why offsets are gone, these commands judge every gap.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

from logcore.cli.looking import Notes, cannot_read, open_segment, steps
from logcore.errors import LogError
from logcore.logs.batch_facts import BatchFact, fact_of, fold
from logcore.logs.findings import found
from logcore.logs.gaps import GapRules
from logcore.logs.producer_state import ongoing
from logcore.logs.sources import SourceLog
from logcore.logs.transactions import Ongoing, TransactionView, TransactionWalk
from logcore.records.batch import read_header
from logcore.records.control import ControlType
from logcore.records.record import read_records
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.producer_state import parse
from logcore.segments.scan import ScannedBatch
from logcore.storage.local import read_file, read_range, shown

MAX_SNAPSHOT_BYTES = 1 << 30
"""A snapshot holds 46 bytes for each producer; no broker holds millions."""

ALWAYS_COMPACTED = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that a broker compacts whatever their configuration says."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """What one pass over a log tells. facts: folded, to be cut at no other places than log start, high watermark and
    last stable offset. high_watermark: of what is shown; at most the log end. opened: for the (producer id, first
    offset) of an undecided transaction, greatest timestamp of its first and of its last batch in ms."""

    log: SourceLog
    facts: tuple[BatchFact, ...]
    view: TransactionView
    rules: GapRules
    high_watermark: int
    log_end_offset: int
    opened: dict[tuple[int, int], tuple[int, int]]


def add_meaning(parser: argparse.ArgumentParser) -> None:
    """The options that decide what a log means."""
    from logcore.cli import arguments as options

    parser.add_argument(
        "--high-watermark",
        type=options.high_watermark,
        default="checkpoint",
        metavar="checkpoint|log-end|N",
        help="up to where offsets are committed (default: a directory's replication-offset-checkpoint)",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=topic_setting,
        metavar="NAME=VALUE",
        help="topic configuration by Kafka's names; cleanup.policy=compact makes gaps legal",
    )


def topic_setting(text: str) -> tuple[str, str]:
    """`cleanup.policy=` compact, delete, or both with a comma."""
    name, _, value = text.partition("=")
    if name != "cleanup.policy":
        raise argparse.ArgumentTypeError(f"{name!r} plays no part here; cleanup.policy does")
    policies = {part.strip() for part in value.split(",")}
    if not policies or not policies <= {"compact", "delete"}:
        raise argparse.ArgumentTypeError(f"{value!r} is no cleanup.policy: compact, delete, or compact,delete")
    return name, value


def is_compacted(log: SourceLog, settings: list[tuple[str, str]]) -> bool:
    """Whether the topic's cleanup policy makes gaps legal."""
    stated = [value for name, value in settings if name == "cleanup.policy"]
    if stated:
        return "compact" in stated[-1]
    return log.topic_partition.topic in ALWAYS_COMPACTED


def gap_rules(log: SourceLog, compacted: bool) -> GapRules:
    """What explains gaps in a log, and which gaps are only of what was named or can be read."""
    held = [segment.base_offset for segment in log.segments]
    evidence: list[tuple[int, int, str]] = []
    for bases, why in ((log.unreadable, "unreadable"), (log.unnamed, "not-named")):
        others = sorted({*held, *log.unreadable, *log.unnamed})
        for base in bases:
            end = next((other for other in others if other > base), MAX_OFFSET)
            evidence.append((base, end, why))
    return GapRules(log.cleaner_checkpoint, compacted, tuple(evidence))


def high_watermark_of(log: SourceLog, asked: str | int) -> int | None:
    """The high watermark that is asked for; None where the log end stands for it."""
    if isinstance(asked, int):
        return asked
    if asked == "log-end" or log.named_files or log.high_watermark is None:
        return None
    # A broker never serves below its log start, whatever the checkpoint says.
    return max(log.high_watermark, log.log_start_offset)


def read_log(log: SourceLog, arguments: argparse.Namespace, notes: Notes) -> LogReading:
    """Read a log and derive its transactions; what is wrong with its bytes is said, the view's findings are not."""
    rules = gap_rules(log, is_compacted(log, arguments.config))
    stated = high_watermark_of(log, arguments.high_watermark)
    limit = MAX_OFFSET if stated is None else stated
    first = log.segments[0].base_offset if log.segments else log.log_start_offset
    # Batches below the log start count too: they tell where a transaction began.
    walk = TransactionWalk(
        high_watermark=limit, rules=rules, ongoing=_in_progress(log, first, notes), start_offset=first
    )
    facts = _Facts(log, notes, limit)
    folded = tuple(fold(walk.over(facts), (log.log_start_offset, limit)))
    view = walk.view()
    end = max([facts.end, *(segment.base_offset for segment in log.segments[-1:])])
    high_watermark = min(limit, end)
    if stated is not None and stated > end:
        notes.say(
            found(
                "high-watermark-beyond-log-end",
                f"{log.topic_partition}: offsets up to {stated - 1} were committed, the log ends at {end}.",
                file=shown(log.directory),
                start_offset=end,
                end_offset=stated,
            )
        )
    # Like a broker, which moves it up with the log start.
    stable = min(high_watermark, max(view.last_stable_offset, log.log_start_offset))
    return LogReading(log, folded, replace(view, last_stable_offset=stable), rules, high_watermark, end, facts.opened)


def records_from(fact: BatchFact, cut: int) -> int:
    """Records of a batch at or above an offset, told by reading it. Raises LogError."""
    content = read_range(fact.segment_id, fact.position, fact.position + fact.size)
    header = read_header(content, 0)
    return sum(record.offset >= cut for record in read_records(content, 0, header))


class _Facts:
    """The facts of a log's batches; while they are iterated over, when undecided transactions began."""

    def __init__(self, log: SourceLog, notes: Notes, high_watermark: int) -> None:
        self._log, self._notes, self._high_watermark = log, notes, high_watermark
        self._current: dict[int, tuple[int, int]] = {}
        self.end = 0
        self.opened: dict[tuple[int, int], tuple[int, int]] = {}

    def __iter__(self) -> Iterator[BatchFact]:
        for segment in self._log.segments:
            try:
                _, walk = open_segment(self._log, segment)
            except LogError as error:
                cannot_read(segment, error, self._notes)
                continue
            for item in steps(self._log, segment, walk, self._notes):
                if isinstance(item, ScannedBatch):
                    self.end = item.header.next_offset
                    if item.header.is_transactional:
                        self._note_time(item)
                yield fact_of(item, segment.path)

    def _note_time(self, batch: ScannedBatch) -> None:
        header = batch.header
        if header.is_control:
            if batch.control_type not in (ControlType.COMMIT, ControlType.ABORT):
                return
            key = self._current.pop(header.producer_id, None)
            if key is not None and header.base_offset < self._high_watermark:
                del self.opened[key]
            return
        key = self._current.setdefault(header.producer_id, (header.producer_id, header.base_offset))
        first, _ = self.opened.get(key, (header.max_timestamp, 0))
        self.opened[key] = (first, header.max_timestamp)


def _in_progress(log: SourceLog, first: int, notes: Notes) -> tuple[Ongoing, ...]:
    """The transactions in progress where the log's files begin, if a snapshot there tells."""
    path = dict(log.snapshots).get(first)
    if first == 0 or path is None:
        return ()
    try:
        return ongoing(parse(read_file(path, MAX_SNAPSHOT_BYTES)), first)
    except LogError as error:
        message = f"{shown(path)} cannot be used: {error.message}."
        notes.say(found("broken-snapshot", message, file=shown(path)))
        return ()
