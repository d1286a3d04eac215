"""Errors of a step as Dagster's failures: our sentence comes first, and only transient errors are retried.

Dagster shows an error that it does not know after about 20 lines of its own trace. So every error becomes a
`dg.Failure` with one sentence. The original error, with its trace, is its cause.

    another process works on the lake       the step waits: LEASE_RETRIES attempts, LEASE_WAIT_SECONDS apart
    the store failed, or another commit     the step is retried TRANSIENT_RETRIES times, TRANSIENT_WAIT_SECONDS apart
    was faster
    everything else, such as damaged data   the step fails at once: a further attempt would find the same
    or a wrong setting
"""

from __future__ import annotations

import logging
import sys
import threading

import dagster as dg

from spark_jobs.errors import LeaseHeld, UsageError

from .step_errors import is_transient, sentence_of

LEASE_RETRIES, LEASE_WAIT_SECONDS = 60, 30
"""How long a run waits for another run on its lake: half an hour."""

TRANSIENT_RETRIES, TRANSIENT_WAIT_SECONDS = 3, 60
"""The budget of a step for transient errors. Attempts that waited for the lease count too."""


CANCELED = "The run was canceled. What was committed stays, and the next run continues from there."
NO_TRACE_SECONDS = 5.0
"""Time in which Dagster stores and prints a cancel."""


def refused_tick(lake: str, error: UsageError) -> dg.Failure:
    """The failure of a tick of a schedule or sensor whose lake has a registration or policies that cannot be used.

    A tick that fails is red on the pages; one that is skipped looks as if nothing were due.
    """
    return dg.Failure(f"Nothing is started for the lake {lake}: {error}", allow_retries=False)


def say_canceled(log: logging.Logger) -> None:
    """Log that the run was canceled.

    Dagster stores and prints the place of the interrupt three times, with some 40 lines of trace each. They do not help
    a user, so for a few seconds traces have no lines. Usually the process ends in this time.
    """
    log.warning(CANCELED)
    if not hasattr(sys, "tracebacklimit"):
        sys.tracebacklimit = 0
        restore = threading.Timer(NO_TRACE_SECONDS, lambda: sys.__dict__.pop("tracebacklimit", None))
        restore.daemon = True
        restore.start()


def final_failure(error: Exception, step: str, run_id: str, lake: str) -> dg.Failure:
    """The failure of a step that is not retried.

    Args:
        error: The error of the step.
        step: Name of the step.
        run_id: The run.
        lake: Path or address of its lake.
    """
    return dg.Failure(sentence_of(error, step, run_id), metadata={"lake": lake, "step": step}, allow_retries=False)


def failure_of(
    error: Exception, step: str, run_id: str, lake: str, attempts: int, log: logging.Logger
) -> dg.Failure | dg.RetryRequested:
    """The failure of a step, or the request for a further attempt.

    Args:
        error: The error of the step.
        step: Name of the step.
        run_id: The run.
        lake: Path or address of its lake.
        attempts: Earlier attempts of the step in this run.
        log: Gets the reason of a further attempt.
    """
    if isinstance(error, LeaseHeld):
        retries, seconds = LEASE_RETRIES, LEASE_WAIT_SECONDS
    elif is_transient(error):
        retries, seconds = TRANSIENT_RETRIES, TRANSIENT_WAIT_SECONDS
    else:
        retries, seconds = 0, 0
    if attempts >= retries:
        return final_failure(error, step, run_id, lake)
    log.warning(f"{error} Attempt {attempts + 2} of {retries + 1} follows in {seconds} s.")
    return dg.RetryRequested(max_retries=retries, seconds_to_wait=seconds)
