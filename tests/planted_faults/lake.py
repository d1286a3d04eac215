"""Planted into the state of a lake."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

INTAKE_RESULTS = "tests/unit/spark_jobs/ingest/test_intake_results.py"
READER = "tests/crash/test_reader.py"

FAULTS = (
    Fault(
        "registered files that are gone from their source are no alarm",
        "spark_jobs/lake/delta/state/archive_check.py",
        'if segment["retired_ms"] is None and is_in_log_directory(',
        'if segment["retired_ms"] is not None and is_in_log_directory(',
        ("tests/unit/spark_jobs/ingest/test_moved_sources.py", "-k", "registered_segments"),
    ),
    Fault(
        "rows that a deletion vector hides count as rows",
        "spark_jobs/lake/delta/files/row_counts.py",
        "    if -1 in rows or features_beyond_files(table):\n",
        "    if -1 in rows:\n",
        ("tests/harm/test_removed_rows.py", "-k", "vector-latest"),
    ),
    Fault(
        "a table that was changed since the plan is committed to all the same",
        "spark_jobs/lake/delta/commits.py",
        "        table_features.refuse_table(lake, name, self.table, rewrites=rewrites)\n",
        "",
        ("tests/unit/spark_jobs/lake/delta/test_commits.py",),
    ),
    Fault(
        "a table that went back is as good",
        "spark_jobs/lake/view/harm.py",
        "    if version < before.version:\n",
        "    if False:\n",
        ("tests/unit/spark_jobs/lake/delta/state/test_table_checks.py",),
    ),
    Fault(
        "a table file of another size is as good",
        "spark_jobs/lake/view/harm.py",
        "        elif listed[file.path] != file.size:\n",
        "        elif False:\n",
        ("tests/unit/spark_jobs/lake/delta/state/test_table_checks.py",),
    ),
    Fault(
        "compaction retires first and adds then",
        "spark_jobs/lake/segments/archive.py",
        '    commits.replace(lake, "segments", ("segment_id", ids), rows, run_id, [*moved, *guards])',
        '    commits.replace(lake, "segments", ("segment_id", ids), rows.slice(0, len(gone)), run_id, [])\n'
        '    commits.replace(lake, "segments", ("segment_id", ids), rows, run_id, [*moved, *guards])',
        (READER,),
    ),
    Fault(
        "two runs at once",
        "spark_jobs/lake/store/lease.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ("tests/crash/test_kill.py", "-k", "two_runs"),
    ),
    Fault(
        "a file is deleted through a link",
        "spark_jobs/lake/store/deletion.py",
        "_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW",
        "_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY",
        ("tests/unit/spark_jobs/lake/store/test_archive_storage.py",),
    ),
    Fault(
        "a rewrite is rebased onto what came between",
        "spark_jobs/lake/delta/commits.py",
        "*added], removed, written, retries=0)",
        "*added], removed, written, retries=APPEND_RETRIES)",
        ("tests/unit/spark_jobs/lake/delta/test_commits.py",),
    ),
    Fault(
        "an outcome that is not known is forgotten when the log grows",
        "spark_jobs/validate/validate_job.py",
        "self.in_progress_at(offset) & (self.marker != UNDECIDED)",
        "self.in_progress_at(offset)",
        ("tests/property/logs/test_ledger_history.py",),
    ),
    Fault(
        "a lease is taken from whoever took it first",
        "spark_jobs/lake/store/object_store.py",
        'return _put(url, content, {"e_tag": etag})',
        'return _put(url, content, "overwrite")',
        ("tests/object_store/test_lease.py", "-k", "lost_to_another"),
    ),
    Fault(
        "a file gets its name before its bytes are on disk",
        "spark_jobs/lake/store/storage.py",
        "            disk_sync.sync(self.path)\n",
        "            pass\n",
        ("tests/unit/spark_jobs/lake/store/test_storage.py",),
    ),
    Fault(
        "rows of one log make up for those of another",
        "spark_jobs/lake/view/ledger_comparison.py",
        "return {(str(file.log_id), int(file.partition or 0)): FileShare(",
        "return {(str(file.log_id)[:1] + '.0', int(file.partition or 0)): FileShare(",
        ("tests/unit/spark_jobs/lake/published/test_completeness.py",),
    ),
    Fault(
        "lineage believes the stored checksum",
        "spark_jobs/lake/segments/archived_batch.py",
        "        return self.header.crc == self.crc_computed",
        "        return True",
        ("tests/jobs/test_lineage.py", "-k", "flipped"),
    ),
    Fault(
        "a result of an earlier job is used twice",
        "spark_jobs/ingest/intake_results.py",
        "self._results.pop(_key(work, task), None)",
        "self._results.get(_key(work, task), None)",
        (INTAKE_RESULTS, "-k", "used_once"),
    ),
    Fault(
        "a deletion of many objects takes newer ones too",
        "spark_jobs/lake/store/deletion.py",
        "if path in placed and placed[path] <= placed_before_ms]",
        "if path in placed]",
        ("tests/object_store/test_requests.py", "-k", "many_files_are_deleted"),
    ),
    Fault(
        "a retired segment's files are all files of its folder",
        "spark_jobs/lake/segments/archive.py",
        'return folder if named is None else f"{folder}/{named[1]}"',
        "return folder",
        ("tests/jobs/tidy_archive", "tests/unit/spark_jobs/lake/segments/test_archive_paths.py"),
    ),
    Fault(
        "a look for work goes on with tables of an earlier round",
        "spark_jobs/lake/delta/tables/snapshots.py",
        "    forget_snapshots(lake)\n    token",
        "    token",
        ("tests/jobs/test_watch.py", "-k", "damaged_since"),
    ),
)
