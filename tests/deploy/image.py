"""The image of deploy/containers/Dockerfile, built on Debian's packages, and entered without a container engine.

buildah's isolation is `chroot`: commands run as the image's user in its files, on this machine's network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.deploy.manifests import DOCKERFILE

USER = 10001
INSIDE = ("buildah", "run", "--isolation", "chroot")
IMAGE, BASE = "localhost/loglake:test", "localhost/loglake-base:test"
_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
_CERTIFICATES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ssl/certs/java/cacerts"))
_TOOLS = ("mmdebstrap", "podman", "buildah")
_SECONDS = 1800


def need_tools() -> None:
    """Skip the test where no image can be built."""
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if missing or os.geteuid() != 0 or not _SOURCES.exists():
        pytest.skip(f"needs root on Debian, with {', '.join(_TOOLS)}: make image-setup installs them")


def build(folder: Path) -> None:
    """Build the image on a root directory of Debian with Python. It trusts whom this machine trusts."""
    root = folder / "rootfs"
    with _SOURCES.open() as sources:
        packages = "python3,python3-venv,make,ca-certificates"
        _run(
            ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={packages}", "bookworm", str(root), "-"],
            sources,
        )
    changes = ["--change", f"ENV PIP_CERT={_CERTIFICATES[0]}"]
    for path in _CERTIFICATES:
        if path.exists():
            copied = root / path.relative_to("/")
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
    if _CERTIFICATES[1].exists():
        changes += ["--change", f"ENV JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore={_CERTIFICATES[1]}"]
    archive = folder / "base.tar"
    _run(["tar", "-C", str(root), "-cf", str(archive), "."])
    _run(["podman", "import", "--quiet", *changes, str(archive), BASE])
    archive.unlink()
    shutil.rmtree(root)
    build = ["buildah", "bud", "--isolation", "chroot", "--ulimit", "nofile=1024:1024", "--build-arg", f"BASE={BASE}"]
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore")
    _run([*build, "--file", str(DOCKERFILE), "--ignorefile", str(ignored), "--tag", IMAGE, str(REPOSITORY)])


def hand_over(folder: Path) -> None:
    """Give a folder to the image's user, and let it go through those above."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER)
    for above in folder.parents:
        if str(above).startswith("/tmp/"):
            above.chmod(above.stat().st_mode | 0o011)


def inside(container: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the image's user."""
    command = [*INSIDE, container, "--", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


def end_all(container: str) -> None:
    """End what still runs in the image's files: with this isolation no init of a container does it."""
    mounted = subprocess.run(["buildah", "mount", container], capture_output=True, text=True, check=True)
    root = os.stat(mounted.stdout.strip())
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.path.samestat(os.stat(process / "root" / "."), root):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended


def _run(words: list[str], stdin: object = None) -> None:
    done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words[0]}: {done.stderr[-2000:]}"
