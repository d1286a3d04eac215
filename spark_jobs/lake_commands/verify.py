"""``loglake verify LAKE``: a lake proved from its own bytes. logcore hands its arguments over.

0 clean · 1 warnings, also what cannot be proved · 2 damage · 3 could not check · 64 wrong usage
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Callable

from spark_jobs.lake import storage
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake_proof.progress import resumed
from spark_jobs.lake_proof.proving import Choice, Sample, prove_lake
from spark_jobs.lake_proof.report import Report

EXIT_UNCHECKED, EXIT_USAGE = 3, 64


def verify_lake(arguments: argparse.Namespace) -> int:
    """Prove the lake at ``arguments.paths``; returns the exit code.

    Args:
        arguments: of ``loglake verify``: paths, topic, partition, sample (number and total, or None), resume, format.
    """
    if len(arguments.paths) > 1:
        return _refused("name one lake in a call.", EXIT_USAGE)
    try:
        lake = storage.absolute(arguments.paths[0])
        report = Report(arguments.format)
        sample = Sample(*arguments.sample) if arguments.sample else Sample()
        choice = Choice(_holds(arguments.topic, arguments.partition))
        with resumed(arguments.resume, lake) as progress:
            outcome = prove_lake(lake, report.say, sample=sample, progress=progress, choice=choice, step=report.step)
        return report.finish(outcome)
    except UsageError as error:
        return _refused(str(error), EXIT_USAGE)
    except JobError as error:
        return _refused(str(error), EXIT_UNCHECKED)


def _holds(topics: list[str] | None, partitions: list[int] | None) -> Callable[[str, int], bool] | None:
    if not topics and not partitions:
        return None

    def holds(topic: str, partition: int) -> bool:
        return (not topics or any(fnmatch.fnmatchcase(topic, glob) for glob in topics)) and (
            not partitions or partition in partitions
        )

    return holds


def _refused(message: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return code
