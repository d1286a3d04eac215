"""The repair commands that errors and findings name: each does its work when it is pasted into a shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import reduce
from types import MappingProxyType

from logcore.logs.rules.advice import log_options
from logcore.segments.filenames import parse_topic_partition, segment_base_offset
from logcore.storage.objects.addresses import is_object
from logcore.texts import shell_word, shown
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.identity import LAKE_FILE
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.silent_paths import is_silent

_NAMED_OTHERWISE: Mapping[str, str] = MappingProxyType(
    {"topics": "--topic", "partitions": "--partition", "isolation_level": "--isolation.level"}
)
"""Options of ``loglake run`` by field of an intake, where the names differ."""
_SHOWN = ("mode", "cluster", "include_internal")
"""Options beside the filters that a command to run again repeats."""


def run_command(lake: str, directory: str | None = None, topic: str | None = None, partition: int | None = None) -> str:
    """Return the command that runs a lake again from its registered sources.

    Args:
        lake: The lake.
        directory: The partition directory of a log: then only the source that has it is named.
        topic: Only this topic is taken. None: what is registered.
        partition: Only this partition of the topic; None: all of them.
    """
    try:
        # What a lake says of its sources is shown here and not acted on.
        intakes = registry.recall(lake).intakes or tuple(registry.hinted(lake))
    except registry.RegistryError:
        intakes = ()
    of_log = [each for each in intakes if directory is not None and registry.paths_to(directory, each)]
    if of_log and directory is not None:
        same = [each for each in of_log if each.sources == of_log[0].sources]
        intake = replace(reduce(registry.widened, same), sources=registry.paths_to(directory, of_log[0]))
    elif intakes:
        intake = replace(reduce(registry.widened, intakes), sources=_sources_of(intakes))
    else:
        intake = Intake(("LOGDIR",) if directory is None else (os.path.dirname(directory),))
    if topic is not None:
        intake = replace(intake, topics=(topic,), partitions=() if partition is None else (partition,))
    return _command(lake, intake, ("topics", "partitions", *_SHOWN))


def _sources_of(intakes: Sequence[Intake]) -> tuple[str, ...]:
    """The sources that one command can name: those of intakes that are read alike, without those that are gone."""
    alike = [each for each in intakes if all(getattr(each, name) == getattr(intakes[0], name) for name in _SHOWN)]
    sources = tuple(dict.fromkeys(path for each in alike for path in each.sources))
    return tuple(path for path in sources if is_object(path) or is_silent(path) or os.path.lexists(path)) or sources


def ingest_command(lake: str, intake: Intake) -> str:
    """Return the command that ingests these sources with all their options, and so registers them."""
    return _command(lake, intake, [field.name for field in fields(Intake) if field.name != "sources"])


def move_command(lake: str, intake: Intake, directories: Collection[str], logs: Sequence[tuple[str, int]] = ()) -> str:
    """Return the command that goes on with logs in other sources, with all options as they were read until now.

    Args:
        lake: The lake.
        intake: The other sources, with the options of the run.
        directories: The partition directories of the logs until now.
        logs: Topic and partition of the logs that are moved; none: those that the intake chooses.
    """
    with suppress(registry.RegistryError):
        intake = registry.continued(lake, intake, directories)
    if logs:
        intake = replace(intake, topics=(), partitions=())
    return f"{ingest_command(lake, intake)}{log_options(logs)} --move-source"


def _command(lake: str, intake: Intake, names: Collection[str]) -> str:
    """The command with the sources of an intake, and those of the named options that differ from the default."""
    words = ["loglake run", *map(shell_word, intake.sources), "--lake", shell_word(lake)]
    for field in fields(Intake):
        value = getattr(intake, field.name)
        if field.name in names and value and value != field.default:
            option = _NAMED_OTHERWISE.get(field.name, f"--{field.name.replace('_', '-')}")
            values = value if isinstance(value, tuple) else (value,)
            words += [option] if value is True else (f"{option} {shell_word(str(each))}" for each in values)
    return " ".join(words)


def rebuild_command(lake: str, table: str) -> str:
    """Return the command that rebuilds a table of ``TABLES``; where rows are derived, the next run writes them."""
    return f"loglake repair {shlex.quote(lake)} --rebuild {table} --apply"


def frontiers_command(lake: str) -> str:
    """Return the command that restores frontiers which another engine erased."""
    return f"loglake repair {shlex.quote(lake)} --frontiers --apply"


def replace_command(lake: str, topic: str | None = None) -> str:
    """Return the command that publishes all offsets again from the archive, or those of one topic."""
    return f"{run_command(lake, topic=topic)} --replace .."


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


def _names_in(directory: str) -> list[str]:
    with suppress(OSError):
        return [] if storage.is_remote(directory) else os.listdir(directory)
    return []


def _has_segment(names: Sequence[str]) -> bool:
    return any(segment_base_offset(name) is not None for name in names)


def of_logs(named: str) -> str:
    """Return a sentence after others about a directory that has Kafka's logs, or is one; empty for all others."""
    path = storage.absolute(named)
    names = _names_in(path)
    logs = (storage.join(path, name) for name in names if parse_topic_partition(name) is not None)
    if not _has_segment(names) and not any(_has_segment(_names_in(log)) for log in logs):
        return ""
    return f" It has logs of Kafka: `loglake run {shell_word(named)} --lake LAKE` makes a lake of them, LAKE."


def no_lake(named: str) -> str:
    """Return the sentences about a path that is no lake: how its lost description comes back, or which lake is meant.

    Args:
        named: The path, as it was typed or absolute.
    """
    said = f"{shown(named)} is no lake: it has no {LAKE_FILE}.{of_logs(named)}"
    lake = storage.absolute(named)
    if storage.has_files(storage.join(lake, "tables")):
        return f"{said} If it was lost, `{run_command(lake)}` writes a new one."
    with suppress(registry.RegistryError):
        lakes = registry.registrations(registry.home()).lakes
        if lake in lakes:
            if storage.is_remote(lake):
                return said
            said = said if os.path.lexists(lake) else f"There is no directory {shown(lake)}."
            return f"{said} Mount it, or put it back."
        for path, known in lakes.items():
            if known.name == os.path.basename(lake):
                return f"{said} The lake that is registered as {shown(known.name)} is {shown(path)}."
    return said
