"""Advice: what a person does about a finding at the place where it was found.

A rule's `what_to_do` and `for_logs` are templates. A field in braces is what only the place of the harm has:

    {run}        loglake run LOGDIR --lake LAKE, with the paths that the lake was last read from
    {run_of_log} the same for one log only
    {lake}       the lake
    {directory}  the log's partition directory, or the path that was named
    {log}        --topic T --partition N after a space, or --partition T-N for logs of several topics; nothing for a
                 finding that is not about a log
    {topic}      the topic
    {offsets}    A..B, for --replace
    {maintain}   the command that plans the maintenance of the lake
    {out}        a new directory for a repaired copy
    {new}        the log directory that has it, for the checkpoints
    {table}      a table of the lake
    {again}      the command that writes the rows of this table again
    {rows_again}  how its rows are written again
    {rebuild}    the command that makes this table again
    {made_again}  how this table comes back when it is lost
    {restore}    how an archived file comes back: from its source, or only from a copy
    {salvage}    the command that publishes past lost offsets, unless that was done
    {policy:NAME=VALUE}  the command that sets a policy of the topic and runs the lake again

Commands are complete: they can be pasted into a shell. A word in capitals is what only the reader knows, such as COPY,
and the sentence says what it is. In `loglake help RULE` each field is such a word.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from logcore.logs.rules import RULES
from logcore.texts import sentences, shell_word

RULE_OF_STATE = {
    "corrupt": "corrupt-offsets",
    "missing": "missing-offsets",
    "unknown": "transaction-outcome-lost",
    "unreadable": "unreadable",
    "remote": "remote-tier",
}
"""The rule whose advice counts for a range of the ledger, by state."""


_PASSED = "What follows them is published. They stay an error, with exit code 2, until a copy fills them."
_SALVAGE = (
    "If none has, `{policy:salvage=permissive}` publishes what follows. The lost offsets stay an error, with exit code "
    "2, until a copy fills them."
)

NOT_WANTED = (
    "No policy of the lake asks for this table any more, so no command writes it. Restore its directory from a backup, "
    "or remove it."
)
"""What to do about a table of a topic that no policy names."""
_RESTORE = (
    "`loglake repair {lake} --archive --apply` restores it from the source. If the source has other bytes now or "
    "is gone for good, add `--from COPY` after `--archive`, where COPY is a copy of the log directory. What is "
    "registered at its source must be put back there."
)
_RESTORE_FROM_COPY = (
    "The bytes are no longer where they were taken from. `loglake repair {lake} --archive --from COPY --apply` "
    "restores the file, where COPY is a copy of the log directory. Without a copy the bytes are lost: published rows "
    "stay as they are, and this stays an error, with exit code 2."
)


@dataclass(frozen=True, slots=True)
class HarmedPlace:
    """Where the harm of a finding is. None: not known, or the finding is not about that.

    Attributes:
        lake: The lake. Without one, the finding is about files of a log, and `Rule.for_logs` counts.
        run: The command that runs the lake again, ready for a shell.
        directory: The partition directory of the log, or another path that was named.
        topic: The topic.
        partition: The partition number.
        start_offset: The first offset.
        end_offset: The offset after the last one.
        table: The table of the lake, such as `records` or `decoded/orders`.
        policies: The policies file of the lake.
        is_passed: Whether offsets after these are published.
        is_wanted: Whether a policy asks for the table, if it is one of a topic.
        has_origin: Whether an archived file can be read again where it was taken from.
        new: The directory for what a command writes.
        run_of_log: The command that runs only the log again.
        others: Other places with the same harm and the same `run`: one command is for all of them.
    """

    lake: str | None = None
    run: str | None = None
    directory: str | None = None
    topic: str | None = None
    partition: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    table: str | None = None
    policies: str | None = None
    is_passed: bool = False
    is_wanted: bool = True
    has_origin: bool = True
    new: str = "new"
    run_of_log: str | None = None
    others: tuple[HarmedPlace, ...] = ()


def maintain_command(lake: str) -> str:
    """Return the command that plans the maintenance of a lake. It reads no source: one may be gone."""
    return _maintain(shell_word(lake))


def _maintain(lake: str) -> str:
    return f"loglake run --lake {lake} --maintain"


def export_command(lake: str) -> str:
    """Return the command that writes the archive of a lake as a log directory, whatever became of its sources.

    It prints one line about each log, and its report, which has each loss, goes into a file.
    """
    config = {"lake": lake, "run_id": "recover-by-hand", "out": "new", "salvage": True, "apply": True}
    text = f'{json.dumps(config)[:-1]}, "as_of_ms": '
    python = shell_word(sys.executable)
    return f"echo {shell_word(text)}$(date +%s000)}} | {python} -m spark_jobs recover --config /dev/stdin > new.jsonl"


def advice_for_all(rule: str, places: Sequence[HarmedPlace]) -> str:
    """Return what to do about findings of one rule in several places: one command for all, where a command takes them.

    Args:
        rule: A rule id, or a ledger state.
        places: At least one place, all with the same `run`.
    """
    texts = list(dict.fromkeys(advice(rule, place) for place in places))
    if len(texts) == 1 or "loglake reindex" in texts[0]:  # it takes one directory
        return sentences(texts)
    return advice(rule, replace(places[0], others=tuple(places[1:])))


def advice(rule: str, place: HarmedPlace) -> str:
    """Return what to do about a finding of a rule, or about a range of the ledger in a state.

    Args:
        rule: A rule id, or a ledger state.
        place: Where the harm is.
    """
    known = RULES.get(RULE_OF_STATE.get(rule, rule))
    if known is None:
        return ""
    return filled(known.what_to_do if place.lake is not None or not known.for_logs else known.for_logs, place)


def filled(text: str, place: HarmedPlace) -> str:
    """Return a template with what is known of a place; the rest are words in capitals."""
    lake, topic, table = _word(place.lake, "LAKE"), _word(place.topic, "TOPIC"), _word(place.table, "TABLE")
    run = place.run or f"loglake run LOGDIR --lake {lake}"
    places = (place, *place.others)
    logs = list(dict.fromkeys((each.topic, each.partition) for each in places))
    directories = dict.fromkeys(each.directory for each in places)
    log, topics = log_options(logs), dict.fromkeys(_word(topic, "TOPIC") for topic, _ in logs)
    name = f"/{place.topic}-{place.partition}" if log else f"/{place.topic or 'copy'}"
    starts = [each.start_offset for each in places if each.start_offset is not None]
    ends = [each.end_offset for each in places if each.end_offset is not None]
    is_one_span = len(logs) == 1 and len(starts) == len(ends) == len(places)
    offsets = f"{min(starts)}..{max(ends)}" if is_one_span else ".."
    policy = _PolicyCommand(place.policies, tuple(topics), run)
    said = text.format(
        run=run,
        run_of_log=(place.run_of_log if len(logs) == 1 else None) or f"{_without_numbers(run)}{log}",
        lake=lake,
        directory=" ".join(_word(each, "DIR") for each in directories),
        log=log,
        topic=topic,
        offsets=offsets,
        out=shell_word(place.new if len(directories) > 1 else f"{place.new}{name}"),
        new=shell_word(place.new),
        table=table,
        again=_again(place.table, run, lake),
        maintain=_maintain(lake),
        rebuild=_rebuild(place.table, run, lake),
        made_again=made_again(place.table, _rebuild(place.table, run, lake)) if place.is_wanted else NOT_WANTED,
        rows_again=f"`{_again(place.table, run, lake)}` writes the rows again." if place.is_wanted else NOT_WANTED,
        policy=policy,
        restore=(_RESTORE if place.has_origin else _RESTORE_FROM_COPY).format(lake=lake),
        salvage=_PASSED if all(each.is_passed for each in places) else _SALVAGE.format(policy=policy),
    )
    unknown = place.lake is not None and " LOGDIR " in said
    return f"{said} LOGDIR is the log directory of the broker." if unknown else said


def log_options(logs: Sequence[tuple[str | None, int | None]]) -> str:
    """The options that choose logs, after a space; none if a topic or a partition is None. No other log is chosen."""
    if any(topic is None or partition is None for topic, partition in logs):
        return ""
    topics = list(dict.fromkeys(_word(topic, "TOPIC") for topic, _ in logs))
    if len(topics) > 1:
        return "".join(f" --partition {shell_word(f'{topic}-{partition}')}" for topic, partition in logs)
    return "".join([*(f" --topic {topic}" for topic in topics), *(f" --partition {number}" for _, number in logs)])


def _without_numbers(run: str) -> str:
    """A command without partition numbers, which it does not take beside topic partitions."""
    return re.sub(r" --partition \d+(?= |$)", "", run)


def _word(value: str | None, unknown: str) -> str:
    return unknown if value is None else shell_word(value)


def _again(table: str | None, run: str, lake: str) -> str:
    """The command that writes the rows of a table again."""
    return f"{run} --replace .." if table == "records" else _rebuild(table, run, lake)


def _rebuild(table: str | None, run: str, lake: str) -> str:
    """The command that makes a table again."""
    kind, _, topic = (table or "TABLE").partition("/")
    if kind in ("decoded", "undecoded"):
        return f"loglake decode {lake} --replace {shell_word(topic)}"
    if kind == "latest":
        return f"loglake latest {lake} --replace {shell_word(topic)}"
    return f"loglake repair {lake} --rebuild {kind} --apply && {run}"


def made_again(table: str | None, rebuild: str) -> str:
    """Return how a lost table comes back: from a backup, or by a command."""
    if table in ("logs", "segments"):
        return (
            "Restore the directory of the table from a backup. Without one, and only if the sources still have all "
            f"offsets of the lake: `{rebuild}` reads it again from them."
        )
    return f"`{rebuild}` makes it again. Or restore the directory of the table from a backup."


@dataclass(frozen=True, slots=True)
class _PolicyCommand:
    """Formats `{policy:NAME=VALUE}`."""

    file: str | None
    topics: tuple[str, ...]
    run: str

    def __format__(self, setting: str) -> str:
        file = _word(self.file, "policies.yaml")
        named = "" if self.file is not None else f" --policies {file}"
        settings = (f"loglake config set {file} {topic} {setting} && " for topic in self.topics)
        return f"{''.join(settings)}{self.run}{named}"
