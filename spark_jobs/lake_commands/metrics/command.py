"""``loglake metrics [LAKE...] [-o FILE]``: figures of lakes for Prometheus.

    loglake metrics LAKE
    loglake metrics -o /var/lib/node_exporter/loglake.prom

Without LAKE all lakes that are registered in the home. The file gets its name when it is complete, so that a reader
never sees a part of it. A lake that cannot be read has only the figure `loglake_lake_up 0`, and the others follow.
FILE is never in a lake or in a source.

Exit codes: 0 written; 3 a lake cannot be read, or the file cannot be written; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from logcore.cli.reading.arguments import add_lakes
from logcore.exit_codes import ExitCode
from spark_jobs.lake_commands.outcome import guarded


class MetricsCommand:
    """``loglake metrics``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "metrics",
            help="figures of lakes for Prometheus",
            description="Print figures of lakes in the text format of Prometheus: lag, records, bytes, findings, open "
            "transactions, the last run and the lease.",
        )
        add_lakes(parser)
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="write FILE, such as loglake.prom; it is replaced in one step"
        )
        parser.set_defaults(func=lambda options: guarded(lambda: _write(options)))


metrics_command = MetricsCommand()


def _write(options: argparse.Namespace) -> int:
    from spark_jobs.errors import UsageError
    from spark_jobs.lake.store import storage
    from spark_jobs.lake.view.registered_lakes import chosen_lakes
    from spark_jobs.lake_commands.metrics.lake_metrics import METRICS
    from spark_jobs.lake_commands.metrics.text_format import as_text

    if options.output is not None and storage.is_remote(options.output):
        raise UsageError("FILE must be on a local disk.")
    home = chosen_lakes(options.lakes)
    sys.stderr.writelines(f"{note}\n" for note in home.notes)
    # Lakes that are not registered have the name of their folder, which another one may have too.
    names = Counter(lake.name for lake in home.lakes)
    lakes = [(lake.path, lake.name if names[lake.name] == 1 else lake.path) for lake in home.lakes]
    if options.output is not None:
        _refuse_output(options.output, [path for path, _ in lakes])
    code, samples = _samples(lakes, options.now_ms)
    if home.broken:
        code = ExitCode.NOT_CHECKED
    text = as_text(METRICS, samples)
    if options.output is None:
        sys.stdout.write(text)
    else:
        storage.put(storage.absolute(options.output), text.encode())
    return code


def _refuse_output(target: str, lakes: Sequence[str]) -> None:
    """Refuse a file in a lake or in a source: of the lakes that are read, and of all that are registered.

    Raises:
        UsageError: It is in one of them.
    """
    from logcore.cli.reading.arguments import source_around
    from logcore.storage.discovery import shown
    from spark_jobs.errors import UsageError
    from spark_jobs.lake.store import storage
    from spark_jobs.lake.view.registered_lakes import home_folder, lake_around, named_sources, read_home

    registered = [lake.path for lake in read_home(home_folder()).lakes]
    known = list(dict.fromkeys([*lakes, *registered]))
    places = [lake for lake in known if not storage.is_remote(lake)]
    places += [path for lake in known for path in named_sources(lake)]
    around = lake_around(target) or source_around(target, places)
    if around is not None:
        raise UsageError(f"{shown(target)} is inside {shown(around)}. Name a file outside of lakes and sources.")


def _samples(lakes: Sequence[tuple[str, str]], now_ms: int) -> tuple[ExitCode, list[Any]]:
    """Return the figures of lakes, and the exit code."""
    from logcore.storage.discovery import shown
    from spark_jobs.errors import JobError, UsageError
    from spark_jobs.lake_commands.metrics.lake_metrics import METRICS, UP, lake_samples
    from spark_jobs.lake_commands.metrics.text_format import MetricSample, as_text
    from spark_jobs.lake_commands.outcome import lake_at

    code, samples = ExitCode.CLEAN, []
    for path, name in lakes:
        try:
            found = list(lake_samples(lake_at(path), name, now_ms))
            as_text(METRICS, found)  # refuses two values of one figure
        except (JobError, UsageError, OSError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - other lakes have figures; the text may have anything in it
            problem = f"{shown(path)}: the figures cannot be read ({type(error).__name__}); see `loglake verify`."
        else:
            samples += found
            continue
        sys.stderr.write(f"error: {problem}\n")
        samples.append(MetricSample(UP, (("lake", name),), 0))
        code = ExitCode.NOT_CHECKED
    return code, samples
