"""Planted into recovery, retention, compaction and the writer, and the jobs that do them over an archive."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CLEANING = ("tests/unit/logcore/logs/compaction",)
JOBS = ("tests/unit/spark_jobs/compaction",)
EXPIRED = "tests/jobs/test_expired_rows.py"
TIERED = "tests/unit/logcore/cli/test_retain_tiered.py"
TOPIC_MERGES = "tests/jobs/test_topic_merges.py"

FAULTS = (
    Fault(
        "a tombstone leaves a millisecond late",
        "logcore/logs/compaction/retained_batch.py",
        "header.delete_horizon_ms is None or round.as_of_ms < header.delete_horizon_ms",
        "header.delete_horizon_ms is None or round.as_of_ms <= header.delete_horizon_ms",
        CLEANING,
    ),
    Fault(
        "a marker after damage is removed",
        "logcore/logs/compaction/retained_batch.py",
        "        if frozen:\n",
        "        if frozen and header.magic < 0:\n",
        CLEANING,
    ),
    Fault(
        "an active producer's last batch leaves",
        "logcore/logs/compaction/retained_batch.py",
        "if _is_last_of_producer(header, round) or header.next_offset",
        "if header.next_offset",
        CLEANING,
    ),
    Fault(
        "no line keeps the batch at the high watermark",
        "logcore/logs/compaction/retained_batch.py",
        "return round.high_watermark if round.line.keeps_batch_at_high_watermark else round.upper_bound_offset",
        "return round.upper_bound_offset",
        CLEANING,
    ),
    Fault(
        "a commit marker leaves before its records",
        "logcore/logs/compaction/cleaned_transactions.py",
        "return not seen, None",
        "return True, None",
        CLEANING,
    ),
    Fault(
        "the checkpoint passes damage",
        "logcore/logs/compaction/planned_round.py",
        "return min((end_offset, *self.damaged, *refused))",
        "return end_offset",
        CLEANING,
    ),
    Fault(
        "the kernel lets no tombstone go",
        "logcore/columns/kernels/cleaning/cleaning.py",
        "and (kind & NO_VALUE == 0 or needed)",
        "and True",
        ("tests/property/columns/test_cleaning_properties.py",),
    ),
    Fault(
        "the kernel knows no damage",
        "logcore/columns/kernels/cleaning/cleaning.py",
        "elif offset >= frozen:",
        "elif offset >= frozen and latest < 0:",
        ("tests/property/columns/test_cleaning_properties.py", "tests/unit/logcore/columns/test_cleaned_batches.py"),
    ),
    Fault(
        "half a hash is a key",
        "logcore/columns/kernels/cleaning/newest.py",
        "if held == _EMPTY or (load64(table, at) == high and load64(table, at + 8) == low):",
        "if held == _EMPTY or load64(table, at + 8) == low:",
        ("tests/unit/logcore/columns/test_offset_map.py",),
    ),
    Fault(
        "a map that grows forgets what it laid aside",
        "logcore/columns/kernels/cleaning/newest.py",
        "_put_back(aside, laid_aside, table, count)",
        "_put_back(aside, nb.int64(0), table, count)",
        ("tests/unit/logcore/columns/test_offset_map.py",),
    ),
    Fault(
        "an aborted record replaces an older one in a spread cleaning",
        "spark_jobs/compaction/spread_steps.py",
        "is_in_map = ~some.is_aborted & (",
        "is_in_map = (",
        JOBS,
    ),
    Fault(
        "compaction goes beyond what is published",
        "spark_jobs/compaction/compaction_job.py",
        "limit = min(g.published_to, g.validated_to)",
        "limit = max(g.published_to, g.validated_to)",
        ("tests/jobs/test_compaction.py", "-k", "not_published_yet"),
    ),
    Fault(
        "compaction swaps a log that was touched",
        "spark_jobs/compaction/compaction_job.py",
        "        {log: versions[log] for log in touched},",
        "        archive.planned_versions(config.lake, touched),",
        ("tests/jobs/test_compaction.py", "-k", "touched_since"),
    ),
    Fault(
        "the recovery kernel counts an entry at the interval",
        "logcore/columns/kernels/recovering/recovering.py",
        "is_indexed = position - last_entry_at > interval",
        "is_indexed = position - last_entry_at >= interval",
        ("tests/property/columns/test_recovery_properties.py",),
    ),
    Fault(
        "the recovery kernel believes a checksum",
        "logcore/columns/kernels/recovering/recovering.py",
        "if not is_good(source, position, size, magic, tables, faster):",
        "if size < 0:",
        ("tests/property/columns/test_recovery_properties.py",),
    ),
    Fault(
        "segments after a cut stay",
        "logcore/logs/recovery/loading.py",
        "for later in bases[number + 1 :]:",
        "for later in bases[number + 2 :]:",
        ("tests/unit/logcore/logs/test_recovery.py",),
    ),
    Fault(
        "salvage ends at the first damage",
        "logcore/logs/recovery/salvage.py",
        "if len(part.pieces) == 1 and part.pieces[0][0] == 0:",
        "if part.pieces[0][0] == 0:",
        ("tests/unit/logcore/logs/test_recovery.py", "-k", "salvage"),
    ),
    Fault(
        "retention takes what is not committed",
        "logcore/logs/retention/retention.py",
        "if end > high_watermark:",
        "if end > high_watermark + 1:",
        ("tests/unit/logcore/logs/test_retention.py",),
    ),
    Fault(
        "a changed bit of a decoded file is written again as sound",
        "spark_jobs/optimize/merged_file.py",
        "page_checksum_verification=True",
        "page_checksum_verification=False",
        (TOPIC_MERGES, "-k", "damaged_file"),
    ),
    Fault(
        "a local segment goes although remote storage does not have it",
        "logcore/logs/retention/retention.py",
        "    if end is not None and end <= copied_to:\n",
        "    if end is not None:\n",
        (TIERED, "-k", "gap or unfinished"),
    ),
    Fault(
        "rows without a timestamp expire with the rows around them",
        "spark_jobs/retention/expired_rows.py",
        "        end = min([end, *offsets.tolist()])\n",
        "",
        (EXPIRED, "-k", "without_a_timestamp"),
    ),
    Fault(
        "a job that died after its record leaves the ledger as it was",
        "spark_jobs/lake/published/withdrawals.py",
        "    frontier.commit_ledger(lake, ledger, [log.row.log for log in logs], run_id, made.ledger_version)\n",
        "    if rows:\n"
        "        frontier.commit_ledger(lake, ledger, [log.row.log for log in logs], run_id, made.ledger_version)\n",
        (EXPIRED, "-k", "dies_between"),
    ),
)
