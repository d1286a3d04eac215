"""Planted into the jobs and their orchestration."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

SOURCE_CHANGES = "tests/jobs/test_source_changes.py"
CORPUS_TABLES = "tests/conformance/test_tables.py"
OPTIMIZE = "tests/spark/test_optimize.py"
SHARED_RECORDS = "tests/spark/test_shared_records.py"
MAINTAIN = "tests/jobs/test_tidy_archive.py"
EVERY_SIDE_EFFECT = "tests/crash/test_every_side_effect.py"
READER = "tests/crash/test_reader.py"

FAULTS = (
    Fault(
        "maintain asks for nobody who reads",
        "spark_jobs/tidy_archive/archive_removal.py",
        "known = None if clocks.is_alone or not due else retired_by(lake, clocks.store_ms - longest)",
        "known = None",
        (READER,),
    ),
    Fault(
        "a merge that landed unheard loses its files",
        "spark_jobs/row_files/ordering.py",
        "for f in files if f.path not in tried]",
        "for f in files if not chosen or f.path not in tried]",
        ("tests/unit/spark_jobs/optimize/test_merge_commits.py",),
    ),
    Fault(
        "a range through the frontier is passed over",
        "spark_jobs/publish/job.py",
        "ledger = {log: with_published(config.lake, ranges, frontiers[log]) for log, ranges in recorded.items()}",
        "ledger = recorded",
        ("tests/unit/spark_jobs/publish/test_publish_plan.py",),
    ),
    Fault(
        "a late fill of aborted rows stays unseen to who reads uncommitted",
        "spark_jobs/validate/job.py",
        "                changed[log.row.log] = offset",
        "                pass",
        ("tests/jobs/test_salvage.py", "-k", "reads_uncommitted"),
    ),
    Fault(
        "high watermark off by one",
        "spark_jobs/tasks/log_pass.py",
        "high_watermark=row.readable_high_watermark()",
        "high_watermark=min(row.readable_high_watermark() + 1, row.next_offset)",
        (SOURCE_CHANGES, "-k", "only_offsets_below"),
    ),
    Fault(
        "commit twice",
        "spark_jobs/publish/job.py",
        "unmoved = [log for log in logs if now[log.log] == log.frontier]",
        "unmoved = list(logs)",
        ("tests/jobs/test_publish_once.py",),
    ),
    Fault(
        "a scheduled run waits for nothing",
        "spark_jobs/publish/job.py",
        "        if not config.at_once and _waits(",
        "        if False and _waits(",
        ("tests/jobs/test_salvage.py", "-k", "leaves_little_for_later"),
    ),
    Fault(
        "a replacement reaches beyond its range",
        "spark_jobs/row_files/rewritten_file.py",
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
        "offsets that the archive lost are replaced",
        "spark_jobs/replace/request.py",
        "if row.archived == Archived.HELD and row.state in REPLACEABLE:",
        "if row.state in REPLACEABLE:",
        ("tests/jobs/test_replace.py", "-k", "refused_by_name"),
    ),
    Fault(
        "a tail is added and not replaced",
        "spark_jobs/row_files/uncommitted.py",
        "        removed += log.removed\n",
        "",
        ("tests/jobs/test_uncommitted.py", "-k", "open_offsets or grows_with_it"),
    ),
    Fault(
        "take half a batch of a segment still being written",
        "spark_jobs/tasks/segment_copy.py",
        "            if last is None:\n                return None, findings\n",
        "            end = len(content)\n            if last is None:\n                return None, findings\n",
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
        "a cut-back does not look again at what is published",
        "spark_jobs/ingest/job.py",
        "        if published > cuts[log]:",
        "        if False:",
        ("tests/jobs/test_cut_back.py", "-k", "between_plan_and_commit"),
    ),
    Fault(
        "a hole that was filled a moment ago is filled again",
        "spark_jobs/ingest/late_segments.py",
        "        if not _are_validated(lake, inside):",
        "        if False:",
        ("tests/jobs/test_late_segments.py", "-k", "filled_again"),
    ),
    Fault(
        "a fork is looked for in the newest incarnation alone",
        "spark_jobs/ingest/source_changes.py",
        "[*_earlier(known, held), *live]",
        "live",
        ("tests/jobs/test_incarnations.py", "-k", "parts_below_the_beginning"),
    ),
    Fault(
        "publish commits what was cut back since its plan",
        "spark_jobs/publish/job.py",
        "if all(p.segment_id in feeding for task in log.tasks for p in task.pieces)]",
        "]",
        ("tests/jobs/test_cut_back.py", "-k", "planned_before_a_cut"),
    ),
    Fault(
        "publish trusts a ledger that was made of other bytes",
        "spark_jobs/publish/job.py",
        " if held.is_validated(log, start, end)}",
        "}",
        ("tests/jobs/test_cut_back.py", "-k", "only_as_validation"),
    ),
    Fault(
        "what was cut back stays validated",
        "spark_jobs/validate/job.py",
        "    if taken_back:\n",
        "    if False:\n",
        ("tests/jobs/test_cut_back.py", "-k", "judged_again"),
    ),
    Fault(
        "a retired file goes although its offsets are not published",
        "spark_jobs/tidy_archive/archive_removal.py",
        "        if segment.next_offset > published:",
        "        if False:",
        (MAINTAIN, "-k", "keeps_its_files"),
    ),
    Fault(
        "an orphan is as old as its source says",
        "spark_jobs/tidy_archive/archive_removal.py",
        "min(clocks.as_of_ms, clocks.store_ms) - file.placed_ms",
        "min(clocks.as_of_ms, clocks.store_ms) - file.modified_ms",
        (MAINTAIN, "-k", "young_orphans"),
    ),
    Fault(
        "a new incarnation begins where its source does",
        "spark_jobs/ingest/log_growth.py",
        "source.log_start_offset if begins_at is None else begins_at",
        "source.log_start_offset",
        ("tests/jobs/test_incarnations.py", "-k", "parted_below"),
    ),
    Fault(
        "an old life of a topic is a new one",
        "spark_jobs/ingest/source_changes.py",
        "    if any(row.topic_id == source.topic_id for row in earlier):",
        "    if False:",
        ("tests/jobs/test_incarnations.py", "-k", "made_again"),
    ),
    Fault(
        "damage that was filled goes on feeding",
        "spark_jobs/ingest/late_segments.py",
        "    return Swap(tuple(retired), archive.FILLED, tuple(parts), findings)",
        "    return Swap((), archive.FILLED, tuple(parts), findings)",
        ("tests/jobs/test_late_segments.py", "-k", "replica_that_is_named"),
    ),
    Fault(
        "a small growth waits for ever",
        "spark_jobs/ingest/log_growth.py",
        "is_small and config.as_of_ms - known.as_of_ms < policy.publish_max_delay_ms",
        "is_small",
        ("tests/jobs/test_small_growth.py", "-k", "time_has_come"),
    ),
    Fault(
        "a log moves to a copy that disagrees",
        "spark_jobs/ingest/source_changes.py",
        "    if growth.stop is not None:\n        return None, [",
        "    if False:\n        return None, [",
        (SOURCE_CHANGES, "-k", "moves_to_another"),
    ),
    Fault(
        "small files of a topic are merged whatever their log",
        "spark_jobs/row_files/file_runs.py",
        "            logs.setdefault(place, []).append(file)",
        "            logs.setdefault((place[0], 0), []).append(file)",
        ("tests/unit/spark_jobs/row_files/test_file_runs.py",),
    ),
    Fault(
        "a merge reaches into the undecided section",
        "spark_jobs/row_files/file_runs.py",
        " and (end is None or reached < end)",
        "",
        (OPTIMIZE, "-k", "undecided"),
    ),
    Fault(
        "rows that do not rise are merged",
        "spark_jobs/row_files/merged_file.py",
        "                if offsets[0] <= reached or (np.diff(offsets) <= 0).any():",
        "                if False:",
        (OPTIMIZE, "-k", "statistics_say"),
    ),
    Fault(
        "a file put in order reaches over one that stays",
        "spark_jobs/row_files/file_order.py",
        "        elif run:\n            yield from _cut(key, run, target, end)\n            run = []\n",
        "",
        ("tests/unit/spark_jobs/row_files/test_file_order.py",),
    ),
    Fault(
        "the first row of a range is not put in order, and the proof looks at nothing",
        "spark_jobs/row_files/ordered_files.py",
        "(offsets[rows] >= each.start)",
        "(offsets[rows] > each.start)",
        (SHARED_RECORDS, "-k", "puts_mixed_files_back_in_order and compact"),
    ),
    Fault(
        "of a lost file only one log is written again",
        "spark_jobs/replace/lost_files.py",
        "            for log, span in each.spans.items():\n                wanted",
        "            for log, span in list(each.spans.items())[:1]:\n                wanted",
        (SHARED_RECORDS, "-k", "widened_to_all"),
    ),
    Fault(
        "timestamps of a table lose their milliseconds",
        "spark_jobs/lake/delta/parquet_files.py",
        "        left = _with_columns(chunk, schema)\n",
        "        left = _with_columns(chunk, schema)\n"
        "        if 'timestamp' in schema.names:\n"
        "            from pyarrow.compute import floor_temporal\n\n"
        "            at = schema.get_field_index('timestamp')\n"
        "            left = left.set_column(at, schema.field(at), floor_temporal(left.column(at), unit='second'))\n",
        (CORPUS_TABLES, "-k", "instants and codecs-v2-4.3.1"),
    ),
    Fault(
        "aborted records are published",
        "spark_jobs/publish/job.py",
        "present = [r for r in inside if r.shows]",
        "present = [r for r in inside if r.shows or r.state is OffsetState.ABORTED]",
        (CORPUS_TABLES, "-k", "received and transactions-4.4.0"),
    ),
    Fault(
        "uncommitted records end one below the high watermark",
        "spark_jobs/row_files/uncommitted.py",
        "    end = frontier.ledger_high_watermark(ranges)\n    if passes_damage:",
        "    end = frontier.ledger_high_watermark(ranges) - 1\n    if passes_damage:",
        (CORPUS_TABLES, "-k", "received and (transactions-4.4.0 or compaction-4.4.0/after3)"),
    ),
    Fault(
        "the first record of a range has its neighbour's transaction state",
        "spark_jobs/row_files/uncommitted.py",
        'np.searchsorted(starts, offsets, side="right") - 1',
        'np.maximum(np.searchsorted(starts, offsets, side="left") - 1, 0)',
        (CORPUS_TABLES, "-k", "consumer_of_committed and transactions-4.4.0"),
    ),
    Fault(
        "the log pass holds every batch of a log",
        "spark_jobs/tasks/batch_stream.py",
        "self._chunks = self._read()",
        "self._chunks = iter(list(self._read()))",
        ("tests/unit/spark_jobs/tasks/test_log_pass_memory.py",),
    ),
    Fault(
        "batches of a segment that was taken back feed the ledger",
        "spark_jobs/tasks/batch_stream.py",
        "self.places.get(name, -1)",
        "self.places.get(name, 0)",
        ("tests/unit/spark_jobs/tasks/test_batch_stream.py",),
    ),
    Fault(
        "a row that is published twice is one row",
        "spark_jobs/expectations/published_rows.py",
        "counts.rows if rises else _distinct(task, counts)",
        "counts.rows",
        ("tests/unit/spark_jobs/expectations/test_published_rows.py",),
    ),
    Fault(
        "what came late waits for a person",
        "pipelines/run/steps.py",
        "    if run.state().came_late:",
        "    if False:",
        ("tests/dagster/test_published_again.py", "-k", "filled_late"),
    ),
    Fault(
        "damage that was filled alarms for ever",
        "spark_jobs/lake/view/open_findings.py",
        "placed.segment_id in self.replaced_segments",
        "placed.segment_id in ()",
        ("tests/unit/spark_jobs/lake/view/test_alarms.py", "-k", "filled"),
    ),
    Fault(
        "the frontier is not in the commit",
        "spark_jobs/publish/job.py",
        "        guards = [log.guard for log in unmoved]",
        "        guards = [log.guard for log in unmoved[:0]]",
        (EVERY_SIDE_EFFECT, "-k", "killed_before and first-publish"),
    ),
    Fault(
        "a lost answer is not looked for",
        "spark_jobs/publish/job.py",
        "            if not _are_live(config.lake, unmoved, files):\n",
        "            if True:\n",
        ("tests/crash/test_unanswered.py", "-k", "lost_answer and first"),
    ),
    Fault(
        "the ledger says published before anything is",
        "spark_jobs/publish/job.py",
        "    committed, strange = _commit(",
        "    held = frontier.read_ledger(config.lake, list(files)).values()\n"
        "    rows = [r for each in held for r in with_published(config.lake, each, each[-1].end_offset)]\n"
        "    frontier.commit_ledger(config.lake, rows, list(files), config.run_id)\n"
        "    committed, strange = _commit(",
        (EVERY_SIDE_EFFECT, "-k", "killed_before and first-publish"),
    ),
    Fault(
        "the sensor counts a failed run as handled",
        "pipelines/sensors.py",
        "if ended is dg.DagsterRunStatus.SUCCESS:",
        "if ended is not None and ended.name in ('SUCCESS', 'FAILURE'):",
        ("tests/dagster/test_schedule_and_sensor.py", "-k", "run_failed_or_got_lost"),
    ),
    Fault(
        "the sensor does not see growth of an active segment",
        "pipelines/sensors.py",
        "if state.everything != lake.everything and lake.due_ms is None:",
        "if state.closed != lake.closed and lake.due_ms is None:",
        ("tests/dagster/test_schedule_and_sensor.py", "-k", "growth_of_an_active_segment"),
    ),
    Fault(
        "a night acts where the policies say plan",
        "pipelines/schedules.py",
        'apply=now.policy.nightly == "apply"',
        'apply=now.policy.nightly != "off"',
        ("tests/dagster/test_schedule_and_sensor.py", "-k", "dry_run_of_maintenance"),
    ),
    Fault(
        "an alert is posted at every tick",
        "pipelines/alerts/sensor.py",
        "if failed or digest != posted.problems:",
        "if failed or digest:",
        ("tests/dagster/test_alerts.py", "-k", "within_one_tick_and_once"),
    ),
)
