"""Runs what Dagster's pages need: a code server, a webserver and a daemon, each a process of its own.

::

    code server   loads the definitions of the registered lakes, and starts runs
    webserver     the pages (:mod:`pipelines.ui.webserver`)
    daemon        schedules, sensors, backfills and the queue of runs

The definitions are loaded again when a registration in the operator's home is added, changed or removed. If one of the
processes ends, all are ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from logcore.exit_codes import ExitCode
from spark_jobs import launch
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.registered_lakes import (
    dagster_home,
    home_folder,
    home_state,
    is_lake,
    lake_path,
    read_registered,
    unused_home,
)

from ..alerts import UI_ADDRESS
from ..catalog.names import LOCATION
from ..command.history import lacks_databases, prepare_history
from ..errors.interrupts import stopped_by_signals

START_SECONDS = 180.0
"""The pages must answer by then, also on a busy machine."""
STOP_SECONDS = 15.0
"""A process that has not ended by then is killed."""
LOOK_SECONDS = 1.0
"""From one look at the registrations and processes to the next."""

RELOAD_SECONDS = 180
"""Loading the definitions again must end by then."""
_PYTHON = (sys.executable, "-m")
_DEFINITIONS = f"{str(__package__).partition('.')[0]}.definitions"


@dataclass(frozen=True, slots=True)
class Service:
    """A process of ours."""

    name: str
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        """Ask it to end; kill it and its own processes if it does not."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def serve(options: argparse.Namespace) -> int:
    """Execute ``loglake ui``.

    Returns:
        The exit code.

    Raises:
        UsageError: The call cannot be carried out as it is.
        JobError: The pages could not be started, or one of the processes ended.
    """
    if options.path_prefix and (not options.path_prefix.startswith("/") or options.path_prefix.endswith("/")):
        raise UsageError(f"--path-prefix {options.path_prefix}: it begins with a slash and does not end with one.")
    home, unused = home_folder(), unused_home()
    if unused is not None:
        sys.stderr.write(f"note: {unused}\n")
    os.environ["LOGLAKE_HOME"] = home
    first_page = "/"
    if options.lake is not None:
        lake = lake_path(options.lake)
        if not is_lake(lake):
            raise UsageError(f"There is no lake at {lake}. Make one: loglake run PATH... --lake {lake}")
        launch.register(lake)
        first_page = f"/locations/{LOCATION}/asset-groups/{read_registered(lake).identifier}/lineage"
    set_dagster_home()
    check_port(options.host, options.port)
    host = in_url(options.host)
    address = "http:" + f"//{host}:{options.port}{options.path_prefix}"
    os.environ.setdefault(UI_ADDRESS, address)
    services: list[Service] = []
    with stopped_by_signals() as stop, tempfile.TemporaryDirectory(prefix="loglake-ui-") as folder:
        code = str(Path(folder, "code"))
        try:
            for service in _start(options, folder, code, stop):
                services.append(service)  # noqa: PERF402 - what was started is ended, also if the next one fails
            _wait_until_loaded(address, services, stop)
            if not stop.is_set():
                print(f"{address}{first_page}\nCtrl-C ends it.", flush=True)
            watch_home(home, f"unix:{code}", services, stop)
        finally:
            for service in reversed(services):
                service.end()
    return ExitCode.CLEAN


def set_dagster_home() -> None:
    """Set ``DAGSTER_HOME`` for the processes that are started; they share its databases, which are created here."""
    folder = prepare_history(dagster_home())
    os.environ["DAGSTER_HOME"] = str(folder)
    if lacks_databases(folder):
        from ..command.dagster_history import create_databases  # seconds, only the first time

        create_databases(folder)


def _start(options: argparse.Namespace, folder: str, code: str, stop: threading.Event) -> Iterator[Service]:
    """Start the processes; the one that the others need is the first, and it listens on the socket ``code``."""
    log = ["--log-level", options.log_level]
    server = start_code_server(["--socket", code], options.log_level)
    yield server
    deadline = time.monotonic() + START_SECONDS
    while not stop.wait(0.1) and not _accepts(code):  # otherwise the others would complain that it does not answer
        _check_alive([server])
        _check_in_time(deadline)
    workspace = Path(folder, "workspace.yaml")
    location = {"socket": code, "host": "localhost", "location_name": LOCATION}
    workspace.write_text(json.dumps({"load_from": [{"grpc_server": location}]}))  # JSON is YAML
    web = ["-h", options.host, "-p", str(options.port), "--path-prefix", options.path_prefix]
    web += ["--read-only"] if options.read_only else []
    log_of_web = ["--dagster-log-level", options.log_level]
    yield _process("webserver", [*_PYTHON, f"{__package__}.webserver", "-w", str(workspace), *web, *log_of_web])
    if not options.read_only:
        daemon = shutil.which("dagster-daemon", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")
        yield _process("daemon", [daemon or "dagster-daemon", "run", "-w", str(workspace), *log])


def start_code_server(where: Sequence[str], log_level: str) -> Service:
    """Start the code server of our code location.

    Args:
        where: Options that say where it listens.
        log_level: What it logs on stderr.
    """
    what = ["--location-name", LOCATION, "-m", _DEFINITIONS, "--log-level", log_level]
    return _process("code server", [*_PYTHON, "dagster", "code-server", "start", *where, *what])


def _process(name: str, command: Sequence[str]) -> Service:
    # A group of its own: an interrupt from the terminal reaches only us, and we end the others in their order.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    return Service(name, process)


def _accepts(path: str) -> bool:
    """Whether a process listens on this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(LOOK_SECONDS)
        return probe.connect_ex(path) == 0


def watch_home(home: str, code: str, services: Sequence[Service], stop: threading.Event) -> None:
    """Load the definitions again after each change of the registrations, until the end.

    Args:
        home: The operator's home.
        code: Address of the code server, as gRPC names it.
        services: All processes.
        stop: Set when they are to end.

    Raises:
        JobError: One of the processes ended.
    """
    seen = home_state(home)
    while not stop.wait(LOOK_SECONDS):
        _check_alive(services)
        now = home_state(home)
        if now != seen and _is_reloaded(code):
            seen = now


def _is_reloaded(code: str) -> bool:
    """Ask the code server to load the definitions again; the webserver notices.

    Dagster has no command for it, and read-only pages refuse it. So this is the call that its pages send, without
    arguments.
    """
    try:
        with grpc.insecure_channel(code) as channel:
            channel.unary_unary("/api.DagsterApi/ReloadCode")(b"", timeout=RELOAD_SECONDS)
    except grpc.RpcError:
        return False  # it is busy; at the next look it is tried again
    return True


def _wait_until_loaded(address: str, services: Sequence[Service], stop: threading.Event) -> None:
    """Wait until the pages show the definitions, or why they could not be loaded."""
    query = "query { workspaceOrError { ... on Workspace { locationEntries { loadStatus } } } }"
    deadline = time.monotonic() + START_SECONDS
    while not stop.wait(0.2):
        _check_alive(services)
        try:
            entries = _graphql(address, query)["data"]["workspaceOrError"]["locationEntries"]
            if entries and all(entry["loadStatus"] == "LOADED" for entry in entries):
                return
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it does not answer yet
        _check_in_time(deadline)


def _check_in_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise JobError(f"Dagster's pages did not answer within {START_SECONDS:.0f} s. --log-level info says more.")


def _check_alive(services: Sequence[Service]) -> None:
    for service in services:
        code = service.process.poll()
        if code is not None:
            raise JobError(f"Dagster's {service.name} ended with code {code}; the other processes are ended too.")


def _graphql(address: str, query: str) -> Any:
    request = urllib.request.Request(  # noqa: S310 - our own webserver
        f"{address}/graphql",
        json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )
    with _NO_PROXY.open(request, timeout=60) as answer:
        return json.load(answer)


_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def check_port(host: str, port: int) -> None:
    """Check that the address can be used.

    Raises:
        UsageError: It cannot, and why.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UsageError(
            f"{host}, port {port}, cannot be used: {error.strerror or error}. Name another with --port or --host."
        ) from error


def in_url(host: str) -> str:
    """An address to reach a server that listens on this one."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - named by the user
    return f"[{reached}]" if ":" in reached else reached
