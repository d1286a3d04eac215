"""What `loglake help NAME` says of checks and alerts."""

from __future__ import annotations

from collections.abc import Iterator

from logcore.logs.rules.advice import HarmedPlace, filled
from spark_jobs.lake.view.alarms import KINDS

from . import check_definitions
from .check_definitions import CheckDefinition


def explained_names() -> Iterator[tuple[str, str]]:
    """Yield the name of each check and of each kind of alert, with its text."""
    for check in vars(check_definitions).values():
        if isinstance(check, CheckDefinition):
            table = None if check.of_topics is None else f"{check.of_topics}/TOPIC"
            to_do = filled(check.what_to_do, HarmedPlace(table=table))
            yield check.name, f"{check.name}: a check of {check.asset}.\n{check.description}\nWhat to do: {to_do}\n"
    for name, kind in KINDS.items():
        yield name, f"{name}: an alert, {kind.severity}.\n{kind.meaning} `loglake status LAKE` says where.\n"
