"""Planted into the jobs, their rounds and orchestration, and Spark's data source."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

SOURCE_CHANGES = "tests/jobs/test_source_changes.py"
CORPUS_TABLES = "tests/conformance/test_tables.py"
EVERY_SIDE_EFFECT = "tests/crash/test_every_side_effect.py"
READER = "tests/crash/test_reader.py"
CORPUS = "tests/conformance/test_spark_source.py"
SPARK = "tests/spark/test_data_source.py"
ROUNDS = "tests/jobs/test_rounds.py"

FAULTS = (
    Fault(
        "maintain ignores readers",
        "spark_jobs/tidy_archive/archive_removal.py",
        "known = None if clocks.is_alone or not due else retired_by(lake, clocks.store_ms - longest)",
        "known = None",
        (READER,),
    ),
    Fault(
        "high watermark off by one",
        "spark_jobs/validate/validate_job.py",
        "            row.readable_high_watermark(),\n",
        "            min(row.readable_high_watermark() + 1, row.next_offset),\n",
        (SOURCE_CHANGES, "-k", "only_offsets_below"),
    ),
    Fault(
        "commit twice",
        "spark_jobs/publish/publish_job.py",
        "unmoved = [log for log in logs if now[log.log] == log.frontier]",
        "unmoved = list(logs)",
        ("tests/jobs/test_publish_once.py",),
    ),
    Fault(
        "a replacement reaches beyond its range",
        "spark_jobs/replace/rewritten_file.py",
        "return (at >= 0) & (offsets < ends[np.maximum(at, 0)])",
        "return at >= 0",
        ("tests/jobs/test_replace.py", "-k", "exactly_the_named_range"),
    ),
    Fault(
        "a replacement goes around the frontier",
        "spark_jobs/replace/request.py",
        "start, stop = max(low, row.start_offset), min(high, row.end_offset, end)",
        "start, stop = max(low, row.start_offset), min(high, row.end_offset)",
        ("tests/jobs/test_replace.py", "-k", "ends_at_the_frontier"),
    ),
    Fault(
        "take half a batch of a segment still being written",
        "spark_jobs/ingest/segment_copy.py",
        "            if last is None:\n                return None, findings, ()\n",
        "            end = len(content)\n            if last is None:\n                return None, findings, ()\n",
        (SOURCE_CHANGES, "-k", "half_a_batch"),
    ),
    Fault(
        "a tail is cut back below the frontier",
        "spark_jobs/ingest/source_changes.py",
        "not_below=published,",
        "not_below=0,",
        ("tests/jobs/test_cut_back.py", "-k", "never_cut_back"),
    ),
    Fault(
        "publish commits what was cut back since its plan",
        "spark_jobs/publish/publish_job.py",
        "if all(p.segment_id in feeding for task in log.tasks for p in task.pieces)]",
        "]",
        ("tests/jobs/test_cut_back.py", "-k", "planned_before_a_cut"),
    ),
    Fault(
        "a retired file goes although its offsets are not published",
        "spark_jobs/tidy_archive/archive_removal.py",
        "        if segment.next_offset > published:",
        "        if False:",
        ("tests/jobs/tidy_archive/test_deletion.py", "-k", "keeps_its_files"),
    ),
    Fault(
        "a log moves to a copy that disagrees",
        "spark_jobs/ingest/source_changes.py",
        "    if growth.stop is not None:\n        return None, [",
        "    if False:\n        return None, [",
        (SOURCE_CHANGES, "-k", "moves_to_another"),
    ),
    Fault(
        "aborted records are published",
        "spark_jobs/publish/publish_job.py",
        "present = [r for r in inside if r.shows]",
        "present = [r for r in inside if r.shows or r.state is OffsetState.ABORTED]",
        (CORPUS_TABLES, "-k", "received and transactions-4.4.0"),
    ),
    Fault(
        "a row that is published twice is one row",
        "spark_jobs/expectations/expectations_job.py",
        "counts.rows if rises else _distinct(task, counts)",
        "counts.rows",
        ("tests/unit/spark_jobs/expectations/test_published_rows.py",),
    ),
    Fault(
        "the frontier is not in the commit",
        "spark_jobs/publish/publish_job.py",
        "        guards = [log.guard for log in unmoved]",
        "        guards = [log.guard for log in unmoved[:0]]",
        (EVERY_SIDE_EFFECT, "-k", "killed_before and first-publish"),
    ),
    Fault(
        "a lost answer is not looked for",
        "spark_jobs/publish/publish_job.py",
        "            if not _are_live(config.lake, unmoved, files):\n",
        "            if True:\n",
        ("tests/crash/test_unanswered.py", "-k", "lost_answer and first"),
    ),
    Fault(
        "the sensor counts a failed run as handled",
        "pipelines/sensors.py",
        "if ended is dg.DagsterRunStatus.SUCCESS:",
        "if ended is not None and ended.name in ('SUCCESS', 'FAILURE'):",
        ("tests/dagster/test_sensor.py", "-k", "run_failed_or_got_lost"),
    ),
    Fault(
        "a night acts where the policies say plan",
        "pipelines/schedules.py",
        'apply=now.policy.nightly == "apply"',
        "apply=True",
        ("tests/dagster/test_schedules.py", "-k", "dry_run_where_policies_say_plan"),
    ),
    Fault(
        "an alert is posted at every tick",
        "pipelines/alerts.py",
        "if failed or digest != posted.problems:",
        "if failed or digest:",
        ("tests/dagster/test_alerts.py", "-k", "within_one_tick_and_once"),
    ),
    Fault(
        "lakes share their topic partitions on Dagster's pages",
        "pipelines/partitions.py",
        'name=f"topic_partitions/{lake.name}"',
        'name="topic_partitions/all"',
        ("tests/dagster/test_chosen_partitions.py", "-k", "share_no_topic_partition"),
    ),
    Fault(
        "rows of aborted transactions are in a read_committed read",
        "spark_jobs/data_source/log_readers.py",
        "chosen = reads.log.choose(OffsetRange(start, None if is_open else end), wanted)",
        "chosen = reads.log.choose(OffsetRange(start, None if is_open else end), wanted)\n"
        "    chosen = replace(chosen, wanted=replace(chosen.wanted, visible=((start, end),)))",
        (CORPUS, "-k", "transactions-4.4.0"),
    ),
    Fault(
        "damage is left out in silence",
        "spark_jobs/data_source/log_ranges.py",
        "return Reports(_fail if self._fails else _warn)",
        "return Reports(_warn)",
        (SPARK, "-k", "damage_ends_a_read"),
    ),
    Fault(
        "a stream reads on after its log was cut",
        "spark_jobs/data_source/log_ranges.py",
        "    if low <= offset <= high:\n        return offset\n",
        "    return offset\n",
        (SPARK, "-m", "long", "-k", "cut_or_is_gone"),
    ),
    Fault(
        "a round ends before it is published",
        "pipelines/run/steps.py",
        "        if run.publishes:",
        "        if not run.publishes:",
        (ROUNDS, "-k", "each_round_is_published"),
    ),
    Fault(
        "what a later round takes is called a loss",
        "spark_jobs/ingest/ingest_job.py",
        "replace(plan, remote=tuple(remote), tasks=tuple(kept), waits=True)",
        "replace(plan, remote=tuple(remote), tasks=tuple(kept))",
        (ROUNDS, "-k", "damage_and_a_transaction"),
    ),
    Fault(
        "commits go that no checkpoint sums up",
        "spark_jobs/optimize/optimize_job.py",
        "latest = table.version() - kept if seen < 0",
        "latest = table.version() if seen < 0",
        ("tests/unit/spark_jobs/optimize/test_log_cleanup.py",),
    ),
)
