"""The cut of each log that a command states: the first offset that does not belong to the state.

An offset is stated for a partition, and is the cut of each of its logs: a topic that was created again under its name
has several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spark_jobs.errors import UsageError
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.row_files.log_cuts import LogCut


def stated_offsets(text: str, topic: str) -> dict[int, int] | None:
    """Return offsets by partition from ``orders-0:42,orders-1:7``; None if the text has another form.

    Raises:
        UsageError: It names another topic, or a partition twice.
    """
    form = re.compile(r"(.+)-([0-9]{1,10}):([0-9]{1,18})", re.ASCII)
    parts = [form.fullmatch(part.strip()) for part in text.split(",")]
    stated: dict[int, int] = {}
    for part in parts:
        if part is None:
            return None
        if part[1] != topic:
            raise UsageError(f"--at {part[0]}: the state of {topic} is requested, this is a partition of {part[1]}.")
        if int(part[2]) in stated:
            raise UsageError(f"--at {text}: partition {part[2]} is there twice.")
        stated[int(part[2])] = int(part[3])
    return stated


def cuts_at_offsets(
    logs: Sequence[LogRow], frontiers: Mapping[str, int | None], stated: Mapping[int, int]
) -> list[LogCut]:
    """Return the cuts of the logs of stated partitions.

    Raises:
        UsageError: The topic has no such partition.
    """
    unknown = sorted(set(stated) - {log.partition for log in logs})
    if unknown:
        raise UsageError(f"--at: the lake has no partition {unknown[0]} of {logs[0].topic}.")
    return [LogCut(log, frontiers[log.log] or 0, stated[log.partition]) for log in logs if log.partition in stated]
