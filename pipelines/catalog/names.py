"""The names that Dagster has for a lake: keys of its assets and partitions, groups, jobs.

Everything carries the name of the lake, so that two lakes with a topic of one name share no status. Names of jobs and
groups use the identifier of the lake, because Dagster allows only letters, digits and ``_`` there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import dagster as dg

from spark_jobs.lake.view.registered_lakes import RegisteredLake

from ..run.chains import INTAKE_JOB, MAINTENANCE_JOB

LOCATION, REPOSITORY = "loglake", "__repository__"
"""The code location of workspace.yaml, and Dagster's name of the only repository in it."""

LAKE_TAG = "loglake/lake"
"""Tag of runs and assets: the name of the lake."""

_MAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
_LONGEST_TAG = 63
"""The most characters of a value of an asset's tag."""


def asset_key(lake: RegisteredLake, asset: str) -> dg.AssetKey:
    """The key of an asset of a lake."""
    return dg.AssetKey([lake.name, asset])


def asset_spec(
    lake: RegisteredLake, asset: str, group: str, made_from: Iterable[str] = (), **attributes: Any
) -> dg.AssetSpec:
    """An asset of a lake.

    Args:
        group: The group in which Dagster shows it.
        made_from: The assets of the lake that it comes from.
        attributes: More of it, as :class:`dagster.AssetSpec` takes them.
    """
    return dg.AssetSpec(
        asset_key(lake, asset),
        deps=[asset_key(lake, source) for source in made_from],
        group_name=group,
        owners=owners_of(lake),
        tags={LAKE_TAG: lake.name[:_LONGEST_TAG]},
        **attributes,
    )


def name_in_lake(lake: RegisteredLake, name: str) -> str:
    """The name of something that each lake has one of, such as a job or a schedule."""
    return lake.name_of(name)


def graph_name(lake: RegisteredLake, job: str) -> str:
    """The name of the graph of a job's steps, and of the group of their assets.

    Args:
        job: ``intake`` or ``maintenance``.
    """
    return {INTAKE_JOB: lake.identifier, MAINTENANCE_JOB: name_in_lake(lake, "maintenance_steps")}[job]


def tags_of(lake: RegisteredLake) -> dict[str, str]:
    """Tags of everything that belongs to a lake."""
    return {LAKE_TAG: lake.name}


def owners_of(lake: RegisteredLake) -> list[str]:
    """The owners as Dagster writes them: e-mail addresses, or ``team:NAME``."""
    named = [owner for owner in lake.owners if owner.removeprefix("team:")]
    return [owner if _MAIL.fullmatch(owner) or owner.startswith("team:") else f"team:{owner}" for owner in named]


def table_name(lake: RegisteredLake, table: str) -> str:
    """The name by which Dagster links the assets of one table: lakes have tables of the same names."""
    return f"{lake.name}.{table}"


def documentation_of(table: str) -> dict[str, dg.MetadataValue[str]]:
    """Metadata that names the section of the documentation on a table."""
    return {"documentation": dg.MetadataValue.path(f"docs/tables.md#{table}")}
