"""Plain values of a run as Dagster's metadata, check results and observations."""

from __future__ import annotations

from typing import Any

import dagster as dg

from logcore.logs.model.findings import Severity
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from spark_jobs.lake.view.shown_tables import columns_of

from .catalog.names import asset_key
from .metadata.values import (
    JsonValue,
    LinkValue,
    MarkdownValue,
    Metadata,
    Observation,
    PathValue,
    TableValue,
    Value,
)
from .run.check_definitions import CheckAnswer, CheckDefinition


def as_metadata(metadata: Metadata) -> dict[str, Any]:
    """Metadata as Dagster's values."""
    return {name: _metadata_value(value) for name, value in metadata.items()}


def check_spec(lake: RegisteredLake, definition: CheckDefinition) -> dg.AssetCheckSpec:
    """The check for Dagster. No check stops a run: problems of one log must not delay the others."""
    return dg.AssetCheckSpec(
        definition.name, asset=asset_key(lake, definition.asset), description=definition.description
    )


def check_result(lake: RegisteredLake, answer: CheckAnswer) -> dg.AssetCheckResult:
    """The answer to a check as Dagster's result."""
    return dg.AssetCheckResult(
        passed=answer.passed,
        asset_key=asset_key(lake, answer.asset),
        check_name=answer.name,
        severity=severity_of(answer.severity),
        description=answer.description,
        metadata=as_metadata(answer.shown),
    )


def check_evaluation(lake: RegisteredLake, answer: CheckAnswer) -> dg.AssetCheckEvaluation:
    """The answer to a check as Dagster's event, for a check that no run of Dagster evaluates."""
    result = check_result(lake, answer)
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(lake, answer.asset),
        check_name=answer.name,
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
    )


def severity_of(severity: Severity) -> dg.AssetCheckSeverity:
    """Our severity as Dagster's."""
    return dg.AssetCheckSeverity.ERROR if severity is Severity.ERROR else dg.AssetCheckSeverity.WARN


def asset_observation(lake: RegisteredLake, observation: Observation) -> dg.AssetObservation:
    """The observation as Dagster's event."""
    return dg.AssetObservation(
        asset_key(lake, observation.asset),
        description=observation.description,
        metadata=as_metadata(observation.metadata),
    )


def table_schema(name: str) -> dg.TableSchema:
    """The columns of a table of the lake, as the UI shows them."""
    return dg.TableSchema(
        [
            dg.TableColumn(
                column.name,
                column.type,
                description=column.meaning,
                tags={"table partition": ""} if column.is_partition else {},
            )
            for column in columns_of(name)
        ]
    )


def _metadata_value(value: Value) -> Any:
    match value:
        case PathValue(path):
            return dg.MetadataValue.path(path)
        case LinkValue(address):
            return dg.MetadataValue.url(address)
        case MarkdownValue(text):
            return dg.MetadataValue.md(text)
        case JsonValue(content):
            return dg.MetadataValue.json(content)
        case TableValue(columns, rows):
            records = [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows]
            return dg.MetadataValue.table(
                records, dg.TableSchema([dg.TableColumn(column, "string") for column in columns])
            )
        case _:
            return value
