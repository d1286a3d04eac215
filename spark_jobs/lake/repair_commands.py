"""The repair commands that errors and findings name: each does its work when it is pasted into a shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType

from logcore.texts import shell_word
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry

_NAMED_OTHERWISE: Mapping[str, str] = MappingProxyType(
    {"topics": "--topic", "partitions": "--partition", "isolation_level": "--isolation.level"}
)
"""Options of ``loglake run`` by field of an intake, where the names differ."""


def run_command(lake: str, directory: str | None = None) -> str:
    """Return the command that runs a lake again from its registered sources.

    Args:
        lake: The lake.
        directory: The partition directory of a log: then only the source that has it is named.
    """
    try:
        # What a lake says of its sources is shown here and not acted on.
        intakes = registry.recall(lake).intakes or tuple(registry.hinted(lake))
    except registry.RegistryError:
        intakes = ()
    chosen = [(intake, path) for intake in intakes for path in intake.sources]
    of_log = [
        each for each in chosen if directory is not None and f"{directory}/".startswith(f"{each[1].rstrip('/')}/")
    ]
    if of_log or chosen:
        intake = (of_log or chosen)[0][0]
        paths = [path for each, path in of_log or chosen if each is intake]
        options = [*_options(intake)]
    else:
        paths, options = ["LOGDIR"] if directory is None else [os.path.dirname(directory)], []
    return " ".join(["loglake run", *map(shell_word, paths), "--lake", shell_word(lake), *options])


def ingest_command(lake: str, intake: Intake) -> str:
    """Return the command that ingests these sources with all their options, and so registers them."""
    options = _options(intake, {field.name for field in fields(Intake)} - {"sources"})
    return " ".join(["loglake run", *map(shell_word, intake.sources), "--lake", shell_word(lake), *options])


def _options(intake: Intake, names: Collection[str] = ("mode", "cluster", "include_internal")) -> Iterator[str]:
    """The options with these names that differ from the default; those without which a run reads otherwise."""
    for field in fields(Intake):
        value = getattr(intake, field.name)
        if field.name in names and value and value != field.default:
            option = _NAMED_OTHERWISE.get(field.name, f"--{field.name.replace('_', '-')}")
            values = value if isinstance(value, tuple) else (value,)
            yield from [option] if value is True else (f"{option} {shell_word(str(each))}" for each in values)


def rebuild_command(lake: str, table: str) -> str:
    """Return the command that rebuilds a table of ``TABLES``; where rows are derived, the next run writes them."""
    return f"loglake repair {shlex.quote(lake)} --rebuild {table} --apply"


def frontiers_command(lake: str) -> str:
    """Return the command that restores frontiers which another engine erased."""
    return f"loglake repair {shlex.quote(lake)} --frontiers --apply"


def replace_command(lake: str, topic: str | None = None) -> str:
    """Return the command that publishes all offsets again from the archive, or those of one topic."""
    of_topic = "" if topic is None else f" --topic {shell_word(topic)}"
    return f"{run_command(lake)}{of_topic} --replace .."


def follow_command(lake: str, job: str, topic: str) -> str:
    """Return the command that brings a table of a topic up to date: by `decode` or `latest`."""
    return f"loglake {job} {shlex.quote(lake)} --topic {shell_word(topic)}"


def topic_command(lake: str, job: str, topic: str) -> str:
    """Return the command that writes a table of a topic again.

    Args:
        lake: The lake.
        job: ``decode`` or ``latest``.
        topic: The topic.
    """
    return f"loglake {job} {shlex.quote(lake)} --replace {shell_word(topic)}"
