"""What ``loglake run`` does once its options are understood: one or two Dagster runs, then what there is to say.

Loading this module brings Dagster; :mod:`pipelines.cli` loads it when a run really begins.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from logcore.cli.reading.nearest_names import no_such_topic, unmatched
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity
from pipelines.command.instance import check_outside_lakes, open_instance
from pipelines.command.preconditions import check_run
from pipelines.command.running import Runner, RunOutcome, announcer
from pipelines.command.summary import (
    check_lines,
    checks_code,
    damage_lines,
    logs_table,
    meanings_line,
    open_transaction_lines,
    plan_lines,
    refused_lines,
    tables_lines,
    verdict,
)
from pipelines.jobs import INTAKE_JOB, MAINTENANCE_JOB
from pipelines.view import lakes
from pipelines.view.state import LakeState, read_state
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.policies import read_policies
from spark_jobs.lake.setup.registry import Intake
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.lease import hold


def run_lake(options: argparse.Namespace, numbers: Sequence[int], logs: Sequence[str]) -> int:
    """``loglake run``; returns the exit code.

    Args:
        numbers: partition numbers that were chosen; logs: topic partitions that were. Empty: all.
    """
    lake = storage.absolute(options.lake)
    intake = _intake(options, numbers)
    check_run(lake, intake.paths, intake.fill_from, intake.policies)  # before anything is made
    history = lakes.dagster_home()
    check_outside_lakes(history, lake)
    hint = () if registry.is_registered(lake) else registry.hinted(lake)
    intake = registry.as_remembered(lake, intake)
    settings = _settings(intake, logs, options)
    with hold(lake, "loglake run"), open_instance(history, lake) as instance:
        runner = Runner(instance, announcer())
        outcomes = [runner.run(INTAKE_JOB, lake, **settings, **_replacement(options))]
        if not logs and outcomes[0].error is None:  # topic partitions by name are chosen for once
            registry.remember(lake, intake)  # only what a run could take: later ones must not stumble over it
        if options.maintain and outcomes[0].error is None:
            outcomes.append(runner.run(MAINTENANCE_JOB, lake, **settings, apply=options.apply))
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    if failed is not None:
        for line in check_lines(outcomes[0], None):
            print(line)
        sys.stderr.write(f"error: {failed.error}\n")
        return ExitCode.USAGE if failed.is_usage_error else ExitCode.NOT_CHECKED
    state = chosen_state(lake, options.topic, numbers, logs)
    is_choice = bool(options.topic or numbers or logs)
    chosen = {log.log for log in state.logs} if is_choice else None
    as_of_ms = options.now_ms if options.as_of is None else options.as_of
    _say(outcomes[0].of_paths)
    _say_of_hint(lake, hint, intake)
    _show(lake, state, outcomes, chosen, as_of_ms)
    code = verdict(state, [*outcomes[0].of_paths, *outcomes[0].refused], as_of_ms)
    if is_choice and not state.logs:
        sys.stderr.write(f"error: no log of the lake {lake} matches --topic and --partition; nothing was checked.\n")
        code = ExitCode.NOT_CHECKED
    for line in unmatched_lines(lake, options.topic, intake.policies):
        sys.stderr.write(f"note: {line}\n")
    return max(code, checks_code(outcomes[0], chosen))


def _show(
    lake: str, state: LakeState, outcomes: Sequence[RunOutcome], chosen: Collection[str] | None, as_of_ms: int
) -> None:
    """What there is to say on stdout; ``chosen``: log keys that the run was for, None for all."""
    if state.logs:
        print(logs_table([state]))
        print(meanings_line([state]))
    waiting = open_transaction_lines([state], as_of_ms)
    for line in (*damage_lines([state]), *waiting, *refused_lines(outcomes[0]), *check_lines(outcomes[0], chosen)):
        print(line)
    for outcome in outcomes[1:]:
        for line in plan_lines(outcome):
            print(line)
    print("\ntables:" if state.logs else "no log was found")
    for line in tables_lines(lake):
        print(f"  {line}")
    if all(outcome.found_nothing_new for outcome in outcomes):
        print("nothing new")


def _say_of_hint(lake: str, hint: Sequence[Intake], intake: Intake) -> None:
    """That the lake names sources of its own, which are not acted on."""
    named = sorted({path for each in hint for path in each.paths} - set(intake.paths))
    if named:
        sys.stderr.write(
            f"note: {storage.join(lake, registry.HINT_FILE)} also names {', '.join(named)}. What a lake says of itself "
            f"is not acted on; to take it over: loglake upgrade {lake} --adopt-sources\n"
        )


def _intake(options: argparse.Namespace, numbers: Sequence[int]) -> Intake:
    return Intake(
        paths=tuple(os.path.abspath(path) for path in options.paths),
        topics=tuple(options.topic),
        partitions=tuple(numbers),
        mode=options.mode,
        high_watermark=str(options.high_watermark),
        cluster=options.cluster,
        include_internal=options.include_internal,
        policies=os.path.abspath(options.policies) if options.policies else None,
        isolation_level=options.isolation_level,
        fill_from=tuple(os.path.abspath(path) for path in options.fill_from),
    )


def _settings(intake: Intake, logs: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "sources": list(intake.paths),
        "topics": list(intake.topics),
        "partitions": list(intake.partitions),
        "logs": list(logs),
        "mode": intake.mode,
        "high_watermark": intake.high_watermark,
        "cluster": intake.cluster,
        "include_internal": intake.include_internal,
        "policies": intake.policies,
        "isolation_level": intake.isolation_level,
        "fill_from": list(intake.fill_from),
        "move_source": options.move_source,
        "as_of_ms": options.as_of,
    }


def _replacement(options: argparse.Namespace) -> dict[str, Any]:
    """What is to be published again; nothing where it was not asked for."""
    if options.replace is None:
        return {}
    start, end = options.replace.start, options.replace.end
    return {
        "replace": f"{'' if start is None else start}..{'' if end is None else end}",
        "replace_since_ms": options.since,
        "replace_until_ms": options.until,
        "replace_withdrawn": options.include_withdrawn,
    }


def chosen_state(lake: str, topics: Sequence[str], numbers: Sequence[int], logs: Sequence[str]) -> LakeState:
    """The lake's state, only of what was chosen."""
    state = read_state(lake)
    chosen = [
        log
        for log in state.logs
        if (not topics or any(fnmatch.fnmatchcase(log.row.topic, glob) for glob in topics))
        and (not numbers or log.row.partition in numbers)
        and (not logs or log.topic_partition in logs)
    ]
    return replace(state, logs=tuple(chosen))


def unmatched_lines(lake: str, topics: Sequence[str], policies: str | None) -> list[str]:
    """Patterns of --topic and of the policies that match no topic of the lake, each with the nearest names."""
    known = sorted({row.topic for row in archive.read_logs(lake).values()})
    if not known:
        return []
    lines = [f"--topic {no_such_topic(glob, known)}" for glob in unmatched(topics, known)]
    idle = (each for each in read_policies(policies).topics if not any(map(each.matches, known)))
    return lines + [f"{policies}: the pattern {no_such_topic(policy.pattern, known)}" for policy in idle]


def _say(findings: Sequence[Finding]) -> None:
    """What there is to say about the source paths now, each on stderr."""
    for finding in findings:
        if finding.severity is not Severity.INFO:
            sys.stderr.write(f"{finding.severity}: {finding.message}\n")
