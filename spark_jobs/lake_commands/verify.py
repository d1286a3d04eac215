"""``loglake verify LAKE``: verify a lake from its own bytes. logcore passes the arguments.

0 clean · 1 warnings, also what cannot be verified · 2 damage · 3 could not check · 64 wrong usage
"""

from __future__ import annotations

import argparse

from logcore.cli.reading.arguments import selection_of
from spark_jobs import launch
from spark_jobs.errors import UsageError
from spark_jobs.lake.store import storage
from spark_jobs.lake_commands.outcome import guarded
from spark_jobs.lake_verification.progress import resumed
from spark_jobs.lake_verification.report import Report
from spark_jobs.lake_verification.whole_lake import Sample, verify_whole_lake
from spark_jobs.machine.engine import chosen_engine


def verify_lake(arguments: argparse.Namespace) -> int:
    """Verify the lake at ``arguments.paths``; return the exit code.

    Args:
        arguments: Arguments of ``loglake verify``: paths, topic, partition, sample (number and total, or None), resume,
            format.
    """
    return guarded(lambda: _verify(arguments))


def _verify(arguments: argparse.Namespace) -> int:
    if len(arguments.paths) > 1:
        raise UsageError("name exactly one lake.")
    lake = storage.absolute(arguments.paths[0])
    report = Report(arguments.format, lake)
    sample = Sample(*arguments.sample) if arguments.sample else Sample()
    selection = selection_of(arguments)
    try:
        with resumed(arguments.resume, lake) as progress:
            outcome = verify_whole_lake(
                lake,
                report.say,
                arguments.now_ms,
                sample=sample,
                progress=progress,
                selection=selection,
                step=report.step,
                start=lambda nbytes: launch.start_executor(lake, chosen_engine(None, nbytes)[0], "verify"),
            )
    finally:
        report.print_held()  # also after an interrupt
    return report.finish(outcome)
