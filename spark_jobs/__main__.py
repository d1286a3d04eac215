"""``python -m spark_jobs <job> --config file.json``: one job, alone.

Prints the report as one line of JSON. Exit codes: 0 clean, 1 warnings, 2 damage found, 3 could not do it, 64 usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from spark_jobs.contracts import CONFIGS, JobReport
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.launch import plan, run

EXIT_CLEAN, EXIT_WARNINGS, EXIT_DAMAGE, EXIT_NOT_CHECKED, EXIT_USAGE = 0, 1, 2, 3, 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main(argv: list[str] | None = None) -> int:
    """Run one job as the command line says."""
    parser = _Parser(prog="python -m spark_jobs", description="Run one job of a lake.")
    parser.add_argument("job", choices=sorted(CONFIGS))
    parser.add_argument("--config", required=True, help="JSON file with the job's configuration")
    parser.add_argument("--plan", action="store_true", help="print the plan and do nothing")
    options = parser.parse_args(argv)
    try:
        config = CONFIGS[options.job].from_json(Path(options.config).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{options.config}: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        if options.plan:
            import json

            print(json.dumps(plan(config).as_dict()))
            return EXIT_CLEAN
        report = run(options.job, config)
    except UsageError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except (JobError, OSError) as error:
        print(error, file=sys.stderr)
        return EXIT_NOT_CHECKED
    print(report.to_json())
    return _exit_code(report)


def _exit_code(report: JobReport) -> int:
    severities = {finding["severity"] for finding in report.findings}
    return EXIT_DAMAGE if "error" in severities else EXIT_WARNINGS if "warning" in severities else EXIT_CLEAN


if __name__ == "__main__":
    sys.exit(main())
