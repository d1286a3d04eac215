"""What a command does before it loads everything else; so this module imports little.

Local workers take half a second until they can work: a command that certainly has tasks starts them first.
"""

from __future__ import annotations

from spark_jobs.engine.job_engine import JobEngine, chosen_engine


def start_workers(engine: str | None = None) -> None:
    """Begin to start the workers of the local job engine, while the caller goes on; nothing for Spark.

    Args:
        engine: ``local`` or ``spark``; None or ``auto``: as :func:`spark_jobs.engine.job_engine.chosen_engine` decides.

    Raises:
        UsageError: No such engine.
    """
    if chosen_engine(engine)[0] is JobEngine.LOCAL:
        from spark_jobs.engine.local_executor import get_local_executor

        get_local_executor().start()


def load_arrow() -> None:
    """Load what reads tables, without pandas. Data frames can still be made later."""
    from spark_jobs.engine.no_pandas import without_pandas

    with without_pandas():
        import pyarrow.dataset  # noqa: F401
