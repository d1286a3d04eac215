"""Planted into the checks of an installation and into the figures for Prometheus."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

DOCTOR = "tests/unit/logcore/cli/test_doctor.py"
DOCTOR_OF_LAKES = "tests/unit/spark_jobs/lake_commands/test_doctor.py"
CANCELLED = "tests/object_store/test_cancelled.py"
METRICS = "tests/unit/spark_jobs/lake_commands/metrics/test_metrics.py"
REPAIRS = "tests/jobs/test_repair_advice.py"
RUNS = "tests/dagster/test_runs_of_a_lake.py"
RECORDER = "pipelines/run/recording/run_row_writer.py"

FAULTS = (
    Fault(
        "the command that an error names for a table only says what it would do",
        "spark_jobs/lake/repair_commands.py",
        "--rebuild {table} --apply",
        "--rebuild {table}",
        (REPAIRS, "-k", "cannot_be_read"),
    ),
    Fault(
        "a lake with a space in its name breaks the command that an error names",
        "spark_jobs/lake/repair_commands.py",
        'f"loglake repair {shlex.quote(lake)} --rebuild',
        'f"loglake repair {lake} --rebuild',
        (REPAIRS, "-k", "cannot_be_read"),
    ),
    Fault(
        "`verify` advises `repair` for bytes that are registered at their source",
        "spark_jobs/lake_verification/archive.py",
        "        if not self.segment.lies_at_source:\n            return _RESTORE\n",
        "        if self.segment:\n            return _RESTORE\n",
        ("tests/jobs/test_empty_remote_storage.py", "-k", "put_back_there"),
    ),
    Fault(
        "lost tables of the cluster are not made again",
        "spark_jobs/lake_commands/repair.py",
        "        if name in {table.name for table in CLUSTER_TABLES}:\n",
        "        if name in {table for table in CLUSTER_TABLES}:\n",
        ("tests/jobs/test_cluster_in_a_run.py", "-k", "brings_a_table"),
    ),
    Fault(
        "a lost table of withdrawals is no finding",
        "spark_jobs/lake_verification/state.py",
        "    if any(row.withdrawn for rows in state.ledger.values() for row in rows):\n",
        "    if not state.lake:\n",
        ("tests/jobs/test_withdraw.py", "-k", "lost_table_of_withdrawals"),
    ),
    Fault(
        "records whose log cannot be read are copied",
        "spark_jobs/lake_commands/repair.py",
        '    if name == "records" and not _can_be_opened(lake, name):\n',
        '    if name == "nothing" and not _can_be_opened(lake, name):\n',
        (REPAIRS, "-k", "cannot_be_read"),
    ),
    Fault(
        "records are moved aside although the archive lost a part of them",
        "spark_jobs/lake_commands/repair.py",
        "        if _has_deleted_files(lake):\n            raise JobError(\n",
        "        if not lake:\n            raise JobError(\n",
        (REPAIRS, "-k", "no_longer_has"),
    ),
    Fault(
        "SIGTERM ends a run without the release of its lease",
        "logcore/cli/termination.py",
        "    signal.signal(signal.SIGTERM, _interrupt)\n    try:",
        "    try:",
        (CANCELLED, "-k", "SIGTERM"),
    ),
    Fault(
        "an interrupted run waits until Dagster is loaded",
        "pipelines/command/running.py",
        "self._thread.shutdown(wait=kind is None)",
        "self._thread.shutdown()",
        ("tests/unit/pipelines/command/test_running.py",),
    ),
    Fault(
        "a cancelled launch kills its job",
        "spark_jobs/launch.py",
        "            process.terminate()\n",
        "            process.kill()\n",
        (CANCELLED, "-k", "process_of_its_own"),
    ),
    Fault(
        "of an object only the first part is copied",
        "logcore/storage/objects/object_copy.py",
        "                _write_all(target.fileno(), content, at - start)",
        "                _write_all(target.fileno(), content[:4096], at - start)",
        ("tests/object_store/test_corpus.py",),
    ),
    Fault(
        "a wheel that hides a function is on its fast path",
        "logcore/columns/decoding/fast_paths.py",
        "    return FastPath(codec, package, functions, hidden, is_complete, instead)",
        "    return FastPath(codec, package, functions, (), True, instead)",
        (DOCTOR, "-k", "hides_a_function"),
    ),
    Fault(
        "a folder that cannot be written is in order",
        "logcore/storage/machine/folder_room.py",
        "        problem = error.strerror or type(error).__name__",
        "        problem = None",
        (DOCTOR, "-k", "cannot_be_written"),
    ),
    Fault(
        "a failed check does not raise the exit code",
        "logcore/cli/doctor/checks.py",
        "    CheckState.FAILED: ExitCode.NOT_CHECKED,",
        "    CheckState.FAILED: ExitCode.WARNING,",
        (DOCTOR, "-k", "missing or worst"),
    ),
    Fault(
        "a clock that was set back is in order",
        "spark_jobs/lake_commands/doctor.py",
        "    if at > now_ms + CLOCK_TOLERANCE_MS:",
        "    if at + CLOCK_TOLERANCE_MS < 0:",
        (DOCTOR_OF_LAKES, "-k", "set_back"),
    ),
    Fault(
        "the message about dagster.yaml has its values",
        "pipelines/ui/doctor.py",
        'return f"{len(places)} mistakes, the first at {places[0]}" if places else',
        'return f"{len(places)} mistakes: {error}" if places else',
        (DOCTOR_OF_LAKES, "-k", "dagster"),
    ),
    Fault(
        "the row of a failed run has the text of its error",
        RECORDER,
        "        kind = type(error).__name__",
        "        kind = str(error)",
        (RUNS, "-k", "nothing_of_its_text and ours"),
    ),
    Fault(
        "a run that finds nothing to do writes a row",
        RECORDER,
        "        if self._is_written or not self.so_far.did_work:",
        "        if self._is_written:",
        (RUNS, "-k", "finds_nothing_to_do"),
    ),
    Fault(
        "a step in Dagster forgets what the steps before it did",
        "pipelines/assets.py",
        "        kept = UnfinishedRun.kept(run_id)",
        "        kept = None",
        (RUNS, "-k", "has_one_row_that_says"),
    ),
    Fault(
        "each night has work because of its own row",
        "spark_jobs/lake/view/runs/unfinished_run.py",
        "    return bool(touched) and set(touched) == {TABLE}",
        "    return False",
        ("tests/unit/spark_jobs/lake_commands/test_runs.py", "-k", "upkeep"),
    ),
    Fault(
        "a lake that cannot be read is up",
        "spark_jobs/lake_commands/metrics/command.py",
        'samples.append(MetricSample(UP, (("lake", name),), 0))',
        'samples.append(MetricSample(UP, (("lake", name),), 1))',
        (METRICS, "-k", "is_down"),
    ),
    Fault(
        "the file for Prometheus is written in place",
        "spark_jobs/lake_commands/metrics/command.py",
        "        storage.put(storage.absolute(options.output), text.encode())",
        '        open(options.output, "w").write(text)',
        (METRICS, "-k", "replaced_whole"),
    ),
    Fault(
        "a look at the lease refuses the process that takes it",
        "spark_jobs/lake/store/lease.py",
        "            if left:",
        "            if left < 0:",
        ("tests/unit/spark_jobs/lake/store/test_lease.py", "-k", "look"),
    ),
    Fault(
        "metrics replace a segment of a source",
        "spark_jobs/lake_commands/metrics/command.py",
        "        _refuse_output(options.output, [path for path, _ in lakes])",
        "        pass",
        (METRICS, "-k", "refused_and_stays"),
    ),
    Fault(
        "one damaged lake stops the figures of all",
        "spark_jobs/lake_commands/metrics/command.py",
        "        except Exception as error:  # noqa: BLE001 - other lakes",
        "        except JobError as error:  # noqa: BLE001 - other lakes",
        (METRICS, "-k", "unforeseen"),
    ),
    Fault(
        "a check that fails hides those of later lakes",
        "spark_jobs/lake_commands/doctor.py",
        "    yield from guarded(name, with_errors_of_lakes)",
        "    yield from with_errors_of_lakes()",
        (DOCTOR_OF_LAKES, "-k", "unforeseen"),
    ),
    Fault(
        "the cause of a failure in Dagster has the text of an unforeseen error",
        "pipelines/errors/step_errors.py",
        "        named = UnforeseenError(type(error).__name__)",
        "        named = UnforeseenError(repr(error))",
        ("tests/dagster/test_failed_steps.py", "-k", "sentence_comes_first"),
    ),
    Fault(
        "a cancel that a finalizer drops does not cancel Dagster's run",
        "pipelines/assets.py",
        "with lost_interrupts_repeated(more_follows=True), _clear_failures(step, run, context):",
        "with _clear_failures(step, run, context):",
        ("tests/dagster/test_interrupted_steps.py", "-k", "middle"),
    ),
    Fault(
        "a cancel that a finalizer drops at the end of a step is forgotten",
        "pipelines/errors/interrupts.py",
        "        if waiting and more_follows:",
        "        if waiting and not more_follows:",
        ("tests/unit/pipelines/errors/test_interrupts.py", "-k", "more_follows"),
    ),
    Fault(
        "a cancel that a finalizer drops does not cancel the nightly verification",
        "pipelines/nightly_verification.py",
        "            with lost_interrupts_repeated(more_follows=True):",
        "            if True:",
        ("tests/dagster/test_interrupted_steps.py", "-k", "nightly and dropped"),
    ),
    Fault(
        "the nightly verification is tried again after a cancel",
        "pipelines/nightly_verification.py",
        "            if is_interrupt(error):",
        "            if False:",
        ("tests/dagster/test_interrupted_steps.py", "-k", "nightly and cause"),
    ),
    Fault(
        "an error that a cancel caused is tried again",
        "pipelines/assets.py",
        "        if is_interrupt(error):\n            run.listener.failed(error)",
        "        if False:\n            run.listener.failed(error)",
        ("tests/dagster/test_interrupted_steps.py", "-k", "caused"),
    ),
    Fault(
        "a warning about the webhook has its address",
        "pipelines/alerts/webhook.py",
        'raise NotDelivered(f"{host} did not answer',
        'raise NotDelivered(f"{address} did not answer',
        ("tests/dagster/test_secrets.py", "-k", "output"),
    ),
    Fault(
        "the progress stays on the terminal after an interrupt",
        "logcore/cli/commands/verify.py",
        "        progress.close()  # also",
        "        pass  # also",
        ("tests/unit/logcore/cli/test_terminal.py", "-k", "before_an_error"),
    ),
)
