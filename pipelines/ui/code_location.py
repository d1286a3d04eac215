"""The code location as a service: ``python -m loglake.ui.code_location``.

``loglake ui`` starts the code location, the webserver and the daemon together. Containers need each of them alone. The
webserver and the daemon reach this one over gRPC, and the runs that they launch work in its processes. Like
``loglake ui``, it loads the definitions again when a registration in the operator's home changes.

gRPC has no login: a program that reaches the port can start runs. So it listens on loopback unless ``--host`` says
otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from logcore.exit_codes import ExitCode
from spark_jobs.errors import guarded
from spark_jobs.lake.view.registered_lakes import home_folder

from ..errors.interrupts import stopped_by_signals
from .services import check_port, in_url, set_dagster_home, start_code_server, watch_home
from .ui_command import HOST

PORT = 4000


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the code location until SIGTERM or SIGINT.

    Returns:
        The exit code.
    """
    return _serve(build_parser().parse_args(arguments))


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m loglake.ui.code_location",
        description="Serve the code location of the lakes that are registered in $LOGLAKE_HOME, over gRPC.",
    )
    parser.add_argument("--host", default=HOST, help=f"address to listen on (default {HOST}: this machine only)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port to listen on (default {PORT})")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="error")
    return parser


@guarded
def _serve(options: argparse.Namespace) -> int:
    home = home_folder()
    os.environ["LOGLAKE_HOME"] = home
    set_dagster_home()
    check_port(options.host, options.port)
    with stopped_by_signals() as stop:
        server = start_code_server(["--host", options.host, "--port", str(options.port)], options.log_level)
        try:
            watch_home(home, f"{in_url(options.host)}:{options.port}", [server], stop)
        finally:
            server.end()
    return ExitCode.CLEAN


if __name__ == "__main__":
    sys.exit(main())
