"""``loglake ui [LAKE]``: opens Dagster's pages on this machine. Its options, and the calls that are refused at once.

It joins the command line of `logcore` through the entry-point group ``loglake.commands``. Nothing heavy is imported
before it really runs: ``loglake ui --help`` loads this module too.
"""

from __future__ import annotations

import argparse

from spark_jobs.errors import guarded

HOST, PORT = "127.0.0.1", 3000


def ui_command(parser: argparse.ArgumentParser) -> None:
    """``loglake ui [LAKE]``."""
    parser.description = (
        "Open Dagster's pages of all lakes that are registered in the home ($LOGLAKE_HOME), "
        "and run their schedules and backfills, until SIGTERM or Ctrl-C. The pages have no login and can start "
        "runs: let others reach them only through a proxy with authentication."
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
    parser.set_defaults(func=guarded(_serve))


def _serve(options: argparse.Namespace) -> int:
    from .services import serve

    return serve(options)


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else 0
    if not 1 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{text}: give a port from 1 to 65535")
    return port
