"""``loglake run``, `watch`, `status` and `demo` for the command line: options, and the calls that are refused at once.

They join the command line of `logcore` through the entry-point group ``loglake.commands``. Nothing heavy is imported
before one of them really runs: ``loglake run --help`` loads this module too.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from logcore.cli.reading.arguments import add_lakes, clock_ms, high_watermark, natural, offset_range, time_ms
from logcore.exit_codes import ExitCode
from spark_jobs.errors import JobError, UsageError, guarded


def run_command(parser: argparse.ArgumentParser) -> None:
    """``loglake run [PATH...] --lake DIR``."""
    parser.description = (
        "Archive what is new of each log, validate it, publish final offsets, and check the result. "
        "It can run at any time: with nothing new it changes nothing."
    )
    _add_what_runs_read(parser, needs_path=False)
    _add_replacement(parser.add_argument_group("Publish offsets again"))
    parser.add_argument(
        "--forget-source",
        action="append",
        default=[],
        metavar="PATH",
        help="no longer read this registered source, which is gone for good; rows, archive and policies stay; "
        "repeatable, also without a PATH to read",
    )
    maintenance = parser.add_argument_group("Maintenance")
    maintenance.add_argument(
        "--maintain",
        action="store_true",
        help="after the run also maintenance: retention, compaction, tidy_archive, rebuild_indexes and optimize; a "
        "plan only; without a PATH maintenance alone, as of a lake whose sources are gone; then --isolation.level "
        "read_uncommitted publishes what waits in the archive to records_uncommitted first",
    )
    maintenance.add_argument("--apply", action="store_true", help="let --maintain act")
    _add_log_level(parser)
    parser.set_defaults(func=_guarded(_run))


def _run(options: argparse.Namespace) -> int:
    options.partitions, options.logs = _partitions(options.partition)
    _check_together(options)
    return _run_lake(options)


def watch_command(parser: argparse.ArgumentParser) -> None:
    """``loglake watch PATH... --lake DIR``."""
    parser.description = (
        "Do what `loglake run` does whenever a source has grown, until SIGTERM or Ctrl-C. The lake is "
        "held for one round at a time, so other runs and maintenance wait for one round at most. Each round with "
        "new records is a line on stdout, each new error a line on stderr."
    )
    _add_what_runs_read(parser)
    parser.add_argument(
        "--interval",
        type=_seconds,
        metavar="SECONDS",
        help="from one look to the next (default 1; 60 where a PATH is on an object store)",
    )
    _add_log_level(parser)
    parser.set_defaults(func=_guarded(_watch_lake))


def status_command(parser: argparse.ArgumentParser) -> None:
    """``loglake status [LAKE...]``."""
    parser.description = (
        "Print what is wrong with a lake and what to type for it, its lag, its newest runs, and when "
        "its policies start the next one. Only reads."
    )
    add_lakes(parser)
    parser.set_defaults(func=_guarded(_status))


def demo_command(parser: argparse.ArgumentParser) -> None:
    """``loglake demo``."""
    parser.description = (
        "Unpack the bundled samples, make a lake of each below the home ($LOGLAKE_HOME), "
        "and show what came out. The last lake is made through Spark and needs Java. One sample is damaged on "
        "purpose, and the exit code is 0 nevertheless."
    )
    parser.add_argument("--samples", metavar="DIR", help="folder with the samples (default: those of this repository)")
    _add_log_level(parser)
    parser.set_defaults(func=_guarded(_run_demo))


def _run_lake(options: argparse.Namespace) -> int:
    _start_workers_for_a_first_load(options)
    with _uncollected(f"{__package__}.command.run_lake"):
        from spark_jobs.prestart import load_arrow

        load_arrow()
        from .command.run_lake import run_lake

    return run_lake(options)


def _status(options: argparse.Namespace) -> int:
    from .command.status import status

    return status(options.lakes, options.now_ms)


def _start_workers_for_a_first_load(options: argparse.Namespace) -> None:
    """Start workers before all else is loaded, where the lake is still to be made: then there certainly are tasks."""
    from spark_jobs.prestart import start_workers

    is_local_path = "://" not in options.lake
    is_there = any("://" in path or os.path.lexists(path) for path in options.sources)
    if is_local_path and not os.path.lexists(options.lake) and is_there:
        with suppress(UsageError):  # the run refuses the engine, with everything else that it checks first
            start_workers(options.engine)


def _watch_lake(options: argparse.Namespace) -> int:
    options.partitions, options.logs = _partitions(options.partition)
    if options.as_of_ms is not None:
        raise UsageError("--as-of: a watch follows the clock; give it to loglake run.")
    with _uncollected(f"{__package__}.command.run_lake"):
        from .command.run_lake import watch

    return watch(options)


def _run_demo(options: argparse.Namespace) -> int:
    with _uncollected(f"{__package__}.command.demo"):
        from .command.demo import run_demo

    return run_demo(options.now_ms, options.samples)


@contextmanager
def _uncollected(module: str) -> Iterator[None]:
    """Disable the garbage collector while a module is loaded, and exclude the loaded objects afterwards.

    These objects stay for the whole process. Inspecting thousands of them again and again took a tenth of a run with
    nothing new. If the module is already loaded nothing is done, because other objects must not be excluded for ever.
    """
    if module in sys.modules:
        yield
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


# --- options ----------------------------------------------------------------------------------------------------------


def _add_what_runs_read(parser: argparse.ArgumentParser, *, needs_path: bool = True) -> None:
    _add_places(parser.add_argument_group("Places"), "+" if needs_path else "*")
    _add_choice(parser.add_argument_group("Choice of logs"))
    _add_meaning(parser.add_argument_group("Meaning of the logs"))
    _add_sources(parser.add_argument_group("More sources"))
    _add_work(parser.add_argument_group("Engine, rounds and archive"))


def _add_places(parser: argparse._ArgumentGroup, paths: str) -> None:
    parser.add_argument(
        "sources",
        nargs=paths,
        metavar="PATH",
        help="a log directory, a partition directory (orders-0) or a .log file, also as s3://bucket/prefix; several "
        "may be given; only read",
    )
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where the tables are, created if it does not exist: a directory, or s3://bucket/prefix",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text}: give seconds from 0.05 to 86400")
    return seconds


def _add_choice(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--topic", dest="topics", action="append", default=[], metavar="GLOB", help="only topics that match"
    )
    parser.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="N",
        help="only this partition number, or this topic partition (orders-0); repeatable",
    )
    parser.add_argument(
        "--include-internal",
        action="store_true",
        help="publish Kafka's internal topics too, except __cluster_metadata",
    )


def _add_meaning(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--policies", metavar="FILE", help="policies.yaml: Kafka's configuration by topic (default: the registered one)"
    )
    parser.add_argument(
        "--as-of", dest="as_of_ms", type=clock_ms, metavar="TIME", help="the run's clock (default: now)"
    )
    parser.add_argument(
        "--isolation.level",
        dest="isolation_level",
        choices=["read_committed", "read_uncommitted"],
        help="read_uncommitted keeps a table records_uncommitted, up to the high watermark, beside records "
        "(default: as the lake did before, at first read_committed)",
    )
    parser.add_argument(
        "--high-watermark",
        type=high_watermark,
        default="checkpoint",
        metavar="checkpoint|log-end|N",
        help="up to where offsets count as committed by the cluster",
    )
    parser.add_argument("--cluster", metavar="NAME", help="name of the cluster, whatever the sources state")


def _add_work(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--engine",
        choices=["auto", "local", "spark"],
        default="auto",
        help="the job engine, which runs the tasks: processes of this machine, or Spark (default auto: Spark where "
        "LOGLAKE_SPARK_MASTER names a cluster, else processes of this machine)",
    )
    parser.add_argument(
        "--max-bytes-per-round",
        type=natural,
        metavar="BYTES",
        help="a large load is archived, validated and published in rounds of so many bytes, and a failure costs one "
        "round (default 64 GiB; 0: all in one round)",
    )
    parser.add_argument(
        "--max-tasks-per-round",
        type=natural,
        metavar="N",
        help="the same by tasks; small segments share a task (default 1000; 0: no limit)",
    )
    parser.add_argument(
        "--mode",
        choices=["copy", "reference"],
        default="copy",
        help="copy into the archive, or register bytes at their source (for immutable snapshots)",
    )


def _add_sources(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--fill-from",
        action="append",
        default=[],
        metavar="PATH",
        help="another copy of the logs, where missing or corrupt offsets are searched for; repeatable, and "
        "remembered for later runs",
    )
    remote = parser.add_mutually_exclusive_group()
    remote.add_argument(
        "--remote",
        action="append",
        default=[],
        metavar="DIR|s3://…",
        help="remote storage of tiered topics: its segments and the local ones are one log; repeatable, and "
        "remembered for later runs",
    )
    remote.add_argument(
        "--forget-remote",
        action="store_true",
        help="forget the remote storage that earlier runs of these PATHs named; refused while segments of the lake are "
        "registered there. Storage in the policies is still read",
    )
    parser.add_argument(
        "--move-source",
        action="store_true",
        help="from now on read logs from PATH that were read from another directory, if the two agree",
    )


def _add_replacement(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--replace",
        type=offset_range,
        metavar="A..B",
        help="publish that offset range of the chosen logs again, below the frontier (B is not included; .. is all)",
    )
    for option, which in (("since", "from this time on"), ("until", "before this time")):
        parser.add_argument(
            f"--{option}",
            dest=f"replace_{option}_ms",
            type=time_ms,
            metavar="TIME",
            help=f"with --replace: only batches {which}",
        )
    parser.add_argument(
        "--include-withdrawn",
        dest="replace_withdrawn",
        action="store_true",
        help="with --replace: publish rows again that loglake withdraw recorded, and delete the withdrawal",
    )


def _add_log_level(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="what is logged on stderr"
    )


# --- refused calls ----------------------------------------------------------------------------------------------------


def _check_together(options: argparse.Namespace) -> None:
    if not options.sources:
        _check_without_path(options)
    if options.apply and not options.maintain:
        raise UsageError("--apply lets --maintain act; without --maintain there is nothing to apply.")
    if options.replace is None and (options.replace_since_ms, options.replace_until_ms) != (None, None):
        raise UsageError("--since and --until bound what --replace publishes again; write --replace .. with them.")
    if options.replace is None and options.replace_withdrawn:
        raise UsageError("--include-withdrawn says what --replace brings back; write --replace .. with it.")


def _check_without_path(options: argparse.Namespace) -> None:
    """Refuse options that would do nothing, because no source is read."""
    is_uncommitted = options.isolation_level == "read_uncommitted"
    given = {
        "--replace": options.replace is not None,
        "--fill-from": options.fill_from,
        "--remote": options.remote,
        "--forget-remote": options.forget_remote,
        "--move-source": options.move_source,
        "--mode": options.mode != "copy",
        "--cluster": options.cluster is not None,
        "--high-watermark": str(options.high_watermark) != "checkpoint",
        "--max-bytes-per-round": options.max_bytes_per_round is not None,
        "--max-tasks-per-round": options.max_tasks_per_round is not None,
        "--isolation.level read_committed": options.isolation_level == "read_committed",
        "--include-internal": options.include_internal and not is_uncommitted,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{name} does nothing without sources; name the log directories to read as PATH.")
    if not (options.maintain or options.forget_source):
        raise UsageError("name the log directories to read as PATH; only --maintain works without them.")


def _partitions(said: Sequence[str]) -> tuple[list[int], list[str]]:
    """Split the options into partition numbers and topic partitions."""
    from logcore.segments.filenames import parse_topic_partition

    numbers, logs = [], []
    for text in said:
        if text.isdecimal():
            numbers.append(natural(text))
        elif parse_topic_partition(text) is not None:
            logs.append(text)
        else:
            raise UsageError(f"--partition {text}: neither a partition number nor a topic partition like orders-0.")
    if numbers and logs:
        raise UsageError("--partition: give numbers or topic partitions, not both.")
    return numbers, logs


def _guarded(work: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Return the same command, with each error that a user can act on as one paragraph and an exit code."""

    @guarded
    def run(options: argparse.Namespace) -> int:
        from .errors.interrupts import lost_interrupts_repeated

        try:
            with lost_interrupts_repeated():
                return work(options)
        except (UsageError, JobError, OSError):
            raise
        except KeyboardInterrupt:
            sys.stderr.write("interrupted: what was committed stays. Run the same command again to continue.\n")
            return ExitCode.INTERRUPTED
        except Exception as error:
            from .errors.step_errors import history_error

            of_history = history_error(error)
            if of_history is None:
                raise
            raise JobError(of_history) from error

    return run
