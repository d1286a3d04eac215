"""Planted into the state of a lake."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

OPTIMIZE = "tests/spark/test_optimize.py"
EVERY_SIDE_EFFECT = "tests/crash/test_every_side_effect.py"
READER = "tests/crash/test_reader.py"

FAULTS = (
    Fault(
        "compaction retires first and adds then",
        "spark_jobs/lake/archive.py",
        '    commits.replace(lake, "segments", ("segment_id", ids), rows, run_id, [*moved, *guards])',
        '    commits.replace(lake, "segments", ("segment_id", ids), rows.slice(0, len(gone)), run_id, [])\n'
        '    commits.replace(lake, "segments", ("segment_id", ids), rows, run_id, [*moved, *guards])',
        (READER,),
    ),
    Fault(
        "a file that is gone is replaced all the same",
        "spark_jobs/lake/commits.py",
        "    gone = [path for path in removed if path not in live]\n",
        "    gone, removed = [], [path for path in removed if path in live]\n",
        ("tests/unit/lake/test_rewrite_files.py",),
    ),
    Fault(
        "a version that moved is not looked at",
        "spark_jobs/lake/commits.py",
        "        if found[guard.application_id] != guard.planned:",
        "        if False:",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "two runs at once",
        "spark_jobs/lake/lease.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ("tests/crash/test_kill.py", "-k", "two_runs"),
    ),
    Fault(
        "what was cut back still feeds the log",
        "spark_jobs/lake/archive.py",
        "and self.retired_because not in (CUT_BACK, FILLED, MERGED)",
        "and self.retired_because not in (FILLED, MERGED)",
        ("tests/unit/lake/test_segments_table.py",),
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
        "a merge is committed whatever became of its files",
        "spark_jobs/lake/commits.py",
        "    if gone:\n",
        "    removed = [path for path in removed if path in live]\n    if False:\n",
        ("tests/unit/lake/test_commits.py",),
    ),
    Fault(
        "a rewrite is rebased onto what came between",
        "spark_jobs/lake/commits.py",
        "    # twice.\n    properties = _properties(run_id, guards, retries=0, files=written)",
        "    # twice.\n    properties = _properties(run_id, guards, retries=APPEND_RETRIES, files=written)",
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
        "an outcome that is not known is forgotten when the log grows",
        "spark_jobs/lake/log_transactions.py",
        "self.in_progress_at(offset) & (self.marker != UNDECIDED)",
        "self.in_progress_at(offset)",
        ("tests/property/logs/test_ledger_history.py",),
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
        "return {(str(file.log_id), int(file.partition or 0)): Part(",
        "return {(str(file.log_id)[:1] + '.0', int(file.partition or 0)): Part(",
        ("tests/unit/lake/test_completeness.py",),
    ),
    Fault(
        "rows that another engine doubled count once",
        "spark_jobs/lake/completeness.py",
        "end - 1, offsets.below(end) - offsets.below(start))",
        "end - 1, end - start)",
        ("tests/unit/lake/test_completeness.py",),
    ),
    Fault(
        "a file is remembered by its name alone",
        "spark_jobs/lake/file_contents.py",
        "key = (full, found.size, found.modified_ms)",
        "key = (full, 0, 0)",
        ("tests/unit/lake/test_file_contents.py",),
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
        "    retries = 0 if guards or standing else APPEND_RETRIES",
        "    retries = 0 if guards else APPEND_RETRIES",
        ("tests/unit/lake/test_commits.py", "-k", "whole_table"),
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
)
