"""``loglake ui [LAKE]``: opens Dagster's pages on this machine. Its options, and the calls that are refused at once.

It joins the command line of `logcore` through the entry-point group ``loglake.commands``. Nothing heavy is imported
before it really runs: ``loglake ui --help`` loads this module too.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from logcore.exit_codes import ExitCode

HOST, PORT = "127.0.0.1", 3000


class UiCommand:
    """``loglake ui [LAKE]``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "ui",
            help="Dagster's pages of all registered lakes",
            description="Open Dagster's pages of all lakes that are registered in the home ($LOGLAKE_HOME), "
            "and run their schedules and backfills, until SIGTERM or Ctrl-C. The pages have no login and can start "
            "runs: let others reach them only through a proxy with authentication.",
        )
        parser.add_argument(
            "lake", nargs="?", metavar="LAKE", help="register this lake first: its directory, or s3://bucket/prefix"
        )
        parser.add_argument("--host", default=HOST, help=f"address to listen on (default {HOST}: this machine only)")
        parser.add_argument("--port", type=_port, default=PORT, help=f"port to listen on (default {PORT})")
        parser.add_argument("--path-prefix", default="", metavar="/PREFIX", help="prefix of all addresses, for a proxy")
        parser.add_argument("--read-only", action="store_true", help="pages that start and change nothing")
        parser.add_argument(
            "--log-level",
            choices=("debug", "info", "warning", "error"),
            default="error",
            help="what Dagster's processes log on stderr (default error)",
        )
        parser.set_defaults(func=self.run)

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        from spark_jobs.errors import JobError, UsageError

        try:
            from .services import serve

            return serve(options)
        except UsageError as error:
            sys.stderr.write(f"error: {error}\n")
            return ExitCode.USAGE
        except JobError as error:
            sys.stderr.write(f"error: {error}\n")
            return ExitCode.NOT_CHECKED


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else 0
    if not 1 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{text}: give a port from 1 to 65535")
    return port


ui_command = UiCommand()
