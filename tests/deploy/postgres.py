"""A PostgreSQL server on loopback, with a password, in a folder that is deleted at the end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons import WAIT_SECONDS

USER, DATABASE = "dagster", "dagster"


def programs() -> Path:
    """The folder of initdb, postgres and pg_ctl; skips the test where there is none."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").is_file():
            return folder
    pytest.skip("PostgreSQL is not installed: Debian's package postgresql has it")


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """Run a server.

    Yields:
        The variables that deploy/containers/dagster/dagster.yaml reads, with their values.
    """
    folder = programs()
    root = Path(tempfile.mkdtemp(prefix="loglake-postgres-"))
    # PostgreSQL refuses to run as root
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        os.chown(root, pwd.getpwnam(user).pw_uid, -1)
    password = secrets.token_hex(16)
    (root / "password").write_text(password)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [str(folder / program), "--pgdata", str(root / "data"), *arguments]
        log = (root / "log").open("ab")
        done = subprocess.run(command, user=user, cwd=root, stdout=log, stderr=log, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == 0, (root / "log").read_text()

    try:
        login = ["--auth=scram-sha-256", f"--pwfile={root / 'password'}", f"--username={USER}"]
        run("initdb", "--no-sync", "--encoding=UTF8", "--no-locale", *login)
        settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
        run("pg_ctl", "start", "--wait", "--silent", "--options", settings)
        try:
            yield {
                "DAGSTER_POSTGRES_HOST": "127.0.0.1",
                "DAGSTER_POSTGRES_PORT": str(port),
                "DAGSTER_POSTGRES_DB": "postgres",
                "DAGSTER_POSTGRES_USER": USER,
                "DAGSTER_POSTGRES_PASSWORD": password,
            }
        finally:
            run("pg_ctl", "stop", "--mode=fast", "--silent")
    finally:
        shutil.rmtree(root)
