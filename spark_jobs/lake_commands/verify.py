"""``loglake verify LAKE``: a lake proved from its own bytes. logcore hands its arguments over.

0 clean · 1 warnings, also what cannot be proved · 2 damage · 3 could not check · 64 wrong usage
"""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Callable

from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.store import storage
from spark_jobs.lake_commands.outcome import guarded
from spark_jobs.lake_proof.progress import resumed
from spark_jobs.lake_proof.proving import Choice, Sample, prove_lake
from spark_jobs.lake_proof.report import Report


def verify_lake(arguments: argparse.Namespace) -> int:
    """Prove the lake at ``arguments.paths``; returns the exit code.

    Args:
        arguments: of ``loglake verify``: paths, topic, partition, sample (number and total, or None), resume, format.
    """
    return guarded(lambda: _verify(arguments))


def _verify(arguments: argparse.Namespace) -> int:
    if len(arguments.paths) > 1:
        raise UsageError("name one lake in a call.")
    lake = storage.absolute(arguments.paths[0])
    report = Report(arguments.format)
    sample = Sample(*arguments.sample) if arguments.sample else Sample()
    choice = Choice(_holds(arguments.topic, arguments.partition))
    with resumed(arguments.resume, lake) as progress:
        outcome = prove_lake(lake, report.say, sample=sample, progress=progress, choice=choice, step=report.step)
    return report.finish(outcome)


def _holds(topics: list[str] | None, partitions: list[int] | None) -> Callable[[str, int], bool] | None:
    if not topics and not partitions:
        return None

    def holds(topic: str, partition: int) -> bool:
        return (not topics or any(fnmatch.fnmatchcase(topic, glob) for glob in topics)) and (
            not partitions or partition in partitions
        )

    return holds
