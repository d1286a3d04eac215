"""Which lakes a schedule, a sensor or a backfill may work on: those that are registered in the operator's home.

What is registered, and where, is in :mod:`spark_jobs.lake.setup.registry`. A lake may lie anywhere, also on an object
store. Here a lake is found by its name or by the topic partitions it holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from spark_jobs.lake.errors import JobError
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.registry import Intake
from spark_jobs.lake.store import storage


class NoLakeError(ValueError):
    """Nothing, or more than one thing, is meant: the text names the lakes and says how to choose."""


def dagster_home() -> str:
    """Where Dagster keeps the history of runs unless ``DAGSTER_HOME`` says so: in the operator's home."""
    return os.path.join(registry.home(), "dagster")


def lakes_of(home: str) -> tuple[str, ...]:
    """All lakes that are registered in a home, by name."""
    return tuple(sorted(registry.registrations(home).lakes, key=lambda lake: (lake_name(lake), lake)))


def lake_name(lake: str) -> str:
    """What a person calls a lake: its directory's name."""
    return os.path.basename(os.path.normpath(lake))


def how_to_adopt(lake: str, hinted: Sequence[Intake]) -> str:
    """A paragraph on what a lake names as its sources, and how the operator takes that over."""
    paths = [path for intake in hinted for path in intake.paths]
    return (
        f"The lake {lake} is not registered in {registry.home()}. Its {registry.HINT_FILE} names {_few(paths)}; what a "
        f"lake says of itself is not acted on. Name the sources yourself: loglake run PATH... --lake {lake}; or take "
        f"over what it names: loglake upgrade {lake} --adopt-sources."
    )


def find_lake(home: str, named: str | None, keys: Sequence[str] | None) -> str:
    """The one lake that is meant.

    Args:
        named: path, or name of a registered lake; None or empty: the one that has the keys, or the only one there is.
        keys: partition keys that the run was launched for.

    Raises:
        NoLakeError: none or several fit.
    """
    lakes = lakes_of(home)
    if named:
        by_name = [lake for lake in lakes if named in (lake_name(lake), registry.key_of(lake))]
        if len(by_name) > 1:
            keys_of_them = ", ".join(f"{registry.key_of(lake)} ({lake})" for lake in by_name)
            raise NoLakeError(f"Several lakes are called {named}: {keys_of_them}. Name one by its path.")
        return by_name[0] if by_name else storage.absolute(named)
    how = 'Name one in the run configuration: resources: {lake: {config: {lake: "NAME"}}}, or by the tag loglake/lake.'
    if keys:
        holding = {lake: _topic_partitions(lake) for lake in lakes}
        fitting = [lake for lake in lakes if set(keys) <= holding[lake]]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise NoLakeError(f"{_few(keys)} is in more than one lake: {_named(fitting)}. {how}")
        partly = [lake for lake in lakes if set(keys) & holding[lake]]
        if len(partly) > 1:
            raise NoLakeError(f"{_few(keys)} lie in different lakes: {_named(partly)}. Launch one run for each lake.")
        if partly:
            missing = sorted(set(keys) - holding[partly[0]])
            raise NoLakeError(f"The lake {_named(partly)} does not hold {_few(missing)}, and no other lake does.")
        raise NoLakeError(f"No lake of {home} holds {_few(keys)}; it has {_named(lakes) or 'no lake'}. {how}")
    if len(lakes) == 1:
        return lakes[0]
    if not lakes:
        raise NoLakeError(f"No lake is registered in {home} yet. Register one: loglake run PATH... --lake LAKE")
    raise NoLakeError(f"{home} has several lakes: {_named(lakes)}. {how}")


def _topic_partitions(lake: str) -> set[str]:
    """What a lake holds; nothing where it cannot be read: it must not stand in the way of the others."""
    try:
        return {row.topic_partition for row in read_logs(lake).values()}
    except (JobError, OSError, ValueError):
        return set()


def _named(lakes: Iterable[str]) -> str:
    return ", ".join(lake_name(lake) for lake in lakes)


def _few(keys: Sequence[str]) -> str:
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
