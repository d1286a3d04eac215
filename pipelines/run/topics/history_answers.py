"""The answers of built-in checks of decoded topics, from the last results of the job ``expectations``."""

from __future__ import annotations

from collections.abc import Mapping

from logcore.logs.model.findings import Severity
from pipelines.metadata.values import table_value
from pipelines.run.check_definitions import (
    KEY_TYPE_STEADY,
    NULL_SHARE_STEADY,
    CheckAnswer,
    CheckDefinition,
    Failure,
    counted,
)
from spark_jobs.lake.view.expectation_results import LogExpectation, Results, built_in_check
from spark_jobs.lake.view.lake_state import LakeState

_Outcomes = Mapping[str, Mapping[str, LogExpectation]]
"""By topic and log key."""


def history_answers(state: LakeState, results: Mapping[str, Results]) -> list[CheckAnswer]:
    """Answer the checks; none without a topic that a policy decodes.

    Args:
        state: The lake.
        results: The last results by log key.
    """
    answers = []
    for check in (NULL_SHARE_STEADY, KEY_TYPE_STEADY):
        outcomes = _of_check(check.name, results)
        if outcomes:
            answers.append(_answer(state, check, outcomes))
    return answers


def _of_check(check: str, results: Mapping[str, Results]) -> _Outcomes:
    found: dict[str, dict[str, LogExpectation]] = {}
    for log, result in sorted(results.items()):
        for outcome in result.outcomes:
            named = built_in_check(outcome.name)
            if named is not None and named[0] == check:
                found.setdefault(named[1], {})[log] = outcome
    return found


def _answer(state: LakeState, check: CheckDefinition, outcomes: _Outcomes) -> CheckAnswer:
    names = {log.log: f"{log.topic_partition} of lake {state.name}" for log in state.logs}
    failures = [
        Failure(outcome.observed, log, names.get(log), severity=Severity.WARNING)
        for of_topic in outcomes.values()
        for log, outcome in of_topic.items()
        if not outcome.success and outcome.severity != "info"
    ]
    compared = [topic for topic, each in outcomes.items() if any(outcome.success for outcome in each.values())]
    untold = {
        topic: next(iter(each.values())).observed
        for topic, each in outcomes.items()
        if all(not outcome.success and outcome.severity == "info" for outcome in each.values())
    }
    notes = [f"{topic}: {observed}" for topic, observed in sorted(untold.items())]
    if not failures and not compared:
        return check.unanswered("; ".join(notes[:3]))
    listed: list[list[str | int | None]] = [
        [topic, observed]
        for topic, each in sorted(outcomes.items())
        for observed in sorted({outcome.observed for outcome in each.values()})
    ]
    return check.answer(
        state.lake,
        failures,
        f"the newest rows are like those before them in {counted(len(compared), 'topic')}",
        {"topics": table_value(["topic", "result"], listed)},
        notes,
    )
