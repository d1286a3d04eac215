"""Places in a lake for the advice of findings: the log, its source, the policies, and the command that runs again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.rules.advice import HarmedPlace, advice
from logcore.segments.filenames import TopicPartition, parse_partition_directory
from logcore.storage.objects.addresses import is_object
from spark_jobs.errors import TableUnreadable, UsageError
from spark_jobs.lake.delta.tables.delta_log import newest_version
from spark_jobs.lake.repair_commands import run_command
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.silent_paths import is_silent
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import read_policies

_MOVED, LOST = "second-source", ("log-lost", "log-directory-missing")
_OF_TOPICS = ("decoded", "undecoded", "latest")


def table_of(lake: str, file: str | None) -> str | None:
    """Return the table that has a file, such as ``records`` or ``decoded/orders``; None: the file is of no table."""
    root = f"{storage.join(lake, 'tables')}/"
    if file is None or not file.startswith(root):
        return None
    names = file[len(root) :].split("/")
    return "/".join(names[:2]) if names[0] in _OF_TOPICS else names[0]


def harmed_place(
    lake: str,
    *,
    log: LogRow | None = None,
    topic_partition: TopicPartition | None = None,
    finding: Finding | None = None,
    offsets: tuple[int | None, int | None] = (None, None),
    table: str | None = None,
) -> HarmedPlace:
    """Return a place in a lake.

    Args:
        lake: The lake.
        log: The log; None: the harm is not about one, or only its name is known.
        topic_partition: The name of a log, where its row is not known.
        finding: Its offsets and its file are those of the place.
        offsets: First offset, and the one after the last, if there is no finding.
        table: The table, by the name of its directory below `tables`.
    """
    if finding is not None:
        offsets = finding.start_offset, finding.end_offset
    if log is not None:
        topic_partition = TopicPartition(log.topic, log.partition)
    directory = None if log is None else log.source
    if directory is None and finding is not None:
        directory = finding.file
    try:
        policies = registry.recall(lake).policies
    except registry.RegistryError:
        policies = None
    source = None if log is None else log.source
    topic = (table or "").partition("/")[2] or None if topic_partition is None else topic_partition.topic
    partition = None if topic_partition is None else topic_partition.partition
    return HarmedPlace(
        lake,
        run_command(lake, source),
        directory,
        topic,
        partition,
        *offsets,
        table,
        policies,
        topic is not None and _is_salvaged(policies, topic),
        is_wanted(lake, table),
        finding is None or _has_origin(lake, finding),
        run_of_log=None if topic is None else run_command(lake, source, topic, partition),
    )


def is_wanted(lake: str, table: str | None) -> bool:
    """Return whether a policy asks for a table such as ``latest/orders``; True for the other tables of a lake."""
    kind, _, topic = (table or "").partition("/")
    if not topic:
        return True
    try:
        file = registry.recall(lake).policies
        policy = None if file is None else read_policies(file).for_topic(topic)
    except (UsageError, registry.RegistryError):
        return True
    if file is None:  # its tables were made by other policies, which are named on the command line
        return True
    return policy is not None and policy.wants(kind)


def _has_origin(lake: str, finding: Finding) -> bool:
    """Whether an archived file with this finding may be read again where it was taken from. No bytes are compared.

    Where its directory is not there, the disk may only not be mounted.
    """
    if finding.file is None or not finding.rule.startswith("archive-file-"):
        return True
    origin = _origins(lake, newest_version(lake, "segments")).get(finding.file)
    if origin is None or is_object(origin) or is_silent(origin) or not os.path.isdir(os.path.dirname(origin)):
        return True
    return os.path.exists(origin)


@lru_cache(maxsize=1)
def _origins(lake: str, _version: int | None) -> dict[str, str]:
    """Files of the source by files of the archive."""
    with suppress(TableUnreadable):  # a finding of its own
        return {storage.join(lake, each.path): each.origin_file for each in archive.read_segments(lake, live=False)}
    return {}


def _is_salvaged(policies: str | None, topic: str) -> bool:
    """Whether what follows lost offsets of a topic is published already."""
    try:
        policy = read_policies(policies).for_topic(topic)
    except UsageError:
        return False
    return policy is not None and policy.passes_damage


def place_of(lake: str, placed: PlacedFinding) -> HarmedPlace:
    """Return the place of a finding of a verification."""
    is_named = placed.topic is not None and placed.partition is not None
    named = TopicPartition(placed.topic or "", placed.partition or 0) if is_named else None
    file = None if placed.finding.file is None else storage.join(lake, placed.finding.file)
    return harmed_place(lake, topic_partition=named, finding=placed.finding, table=table_of(lake, file))


def with_advice(lake: str, logs: Iterable[LogRow], findings: Sequence[Finding]) -> list[tuple[Finding, str]]:
    """Return errors and warnings about source paths, each with what to do about it; a text is there once.

    Several logs of one directory are moved by one command.
    """
    said = [each for each in findings if each.severity is not Severity.INFO]
    rows = {row.source: row for row in logs}
    roots = Counter(os.path.dirname(each.file or "") for each in said if each.rule == _MOVED)
    advised: dict[str, None] = {}
    found = []
    for finding in said:
        root = os.path.dirname(finding.file or "")
        place = replace(finding, file=root) if finding.rule == _MOVED and roots[root] > 1 else finding
        # A lost log may be none of the lake: only its path has its name.
        parsed = parse_partition_directory(os.path.basename(finding.file or "")) if finding.rule in LOST else None
        name, row = None if parsed is None else parsed[0], rows.get(place.file or "")
        to_do = advice(finding.rule, harmed_place(lake, log=row, topic_partition=name, finding=place))
        found.append((finding, "" if to_do in advised else to_do))
        advised[to_do] = None
    return found
