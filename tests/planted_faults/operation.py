"""Planted into the checks of an installation and into the figures for Prometheus."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

DOCTOR = "tests/unit/logcore/cli/test_doctor.py"
CANCELLED = "tests/object_store/test_cancelled.py"
METRICS = "tests/unit/spark_jobs/lake_commands/test_metrics.py"

FAULTS = (
    Fault(
        "a lost table of withdrawals is no finding",
        "spark_jobs/lake_verification/state.py",
        "    if any(row.withdrawn for rows in state.ledger.values() for row in rows):\n",
        "    if not state.lake:\n",
        ("tests/jobs/test_withdraw.py", "-k", "lost_table_of_withdrawals"),
    ),
    Fault(
        "SIGTERM ends a run without the release of its lease",
        "logcore/cli/termination.py",
        "    signal.signal(signal.SIGTERM, _interrupt)\n    try:",
        "    try:",
        (CANCELLED, "-k", "SIGTERM"),
    ),
    Fault(
        "a failed check does not raise the exit code",
        "logcore/cli/doctor/checks.py",
        "    CheckState.FAILED: ExitCode.NOT_CHECKED,",
        "    CheckState.FAILED: ExitCode.WARNING,",
        (DOCTOR, "-k", "missing or worst"),
    ),
    Fault(
        "a lake that cannot be read is up",
        "spark_jobs/lake_commands/metrics.py",
        'samples.append(MetricSample(UP, (("lake", name),), 0))',
        'samples.append(MetricSample(UP, (("lake", name),), 1))',
        (METRICS, "-k", "is_down"),
    ),
    Fault(
        "metrics replace a segment of a source",
        "spark_jobs/lake_commands/metrics.py",
        "        refuse_inside(options.output, [*(path for path, _ in lakes), *registered])",
        "        pass",
        (METRICS, "-k", "refused_and_stays"),
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
        "a run whose source vanished is a success",
        "pipelines/assets.py",
        "                if is_last and run.recorder is not None and run.recorder.so_far.unread is not None:",
        "                if False:",
        ("tests/dagster/test_runs_of_a_lake.py", "-k", "vanished"),
    ),
)
