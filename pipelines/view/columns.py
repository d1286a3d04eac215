"""What each column of a shown table means, for people who look at it in the UI."""

from __future__ import annotations

from collections.abc import Mapping

_LOG: Mapping[str, str] = {
    "log": "the log's key: log_id and partition",
    "topic": "topic name",
    "log_id": "topic id and incarnation; a topic that is made again under its name is another log",
    "partition": "partition number",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "segments": {
        **_LOG,
        "segment_id": "digest of log, place and bytes: same bytes, same id",
        "base_offset": "first offset that the segment may hold",
        "next_offset": "offset behind its last one",
        "path": "of the segment file; relative to the lake, absolute where it was registered at its source",
        "start": "position in that file where the segment's bytes begin",
        "size": "bytes",
        "sealed": "whether the broker had closed the segment when it was read",
        "digest": "sha256 of its bytes",
        "modified_ms": "modification time at the source, epoch milliseconds",
        "max_timestamp": "greatest record timestamp, epoch milliseconds",
        "generation": "0 as taken from the source, higher after each rewrite",
        "origin_file": "file at the source that the bytes come from",
        "origin_position": "position in that file",
        "origin_base_offset": "base offset in that file's name",
        "last_batch_base_offset": "of its last batch: base offset",
        "last_batch_epoch": "of its last batch: leader epoch",
        "last_batch_crc": "of its last batch: checksum",
        "last_batch_size": "of its last batch: bytes",
        "last_batch_end": "of its last batch: position behind it in the origin file",
        "retired_ms": "when retention, compaction or merging replaced it; empty while it is live",
        "replaced_by": "segment that stands in its place",
        "retired_because": "why: retention, compaction, cut-back, filled, merged; empty while it is live",
        "deleted_ms": "when its files were deleted; empty while they are kept",
    },
    "offset_ledger": {
        **_LOG,
        "start_offset": "first offset of the range",
        "end_offset": "offset behind the range; ranges of a log tile it from 0 to its end",
        "state": "what became of these offsets: present, control, aborted, open, compacted, empty, trimmed; "
        "remote, with a warning; or, with an alarm, unknown, missing, corrupt",
        "records": "records of that state in the range",
        "gaps": "offsets in the range that no record holds",
        "gap_state": "why: compacted",
        "evidence": "what the state rests on",
        "published": "whether the range lies below the frontier",
        "archived": "whether the archive still has it: held, retained-away, compacted-away",
        "withdrawn": "whether its rows were deleted from records on purpose, and that is recorded",
    },
    "records": {
        "topic": "topic name",
        "partition": "partition number",
        "offset": "offset in the log",
        "timestamp": "record time in UTC; empty where it is -1 or no calendar has it",
        "timestampType": "-1 none, 0 set by the producer, 1 set by the broker",
        "key": "key as written; empty if there was none",
        "value": "value as written; empty for a tombstone",
        "headers": "record headers in their order",
        "timestamp_ms": "record time as written, epoch milliseconds",
        "leader_epoch": "of the record's batch",
        "log_id": "topic id and incarnation; offsets are unique within a log only",
        "segment_id": "archived segment that the record was read from",
        "position": "of the record's batch in that segment, bytes",
        "header_keys_raw": "header names as bytes, only where one is not UTF-8",
    },
    "log_actions": {
        **_LOG,
        "run_id": "run that decided it",
        "segment_id": "segment that was retired, merged or deleted",
        "action": "retention, compaction, keep, recovery, merge, delete or delete-orphan",
        "rule": "the setting that led to it",
        "reason": "in words",
        "bytes_before": "bytes of the retired segment",
        "bytes_after": "bytes of what stands in its place",
        "records_before": "records of the retired segment",
        "records_after": "records of what stands in its place",
        "as_of_ms": "clock of the run, epoch milliseconds",
    },
}
"""By table, then by column; a test holds it to the tables' schemas."""
