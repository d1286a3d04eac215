"""A partition directory as a broker's start leaves its names: what retention and a round of cleaning begin with.

Files of a cleaning that was interrupted decide which segments are the log (`logcore.segments.startup`). Where its
output takes the place of other segments, those are gone in the new directory; so it has to be sound. A start does not
look: it drops the good ones for a damaged one.

Belongs here: names, and what stays of the files under them. A start that mends segments is `recovery`.
"""

from __future__ import annotations

from logcore.errors import LogError
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, ProposedFile
from logcore.segments.scanning.scan import Stretch, scan
from logcore.segments.startup import StartFiles, is_plain_name, kept_at_start, misnamed


def start_of(directory: PartitionDirectory) -> StartFiles:
    """What a start would make of a directory's names.

    Raises LogError for the output of an interrupted cleaning that is in force and damaged, or not named by an offset.
    """
    for name in misnamed(directory.files):
        raise LogError(
            "it is named as what a cleaning leaves that was interrupted, and not by an offset of 20 digits",
            file=name,
            topic_partition=str(directory.topic_partition),
            advice="Move it away: no broker made it.",
        )

    def next_offset(name: str) -> int:
        file = directory.files[name]
        walk = scan(file.content, base_offset=int(name[:20]), sealed=True, decode=False, fetched=file.fetched)
        damage = next((item for item in walk if isinstance(item, Stretch)), None)
        if damage is None and walk.accounting.padding == 0:
            return walk.next_offset
        raise LogError(
            "a cleaning that was interrupted wrote it to take the place of other segments, and it is damaged",
            file=name,
            position=walk.accounting.valid if damage is None else damage.position,
            topic_partition=str(directory.topic_partition),
            advice="Bring back the segments without it, or see what `loglake recover --salvage` makes of it.",
        )

    return kept_at_start(directory.files, next_offset)


def started_files(directory: PartitionDirectory, start: StartFiles) -> dict[str, ProposedFile]:
    """Every file that a start leaves, as it is, under the name that it gets."""
    files: dict[str, ProposedFile] = {name: Keep(now) for name, now in start.kept.items()}
    named = set(start.kept.values())
    for name in directory.files:
        if name not in start.dropped and not is_plain_name(name) and name not in named:
            files[name] = Keep(name)
    return files
