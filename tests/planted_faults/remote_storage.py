"""Planted into what reads remote storage of tiered topics."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CHUNKS = "tests/unit/logcore/remote/test_chunks.py"
INVENTORY = "tests/unit/logcore/remote/test_inventory.py"
JOINED = "tests/unit/logcore/reading/test_joined_logs.py"
LAKES = "tests/jobs/test_remote_storage.py"
RANGES = "tests/jobs/test_remote_ranges.py"
LINEAGE = "tests/unit/logcore/remote/test_lineage.py"

FAULTS = (
    Fault(
        "remote segments that cannot be read hold up the local part of their log",
        "spark_jobs/ingest/remote_ranges.py",
        "    if source.local_start_offset is None or known.stopped_file is None:\n",
        "    if True:\n",
        (RANGES, "-k", "do_not_hold_up"),
    ),
    Fault(
        "offsets of remote segments that failed in a first run are lost",
        "spark_jobs/ingest/log_growth.py",
        "    if tail is None and begins_at is None:\n",
        "    if known is None and begins_at is None:\n",
        (RANGES, "-k", "remote_and_not_lost"),
    ),
    Fault(
        "a watch never looks again for what remote storage alone has",
        "pipelines/command/watch.py",
        "        self._again_ms = self._clock_ms + delay_ms if waits else None\n",
        "        self._again_ms = None\n",
        ("tests/jobs/test_watch_remote_storage.py",),
    ),
    Fault(
        "a chunk may give fewer bytes of the segment than the manifest says",
        "logcore/remote/chunks.py",
        "    if len(content) != chunk.size:\n",
        "    if len(content) > chunk.size:\n",
        (CHUNKS, "-k", "another_size"),
    ),
    Fault(
        "a chunk of a remote segment expands without its limit",
        "logcore/remote/chunks.py",
        "decompress(Codec.ZSTD, content, size)",
        "decompress(Codec.ZSTD, content, 1 << 30)",
        (CHUNKS, "-k", "expands"),
    ),
    Fault(
        "a manifest is not compared with the size of its object",
        "logcore/remote/chunk_index.py",
        "        if nbytes != self.stored_size:\n",
        "        if nbytes < 0:\n",
        (CHUNKS, "-k", "stored_objects"),
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
        "a remote segment is cut after the batch with which the next one begins",
        "logcore/reading/joined_logs.py",
        "        if header.base_offset >= offset:\n            return position\n",
        "        if header.base_offset >= offset:\n            return position + header.size\n",
        (JOINED, "-k", "overlap"),
    ),
    Fault(
        "a wrong offset index of a remote segment decides where it is cut",
        "logcore/segments/side_files/proved_entries.py",
        "        return before < header.base_offset <= at_most\n",
        "        return True\n",
        (JOINED, "-k", "hides_no_record"),
    ),
    Fault(
        "the first of two copies of a remote segment ends the joined log if it is damaged",
        "logcore/reading/joined_logs.py",
        "                parts = [each for each in parts if each.segment is not part.segment]\n",
        "                return taken[::-1]\n",
        (JOINED, "-k", "two_copies"),
    ),
    Fault(
        "segments of all logs are joined although some were chosen",
        "logcore/reading/joined_logs.py",
        "    whole = remote_inventory(logs, tuple(remotes), notes, selection)\n",
        "    whole = remote_inventory(logs, tuple(remotes), notes)\n",
        (JOINED, "-k", "chosen_logs"),
    ),
    Fault(
        "a replica that diverged is joined with remote segments of the new leader",
        "logcore/reading/joined_logs.py",
        "    ours = (offsets_in_lineage(segment, log.leader_epochs, end) for segment in by_part)\n",
        "    ours = (each.part for each in counted)\n",
        (JOINED, "-k", "replica_that_diverged"),
    ),
    Fault(
        "a remote segment of another size than the metadata says counts",
        "logcore/remote/inventory.py",
        "        status = status if differs is None else RemoteStatus.OTHER_SIZE\n",
        "",
        (JOINED, "-k", "short_log_file"),
    ),
    Fault(
        "without leader epochs offsets below the first segment are trimmed",
        "logcore/logs/model/remote_tier.py",
        "        return ((line, first_base, EVIDENCE_NO_EPOCHS),)\n",
        "        return ((line, first_base, EVIDENCE_STALE_START),)\n",
        ("tests/unit/logcore/cli/test_tiered.py", "-k", "without_leader_epochs"),
    ),
    Fault(
        "recover drops the log start of a tiered log whose leader epochs are missing",
        "logcore/logs/recovery/proposal.py",
        "    epochs = loading.epochs if filenames.LEADER_EPOCH_FILE in directory.files else None\n",
        "    epochs = loading.epochs\n",
        ("tests/unit/logcore/cli/test_tiered.py", "-k", "recover_keeps"),
    ),
    Fault(
        "the latest tiered offset is above the end of an epoch that an unclean election cut",
        "logcore/remote/lineage.py",
        "        return min(ends[epoch], of_log[epoch][1]) - 1\n",
        "        return ends[epoch] - 1\n",
        (LINEAGE, "-k", "last_tiered"),
    ),
    Fault(
        "indexes of remote segments in chunks are not read",
        "logcore/reading/joined_logs.py",
        "        of_part = {part: indexes[part] for _, part in _BESIDE if part in indexes}\n",
        "",
        ("tests/conformance/test_remote.py", "-k", "verify_reads"),
    ),
    Fault(
        "objects of a partition that the metadata does not name are orphans",
        "logcore/remote/inventory.py",
        "RemoteStatus.UNNAMED if objects.place in places else RemoteStatus.NOT_COVERED",
        "RemoteStatus.UNNAMED",
        (INVENTORY, "-k", "only_where"),
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
        "spark_jobs/tasks/segment_copy.py",
        "        if is_chunked_segment(task.source):\n            end",
        "        if task.source.endswith('.none'):\n            end",
        (LAKES, "-k", "bytes_that_the_broker_had"),
    ),
    Fault(
        "a log of a lake begins at its first local segment after its remote part was read",
        "spark_jobs/ingest/remote_ranges.py",
        "            start = min([start, *(max(low, base) for base in inside)])\n",
        "",
        (LAKES, "-k", "as_soon_as"),
    ),
    Fault(
        "offsets stay remote in the ledger after they were read",
        "logcore/logs/ledger/ledger_history.py",
        "        OffsetState.TRIMMED,\n    }",
        "        OffsetState.TRIMMED,\n        OffsetState.REMOTE,\n    }",
        (LAKES, "-k", "as_soon_as"),
    ),
    Fault(
        "a lake reads another file under the name of a registered remote segment",
        "logcore/storage/opened_source.py",
        "        if version and version != now:\n",
        "        if version and version is now:\n",
        (LAKES, "-k", "replaced_before"),
    ),
    Fault(
        "another file under the name of a registered remote segment does not stop its log",
        "spark_jobs/ingest/source_changes.py",
        "(file.etag or _version_on_disk(file.path))",
        "(file.etag or registered[file.path])",
        (LAKES, "-k", "that_log_waits"),
    ),
    Fault(
        "a segment that becomes shorter and keeps its id is not archived",
        "spark_jobs/ingest/job.py",
        "_once(log.added, there - swapped_out)",
        "_once(log.added, there)",
        ("tests/jobs/test_late_fill_validation.py", "-k", "a_late_segment_decides"),
    ),
    Fault(
        "a remote segment that cannot be read stops its log",
        "spark_jobs/ingest/copied_log.py",
        "            if not task.is_remote or task.next_base_offset is None:\n",
        "            if task.is_remote or task.next_base_offset is None:\n",
        (RANGES, "-k", "read_at_first"),
    ),
    Fault(
        "verify calls remote storage that is not there damage",
        "spark_jobs/lake/store/referenced_bytes.py",
        "        if root is not None and not os.path.isdir(root):\n",
        "        if root is not None and os.path.isdir(root):\n",
        (LAKES, "-k", "could_not_check"),
    ),
    Fault(
        "remote offsets under a compacted segment are left out without a word",
        "spark_jobs/ingest/remote_ranges.py",
        "            findings.append(_left_out(row, start, end, why))\n",
        "",
        ("tests/unit/spark_jobs/ingest/test_remote_parts.py", "-k", "compacted"),
    ),
    Fault(
        "verify calls a segment without its manifest not checked",
        "spark_jobs/lake/store/referenced_bytes.py",
        "(path, aiven_layout.beside(path, SegmentPart.MANIFEST)) if is_chunked_segment(path) else (path,)",
        "(path,)",
        (LAKES, "-k", "broken_manifest"),
    ),
    Fault(
        "verify calls a segment with an empty manifest not checked",
        "spark_jobs/lake/store/referenced_bytes.py",
        "CorruptChunkError | CorruptIndexError)",
        "CorruptChunkError)",
        (LAKES, "-k", "broken_manifest"),
    ),
    Fault(
        "a wrong private key is damage of the segment",
        "logcore/remote/chunks.py",
        "        if secret is None:\n            raise LogError(\n",
        "        if secret is None:\n            raise CorruptChunkError(\n",
        (LAKES, "-k", "another_pair"),
    ),
)
