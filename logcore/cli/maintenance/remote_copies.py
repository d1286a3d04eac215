"""Which offsets of a partition directory remote storage has, by the metadata of remote segments beside it.

The partitions of `__remote_log_metadata` in the same log directory are read. A segment counts if its copy ended, its
deletion did not begin, and the leader epochs of the directory have its offsets. The objects themselves are not looked
at: `loglake remote` does that. If anything is wrong with the metadata, nothing counts: a lost record may have said that
a segment was deleted.
"""

from __future__ import annotations

import os

from logcore.errors import CorruptIndexError, LogError
from logcore.logs.model.findings import Severity, found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import EVIDENCE_REMOTE
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.remote_tier import below_start, remote_range
from logcore.logs.retention.retention_plan import OffsetSpan
from logcore.reading.chosen_logs import find_logs
from logcore.reading.notes import Notes
from logcore.reading.read_options import ReadOptions
from logcore.reading.remote_metadata import segment_states
from logcore.remote.lineage import offsets_in_lineage
from logcore.remote.remote_segment import RemoteSegmentState, TopicIdPartition
from logcore.segments.filenames import LEADER_EPOCH_FILE, MAX_OFFSET, REMOTE_METADATA_TOPIC
from logcore.segments.side_files.checkpoints import parse_leader_epochs
from logcore.segments.side_files.leader_epochs import Epochs
from logcore.storage.broker.broker_state import StateReader
from logcore.storage.source_errors import shown


def refuse_unstated_tier(path: str, directory: PartitionDirectory) -> None:
    """Check a directory of a topic of which no one said whether it is tiered.

    Raises:
        LogError: Its files show that a part of the log is in remote storage.
    """
    bases = directory.base_offsets
    known = remote_range(below_start(directory.log_start_offset, min(bases, default=None), _epochs(directory)))
    if known is not None and known[2] == EVIDENCE_REMOTE:
        raise LogError(
            f"offsets {known[0]} to {known[1] - 1} are in the remote tier, and nothing says that the topic is tiered",
            file=shown(path),
            advice="Type --config remote.storage.enable=true, and local.retention.ms and local.retention.bytes if the "
            "topic has them. With remote.storage.enable=false the log start moves to the first local segment.",
        )


def copied_offsets(path: str, directory: PartitionDirectory, notes: Notes) -> tuple[OffsetSpan, ...]:
    """Return the offsets of a partition directory that remote storage has, ascending.

    Args:
        path: The partition directory.
        directory: Its files.
        notes: Gets the findings about the metadata.
    """
    root = os.path.dirname(os.path.abspath(path))
    of_metadata = Notes()
    options = ReadOptions((root,), LogSelection(topics=(REMOTE_METADATA_TOPIC,)))
    states = segment_states(find_logs(options, of_metadata, quiet=("nothing-chosen",)), of_metadata)
    for finding in of_metadata.findings:
        notes.say(finding)
    if states is None:
        message = f"no partition of {REMOTE_METADATA_TOPIC} is in {shown(root)}; which segments were copied is unknown."
        notes.say(found("no-remote-metadata", message, file=shown(root)))
        return ()
    topic_id, _ = StateReader().topic_id(path)
    if topic_id is None or any(each.severity is not Severity.INFO for each in of_metadata.findings):
        return ()
    place = TopicIdPartition(topic_id, directory.topic_partition.partition)
    epochs = _epochs(directory) or ()
    spans: list[OffsetSpan] = []
    for segment in states.segments.values():
        if segment.place == place and segment.state is RemoteSegmentState.COPY_FINISHED:
            # Offsets of one epoch have the same records wherever they are, so the end of this log does not matter.
            part = offsets_in_lineage(segment, epochs, MAX_OFFSET)
            if part is not None:
                spans.append((part.start_offset, part.end_offset))
    return tuple(sorted(spans))


def _epochs(directory: PartitionDirectory) -> Epochs | None:
    file = directory.files.get(LEADER_EPOCH_FILE)
    try:
        return None if file is None else parse_leader_epochs(bytes(file.content))
    except CorruptIndexError:
        return None  # the plan reports it
