"""The checks, each on what the lake contains now, not only on what a run changed.

A check answers one question about the lake of its run. If it cannot be answered, an exception fails the step, never the
check. If there is no data yet, the check fails without counting as an error.

The job ``expectations`` checks the table; here its results become a check.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from logcore.logs.model.findings import Finding, Severity, offsets_text
from logcore.logs.model.offset_ledger import OffsetState
from logcore.logs.rules.advice import HarmedPlace, advice, filled
from spark_jobs.lake.view.alarms import Alarm
from spark_jobs.lake.view.expectation_results import LogExpectation, Results
from spark_jobs.lake.view.harm import Harm
from spark_jobs.lake.view.harmed_places import harmed_place
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.ledger_comparison import LedgerComparison
from spark_jobs.lake.view.log_state import LogState
from spark_jobs.lake.view.open_transactions import duration
from spark_jobs.lake.view.registered_lakes import read_registered

from ..metadata.addresses import data_docs_address
from ..metadata.reporting import alarm_table, picture_metadata
from ..metadata.values import LinkValue, Metadata, PathValue, table_value
from .check_definitions import (
    ABOUT_DAMAGE,
    EVERY_OFFSET_ACCOUNTED_FOR,
    EXPECTATIONS_MET,
    EXPECTATIONS_OF_SUITES,
    NO_DAMAGE,
    NO_HANGING_TRANSACTION,
    NOTHING_REMOTE,
    ROWS_EQUAL_LEDGER,
    SOURCES_AGREE,
    TABLES_UNHARMED,
    CheckAnswer,
    Failure,
    counted,
)


def sources_agree(state: LakeState, stops: Sequence[Alarm], findings: Sequence[Finding]) -> CheckAnswer:
    """Check that all sources could be read and no log has stopped.

    Args:
        stops: Logs of the lake that do not grow.
        findings: Current findings about the source paths.
    """
    errors = [f for f in findings if f.severity is Severity.ERROR]
    if not state.logs and not errors and not stops:
        return SOURCES_AGREE.unanswered(f"The lake {state.name} has taken in nothing yet.")
    rows = [[f.rule, f.file or "", f.message] for f in errors]
    rows += [[a.rule, f"{a.topic_partition}, from {a.file}", a.message] for a in stops]
    failures = [
        Failure(f"has stopped: {a.rule}", a.log, f"{a.topic_partition} of lake {state.name}", what_to_do=a.what_to_do)
        for a in stops
    ]
    failures += [
        Failure(f"{f.rule}: {f.file or f.message}", what_to_do=advice(f.rule, harmed_place(state.lake, finding=f)))
        for f in errors
    ]
    return SOURCES_AGREE.answer(
        state.lake,
        failures,
        f"{counted(len(state.logs), 'log')}, all agree with their sources",
        {
            "logs": len(state.logs),
            "stopped logs": len(stops),
            "paths with errors": len(errors),
            **({"what and where": table_value(["rule", "where", "what"], rows)} if rows else {}),
        },
    )


def no_damage(state: LakeState, alarms: Sequence[Alarm]) -> CheckAnswer:
    """Check that no log has damage.

    Args:
        alarms: Damage recorded in the lake's tables.
    """
    looked_at = [log for log in state.logs if log.validated]
    if not looked_at and not alarms:
        return NO_DAMAGE.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    damaged = {a.log for a in alarms}
    shown = [log for log in state.logs if log.log in damaged]
    failures = [
        Failure(
            str(a.rule),
            a.log,
            f"{a.topic_partition} of lake {state.name}",
            a.offsets,
            file=a.file,
            position=a.position,
            what_to_do=a.what_to_do,
        )
        for a in alarms
    ]
    return NO_DAMAGE.answer(
        state.lake,
        failures,
        f"no damage in {counted(len(looked_at), 'log')} of lake {state.name}",
        {
            "damaged places": len(alarms),
            "damaged topic partitions": len(damaged),
            **({"picture": picture_metadata(shown), "what and where": alarm_table(alarms)} if alarms else {}),
        },
    )


def every_offset_accounted_for(state: LakeState) -> CheckAnswer:
    """Check that each ledger covers every offset exactly once."""
    logs = [log for log in state.logs if _is_validated(log)]
    if not logs:
        return EVERY_OFFSET_ACCOUNTED_FOR.unanswered(f"No log of the lake {state.name} could be validated.")
    left_out = [log.topic_partition for log in state.logs if not _is_validated(log)]
    failures = []
    for log in logs:
        hole = log.hole
        if hole is not None:
            offsets = offsets_text(hole.start_offset, hole.end_offset)
            failures.append(Failure(f"{hole.what} in the offset ledger", log.log, _named(state, log), offsets))
    offsets_of_all = sum(log.row.next_offset for log in logs)
    return EVERY_OFFSET_ACCOUNTED_FOR.answer(
        state.lake,
        failures,
        f"{counted(offsets_of_all, 'offset')} of {counted(len(logs), 'log')} of lake {state.name}",
        {
            "lake": PathValue(state.lake),
            "ledger": f"{counted(sum(len(log.ledger) for log in logs), 'range')} of {counted(len(logs), 'log')}",
            **({"never validated": ", ".join(left_out)} if left_out else {}),
            "picture": picture_metadata(logs),
        },
    )


def _is_validated(log: LogState) -> bool:
    return bool(log.ledger) or not log.row.stopped


def nothing_remote(state: LakeState) -> CheckAnswer:
    """Warn about each range of offsets that is only in the remote tier."""
    looked_at = [log for log in state.logs if log.ledger]
    if not looked_at:
        return NOTHING_REMOTE.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    remote = [(log, each) for log in looked_at for each in log.ledger if each.state is OffsetState.REMOTE]
    failures = [
        Failure(
            f"{counted(each.end_offset - each.start_offset, 'offset')} in the remote tier",
            log.log,
            _named(state, log),
            offsets_text(each.start_offset, each.end_offset),
            Severity.WARNING,
            what_to_do=filled(NOTHING_REMOTE.what_to_do, _place_of_source(state, log)),
        )
        for log, each in remote
    ]
    return NOTHING_REMOTE.answer(
        state.lake,
        failures,
        f"every offset of {counted(len(looked_at), 'log')} was read",
        {
            "offsets in the remote tier": sum(each.end_offset - each.start_offset for _, each in remote),
            "logs with a remote part": len({log.log for log, _ in remote}),
        },
    )


def _place_of_source(state: LakeState, log: LogState) -> HarmedPlace:
    """The log directory of a log."""
    return replace(harmed_place(state.lake, log=log.row), directory=os.path.dirname(log.row.source))


def rows_equal_ledger(state: LakeState, counts: LedgerComparison, notes: Sequence[str] = ()) -> CheckAnswer:
    """Check that the table has exactly the rows that the ledger counts.

    Args:
        counts: Table and ledger compared file by file from statistics, so that each difference has its offsets.
        notes: Which offsets a replacement left withdrawn.
    """
    if not counts.differences and not any(log.published_to for log in state.logs):
        return ROWS_EQUAL_LEDGER.unanswered("Nothing is published yet.")
    failures: list[Failure] = []
    rows: list[list[str | int | None]] = []
    for each in counts.differences:
        rows.append([each.topic_partition, each.offsets, each.found, each.expected, each.what])
        name = f"{each.topic_partition} of lake {state.name}"
        to_do = advice("rows-differ-from-ledger", _place_of_rows(state, each.log, (each.start_offset, each.end_offset)))
        failures.append(Failure(each.counts, each.log or None, name, each.offsets, what_to_do=to_do))
    published = sum(log.published_records for log in state.logs)
    return ROWS_EQUAL_LEDGER.answer(
        state.lake,
        failures,
        f"{counted(published, 'row')} of lake {state.name}",
        {
            "records published by the ledger": published,
            **(
                {"differences": table_value(["topic partition", "offsets", "rows", "ledger", "what"], rows)}
                if rows
                else {}
            ),
        },
        notes,
    )


def _place_of_rows(state: LakeState, log: str, offsets: tuple[int, int]) -> HarmedPlace:
    row = next((each.row for each in state.logs if each.log == log), None)
    return harmed_place(state.lake, log=row, offsets=offsets, table="records")


def no_hanging_transaction(state: LakeState, as_of_ms: int) -> CheckAnswer:
    """Check that no transaction is open for too long.

    Args:
        as_of_ms: The clock of the run.
    """
    if not any(log.validated for log in state.logs):
        return NO_HANGING_TRANSACTION.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    waiting = [log for log in state.logs if log.open_transactions]
    rows = [
        [
            log.topic_partition,
            t.producer_id,
            t.producer_epoch,
            ", ".join(t.transactional_ids),
            t.first_offset,
            None if age is None else duration(age),
        ]
        for log in waiting
        for t in log.open_transactions[:1]
        for age in [t.age_ms(as_of_ms)]
    ]
    columns = ["topic partition", "producer id", "epoch", "transactional id", "first offset", "open for"]
    failures = [
        Failure(
            oldest.described(as_of_ms),
            log.log,
            _named(state, log),
            severity=Severity.WARNING,
            what_to_do=filled(NO_HANGING_TRANSACTION.what_to_do, harmed_place(log.lake, log=log.row)),
        )
        for log in waiting
        if (oldest := log.hanging(as_of_ms)) is not None
    ]
    return NO_HANGING_TRANSACTION.answer(
        state.lake,
        failures,
        f"{counted(len(waiting), 'log')} with an open transaction, none of them hangs",
        {
            "open transactions": sum(len(log.open_transactions) for log in waiting),
            "logs that wait for one": len(waiting),
            **({"oldest of each log": table_value(columns, rows)} if rows else {}),
        },
    )


def tables_unharmed(state: LakeState, harm: Sequence[Harm], notes: Sequence[str]) -> CheckAnswer:
    """Check that nothing is lost or changed.

    Args:
        notes: What is no harm by itself: commits of other programs, and tables that were made again.
    """
    if not state.logs and not harm:
        return TABLES_UNHARMED.unanswered(f"The lake {state.name} has taken in nothing yet.")
    return TABLES_UNHARMED.answer(
        state.lake,
        [failure_of(each) for each in harm],
        f"nothing is lost or changed in lake {state.name}",
        {"notes": len(notes)},
        notes,
    )


def failure_of(harm: Harm) -> Failure:
    """Return the failure of a check for a harm."""
    place = harm.log, harm.topic_partition, harm.offsets, harm.severity
    return Failure(harm.what, *place, what_to_do=harm.what_to_do)


def expectations_met(state: LakeState, results: Mapping[str, Results], data_docs: str | None) -> CheckAnswer:
    """Check that the expectations on published ranges are met.

    Args:
        results: The last results by log key, as :mod:`spark_jobs.lake.view.expectation_results` stores them.
        data_docs: The page with the results.
    """
    outcomes: list[tuple[LogState, LogExpectation]] = []
    failures: list[Failure] = []
    published = [log for log in state.logs if log.published_to]
    if not published:
        return EXPECTATIONS_MET.unanswered("Nothing is published yet.")
    for log in published:
        found = results.get(log.log)
        if found is None or not found.outcomes:
            what = "not checked" if found is None else "no expectation was evaluated"
            failures.append(Failure(what, log.log, _named(state, log)))
        else:
            outcomes += [(log, outcome) for outcome in found.outcomes]
            offsets = offsets_text(found.start_offset, found.end_offset)
            failures += [
                Failure(
                    f"{o.name}{f' ({o.observed})' if o.observed else ''}",
                    log.log,
                    _named(state, log),
                    offsets,
                    level,
                    what_to_do=_advice_of(state, log, o),
                )
                for o in found.outcomes
                for level in [Severity.WARNING if o.severity == "warning" else Severity.ERROR]
                if not o.success and o.severity != "info"
            ]
    failures.sort(key=lambda failure: failure.severity is not Severity.ERROR)
    not_met = [(log, outcome) for log, outcome in outcomes if not outcome.success]
    listed = [[log.topic_partition, o.name, o.severity, o.observed] for log, o in not_met]
    columns = ["topic partition", "expectation", "severity", "observed"]
    return EXPECTATIONS_MET.answer(
        state.lake,
        failures,
        f"{counted(len(outcomes) - len(not_met), 'expectation')} met for {counted(len(published), 'log')}",
        {
            "expectations": len(outcomes),
            "not met": len(not_met),
            "not met, by severity": table_value(["severity", "not met"], _by_severity(not_met)),
            **({"not met, and where": table_value(columns, listed)} if listed else {}),
            "by expectation": table_value(["expectation", "met", "not met"], _by_name(outcomes)),
            **(_pages(state.lake, data_docs) if data_docs else {}),
        },
    )


def _advice_of(state: LakeState, log: LogState, outcome: LogExpectation) -> str:
    """What to do about an expectation that is not met: publishing again changes neither damage nor a user's suite."""
    place = harmed_place(state.lake, log=log.row, table="records")
    if outcome.is_of_suite:
        return filled(EXPECTATIONS_OF_SUITES, place)
    return (
        advice("corrupt-offsets", place) if outcome.name in ABOUT_DAMAGE else filled(EXPECTATIONS_MET.what_to_do, place)
    )


def _pages(lake: str, page: str) -> Metadata:
    name = read_registered(lake).name
    return {"data docs": LinkValue(data_docs_address(lake, name, page)), "data docs file": PathValue(page)}


def _by_severity(not_met: Sequence[tuple[LogState, LogExpectation]]) -> list[list[str | int | None]]:
    return [[severity, count] for severity, count in Counter(outcome.severity for _, outcome in not_met).items()]


def _by_name(outcomes: Sequence[tuple[LogState, LogExpectation]]) -> list[list[str | int | None]]:
    met: dict[str, list[bool]] = {}
    for _, outcome in outcomes:
        met.setdefault(outcome.name, []).append(outcome.success)
    return [[name, sum(found), len(found) - sum(found)] for name, found in met.items()]


def _named(state: LakeState, log: LogState) -> str:
    return f"{log.topic_partition} of lake {state.name}"
