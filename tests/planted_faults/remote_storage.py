"""Planted into what reads remote storage of tiered topics."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CHUNKS = "tests/unit/logcore/remote/chunked/test_chunks.py"
INVENTORY = "tests/unit/logcore/remote/test_inventory.py"
JOINED = "tests/unit/logcore/reading/test_joined_logs.py"
LAKES = "tests/jobs/test_remote_storage.py"
RANGES = "tests/jobs/test_remote_ranges.py"
RETAIN = "tests/unit/logcore/cli/test_retain_tiered.py"
EMPTY = "tests/unit/logcore/reading/test_empty_remote_storage.py"
LINEAGE = "tests/unit/logcore/remote/test_lineage.py"
BUCKET = "tests/object_store/test_chunk_maps.py"
KNOWN = "tests/unit/logcore/storage/remote_tier/test_known_manifests.py"

FAULTS = (
    Fault(
        "offsets are remote without a sign of a remote tier",
        "logcore/logs/model/remote_tier.py",
        "    elif line is not None and is_tiered():\n",
        "    elif line is not None:\n",
        ("tests/unit/logcore/logs/test_remote_tier.py", "-k", "without_a_sign"),
    ),
    Fault(
        "remote segments that cannot be read hold up the local part of their log",
        "spark_jobs/ingest/remote_ranges.py",
        "    if source.local_start_offset is None or known.stopped_file is None:\n",
        "    if True:\n",
        (RANGES, "-k", "do_not_hold_up"),
    ),
    Fault(
        "a chunk of a remote segment expands without its limit",
        "logcore/remote/chunked/chunks.py",
        "decompress(Codec.ZSTD, content, chunk.size)",
        "decompress(Codec.ZSTD, content, 1 << 30)",
        (CHUNKS, "-k", "expands"),
    ),
    Fault(
        "a remote segment counts although an epoch begins elsewhere in its log",
        "logcore/remote/lineage.py",
        "        end = min(own[epoch][1], of_log[epoch][1])\n",
        "        end = own[epoch][1]\n",
        (LINEAGE, "-k", "both_wrote"),
    ),
    Fault(
        "a remote segment is read to its end although the next one begins inside of it",
        "logcore/reading/joined_logs.py",
        "replace(file, end=_cut(file, below))",
        "file",
        (JOINED, "-k", "begins_inside"),
    ),
    Fault(
        "a replica that diverged is joined with remote segments of the new leader",
        "logcore/reading/joined_logs.py",
        "    ours = (offsets_in_lineage(segment, log.leader_epochs, end) for segment in by_part)\n",
        "    ours = (each.part for each in counted)\n",
        (JOINED, "-k", "replica_that_diverged"),
    ),
    Fault(
        "retain goes on with a log of which nothing shows whether its beginning is in the remote tier",
        "logcore/cli/commands/retain.py",
        "    if known is not None:\n",
        "    if known is not None and known[2] != EVIDENCE_NO_EPOCHS:\n",
        (RETAIN, "-k", "may_have_a_remote_part"),
    ),
    Fault(
        "a half copy in remote storage counts",
        "logcore/remote/inventory.py",
        "    is_copied = segment.state is RemoteSegmentState.COPY_FINISHED\n",
        "    is_copied = segment.state <= RemoteSegmentState.COPY_FINISHED\n",
        (INVENTORY, "-k", "decides_what"),
    ),
    Fault(
        "a lake copies the stored chunks of a remote segment instead of its bytes",
        "spark_jobs/ingest/segment_copy.py",
        "        if is_chunked_segment(task.source):\n            end",
        "        if task.source.endswith('.none'):\n            end",
        (LAKES, "-k", "bytes_that_the_broker_had"),
    ),
    Fault(
        "offsets stay remote in the ledger after they were read",
        "logcore/logs/ledger/ledger_history.py",
        "        OffsetState.TRIMMED,\n    }",
        "        OffsetState.TRIMMED,\n        OffsetState.REMOTE,\n    }",
        (LAKES, "-k", "as_soon_as"),
    ),
    Fault(
        "another file under the name of a registered remote segment does not stop its log",
        "spark_jobs/ingest/source_changes.py",
        "(file.etag or _version_on_disk(file.path))",
        "(file.etag or registered[file.path])",
        (LAKES, "-k", "that_log_waits"),
    ),
    Fault(
        "segments that were copied to an empty mount point count as lost",
        "logcore/reading/remote_inventory.py",
        "    if empty:\n        segments = not_looked_up(segments)\n",
        "    if empty:\n",
        (EMPTY, "-k", "empty_directory"),
    ),
    Fault(
        "a lake follows a broker that deletes local segments after their copy, as a trim of the log",
        "spark_jobs/ingest/log_growth.py",
        "    start = source.whole_log_start_offset\n",
        "    start = source.log_start_offset\n",
        ("tests/jobs/test_tiered_retention.py", "-k", "no_trim"),
    ),
    Fault(
        "a lake forgets remote storage to which its segments refer",
        "spark_jobs/launch.py",
        "        if there:\n            first = min(",
        "        if not held:\n            first = min(",
        ("tests/jobs/test_forget_remote.py", "-k", "refers"),
    ),
    Fault(
        "a chunk map is used for an object with another ETag",
        "logcore/storage/remote_tier/known_manifests.py",
        "ours.etag == log.version and ",
        "",
        (KNOWN, "-k", "another_etag"),
    ),
    Fault(
        "verify does not compare chunk maps with manifests",
        "spark_jobs/lake_verification/archive.py",
        "        return unpacked(chunk_map).manifest == manifest\n",
        "        return manifest is not None\n",
        (BUCKET, "-k", "that_lies"),
    ),
)
