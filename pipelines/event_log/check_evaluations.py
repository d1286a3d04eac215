"""Evaluations of a check for single topic partitions, beside the answer for the whole lake.

A topic partition gets an evaluation of its own where the check fails for it, one more when the check passes again, and
in each run that was launched for it. So a damaged partition is red, and the evaluations of 10,000 healthy ones are not
stored.

Dagster shows the evaluation whose row is the newest as the state of the check. In a run over the whole lake that row
belongs to a topic partition, because the row of the lake is made when the run begins. So the worst partition is stored
last and carries the answer for the lake as well. Where the check fails for no topic partition, none is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg
from dagster import DagsterEventType
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from logcore.logs.model.findings import Severity
from pipelines.catalog.names import asset_key
from pipelines.event_log.transactions import store_waiting
from pipelines.events import as_metadata, check_metadata, check_result, severity_of
from pipelines.metadata.values import Metadata, table_value
from pipelines.partitions import chosen_keys
from pipelines.run.check_definitions import WHAT_TO_DO, CheckAnswer, Failure, sentence
from spark_jobs.lake.view.log_state import LogState
from spark_jobs.lake.view.registered_lakes import RegisteredLake

MAX_KEYS = 500
"""Topic partitions that get evaluations of their own in one run; the answer for the lake counts all."""

WHOLE_LAKE = "whole lake"
"""Name of check metadata: the answer for the lake, in the evaluation of a topic partition."""

Context = dg.AssetExecutionContext


def evaluate(
    lake: RegisteredLake, context: Context, answer: CheckAnswer, logs: Sequence[LogState]
) -> dg.AssetCheckResult:
    """Log the evaluations of topic partitions.

    Args:
        lake: The lake of the run.
        context: Of the step that has the answer.
        answer: The answer for the whole lake.
        logs: The logs of the lake.

    Returns:
        What the step has to yield.
    """
    whole = check_result(lake, answer)
    failing = _by_key(answer.failures, logs)
    chosen = chosen_keys(context)
    if chosen is None:
        if not answer.is_unanswered and (answer.passed or failing):
            # Damaged partitions come first: the last one stored carries the answer of the lake.
            worst_last = sorted(failing, key=lambda key: _is_error(failing[key]))[-MAX_KEYS:]
            recovered = sorted(_failed_before(context, whole) - failing.keys())[: MAX_KEYS - len(worst_last)]
            _log(lake, context, answer, {key: failing.get(key, ()) for key in [*recovered, *worst_last]})
        return whole
    if context.has_partition_key:  # Dagster gives this partition to the yielded result
        context.log_event(_of_lake(lake, answer))
        return _as_result(_of_key(lake, answer, chosen[0], failing.get(chosen[0], ()), None))
    worst_first = sorted(chosen, key=lambda key: key not in failing)[:MAX_KEYS]
    _log(lake, context, answer, {key: failing.get(key, ()) for key in reversed(worst_first)})
    return whole


def _by_key(failures: Iterable[Failure], logs: Sequence[LogState]) -> dict[str, tuple[Failure, ...]]:
    """The failures by partition key, in the order of the logs. Those that belong to no log of the lake are left out."""
    of_log: dict[str | None, list[Failure]] = {}
    for failure in failures:
        of_log.setdefault(failure.log, []).append(failure)
    found: dict[str, tuple[Failure, ...]] = {}
    for log in logs:
        if log.log in of_log:
            found[log.topic_partition] = (*found.get(log.topic_partition, ()), *of_log[log.log])
    return found


def _failed_before(context: Context, check: dg.AssetCheckResult) -> set[str]:
    """Keys of the topic partitions whose latest evaluation is a failure."""
    storage = context.instance.event_log_storage
    key = dg.AssetCheckKey(_known(check.asset_key), _known(check.check_name))
    failed = AssetCheckExecutionRecordStatus.FAILED
    if not storage.get_asset_check_execution_history(key, limit=1, status={failed}):
        return set()
    infos = storage.get_asset_check_partition_info([key])
    return {
        info.partition_key
        for info in infos
        if info.partition_key is not None and info.latest_execution_status is failed
    }


def _log(lake: RegisteredLake, context: Context, answer: CheckAnswer, failures: dict[str, tuple[Failure, ...]]) -> None:
    targets = _targets(context, asset_key(lake, answer.asset), failures)
    last = next(reversed(failures), None)
    for key, each in failures.items():
        made = _of_key(lake, answer, key, each, targets.get(key))
        if key == last and not made.passed:
            made = made.with_metadata({**check_metadata(answer), **made.metadata})
        context.log_event(made)


def _targets(
    context: Context, asset: dg.AssetKey, keys: Iterable[str]
) -> dict[str, AssetCheckEvaluationTargetMaterializationData]:
    """The latest materialization of each key: an evaluation counts only for the one that it names."""
    wanted = set(keys)
    if not wanted:
        return {}
    storage = context.instance.event_log_storage
    store_waiting(storage)
    ids = storage.get_latest_storage_id_by_partition(asset, DagsterEventType.ASSET_MATERIALIZATION, wanted)
    if not ids:
        return {}
    chosen = dg.AssetRecordsFilter(asset, asset_partitions=sorted(ids), storage_ids=sorted(ids.values()))
    records = context.instance.fetch_materializations(chosen, limit=len(ids)).records
    return {
        record.partition_key: AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
        for record in records
        if record.partition_key is not None
    }


def _of_key(
    lake: RegisteredLake,
    answer: CheckAnswer,
    key: str,
    failures: Sequence[Failure],
    target: AssetCheckEvaluationTargetMaterializationData | None,
) -> dg.AssetCheckEvaluation:
    """The evaluation of one topic partition."""
    metadata: Metadata = {WHOLE_LAKE: answer.description}
    if failures:
        columns = ["lake", "topic partition", "offsets", "file", "position", "what"]
        rows = [[lake.name, key, each.offsets, each.file, each.position, each.what] for each in failures]
        metadata = {WHAT_TO_DO: answer.what_to_do, "where": table_value(columns, rows), **metadata}
    fine = answer.description if answer.is_unanswered else f"{key} of lake {lake.name}: nothing to report"
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(lake, answer.asset),
        check_name=answer.name,
        passed=not failures and not answer.is_unanswered,
        metadata=as_metadata(metadata),
        target_materialization_data=target,
        severity=severity_of(Severity.ERROR if _is_error(failures) else Severity.WARNING),
        description=sentence([failure.text for failure in failures]) if failures else fine,
        partition=key,
    )


def _of_lake(lake: RegisteredLake, answer: CheckAnswer) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(lake, answer.asset),
        check_name=answer.name,
        passed=answer.passed,
        metadata=check_metadata(answer),
        severity=severity_of(answer.severity),
        description=answer.description,
    )


def _as_result(made: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=made.passed,
        asset_key=made.asset_key,
        check_name=made.check_name,
        metadata=made.metadata,
        severity=made.severity,
        description=made.description,
    )


def _is_error(failures: Sequence[Failure]) -> bool:
    return not failures or any(failure.severity is Severity.ERROR for failure in failures)


def _known(value: Any) -> Any:
    if value is None:
        raise ValueError("the result of a check names its asset and its check")
    return value
