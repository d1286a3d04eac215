"""The checks that a person sees as green or red, each on what the lake holds now, not only on what a run changed.

A check answers one question about the lake of its run. That it could not be answered is an exception and fails the
step, never the check; that there is nothing to look at yet fails the check without counting as an error.

Great Expectations itself is run by the job ``expectations``; here its results become a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import dagster as dg

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.offset_ledger import OffsetState, first_hole
from pipelines.questions import (
    EVERY_OFFSET_ACCOUNTED_FOR,
    EXPECTATIONS_MET,
    NO_DAMAGE,
    NO_HANGING_TRANSACTION,
    NOTES,
    NOTHING_REMOTE,
    ROWS_EQUAL_LEDGER,
    SOURCES_AGREE,
    TABLES_UNHARMED,
    Failure,
)
from pipelines.view.expectations import LogExpectation, Results
from pipelines.view.open_transactions import duration
from pipelines.view.reporting import alarm_table, inline_table, picture_metadata
from pipelines.view.state import Alarm, LakeState, LogState
from spark_jobs.lake.published.completeness import Difference


def sources_agree(state: LakeState, stops: Sequence[Alarm], findings: Sequence[Finding]) -> dg.AssetCheckResult:
    """``findings``: what a look at the source paths says now; ``stops``: logs of the lake that do not grow."""
    errors = [f for f in findings if f.severity is Severity.ERROR]
    if not state.logs and not errors and not stops:
        return SOURCES_AGREE.unanswered(f"The lake {state.name} has taken in nothing yet.")
    rows = [[f.rule, f.file, f.message] for f in errors]
    rows += [[a.rule, f"{a.topic_partition}, from {a.file}", a.message] for a in stops]
    failures = [Failure(f"has stopped: {a.rule}", a.log, f"{a.topic_partition} of lake {state.name}") for a in stops]
    failures += [Failure(f"{f.rule}: {f.file}") for f in errors]
    return SOURCES_AGREE.answer(
        state.lake,
        failures,
        f"{_count(len(state.logs), 'log')}, all agree with their sources",
        {
            "logs": len(state.logs),
            "stopped logs": len(stops),
            "paths with errors": len(errors),
            **({"what and where": inline_table(["rule", "where", "what"], rows)} if rows else {}),
        },
    )


def no_damage(state: LakeState, alarms: Sequence[Alarm]) -> dg.AssetCheckResult:
    """``alarms``: damage that the lake's tables know of."""
    looked_at = [log for log in state.logs if log.validated]
    if not looked_at and not alarms:
        return NO_DAMAGE.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    damaged = {a.log for a in alarms}
    shown = [log for log in state.logs if log.log in damaged]
    failures = [Failure(f"{a.where}: {a.rule}", a.log) for a in alarms]
    return NO_DAMAGE.answer(
        state.lake,
        failures,
        f"no damage in {_count(len(looked_at), 'log')} of lake {state.name}",
        {
            "damaged places": len(alarms),
            "damaged topic partitions": len(damaged),
            **({"picture": picture_metadata(shown), "what and where": alarm_table(alarms)} if alarms else {}),
        },
    )


def every_offset_accounted_for(state: LakeState) -> dg.AssetCheckResult:
    """``state``: the logs that this run was about."""
    judged = [log for log in state.logs if log.ledger or not log.row.stopped]
    if not judged:
        return EVERY_OFFSET_ACCOUNTED_FOR.unanswered(f"No log of the lake {state.name} could be validated.")
    left_out = [log.topic_partition for log in state.logs if log not in judged]
    failures = []
    for log in judged:
        hole = first_hole(log.ledger, log.row.next_offset)
        if hole is not None:
            offsets = f"{hole.start_offset}..{hole.end_offset}"
            failures.append(Failure(f"{hole.what} in the offset ledger", log.log, _named(state, log), offsets))
    offsets_of_all = sum(log.row.next_offset for log in judged)
    return EVERY_OFFSET_ACCOUNTED_FOR.answer(
        state.lake,
        failures,
        f"{_count(offsets_of_all, 'offset')} of {_count(len(judged), 'log')} of lake {state.name}",
        {
            "lake": dg.MetadataValue.path(state.lake),
            "ledger": f"{_count(sum(len(log.ledger) for log in judged), 'range')} of {_count(len(judged), 'log')}",
            **({"never validated": ", ".join(left_out)} if left_out else {}),
            "picture": picture_metadata(judged),
        },
    )


def nothing_remote(state: LakeState) -> dg.AssetCheckResult:
    """A warning for each range of offsets that is in the remote tier alone."""
    looked_at = [log for log in state.logs if log.ledger]
    if not looked_at:
        return NOTHING_REMOTE.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    remote = [(log, each) for log in looked_at for each in log.ledger if each.state is OffsetState.REMOTE]
    failures = [
        Failure(
            f"{_count(each.end_offset - each.start_offset, 'offset')} in the remote tier",
            log.log,
            _named(state, log),
            f"{each.start_offset}..{each.end_offset}",
            Severity.WARNING,
        )
        for log, each in remote
    ]
    return NOTHING_REMOTE.answer(
        state.lake,
        failures,
        f"every offset of {_count(len(looked_at), 'log')} was local",
        {
            "offsets in the remote tier": sum(each.end_offset - each.start_offset for _, each in remote),
            "logs with a remote part": len({log.log for log, _ in remote}),
        },
    )


def rows_equal_ledger(state: LakeState, differences: Sequence[Difference]) -> dg.AssetCheckResult:
    """``differences``: between table and ledger, told file by file from statistics, so that each has its offsets."""
    if not differences and not any(log.published_to for log in state.logs):
        return ROWS_EQUAL_LEDGER.unanswered("Nothing is published yet.")
    failures: list[Failure] = []
    rows: list[list[str | int | None]] = []
    for each in differences:
        name, offsets = f"{each.topic}-{each.partition}", f"{each.start_offset}..{each.end_offset}"
        rows.append([name, offsets, each.found, each.expected, each.what])
        what = f"{each.found} rows, the ledger counts {each.expected} ({each.what})"
        failures.append(Failure(what, each.log or None, f"{name} of lake {state.name}", offsets))
    published = sum(log.published_records for log in state.logs)
    return ROWS_EQUAL_LEDGER.answer(
        state.lake,
        failures,
        f"{_count(published, 'row')} of lake {state.name}",
        {
            "records published by the ledger": published,
            **(
                {"differences": inline_table(["topic partition", "offsets", "rows", "ledger", "what"], rows)}
                if rows
                else {}
            ),
        },
    )


def no_hanging_transaction(state: LakeState, as_of_ms: int) -> dg.AssetCheckResult:
    """``as_of_ms``: the clock of the run."""
    if not any(log.validated for log in state.logs):
        return NO_HANGING_TRANSACTION.unanswered(f"No segment of the lake {state.name} has been validated yet.")
    waiting = [log for log in state.logs if log.open_transactions]
    rows = [
        [log.topic_partition, t.producer_id, t.producer_epoch, t.first_offset, None if age is None else duration(age)]
        for log in waiting
        for t in log.open_transactions[:1]
        for age in [t.age_ms(as_of_ms)]
    ]
    columns = ["topic partition", "producer id", "epoch", "first offset", "open for"]
    failures = [
        Failure(oldest.told(as_of_ms), log.log, _named(state, log), severity=Severity.WARNING)
        for log in waiting
        for oldest in log.open_transactions[:1]
        if oldest.hangs(as_of_ms)
    ]
    return NO_HANGING_TRANSACTION.answer(
        state.lake,
        failures,
        f"{_count(len(waiting), 'log')} with an open transaction, none of them hangs",
        {
            "open transactions": sum(len(log.open_transactions) for log in waiting),
            "logs that wait for one": len(waiting),
            **({"oldest of each log": inline_table(columns, rows)} if rows else {}),
        },
    )


def tables_unharmed(state: LakeState, failures: Sequence[Failure], notes: Sequence[str]) -> dg.AssetCheckResult:
    """``notes``: commits of other programs, which are no harm by themselves."""
    if not state.logs and not failures:
        return TABLES_UNHARMED.unanswered(f"The lake {state.name} has taken in nothing yet.")
    return TABLES_UNHARMED.answer(
        state.lake,
        failures,
        f"nothing is lost or changed in lake {state.name}",
        {
            "commits of other programs": len(notes),
            **({NOTES: dg.MetadataValue.json(list(notes))} if notes else {}),
        },
    )


def expectations_met(state: LakeState, results: Mapping[str, Results], data_docs: str | None) -> dg.AssetCheckResult:
    """``results``: the last ones by log key, as :mod:`pipelines.view.expectations` keeps them.

    ``data_docs``: the page to look at.
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
            offsets = f"{found.start_offset}..{found.end_offset}"
            failures += [
                Failure(
                    f"{o.name}{f' ({o.observed})' if o.observed else ''}", log.log, _named(state, log), offsets, level
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
        f"{_count(len(outcomes) - len(not_met), 'expectation')} met for {_count(len(published), 'log')}",
        {
            "expectations": len(outcomes),
            "not met": len(not_met),
            "not met, by severity": inline_table(["severity", "not met"], _by_severity(not_met)),
            **({"not met, and where": inline_table(columns, listed)} if listed else {}),
            "by expectation": inline_table(["expectation", "met", "not met"], _by_name(outcomes)),
            **({"data docs": dg.MetadataValue.path(data_docs)} if data_docs else {}),
        },
    )


def _by_severity(not_met: Sequence[tuple[LogState, LogExpectation]]) -> list[list[str | int | None]]:
    return [[severity, count] for severity, count in Counter(outcome.severity for _, outcome in not_met).items()]


def _by_name(outcomes: Sequence[tuple[LogState, LogExpectation]]) -> list[list[str | int | None]]:
    names = dict.fromkeys(outcome.name for _, outcome in outcomes)
    met = {name: [o.success for _, o in outcomes if o.name == name] for name in names}
    return [[name, sum(found), len(found) - sum(found)] for name, found in met.items()]


def _named(state: LakeState, log: LogState) -> str:
    return f"{log.topic_partition} of lake {state.name}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
