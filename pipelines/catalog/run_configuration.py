"""The configuration of a run in Dagster: the fields of a request, with help and defaults, as the Launchpad shows them.

It belongs to the op `begin` of a chain of steps. All steps of the chain read it there.
"""

from __future__ import annotations

import typing
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import cache
from types import MappingProxyType
from typing import Any

import dagster as dg

from logcore.cli.reading.arguments import clock_ms, offset_range, time_ms
from logcore.reading.read_options import OffsetRange
from spark_jobs.errors import UsageError
from spark_jobs.lake.view.registered_lakes import RegisteredLake

from ..run.run_request import RunRequest
from .names import graph_name

BEGIN = "begin"
"""The op of a chain that has the configuration."""

_PARSED: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {"as_of_ms": clock_ms, "replace_since_ms": time_ms, "replace_until_ms": time_ms, "replace": offset_range}
)
"""By field of a request that the configuration states as a text: what parses it."""


def _stated_name(field: Field[Any]) -> str:
    """The name of a field in the configuration: times are texts there, not milliseconds."""
    return field.name.removesuffix("_ms")


@cache
def config_schema() -> dict[str, dg.Field]:
    """The fields of :class:`RunRequest` as Dagster's: all are optional."""
    hints = typing.get_type_hints(RunRequest, include_extras=True)
    schema = {}
    for field in fields(RunRequest):
        hint, description = typing.get_args(hints[field.name])
        options = typing.get_args(hint)  # of a tuple its item, of a choice its words, of others what is not None
        words = [each for each in options if isinstance(each, str)]
        kind: Any = str if field.name in _PARSED else options[0] if options else hint
        default = field.default
        if words:
            kind, default = (
                dg.Enum(f"loglake_{field.name}", [dg.EnumValue(word) for word in words]),
                default or words[0],
            )
        elif isinstance(default, tuple):
            kind, default = [kind], []
        schema[_stated_name(field)] = dg.Field(
            kind, "" if default is None else default, is_required=False, description=description
        )
    return schema


def request_of(run: dg.DagsterRun, lake: RegisteredLake, job: str) -> RunRequest:
    """The request of a run of Dagster. Dagster has checked the types.

    Args:
        job: ``intake`` or ``maintenance``: the chain.

    Raises:
        UsageError: A field cannot be used, and why.
    """
    found: Any = run.run_config
    for name in ("ops", graph_name(lake, job), "ops", BEGIN, "config"):
        found = found.get(name) or {} if isinstance(found, Mapping) else {}
    stated: dict[str, Any] = {}
    for field in fields(RunRequest):
        name = _stated_name(field)
        value = found.get(name)
        if value in (None, "", []):
            continue
        if field.name in _PARSED:
            value = parsed(value, name, _PARSED[field.name])
        stated[field.name] = tuple(value) if isinstance(value, list) else value
    if "replace" not in stated and stated.keys() & {"replace_since_ms", "replace_until_ms"}:
        raise UsageError('replace_since and replace_until bound what is replaced; add replace: ".."')
    return RunRequest(**stated)


def parsed(text: str, field: str, parse: Callable[[str], Any]) -> Any:
    """The value of a field of the configuration that is stated as a text.

    Raises:
        UsageError: It is none.
    """
    try:
        return parse(text)
    except ArgumentTypeError as error:
        raise UsageError(f"{field}: {error}") from error


def started_by(tags: Mapping[str, str]) -> str:
    """What started a run of Dagster, as the table ``runs`` names it, by the run's tags."""
    known = {"dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor", "dagster/backfill": "backfill"}
    return next((name for tag, name in known.items() if tag in tags), "dagster")


def run_config(lake: RegisteredLake, job: str, request: RunRequest) -> dict[str, Any]:
    """Build the configuration of a run: the fields of the request that differ from the default.

    Args:
        lake: The lake of the run.
        job: ``intake`` or ``maintenance``.
        request: The options of the run.
    """
    values = {field: getattr(request, field.name) for field in fields(RunRequest)}
    said = {_stated_name(field): _text(field, value) for field, value in values.items() if value != field.default}
    return {"ops": {graph_name(lake, job): {"ops": {BEGIN: {"config": said}}}}}


def _text(field: Field[Any], value: Any) -> Any:
    """The value of a field as the configuration states it."""
    if isinstance(value, OffsetRange):
        return f"{'' if value.start is None else value.start}..{'' if value.end is None else value.end}"
    if isinstance(value, tuple):
        return list(value)
    return f"{value}ms" if field.name in _PARSED else value
