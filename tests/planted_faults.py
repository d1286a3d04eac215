"""Faults planted into the code, each of which must turn a test red: ``python -m tests.planted_faults [NAME ...]``.

A test that stays green whatever the code does is worth nothing. Each fault is one small edit of one file, made in a
copy of the work tree; then the tests that guard that promise run on the copy, and at least one has to fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
COPIED = (
    "logcore",
    "spark_jobs",
    "pipelines",
    "tests",
    "samples",
    "deploy",
    "pyproject.toml",
    "README.md",
    "workspace.yaml",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One edit: in `file`, `old` (which stands there once) becomes `new`; `tests` is what must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


SOURCE_CHANGES = "tests/spark/test_source_changes.py"
CORPUS_TABLES = "tests/conformance/test_tables.py"
OPTIMIZE = "tests/spark/test_optimize.py"
MAINTAIN = "tests/spark/test_maintain.py"

EVERY_SIDE_EFFECT = "tests/crash/test_every_side_effect.py"
READER = "tests/crash/test_reader.py"

FAULTS = (
    Fault(
        "compaction retires first and adds then",
        "spark_jobs/lake/archive.py",
        '    commits.replace(lake, "segments", predicate, rows, run_id, [*moved, *guards])',
        '    commits.replace(lake, "segments", predicate, rows.slice(0, len(gone)), run_id, [])\n'
        '    commits.replace(lake, "segments", predicate, rows, run_id, [*moved, *guards])',
        (READER,),
    ),
    Fault(
        "maintain asks for nobody who reads",
        "spark_jobs/archive_removal.py",
        "known = None if clocks.is_alone or not due else retired_by(lake, clocks.store_ms - longest)",
        "known = None",
        (READER,),
    ),
    Fault(
        "a merge that landed unheard loses its files",
        "spark_jobs/optimize.py",
        "for f in files if f.path not in tried]",
        "for f in files if not standing or f.path not in tried]",
        ("tests/unit/lake/test_merge_commits.py",),
    ),
    Fault(
        "a range through the frontier is passed over",
        "spark_jobs/publish.py",
        "ledger = {log: frontier.with_published(ranges, frontiers[log]) for log, ranges in told.items()}",
        "ledger = told",
        ("tests/unit/lake/test_publish_plan.py",),
    ),
    Fault(
        "a late fill of aborted rows stays unseen to who reads uncommitted",
        "spark_jobs/validate.py",
        "                changed[log.row.log] = offset",
        "                pass",
        ("tests/spark/test_salvage.py", "-k", "reads_uncommitted"),
    ),
    Fault(
        "skip the crc",
        "logcore/segments/scan.py",
        "        if not crc_matches(self._buf, position, header):\n            message = \"the batch's crc",
        "        if False:\n            message = \"the batch's crc",
        ("tests/unit/segments",),
    ),
    Fault(
        "trust a declared size",
        "logcore/records/record.py",
        "        return None, at\n    if length > end - at:",
        "        return None, at\n    if False:",
        ("tests/unit/records",),
    ),
    Fault(
        "no cap on what a codec gives",
        "logcore/records/compression.py",
        "            if total > limit:",
        "            if False:",
        ("tests/unit/records",),
    ),
    Fault(
        "a broken lz4 checksum is forgiven in all formats",
        "logcore/records/lz4_frames.py",
        "    if checked and view[end]",
        "    if False and view[end]",
        ("tests/unit/records/test_compression.py",),
    ),
    Fault(
        "bytes behind an lz4 frame are overlooked",
        "logcore/records/lz4_frames.py",
        "    if position < len(view):",
        "    if False:",
        ("tests/unit/records/test_compression.py",),
    ),
    Fault(
        "isal alone judges gzip",
        "logcore/records/compression.py",
        "        zlib.decompressobj(-zlib.MAX_WBITS).decompress(view[deflate : deflate + _DEFLATE_TABLES], 1)\n",
        "",
        ("tests/unit/records/test_compression.py",),
    ),
    Fault(
        "offsets inside a wrapper count from its own",
        "logcore/records/legacy.py",
        "    return header.base_offset - last\n",
        "    return header.base_offset\n",
        ("tests/unit/records/test_legacy.py",),
    ),
    Fault(
        "messages inside keep their time under LogAppendTime",
        "logcore/records/legacy.py",
        "                timestamp = header.max_timestamp\n",
        "                pass\n",
        ("tests/unit/records/test_legacy.py",),
    ),
    Fault(
        "a wrapper's offset is believed",
        "logcore/records/legacy.py",
        "        if last != header.base_offset and",
        "        if False and",
        ("tests/unit/records/test_legacy.py",),
    ),
    Fault(
        "an empty value is a tombstone",
        "logcore/records/record.py",
        "    if length < 0:\n        return None, at",
        "    if length <= 0:\n        return None, at",
        ("tests/unit/records",),
    ),
    Fault(
        "drop a marker",
        "logcore/logs/transactions.py",
        "        if batch.is_control:\n            self._mark(batch)\n            return",
        "        if batch.is_control:\n            return",
        ("tests/unit/logs",),
    ),
    Fault(
        "the frontier passes a corrupt range",
        "logcore/logs/offset_ledger.py",
        "OffsetState.UNKNOWN, OffsetState.MISSING, OffsetState.CORRUPT})",
        "OffsetState.UNKNOWN, OffsetState.MISSING})",
        ("tests/unit/logs",),
    ),
    Fault(
        "a marker behind a loss decides what was open before it",
        "logcore/logs/transactions.py",
        "                    self._lose_sight(expected, batch.base_offset)",
        "                    pass",
        ("tests/unit/logs/test_transactions.py",),
    ),
    Fault(
        "a lost outcome is published",
        "logcore/logs/offset_ledger.py",
        "BLOCKING = frozenset({OffsetState.OPEN, OffsetState.UNKNOWN,",
        "BLOCKING = frozenset({OffsetState.OPEN,",
        ("tests/unit/logs/test_offset_ledger.py",),
    ),
    Fault(
        "an index entry names the first offset",
        "logcore/segments/offset_index.py",
        "        last_offset = batch.header.last_offset",
        "        last_offset = batch.header.base_offset",
        ("tests/unit/segments",),
    ),
    Fault(
        "retention takes what is exactly as old as the limit",
        "logcore/logs/retention.py",
        "_Verdict(age > limit,",
        "_Verdict(age >= limit,",
        ("tests/unit/logs",),
    ),
    Fault(
        "a damaged segment is as old as what is left of it",
        "logcore/logs/retained_segments.py",
        "            return None, TimestampSource.UNKNOWN",
        "            return greatest, TimestampSource.BATCHES",
        ("tests/unit/logs/test_retention_plan.py",),
    ),
    Fault(
        "the last batch of a time is written into the time index",
        "logcore/logs/open_segment.py",
        "if header.max_timestamp > self._greatest.timestamp:  # the first",
        "if header.max_timestamp >= self._greatest.timestamp:  # the first",
        ("tests/unit/logs/test_writer.py",),
    ),
    Fault(
        "two runs write one partition directory",
        "logcore/storage/partition_output.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        ("tests/unit/storage/test_partition_output.py",),
    ),
    Fault(
        "any history agrees with ours",
        "logcore/logs/agreement.py",
        "        tail = self.tail\n        return (header.base_offset,",
        "        tail = self.tail\n        return True or (header.base_offset,",
        ("tests/unit/logs",),
    ),
    Fault(
        "high watermark off by one",
        "spark_jobs/log_pass.py",
        "high_watermark=min(row.publish_limit(), row.next_offset)",
        "high_watermark=min(row.publish_limit() + 1, row.next_offset)",
        (SOURCE_CHANGES, "-k", "only_offsets_below"),
    ),
    Fault(
        "commit twice",
        "spark_jobs/publish.py",
        "standing = [log for log in logs if now[log.log] == log.frontier]",
        "standing = list(logs)",
        ("tests/spark/test_publish_once.py",),
    ),
    Fault(
        "a frontier ends in damage",
        "logcore/logs/offset_ledger.py",
        "                break\n        else:\n            end = each.end_offset\n    return end",
        "                break\n        end = each.end_offset\n    return end",
        ("tests/unit/logs/test_offset_ledger.py",),
    ),
    Fault(
        "a scheduled run waits for nothing",
        "spark_jobs/publish.py",
        "        if not config.at_once and _waits(",
        "        if False and _waits(",
        ("tests/spark/test_salvage.py", "-k", "leaves_little_for_later"),
    ),
    Fault(
        "Spark's files are taken for another task's",
        "spark_jobs/spark_writer.py",
        "written = _place(stored.path, root, tasks[int(part[1])].topic)",
        "written = _place(stored.path, root, tasks[-1].topic)",
        ("tests/spark/test_writers.py",),
    ),
    Fault(
        "a replacement reaches beyond its range",
        "spark_jobs/rewritten_file.py",
        "return (at >= 0) & (offsets < ends[np.maximum(at, 0)])",
        "return at >= 0",
        ("tests/spark/test_replace.py", "-k", "exactly_the_named_range"),
    ),
    Fault(
        "a replacement goes around the frontier",
        "spark_jobs/replacement_request.py",
        "start, stop = max(low, row.start_offset), min(high, row.end_offset, end)",
        "start, stop = max(low, row.start_offset), min(high, row.end_offset)",
        ("tests/spark/test_replace.py", "-k", "ends_at_the_frontier"),
    ),
    Fault(
        "offsets that the archive lost are replaced",
        "spark_jobs/replacement_request.py",
        "if row.archived == Archived.HELD and row.state in REPLACEABLE:",
        "if row.state in REPLACEABLE:",
        ("tests/spark/test_replace.py", "-k", "refused_by_name"),
    ),
    Fault(
        "a file that is gone is replaced all the same",
        "spark_jobs/lake/commits.py",
        "    gone = [path for path in removed if path not in live]\n",
        "    gone, removed = [], [path for path in removed if path in live]\n",
        ("tests/unit/lake/test_rewrite_files.py",),
    ),
    Fault(
        "a tail is added and not replaced",
        "spark_jobs/uncommitted.py",
        "        removed += log.removed\n",
        "",
        ("tests/spark/test_uncommitted.py", "-k", "open_offsets or grows_with_it"),
    ),
    Fault(
        "a version that moved is not looked at",
        "spark_jobs/lake/commits.py",
        "        if found[guard.application_id] != guard.planned:",
        "        if False:",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "take half a batch of a segment still being written",
        "spark_jobs/segment_copy.py",
        "            if last is None:\n                return None, findings\n",
        "            end = len(content)\n            if last is None:\n                return None, findings\n",
        (SOURCE_CHANGES, "-k", "half_a_batch"),
    ),
    Fault(
        "two runs at once",
        "spark_jobs/lake/lease.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ("tests/crash/test_kill.py", "-k", "two_runs"),
    ),
    Fault(
        "the walk kernel skips the crc",
        "logcore/columns/kernels/batches.py",
        "        if crc32c(source, at + 21, at + size, tables) != crc:",
        "        if False and crc32c(source, at + 21, at + size, tables) != crc:",
        ("tests/unit/columns/test_kernels.py", "-k", "checksums and processor"),
    ),
    Fault(
        "a wide copy is a byte short",
        "logcore/columns/kernels/values.py",
        "        if size > 32:",
        "        if size > 33:",
        ("tests/unit/columns/test_line_buffers.py",),
    ),
    Fault(
        "the wrong validity bit",
        "logcore/columns/kernels/values.py",
        "& ~(nb.int64(1) << (index & 7))",
        "& ~(nb.int64(1) << (index & 6))",
        ("tests/unit/columns/test_engines.py", "-k", "null_and_empty"),
    ),
    Fault(
        "a record's end is not compared",
        "logcore/columns/kernels/records.py",
        "if not good or at != record_end:",
        "if not good:",
        ("tests/unit/columns/test_engines.py", "-k", "damaged_batch_is"),
    ),
    Fault(
        "no bound on the headers of a record",
        "logcore/columns/kernels/records.py",
        " or header_count > 1_000_000:",
        ":",
        ("tests/unit/columns/test_engines.py", "-k", "more_headers"),
    ),
    Fault(
        "the kernel knows no LogAppendTime",
        "logcore/columns/kernels/records.py",
        "stamp = max_stamp if appended else base_stamp + delta",
        "stamp = base_stamp + delta",
        ("tests/unit/columns/test_engines.py", "-k", "log_append_time"),
    ),
    Fault(
        "unfolded offsets are off by one",
        "logcore/columns/kernels/messages.py",
        "else outer - last + first\n",
        "else outer - last + first + 1\n",
        ("tests/unit/columns/test_line_buffers.py", "-k", "old_messages"),
    ),
    Fault(
        "the kernel takes the broken lz4 checksum in all formats",
        "logcore/columns/kernels/frames.py",
        "    if magic > 0 and nb.int64((xxh32",
        "    if magic > 2 and nb.int64((xxh32",
        ("tests/unit/columns/test_engines.py", "-k", "old_clients"),
    ),
    Fault(
        "any encoder of snappy is believed",
        "logcore/records/snappy_encoder.py",
        "return address if address and is_the_brokers(address) else 0",
        "return address",
        ("tests/unit/records/test_snappy_encoder.py",),
    ),
    Fault(
        "the kernel cuts snappy into other blocks",
        "logcore/columns/kernels/cleaning.py",
        "_XERIAL_BLOCK = 32 * 1024",
        "_XERIAL_BLOCK = 64 * 1024",
        ("tests/unit/columns/test_cleaned_batches.py", "-k", "plain_way"),
    ),
    Fault(
        "bytes behind an lz4 frame are overlooked by the kernel",
        "logcore/columns/kernels/frames.py",
        "    if at != end:\n        return none, none, none",
        "    if at > end:\n        return none, none, none",
        ("tests/unit/columns/test_engines.py", "-k", "byte_behind"),
    ),
    Fault(
        "two characters of base64 change places",
        "logcore/columns/kernels/lines.py",
        "        copy2(target, at + 2, couples, (bits & 4095) * 2)",
        "        copy2(target, at + 2, couples, (bits >> 12) * 2)",
        ("tests/unit/columns/test_line_buffers.py",),
    ),
    Fault(
        "the walk kernel does not look at the successor",
        "logcore/columns/kernels/batches.py",
        "good = big_int64(source, behind) > table[row + slots.LAST_OFFSET]",
        "good = big_int64(source, behind) > 0",
        ("tests/unit/columns/test_engines.py", "-k", "claims_its_offsets"),
    ),
    Fault(
        "a wrapper behind a gap is believed",
        "logcore/columns/kernels/messages.py",
        "behind_gap = wrapped and",
        "behind_gap = False and",
        ("tests/unit/columns/test_engines.py", "-k", "claims_its_offsets"),
    ),
    Fault(
        "since leaves out its own millisecond",
        "logcore/columns/kernels/records.py",
        "and since <= stamp",
        "and since < stamp",
        ("tests/unit/columns/test_engines.py", "-k", "only_times"),
    ),
    Fault(
        "until takes in its own millisecond, of messages",
        "logcore/columns/kernels/messages.py",
        "(until_open or stamp < until)",
        "(until_open or stamp <= until)",
        ("tests/unit/columns/test_engines.py", "-k", "only_times"),
    ),
    Fault(
        "no leader epoch is epoch -1",
        "logcore/columns/kernels/values.py",
        "        if epoch < 0:",
        "        if epoch < -1:",
        ("tests/unit/columns/test_engines.py", "-k", "every_column"),
    ),
    Fault(
        "rows are given out before the batch is known to be good",
        "logcore/columns/compiled.py",
        "(records > ROW_LIMIT or nbytes > LARGE_BYTES)",
        "nbytes > LARGE_BYTES",
        ("tests/unit/columns/test_engines.py", "-k", "very_many"),
    ),
    Fault(
        "a chunk's guessed beginning is believed",
        "logcore/columns/chunks.py",
        "if job.is_first or ended == (chunk.start, chunk.next_offset):",
        "if job.is_first or ended[0] < chunk.stop:",
        ("tests/unit/columns/test_chunks.py",),
    ),
    Fault(
        "sequences follow where they do not",
        "logcore/columns/bulk_rules.py",
        "        if last.next_sequence != ordered[at, slots.BASE_SEQUENCE]:",
        "        if last.next_sequence == ordered[at, slots.BASE_SEQUENCE]:",
        ("tests/unit/columns/test_checked.py",),
    ),
    Fault(
        "rules forget the epoch between tables",
        "logcore/columns/bulk_rules.py",
        "        rules.epoch = int(epochs[-1])",
        "        pass",
        ("tests/unit/columns/test_checked.py",),
    ),
    Fault(
        "torn compiled code is run",
        "logcore/storage/object_code.py",
        "return code if hashlib.sha256(code).digest() == content[:_DIGEST_BYTES] else None",
        "return code",
        ("tests/unit/storage/test_object_code.py",),
    ),
    Fault(
        "every worker compiles for itself",
        "logcore/storage/object_code.py",
        "fcntl.flock(lock, fcntl.LOCK_EX)",
        "fcntl.flock(lock, fcntl.LOCK_SH)",
        ("tests/unit/storage/test_object_code.py", "-k", "at_once"),
    ),
    Fault(
        "a tail is cut back below the frontier",
        "spark_jobs/source_changes.py",
        "not_below=published,",
        "not_below=0,",
        ("tests/spark/test_cut_back.py", "-k", "never_cut_back"),
    ),
    Fault(
        "a cut-back does not look again at what is published",
        "spark_jobs/ingest.py",
        "        if published > cuts[log]:",
        "        if False:",
        ("tests/spark/test_cut_back.py", "-k", "between_plan_and_commit"),
    ),
    Fault(
        "a hole that was filled a moment ago is filled again",
        "spark_jobs/late_segments.py",
        "        if not _are_validated(lake, inside):",
        "        if False:",
        ("tests/spark/test_late_segments.py", "-k", "filled_again"),
    ),
    Fault(
        "a log begins anew without a word of its leader epochs",
        "logcore/logs/divergence.py",
        "    if bound is None or bound > begin or begin",
        "    if begin",
        ("tests/unit/logs/test_divergence.py",),
    ),
    Fault(
        "a fork is looked for in the newest incarnation alone",
        "spark_jobs/source_changes.py",
        "[*_earlier(known, held), *live]",
        "live",
        ("tests/spark/test_incarnations.py", "-k", "parts_below_the_beginning"),
    ),
    Fault(
        "publish commits what was cut back since its plan",
        "spark_jobs/publish.py",
        "if all(p.segment_id in feeding for task in log.tasks for p in task.pieces)]",
        "]",
        ("tests/spark/test_cut_back.py", "-k", "planned_before_a_cut"),
    ),
    Fault(
        "publish trusts a ledger that was made of other bytes",
        "spark_jobs/publish.py",
        " if held.is_judged(log, start, end)}",
        "}",
        ("tests/spark/test_cut_back.py", "-k", "only_as_validation"),
    ),
    Fault(
        "what was cut back stays validated",
        "spark_jobs/validate.py",
        "    if taken_back:\n",
        "    if False:\n",
        ("tests/spark/test_cut_back.py", "-k", "judged_again"),
    ),
    Fault(
        "what was cut back still feeds the log",
        "spark_jobs/lake/archive.py",
        "and self.retired_because not in (CUT_BACK, FILLED, MERGED)",
        "and self.retired_because not in (FILLED, MERGED)",
        ("tests/unit/lake/test_segments_table.py",),
    ),
    Fault(
        "a retired file goes although its offsets are not published",
        "spark_jobs/archive_removal.py",
        "        if segment.next_offset > published:",
        "        if False:",
        (MAINTAIN, "-k", "keeps_its_files"),
    ),
    Fault(
        "an orphan is as old as its source says",
        "spark_jobs/archive_removal.py",
        "min(clocks.as_of_ms, clocks.store_ms) - file.placed_ms",
        "min(clocks.as_of_ms, clocks.store_ms) - file.modified_ms",
        (MAINTAIN, "-k", "young_orphans"),
    ),
    Fault(
        "a file is deleted through a link",
        "spark_jobs/lake/storage.py",
        "_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW",
        "_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY",
        ("tests/unit/lake/test_archive_storage.py",),
    ),
    Fault(
        "a slice that was joined still feeds the log",
        "spark_jobs/lake/archive.py",
        "and self.retired_because not in (CUT_BACK, FILLED, MERGED)",
        "and self.retired_because not in (CUT_BACK, FILLED)",
        ("tests/unit/lake/test_segments_table.py",),
    ),
    Fault(
        "damage at the source is another leader's batch",
        "logcore/logs/divergence.py",
        "    if not reader.is_good(*place, header):\n        return False",
        "    if False:\n        return False",
        ("tests/unit/logs/test_divergence.py",),
    ),
    Fault(
        "a flipped base offset is another batch",
        "logcore/logs/divergence.py",
        "        if not is_again or not source.leader_epochs:",
        "        if False:",
        ("tests/unit/logs/test_divergence.py",),
    ),
    Fault(
        "the fork is where one side's epochs end",
        "logcore/logs/divergence.py",
        "        end = min(their_epoch_end, own_end, end)",
        "        end = min(their_epoch_end, end)",
        ("tests/unit/logs/test_divergence.py",),
    ),
    Fault(
        "a new incarnation begins where its source does",
        "spark_jobs/log_growth.py",
        "source.log_start_offset if begins_at is None else begins_at",
        "source.log_start_offset",
        ("tests/spark/test_incarnations.py", "-k", "parted_below"),
    ),
    Fault(
        "an old life of a topic is a new one",
        "spark_jobs/source_changes.py",
        "    if any(row.topic_id == source.topic_id for row in earlier):",
        "    if False:",
        ("tests/spark/test_incarnations.py", "-k", "made_again"),
    ),
    Fault(
        "a copy of another history fills a hole",
        "logcore/logs/fillers.py",
        "                return ()  # another history",
        "                pass",
        ("tests/unit/logs/test_fillers.py",),
    ),
    Fault(
        "what fills a hole may reach over its edge",
        "logcore/logs/fillers.py",
        " or header.next_offset > hole.end:",
        ":",
        ("tests/unit/logs/test_fillers.py",),
    ),
    Fault(
        "damage that was filled goes on feeding",
        "spark_jobs/late_segments.py",
        "    return Swap(tuple(retired), archive.FILLED, tuple(parts), findings)",
        "    return Swap((), archive.FILLED, tuple(parts), findings)",
        ("tests/spark/test_late_segments.py", "-k", "replica_that_is_named"),
    ),
    Fault(
        "a small growth waits for ever",
        "spark_jobs/log_growth.py",
        "is_small and config.as_of_ms - known.as_of_ms < policy.publish_max_delay_ms",
        "is_small",
        ("tests/spark/test_small_growth.py", "-k", "time_has_come"),
    ),
    Fault(
        "a log moves to a copy that disagrees",
        "spark_jobs/source_changes.py",
        "    if growth.stop is not None:\n        return None, [",
        "    if False:\n        return None, [",
        (SOURCE_CHANGES, "-k", "moves_to_another"),
    ),
    Fault(
        "small files of a topic are merged whatever their log",
        "spark_jobs/file_runs.py",
        "            logs.setdefault(place, []).append(file)",
        "            logs.setdefault((place[0], 0), []).append(file)",
        ("tests/unit/lake/test_file_runs.py",),
    ),
    Fault(
        "a merge reaches into the undecided section",
        "spark_jobs/file_runs.py",
        " and (end is None or reached < end)",
        "",
        (OPTIMIZE, "-k", "undecided"),
    ),
    Fault(
        "a merge is committed whatever became of its files",
        "spark_jobs/lake/commits.py",
        "    if gone:\n",
        "    removed = [path for path in removed if path in live]\n    if False:\n",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "a rewrite is rebased onto what came between",
        "spark_jobs/lake/commits.py",
        "be there twice.\n            commit_properties=_properties(run_id, guards, retries=0),",
        "be there twice.\n            commit_properties=_properties(run_id, guards, retries=APPEND_RETRIES),",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "a superseded file counts from when it was written",
        "spark_jobs/lake/live_files.py",
        "history.removed_ms.get(path, file.modified_ms)",
        "file.modified_ms",
        (OPTIMIZE, "-k", "behind_the_floor"),
    ),
    Fault(
        "rows that do not rise are merged",
        "spark_jobs/merged_file.py",
        "                if offsets[0] <= reached or (np.diff(offsets) <= 0).any():",
        "                if False:",
        (OPTIMIZE, "-k", "statistics_say"),
    ),
    Fault(
        "timestamps of a table lose their milliseconds",
        "spark_jobs/parquet_files.py",
        "        left = chunk.select(schema.names)\n",
        "        left = chunk.select(schema.names)\n"
        "        if 'timestamp' in schema.names:\n"
        "            from pyarrow.compute import floor_temporal\n\n"
        "            at = schema.get_field_index('timestamp')\n"
        "            left = left.set_column(at, schema.field(at), floor_temporal(left.column(at), unit='second'))\n",
        (CORPUS_TABLES, "-k", "instants and codecs-v2-4.3.1"),
    ),
    Fault(
        "headers of a table are turned around",
        "logcore/columns/rows.py",
        "        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))\n",
        "        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))\n"
        "        pairs = pairs.take(pa.array(range(count))[::-1])\n",
        (CORPUS_TABLES, "-k", "received and codecs-v2-4.3.1"),
    ),
    Fault(
        "aborted records are published",
        "spark_jobs/publish.py",
        "if r.state is OffsetState.PRESENT and r.start_offset >= start",
        "if r.state in (OffsetState.PRESENT, OffsetState.ABORTED) and r.start_offset >= start",
        (CORPUS_TABLES, "-k", "received and transactions-4.4.0"),
    ),
    Fault(
        "uncommitted records end one below the high watermark",
        "spark_jobs/uncommitted.py",
        "    end = frontier.ledger_high_watermark(ranges)\n    if passes_damage:",
        "    end = frontier.ledger_high_watermark(ranges) - 1\n    if passes_damage:",
        (CORPUS_TABLES, "-k", "received and (transactions-4.4.0 or compaction-4.4.0/after3)"),
    ),
    Fault(
        "the first record of a range has its neighbour's transaction state",
        "spark_jobs/uncommitted.py",
        'np.searchsorted(starts, offsets, side="right") - 1',
        'np.maximum(np.searchsorted(starts, offsets, side="left") - 1, 0)',
        (CORPUS_TABLES, "-k", "consumer_of_committed and transactions-4.4.0"),
    ),
    Fault(
        "a batch outside of its producer's transaction is folded away",
        "logcore/columns/fact_runs.py",
        "elif not first.is_transactional and _any_of(producer[start:end], open_producers()):",
        "elif False:",
        ("tests/property/logs/test_fact_runs.py",),
    ),
    Fault(
        "a run of batches goes over a cut",
        "logcore/columns/fact_runs.py",
        "        & ~np.isin(base[1:], borders)\n",
        "",
        ("tests/property/logs/test_fact_runs.py",),
    ),
    Fault(
        "the log pass holds every batch of a log",
        "spark_jobs/batch_stream.py",
        "    readers = []\n",
        "    readers = []\n    segments = list(segments)\n    files = [f for f in files]\n",
        ("tests/unit/lake/test_log_pass_memory.py",),
    ),
    Fault(
        "batches of a segment that was taken back feed the ledger",
        "spark_jobs/batch_stream.py",
        "self.places.get(name, -1)",
        "self.places.get(name, 0)",
        ("tests/unit/lake/test_batch_stream.py",),
    ),
    Fault(
        "what was filled in behind the frontier counts as published",
        "logcore/logs/ledger_history.py",
        "return replace(each, published=False, evidence=EVIDENCE_FILLED)",
        "return replace(each, published=True, evidence=EVIDENCE_FILLED)",
        ("tests/unit/logs/test_ledger_history.py",),
    ),
    Fault(
        "a late segment decides nothing that lies before it",
        "logcore/logs/ledger_history.py",
        "lowered = at if changed is None else earliest_in_progress(at)",
        "lowered = at",
        ("tests/property/logs/test_ledger_history.py",),
    ),
    Fault(
        "an outcome that is not known is forgotten when the log grows",
        "spark_jobs/lake/log_transactions.py",
        "self.in_progress_at(offset) & (self.marker != UNDECIDED)",
        "self.in_progress_at(offset)",
        ("tests/property/logs/test_ledger_history.py",),
    ),
    Fault(
        "a row that is published twice is one row",
        "spark_jobs/published_rows.py",
        "counts.rows if rises else _distinct(task, counts)",
        "counts.rows",
        ("tests/unit/lake/test_published_rows.py",),
    ),
    Fault(
        "a lease is taken from whoever took it first",
        "spark_jobs/lake/object_store.py",
        'return _put(url, content, {"e_tag": etag})',
        'return _put(url, content, "overwrite")',
        ("tests/object_store/test_lease.py", "-k", "lost_to_another"),
    ),
    Fault(
        "the bytes of a range come to other positions",
        "spark_jobs/lake/object_store.py",
        "os.pwrite(descriptor, part[done:], position + done)",
        "os.pwrite(descriptor, part[done:], position - start + done)",
        ("tests/object_store/test_storage.py", "-k", "a_range"),
    ),
    Fault(
        "a file gets its name before its bytes are on disk",
        "spark_jobs/lake/storage.py",
        "        sync(self.path)\n",
        "",
        ("tests/unit/lake/test_storage.py",),
    ),
    Fault(
        "rows of one log make up for those of another",
        "spark_jobs/lake/completeness.py",
        'return f"{names.pop()}/{partition}", ""',
        'return f"{min(map(str, names))[:1]}.0/{partition}", ""',
        ("tests/unit/lake/test_completeness.py",),
    ),
    Fault(
        "only the number of all rows is compared",
        "spark_jobs/lake/completeness.py",
        "        if at is None and not is_last:",
        "        if not is_last:",
        ("tests/unit/lake/test_completeness.py",),
    ),
    Fault(
        "lineage believes the stored checksum",
        "spark_jobs/lake/archived_batch.py",
        "        return self.crc == self.crc_computed",
        "        return True",
        ("tests/spark/test_lineage.py", "-k", "flipped"),
    ),
    Fault(
        "lineage takes a position in the segment for one in the source",
        "spark_jobs/lake/archived_batch.py",
        "None if segment.generation else segment.origin_position + position",
        "None if segment.generation else position",
        ("tests/spark/test_lineage.py", "-k", "leads_to_the_bytes"),
    ),
    Fault(
        "what came late waits for a person",
        "pipelines/steps.py",
        "    if run.state().came_late:",
        "    if False:",
        ("tests/dagster/test_published_again.py", "-k", "filled_late"),
    ),
    Fault(
        "damage that was filled alarms for ever",
        "pipelines/standing.py",
        '        if f["segment_id"] not in gone\n        and stands',
        "        if stands",
        ("tests/dagster/test_what_still_stands.py", "-k", "filled"),
    ),
    Fault(
        "a version that passed the planned one is as good",
        "spark_jobs/lake/commits.py",
        "        if found[guard.application_id] != guard.planned:",
        "        if (found[guard.application_id] or 0) < (guard.planned or 0):",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "what another run committed since the plan does not count",
        "spark_jobs/lake/commits.py",
        "        if found != (planned or 0):",
        "        if False:",
        ("tests/unit/lake/test_commits.py", "-k", "whole_table"),
    ),
    Fault(
        "an append that stands on a whole table is rebased",
        "spark_jobs/lake/commits.py",
        "        properties = _properties(run_id, guards, 0 if guards or standing else APPEND_RETRIES)",
        "        properties = _properties(run_id, guards, 0 if guards else APPEND_RETRIES)",
        ("tests/unit/lake/test_commits.py", "-k", "whole_table"),
    ),
    Fault(
        "the frontier is not in the commit",
        "spark_jobs/publish.py",
        "        guards = [log.guard for log in standing]",
        "        guards = [log.guard for log in standing[:0]]",
        (EVERY_SIDE_EFFECT, "-k", "killed_before and first-publish"),
    ),
    Fault(
        "a lost answer is not looked for",
        "spark_jobs/publish.py",
        "            unanswered = error\n",
        "            raise\n",
        ("tests/crash/test_unanswered.py", "-k", "lost_answer and first"),
    ),
    Fault(
        "a file is not on disk when it is committed",
        "spark_jobs/lake/storage.py",
        "        sync(self.path)\n",
        "",
        (EVERY_SIDE_EFFECT, "-k", "on_disk"),
    ),
    Fault(
        "a new folder is not on disk when its files are committed",
        "spark_jobs/lake/storage.py",
        "        for _ in range(_SYNCED_AROUND):",
        "        for _ in range(0):",
        (EVERY_SIDE_EFFECT, "-k", "on_disk"),
    ),
    Fault(
        "the ledger says published before anything is",
        "spark_jobs/publish.py",
        "    committed, strange = _commit(",
        "    held = frontier.read_ledger(config.lake, list(files))\n"
        "    rows = [r for ranges in held.values() for r in frontier.with_published(ranges, ranges[-1].end_offset)]\n"
        "    frontier.commit_ledger(config.lake, rows, list(files), config.run_id)\n"
        "    committed, strange = _commit(",
        (EVERY_SIDE_EFFECT, "-k", "killed_before and first-publish"),
    ),
)


def turns_red(fault: Fault) -> tuple[bool, str]:
    """Plant the fault in a copy and run its tests: whether one failed, and pytest's last line."""
    with tempfile.TemporaryDirectory(prefix="fault-") as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        for name in COPIED:
            source = REPOSITORY / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, tree / name)
        edited = tree / fault.file
        text = edited.read_text()
        if text.count(fault.old) != 1:
            raise ValueError(f"{fault.name}: its text stands {text.count(fault.old)} times in {fault.file}")
        edited.write_text(text.replace(fault.old, fault.new))
        home = str(_home(Path(scratch, "home")))
        environment = os.environ | {"PYTHONPATH": str(tree), "LOGLAKE_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *fault.tests]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 1, (failed or lines)[-1]


def _home(home: Path) -> Path:
    """A home with what is in the ordinary one, but kernels of its own: what planted code compiles to goes with it."""
    ordinary = Path(os.environ.get("LOGLAKE_HOME", REPOSITORY / ".loglake")).absolute()
    home.mkdir()
    for each in ordinary.iterdir() if ordinary.is_dir() else ():
        if each.name == "kernels":
            shutil.copytree(each, home / each.name)
        else:
            (home / each.name).symlink_to(each)
    return home


def main(names: list[str]) -> int:
    """Plant the named faults, or all; exit code 1 if one stayed green."""
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        print(f"no planted fault is called {sorted(unknown)[0]!r}", file=sys.stderr)
        return 64
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    green = 0
    for fault in chosen:
        red, said = turns_red(fault)
        green += not red
        print(f"{'red  ' if red else 'GREEN'}  {fault.name}: {said}", flush=True)
    print(f"{len(chosen) - green} of {len(chosen)} planted faults turned a test red")
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
