"""versitygw: an S3 server over a directory, for tests with real requests in numbers, and for benchmarks.

It is built once from its Go module, into ``$LOGLAKE_HOME/versitygw``; that takes some two minutes of one core. Objects
are plain files below the directory, and their ETags are extended attributes.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.daemons import WAIT_SECONDS

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
KEY, SECRET = "id", "not-secret"
_BUILD_SECONDS = 1200


class NoGateway(Exception):
    """There is no versitygw here; the text says why."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running server.

    Attributes:
        address: Its URL.
        folder: The directory over which it serves; each folder in it is a bucket.
        log: The file with a line for each request.
        pid: Its process.
    """

    address: str
    folder: Path
    log: Path
    pid: int

    @property
    def settings(self) -> dict[str, str]:
        """Environment variables for the access to it."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def bucket(self, name: str) -> str:
        """Make a bucket; returns `s3://name`."""
        (self.folder / name).mkdir()
        return f"s3://{name}"

    def requests(self, below: str = "") -> Counter[str]:
        """Count the requests so far by kind, such as `GetObject`.

        Args:
            below: Only requests whose bucket and key, or listed prefix, contain this.
        """
        counts: Counter[str] = Counter()
        for line in self.log.read_text().splitlines():
            fields = line.split()
            kind = next((field for field in fields if field.startswith("s3_")), None)
            if kind is not None and below in fields[fields.index(kind) + 2].replace("%2F", "/"):
                counts[kind.removeprefix("s3_")] += 1
        return counts

    def sent(self) -> int:
        """Count the bytes of all answers so far, with their headers: what the process wrote, but for its log."""
        written = re.search(r"^wchar: (\d+)$", Path(f"/proc/{self.pid}/io").read_text(), re.MULTILINE)
        assert written is not None
        return int(written[1]) - self.log.stat().st_size


def upload(folder: Path, url: str) -> None:
    """Put every file of a folder below a prefix, as `aws s3 sync` does: the names stay, the times do not."""
    import obstore
    from obstore.store import S3Store

    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    store = S3Store(bucket)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            obstore.put(store, f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def program(home: Path) -> Path:
    """Return the program; it is built if it is not there yet.

    Raises:
        NoGateway: There is no Go, or the module cannot be fetched or built.
    """
    target = home / "versitygw" / VERSION
    built = target / "versitygw"
    if built.is_file():
        return built
    go = shutil.which("go")
    if go is None:
        raise NoGateway("there is no Go here to build versitygw")
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one builds
        if not built.is_file():
            variables = os.environ | {"GOBIN": str(target / "building"), "GOFLAGS": "-buildvcs=false"}
            done = subprocess.run(
                [go, "install", MODULE],
                env=variables,
                capture_output=True,
                text=True,
                timeout=_BUILD_SECONDS,
                check=False,
            )
            if done.returncode:
                raise NoGateway(f"versitygw cannot be built: {done.stderr.strip().splitlines()[-1:]}")
            (target / "building" / "versitygw").rename(built)
    return built


@contextmanager
def serving(home: Path, folder: Path) -> Iterator[Gateway]:
    """Serve a directory on loopback until the context ends.

    Raises:
        NoGateway: As `program`, or the file system of the directory has no extended attributes.
    """
    binary = program(home)
    _require_attributes(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder.parent / f"{folder.name}-requests.log"
    command = [str(binary), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "--access-log", str(log)]
    variables = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    process = subprocess.Popen(
        [*command, "posix", str(folder)], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for_answer(address, process)
        yield Gateway(address, folder, log, process.pid)
    finally:
        process.kill()  # after SIGTERM it would wait ten seconds for open connections
        process.wait(30)


def _require_attributes(folder: Path) -> None:
    probe = folder / ".probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.probe", b"1")
    except OSError as error:
        raise NoGateway(f"the file system of {folder} has no extended attributes") from error
    finally:
        probe.unlink()


def wait_for_answer(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers, with an error too.

    Raises:
        OSError: Its process ended, or it does not answer.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            urllib.request.urlopen(address)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
