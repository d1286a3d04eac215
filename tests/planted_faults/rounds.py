"""Planted into the rounds of a load and the watch."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

ROUNDS = "tests/jobs/test_rounds.py"

FAULTS = (
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
        "a later round looks at all logs again",
        "pipelines/run/steps.py",
        "report = run.start(replace(config, logs=left))",
        "report = run.start(config)",
        (ROUNDS, "-k", "grows_all_the_time"),
    ),
    Fault(
        "a small copy overtakes one that did not fit",
        "spark_jobs/ingest/ingest_job.py",
        "self._is_full |= not self._is_new",
        "self._is_full = not self._is_new",
        ("tests/unit/spark_jobs/ingest/test_round_limit.py",),
    ),
    Fault(
        "a watch rests after a full round",
        "pipelines/command/watch.py",
        "        self._is_full = made.is_full\n",
        "",
        (ROUNDS, "-k", "a_watch_takes_one_round"),
    ),
    Fault(
        "commits go that no checkpoint sums up",
        "spark_jobs/optimize/optimize_job.py",
        "latest = table.version() - kept if seen < 0",
        "latest = table.version() if seen < 0",
        ("tests/unit/spark_jobs/optimize/test_log_cleanup.py",),
    ),
    Fault(
        "the latest commits of a log go first",
        "spark_jobs/optimize/optimize_job.py",
        "gone = [version for version in in_order if version < base]",
        "gone = [version for version in reversed(in_order) if version < base]",
        ("tests/unit/spark_jobs/optimize/test_log_cleanup.py",),
    ),
    Fault(
        "commits of other programs go before a run has seen them",
        "spark_jobs/optimize/optimize_job.py",
        "min(table.version() - kept, seen + 1)",
        "table.version() - kept",
        ("tests/unit/spark_jobs/optimize/test_log_cleanup.py",),
    ),
    Fault(
        "commits that are gone before a run saw them are passed over",
        "spark_jobs/lake/view/harm.py",
        "if since >= 0 and since_then.missing_to is not None:",
        "if False:",
        ("tests/unit/spark_jobs/lake/delta/state/test_table_checks.py",),
    ),
    Fault(
        "a watch does not say that a log stopped",
        "pipelines/command/watch.py",
        "            self._say_problems(state)\n",
        "",
        ("tests/jobs/test_watch_bad_input.py", "-k", "made_again_stops"),
    ),
    Fault(
        "a watch joins no slices",
        "pipelines/command/watch.py",
        "small_bytes=SMALL_SLICE_BYTES",
        "small_bytes=1",
        ("tests/jobs/test_watch.py", "-k", "pile_up"),
    ),
    Fault(
        "figures of a log are those of its last round",
        "pipelines/run/outcome.py",
        "changes[change.log] = change if before is None else _joined(before, change)",
        "changes[change.log] = change",
        (ROUNDS, "-k", "damage_and_a_transaction"),
    ),
)
