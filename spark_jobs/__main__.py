"""``python -m spark_jobs <job> --config file.json``: one job, alone.

Prints the report as one line of JSON, and on stderr a line about each log that changed, up to ten. Exit codes: 0 clean,
1 warnings, 2 damage found, 3 could not do it, 64 usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from logcore.cli.reading.command_parser import CommandParser
from logcore.cli.termination import terminated_as_interrupted
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import exit_code
from spark_jobs.contracts import CONFIGS, JobReport, as_json
from spark_jobs.engine.job_engine import JobEngine
from spark_jobs.errors import JobError, UsageError
from spark_jobs.launch import plan, run
from spark_jobs.outlines import Outline, RecoverOutline

_LISTED = 10
"""Logs beyond this many are only counted."""


def main(argv: list[str] | None = None) -> int:
    """Run one job from its command line."""
    parser = CommandParser(prog="python -m spark_jobs", description="Run one job of a lake.")
    parser.add_argument("job", choices=sorted(CONFIGS))
    parser.add_argument("--config", required=True, help="JSON file with the job's configuration")
    parser.add_argument("--engine", choices=list(JobEngine), help="the job engine, which runs the tasks; default: auto")
    parser.add_argument("--plan", action="store_true", help="print the plan and do nothing")
    options = parser.parse_args(argv)
    try:
        config = CONFIGS[options.job].from_json(Path(options.config).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{options.config}: {error}", file=sys.stderr)
        return ExitCode.USAGE
    try:
        if options.plan:
            print(as_json(plan(config).outline, ensure_ascii=True))
            return ExitCode.CLEAN
        with terminated_as_interrupted():
            report = run(config, engine=options.engine)
    except UsageError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    except (JobError, OSError) as error:
        print(error, file=sys.stderr)
        return ExitCode.NOT_CHECKED
    except KeyboardInterrupt:
        print("interrupted: what was committed stays. Run the same job again to continue.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    for line in _changes(report):
        print(line, file=sys.stderr)
    print(report.to_json())
    return _exit_code(report)


def _changes(report: JobReport[Outline]) -> Iterator[str]:
    """What changed in each log, for people: the report is one long line."""
    for change in report.changed[:_LISTED]:
        figures = ", ".join(f"{name} {value:,}" for name, value in change.metrics.items() if isinstance(value, int))
        yield f"{report.job}: {change.topic}-{change.partition}: {figures}"
    more = report.changed[_LISTED:]
    if more:
        yield f"{report.job}: {len(more):,} more logs"


def _exit_code(report: JobReport[Outline]) -> ExitCode:
    code = exit_code(placed.finding for placed in report.findings)
    return max(code, report.plan.exit_code) if isinstance(report.plan, RecoverOutline) else code


if __name__ == "__main__":
    sys.exit(main())
