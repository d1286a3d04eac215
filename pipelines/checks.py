"""The checks that a person sees as green or red, each on what the lake holds now, not only on what a run changed.

A check answers one question. That it could not be answered is an exception and fails the step, never the check; that
there was nothing to ask fails the check. Because one instance may show several lakes on the same assets, the checks on
damage look at all of them: a clean lake's run must not hide what another lake has.

Great Expectations itself is run by the job ``expectations``; here its results become a check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dagster as dg

from logcore.logs.findings import Finding, Severity
from pipelines.expectations import Outcome, Results
from pipelines.lakes import lake_name
from pipelines.open_transactions import duration
from pipelines.reporting import alarm_table, inline_table, picture_metadata
from pipelines.state import Alarm, LakeState, LogState, read_state
from spark_jobs.lake.completeness import differences

ARCHIVED, VALIDATED, RECORDS = "archived_segments", "validated_segments", "records"


@dataclass(frozen=True, slots=True)
class Question:
    """A check: what is asked of which asset, and whether the run stops at a no."""

    name: str
    asset: str
    description: str
    blocking: bool = False

    @property
    def spec(self) -> dg.AssetCheckSpec:
        """For Dagster."""
        return dg.AssetCheckSpec(self.name, asset=self.asset, description=self.description, blocking=self.blocking)

    def answer(
        self,
        passed: bool,
        description: str,
        metadata: Mapping[str, Any],
        severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
    ) -> dg.AssetCheckResult:
        """The result, in one sentence and with its evidence."""
        return dg.AssetCheckResult(
            passed=passed,
            asset_key=self.asset,
            check_name=self.name,
            severity=severity,
            description=description,
            metadata=dict(metadata),
        )

    def unanswered(self, why: str) -> dg.AssetCheckResult:
        """There was nothing to ask: no reason to be green, but nothing is known to be wrong either."""
        return self.answer(False, why, {}, dg.AssetCheckSeverity.WARN)


SOURCES_AGREE = Question(
    "sources_agree",
    ARCHIVED,
    "Every source could be read, and no log has stopped growing: each source still holds, at the end of our copy, "
    "the same batch that our copy ends with.",
)
NO_DAMAGE = Question(
    "no_damage",
    VALIDATED,
    "No log of any lake here has offsets that are corrupt, missing or of unknown outcome. Damage stops only the log "
    "that has it, and only from the damage on; the others are published all the same.",
)
EVERY_OFFSET_ACCOUNTED_FOR = Question(
    "every_offset_accounted_for",
    VALIDATED,
    "The offset ledger of each log covers every offset from 0 to the log's end exactly once. Otherwise nothing is "
    "published by this run.",
    blocking=True,
)
ROWS_EQUAL_LEDGER = Question(
    "rows_equal_ledger",
    RECORDS,
    "File by file, the table has exactly the rows that the ledger counts as published records; a difference is named "
    "with its offsets.",
)
NO_HANGING_TRANSACTION = Question(
    "no_hanging_transaction",
    RECORDS,
    "No transaction is open for longer than Kafka's default transaction.max.timeout.ms, 15 minutes. Nothing behind an "
    "open transaction is published; one that hangs has lost its coordinator and holds its log back until it is aborted "
    "(kafka-transactions.sh find-hanging, abort).",
)
EXPECTATIONS_MET = Question(
    "expectations_met",
    RECORDS,
    "Great Expectations, on figures of the published offsets computed in one Spark pass.",
)
QUESTIONS = (
    SOURCES_AGREE,
    NO_DAMAGE,
    EVERY_OFFSET_ACCOUNTED_FOR,
    ROWS_EQUAL_LEDGER,
    NO_HANGING_TRANSACTION,
    EXPECTATIONS_MET,
)


def sources_agree(state: LakeState, stops: Sequence[Alarm], findings: Sequence[Finding]) -> dg.AssetCheckResult:
    """``findings``: what a look at the source paths says now; ``stops``: logs of all lakes that do not grow."""
    errors = [f for f in findings if f.severity is Severity.ERROR]
    if not state.logs and not errors and not stops:
        return SOURCES_AGREE.unanswered(f"The lake {state.name} has taken in nothing yet.")
    rows = [[f.rule, f.file, f.message] for f in errors]
    rows += [[a.rule, f"{a.topic_partition} of {lake_name(a.lake)}, from {a.file}", a.message] for a in stops]
    told = [f"{a.topic_partition} of lake {lake_name(a.lake)} has stopped: {a.rule}" for a in stops]
    told += [f"{f.rule}: {f.file}" for f in errors]
    return SOURCES_AGREE.answer(
        not rows,
        _sentence(told) if rows else f"{_count(len(state.logs), 'log')}, all agree with their sources",
        {
            "logs": len(state.logs),
            "stopped logs": len(stops),
            "paths with errors": len(errors),
            **({"what and where": inline_table(["rule", "where", "what"], rows)} if rows else {}),
        },
    )


def no_damage(state: LakeState, alarms: Sequence[Alarm], lakes: Sequence[str]) -> dg.AssetCheckResult:
    """``state``: of the lake of this run; ``alarms``: of all ``lakes``."""
    looked_at = [log for log in state.logs if log.validated]
    if not looked_at and not alarms:
        return NO_DAMAGE.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    damaged = {lake: {a.topic_partition for a in alarms if a.lake == lake} for lake in lakes}
    shown = [
        log
        for lake, names in damaged.items()
        if names
        for log in (state if lake == state.lake else read_state(lake)).logs
        if log.topic_partition in names
    ]
    return NO_DAMAGE.answer(
        not alarms,
        _sentence([f"{a.where}: {a.rule}" for a in alarms]) if alarms else f"no damage in {_count(len(lakes), 'lake')}",
        {
            "damaged places": len(alarms),
            "damaged topic partitions": sum(map(len, damaged.values())),
            "lakes looked at": len(lakes),
            **({"picture": picture_metadata(shown), "what and where": alarm_table(alarms)} if alarms else {}),
        },
    )


def every_offset_accounted_for(state: LakeState) -> dg.AssetCheckResult:
    """``state``: the logs that this run was about."""
    judged = [log for log in state.logs if log.ledger or not log.row.stopped]
    if not judged:
        return EVERY_OFFSET_ACCOUNTED_FOR.unanswered(f"No log of the lake {state.name} could be validated.")
    left_out = [log.topic_partition for log in state.logs if log not in judged]
    holes = [(log, hole) for log in judged if (hole := first_hole(log)) is not None]
    offsets = sum(log.row.next_offset for log in judged)
    return EVERY_OFFSET_ACCOUNTED_FOR.answer(
        not holes,
        _sentence([f"{log.topic_partition} of lake {state.name}: {hole}" for log, hole in holes])
        if holes
        else f"{_count(offsets, 'offset')} of {_count(len(judged), 'log')} of lake {state.name}",
        {
            "lake": dg.MetadataValue.path(state.lake),
            "ledger": f"{_count(sum(len(log.ledger) for log in judged), 'range')} of {_count(len(judged), 'log')}",
            **({"never validated": ", ".join(left_out)} if left_out else {}),
            "picture": picture_metadata(judged),
        },
    )


def first_hole(log: LogState) -> str | None:
    """The first place where the ledger does not tile [0, log end), or None."""
    if not log.ledger:
        return None if log.row.next_offset == 0 else f"no ledger, but the log ends at offset {log.row.next_offset}"
    first, last = log.ledger[0], log.ledger[-1]
    if first.start_offset != 0:
        return f"the ledger begins at offset {first.start_offset}, not at 0"
    for before, after in pairwise(log.ledger):
        if before.end_offset != after.start_offset:
            fault = "gap" if before.end_offset < after.start_offset else "overlap"
            return f"{fault} in the ledger between {before.end_offset} and {after.start_offset}"
    if any(r.end_offset <= r.start_offset for r in log.ledger):
        return "a ledger range without offsets"
    if last.end_offset != log.row.next_offset:
        return f"the ledger ends at offset {last.end_offset}, the log at {log.row.next_offset}"
    return None


def rows_equal_ledger(states: Sequence[LakeState]) -> dg.AssetCheckResult:
    """``states``: of all lakes. Told file by file from statistics, so that a difference has its offsets."""
    wrong: list[list[str | int]] = []
    published = 0
    for state in states:
        published += sum(log.published_records for log in state.logs)
        for each in differences(state.lake):
            name, offsets = f"{each.topic}-{each.partition}", f"{each.start_offset}..{each.end_offset}"
            wrong.append([state.name, name, offsets, each.found, each.expected, each.what])
    if not wrong and not any(log.published_to for state in states for log in state.logs):
        return ROWS_EQUAL_LEDGER.unanswered("Nothing is published yet.")
    told = [
        f"{name} of lake {lake}, offsets {offsets}: {has} rows, the ledger counts {should} ({what})"
        for lake, name, offsets, has, should, what in wrong
    ]
    columns = ["lake", "topic partition", "offsets", "rows", "ledger", "what"]
    return ROWS_EQUAL_LEDGER.answer(
        not wrong,
        _sentence(told) if wrong else f"{_count(published, 'row')} in {_count(len(states), 'lake')}",
        {
            "records published by the ledger": published,
            **({"differences": inline_table(columns, wrong)} if wrong else {}),
        },
    )


def no_hanging_transaction(state: LakeState, as_of_ms: int) -> dg.AssetCheckResult:
    """``state``: of the lake of this run; ``as_of_ms``: its clock."""
    if not any(log.validated for log in state.logs):
        return NO_HANGING_TRANSACTION.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    waiting = [log for log in state.logs if log.open_transactions]
    hanging = [log for log in waiting if log.open_transactions[0].hangs(as_of_ms)]
    rows = [
        [log.topic_partition, t.producer_id, t.producer_epoch, t.first_offset, None if age is None else duration(age)]
        for log in waiting
        for t in log.open_transactions[:1]
        for age in [t.age_ms(as_of_ms)]
    ]
    columns = ["topic partition", "producer id", "epoch", "first offset", "open for"]
    told = [f"{_named(log)}: {log.open_transactions[0].told(as_of_ms)}" for log in hanging]
    return NO_HANGING_TRANSACTION.answer(
        not hanging,
        _sentence(told) if hanging else f"{_count(len(waiting), 'log')} with an open transaction, none of them hangs",
        {
            "open transactions": sum(len(log.open_transactions) for log in waiting),
            "logs that wait for one": len(waiting),
            **({"oldest of each log": inline_table(columns, rows)} if rows else {}),
        },
        dg.AssetCheckSeverity.WARN,
    )


def expectations_met(
    states: Sequence[LakeState], results: Mapping[str, Mapping[str, Results]], data_docs: str | None
) -> dg.AssetCheckResult:
    """``results``: by lake the last results by log key, as :mod:`pipelines.expectations` keeps them.

    ``data_docs``: the page to look at.
    """
    outcomes: list[tuple[LogState, Outcome]] = []
    severe: list[str] = []
    published = [log for state in states for log in state.logs if log.published_to]
    for log in published:
        found = results[log.lake].get(log.log)
        if found is None:
            severe.append(f"{_named(log)}: not checked")
        elif not found.outcomes:
            severe.append(f"{_named(log)}: no expectation was asked")
        else:
            outcomes += [(log, outcome) for outcome in found.outcomes]
    if not published:
        return EXPECTATIONS_MET.unanswered("Nothing is published yet.")
    failed = [(log, outcome) for log, outcome in outcomes if not outcome.success and outcome.severity != "info"]
    warnings = [f"{_named(log)}: {o.name}" for log, o in failed if o.severity == "warning"]
    severe += [f"{_named(log)}: {o.name}" for log, o in failed if o.severity != "warning"]
    told = [*severe, *warnings]
    listed = [[lake_name(log.lake), log.topic_partition, o.name, o.severity, o.observed] for log, o in failed]
    columns = ["lake", "topic partition", "expectation", "severity", "observed"]
    return EXPECTATIONS_MET.answer(
        not told,
        _sentence(told) if told else f"{_count(len(outcomes), 'expectation')} met for {_count(len(published), 'log')}",
        {
            "expectations": len(outcomes),
            "not met": len(failed),
            **({"not met, and where": inline_table(columns, listed)} if listed else {}),
            "by expectation": inline_table(["expectation", "met", "not met"], _by_name(outcomes)),
            **({"data docs": dg.MetadataValue.path(data_docs)} if data_docs else {}),
        },
        dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN,
    )


def _by_name(outcomes: Sequence[tuple[LogState, Outcome]]) -> list[list[str | int]]:
    names = dict.fromkeys(outcome.name for _, outcome in outcomes)
    met = {name: [o.success for _, o in outcomes if o.name == name] for name in names}
    return [[name, sum(found), len(found) - sum(found)] for name, found in met.items()]


def _named(log: LogState) -> str:
    return f"{log.topic_partition} of lake {lake_name(log.lake)}"


def _sentence(told: Sequence[str], shown: int = 3) -> str:
    more = len(told) - shown
    return "; ".join(told[:shown]) + (f"; and {more} more" if more > 0 else "")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
