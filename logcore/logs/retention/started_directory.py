"""A partition directory with the file names that a broker's start leaves. Retention and cleaning begin with it.

Files of an interrupted cleaning decide which segments are the log (`logcore.segments.startup`). If its output replaces
other segments, the new directory does not have those. So the output must be sound. A start does not check this: it
removes good segments and keeps a damaged one.

Belongs here: names, and the files under them. `recovery` is a start that repairs segments.
"""

from __future__ import annotations

from logcore.errors import LogError
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, ProposedFile
from logcore.segments.scanning.scan import Stretch, scan
from logcore.segments.startup import StartFiles, is_plain_name, kept_at_start, misnamed


def start_of(directory: PartitionDirectory) -> StartFiles:
    """Find what a start would do with a directory's names.

    Raises:
        LogError: The output of an interrupted cleaning is in force and damaged, or its name is not an offset.
    """
    for name in misnamed(directory.files):
        raise LogError(
            "it has the name of an interrupted cleaning's output, but without an offset of 20 digits",
            file=name,
            topic_partition=str(directory.topic_partition),
            advice="Move it away: no broker wrote it.",
        )

    def next_offset(name: str) -> int:
        file = directory.files[name]
        walk = scan(file.content, base_offset=int(name[:20]), sealed=True, fetched=file.fetched)
        damage = next((item for item in walk if isinstance(item, Stretch)), None)
        if damage is None and walk.accounting.padding == 0:
            return walk.next_offset
        raise LogError(
            "an interrupted cleaning wrote it to replace other segments, and it is damaged",
            file=name,
            position=walk.accounting.valid if damage is None else damage.position,
            topic_partition=str(directory.topic_partition),
            advice="Restore the replaced segments without it, or try `loglake recover --salvage`.",
        )

    return kept_at_start(directory.files, next_offset)


def started_files(directory: PartitionDirectory, start: StartFiles) -> dict[str, ProposedFile]:
    """Every file that a start keeps, unchanged, under its new name."""
    files: dict[str, ProposedFile] = {name: Keep(now) for name, now in start.kept.items()}
    named = set(start.kept.values())
    for name in directory.files:
        if name not in start.dropped and not is_plain_name(name) and name not in named:
            files[name] = Keep(name)
    return files
