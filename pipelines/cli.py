"""``loglake run`` and ``loglake demo``: the subcommands that bring Dagster and Spark.

They join the command line of `logcore` through the entry-point group ``loglake.commands``. Nothing heavy is imported
before one of them really runs: ``loglake ls`` loads this module too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from logcore.cli.arguments import high_watermark, natural, time_ms

if TYPE_CHECKING:
    from logcore.logs.findings import Finding
    from pipelines.running import RunOutcome
    from spark_jobs.contracts import JobConfig

EXIT_NOT_CHECKED, EXIT_USAGE = 3, 64


class RunCommand:
    """``loglake run PATH... --lake DIR``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "run",
            help="log directories become checked Delta tables",
            description="Take in what is new of each log, judge it, publish what is decided, and check the result. "
            "Run again whenever you like: with nothing new it changes nothing.",
        )
        parser.add_argument(
            "paths",
            nargs="+",
            metavar="PATH",
            help="a log directory, a partition directory (orders-0) or a .log file; several may be given; only read",
        )
        parser.add_argument(
            "--lake", required=True, metavar="DIR", help="where the tables are; made if it is not there"
        )
        parser.add_argument("--topic", action="append", default=[], metavar="GLOB", help="only topics that match")
        parser.add_argument(
            "--partition",
            action="append",
            default=[],
            metavar="N",
            help="only this partition number, or this topic partition (orders-0); repeatable",
        )
        parser.add_argument("--policies", metavar="FILE", help="policies.yaml: Kafka's configuration by topic pattern")
        parser.add_argument("--as-of", type=time_ms, metavar="TIME", help="the run's clock (default: now)")
        parser.add_argument(
            "--isolation.level",
            dest="isolation_level",
            choices=["read_committed", "read_uncommitted"],
            default="read_committed",
            help="which records are published (read_uncommitted: not built yet)",
        )
        parser.add_argument("--mode", choices=["copy", "reference"], default="copy", help="copy into the archive, or "
                            "register bytes where they lie (for immutable snapshots)")  # fmt: skip
        parser.add_argument(
            "--high-watermark",
            type=high_watermark,
            default="checkpoint",
            metavar="checkpoint|log-end|N",
            help="up to where offsets count as committed by the cluster",
        )
        parser.add_argument("--cluster", metavar="NAME", help="name of the cluster, where the sources state none")
        parser.add_argument("--include-internal", action="store_true", help="publish Kafka's internal topics too")
        parser.add_argument(
            "--maintain", action="store_true", help="also retention, compaction and indexes; a plan only"
        )
        parser.add_argument("--apply", action="store_true", help="let --maintain act")
        parser.add_argument("--replace", metavar="A..B", help="publish that offset range again (not built yet)")
        _add_log_level(parser)
        parser.set_defaults(func=self.run)

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        refused = _refusal(options)
        if refused is not None:
            _complain(refused)
            return EXIT_NOT_CHECKED
        try:
            numbers, logs = _partitions(options.partition)
            if options.apply and not options.maintain:
                raise ValueError("--apply lets --maintain act; without --maintain there is nothing to apply.")
        except ValueError as error:
            _complain(str(error))
            return EXIT_USAGE
        return _guarded(lambda: run_lake(options, numbers, logs))


class DemoCommand:
    """``loglake demo``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "demo",
            help="the bundled sample log directories become tables",
            description="Unpack the samples, run the pipeline on each through Dagster, and show what came out.",
        )
        parser.add_argument(
            "--samples", metavar="DIR", help="folder with the samples (default: those of this repository)"
        )
        _add_log_level(parser)
        parser.set_defaults(func=self.run)

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        from pipelines.demo import run_demo

        return _guarded(lambda: run_demo(options.samples))


run_command = RunCommand()
demo_command = DemoCommand()


def run_lake(options: argparse.Namespace, numbers: Sequence[int], logs: Sequence[str]) -> int:
    """``loglake run`` with its options understood."""
    from pipelines import lakes
    from pipelines.instance import open_instance
    from pipelines.jobs import INTAKE_JOB, MAINTENANCE_JOB
    from pipelines.running import Runner
    from pipelines.summary import damage_lines, logs_table, meanings_line, tables_lines, verdict
    from spark_jobs.lake.lease import hold
    from spark_jobs.lake.policies import read_policies

    lake = os.path.abspath(options.lake)
    intake = lakes.Intake(
        paths=tuple(os.path.abspath(path) for path in options.paths),
        topics=tuple(options.topic),
        partitions=tuple(numbers),
        mode=options.mode,
        high_watermark=str(options.high_watermark),
        cluster=options.cluster,
        include_internal=options.include_internal,
        policies=os.path.abspath(options.policies) if options.policies else None,
    )
    read_policies(intake.policies)  # a mistake in it is said before anything is begun
    settings = _settings(intake, logs, options)
    with hold(lake, "loglake run"), open_instance(os.path.join(lake, ".dagster")) as instance:
        runner = Runner(instance, announcer())
        outcomes = [runner.run(INTAKE_JOB, lake, **settings)]
        if not logs and outcomes[0].error is None:  # topic partitions by name are chosen for once
            lakes.remember(lake, intake)  # only what a run could take: later ones must not stumble over it
        if options.maintain and outcomes[0].error is None:
            outcomes.append(runner.run(MAINTENANCE_JOB, lake, **settings, apply=options.apply))
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    if failed is not None:
        _complain(str(failed.error))
        return EXIT_USAGE if failed.is_usage_error else EXIT_NOT_CHECKED
    state = chosen_state(lake, options.topic, numbers, logs)
    now = say_path_findings(intake.paths, lake)
    if state.logs:
        print(logs_table([state]))
        print(meanings_line([state]))
    for line in damage_lines([state]):
        print(line)
    for outcome in outcomes[1:]:
        for line in plan_lines(outcome):
            print(line)
    print("\ntables:" if state.logs else "no log was found")
    for line in tables_lines(lake):
        print(f"  {line}")
    if all(outcome.found_nothing_new for outcome in outcomes):
        print("nothing new")
    return verdict(state, now)


def _settings(intake: Any, logs: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "sources": list(intake.paths),
        "topics": list(intake.topics),
        "partitions": list(intake.partitions),
        "logs": list(logs),
        "mode": intake.mode,
        "high_watermark": intake.high_watermark,
        "cluster": intake.cluster,
        "include_internal": intake.include_internal,
        "policies": intake.policies,
        "as_of_ms": options.as_of,
    }


def _refusal(options: argparse.Namespace) -> str | None:
    """What was asked for and is not built yet."""
    remote = [place for place in (*options.paths, options.lake) if "://" in place]
    if remote:
        return f"{remote[0]}: object stores are not built yet; give a local path."
    if options.replace is not None:
        return "--replace is not built yet: a range below the frontier cannot be published again."
    if options.isolation_level == "read_uncommitted":
        return "--isolation.level read_uncommitted is not built yet: only committed records are published."
    return None


def _partitions(said: Sequence[str]) -> tuple[list[int], list[str]]:
    """Partition numbers, and topic partitions by name."""
    from logcore.segments.filenames import parse_topic_partition

    numbers, logs = [], []
    for text in said:
        if text.isdecimal():
            numbers.append(natural(text))
        elif parse_topic_partition(text) is not None:
            logs.append(text)
        else:
            raise ValueError(f"--partition {text}: neither a partition number nor a topic partition like orders-0.")
    if numbers and logs:
        raise ValueError("--partition: give numbers or topic partitions, not both.")
    return numbers, logs


def chosen_state(lake: str, topics: Sequence[str], numbers: Sequence[int], logs: Sequence[str]) -> Any:
    """The lake's state, only of what was chosen."""
    import fnmatch
    from dataclasses import replace

    from pipelines.state import read_state

    state = read_state(lake)
    chosen = [
        log
        for log in state.logs
        if (not topics or any(fnmatch.fnmatchcase(log.row.topic, glob) for glob in topics))
        and (not numbers or log.row.partition in numbers)
        and (not logs or log.topic_partition in logs)
    ]
    return replace(state, logs=tuple(chosen))


def say_path_findings(paths: Sequence[str], lake: str) -> Sequence[Finding]:
    """What there is to say about the source paths now, each on stderr."""
    from logcore.logs.findings import Severity, found
    from logcore.storage.local import discover
    from spark_jobs.lake.archive import read_logs

    discovery = discover([os.path.realpath(path) for path in paths])
    kept = {row.topic_partition: row.source for row in read_logs(lake).values()}
    left_alone = [
        found("second-source", f"{name} is taken from {kept[name]}; {log.directory} is left alone.", file=log.directory)
        for log in discovery.logs
        for name in [str(log.topic_partition)]
        if kept.get(name, log.directory) != log.directory
    ]
    findings = (*discovery.findings, *left_alone)
    for finding in findings:
        if finding.severity is not Severity.INFO:
            sys.stderr.write(f"{finding.severity}: {finding.message}\n")
    return findings


def plan_lines(outcome: RunOutcome) -> list[str]:
    """What maintenance did, or would do."""
    lines = ["", "maintenance:"]
    for asset, keys in outcome.changed.items():
        more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
        lines.append(f"  {asset}: {', '.join(keys[:8])}{more}")
    for asset, plan in outcome.plans.items():
        lines += [f"  {asset}, a plan only:" if asset != "archived_segments" else "  could be deleted or merged:"]
        lines += [f"    {line}" for line in describe(plan)]
    return lines


def describe(plan: Any) -> list[str]:
    """A plan as short lines: what is empty is left out."""
    lines = []
    for name, value in plan.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{k} {v}" for k, v in value.items() if isinstance(v, int | str) and v != 0)
            lines += [f"{name}: {inner}"] if inner else []
        elif isinstance(value, list | tuple):
            for item in value:
                text = item if isinstance(item, str) else _item(item)
                lines.append(text if name == "logs" else f"{name}: {text}")
        elif value not in (None, 0, ""):
            lines.append(f"{name}: {value}")
    return lines or ["nothing"]


def _item(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    shown = {key: len(value) if isinstance(value, list | tuple) else value for key, value in item.items()}
    name = shown.pop("topic_partition", None)
    if name is not None:
        shown.pop("log", None)
    figures = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
    return figures if name is None else f"{name}: {figures}"


def announcer() -> Callable[[JobConfig], None] | None:
    """Says on the terminal which job begins; None where stderr is no terminal.

    Dagster puts a file in the place of stderr while a step runs, so the terminal is kept here.
    """
    if not sys.stderr.isatty():
        return None
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)

    def announce(config: JobConfig) -> None:
        terminal.write(f"{os.path.basename(config.lake)}: {config.JOB} …\n")

    return announce


def _guarded(work: Callable[[], int]) -> int:
    """Errors of ours become one paragraph and an exit code."""
    from pipelines.lakes import NoLakeError
    from spark_jobs.lake.errors import JobError, UsageError

    try:
        return work()
    except (UsageError, NoLakeError) as error:
        _complain(str(error))
        return EXIT_USAGE
    except JobError as error:
        _complain(str(error))
        return EXIT_NOT_CHECKED
    except OSError as error:
        _complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return EXIT_NOT_CHECKED


def _complain(text: str) -> None:
    sys.stderr.write(f"error: {text}\n")


def _add_log_level(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="what is logged on stderr"
    )
