"""Our wheel, and environments in which it is installed without a network: with what it requires, or with everything."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS


def built(folder: Path) -> Path:
    """The wheel of this work tree, made by its build backend."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=WAIT_SECONDS)
    (wheel,) = folder.glob("*.whl")
    return wheel


def metadata_of(wheel: Path) -> Message:
    """The fields of the wheel's METADATA."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def required(wheel: Path, extra: str = "") -> list[Requirement]:
    """What the wheel requires on this machine: without an extra, or for that extra alone."""
    requirements = [Requirement(text) for text in metadata_of(wheel).get_all("Requires-Dist", [])]
    plain = [each for each in requirements if _holds(each, "")]
    return [each for each in requirements if _holds(each, extra) and each not in plain] if extra else plain


def closure(requirements: Sequence[Requirement]) -> set[str]:
    """Names of all distributions that an installer would bring, by the metadata of those that are installed here."""
    done: set[tuple[str, str]] = set()
    waiting = [(each, extra) for each in requirements for extra in ("", *each.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in done:
            continue
        done.add((name, extra))
        needed = [Requirement(text) for text in metadata.requires(name) or []]
        waiting += [(each, more) for each in needed if _holds(each, extra) for more in ("", *each.extras)]
    return {name for name, _ in done}


def _holds(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that holds our wheel."""

    root: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin" / "python"

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """A command in a folder that holds nothing of ours."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DAGSTER"))}
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.root,
            env=kept | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )

    def loglake(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """The command that the wheel installs."""
        return self.run(self.root / "bin" / "loglake", *arguments)


def installed(wheel: Path, root: Path, names: set[str] | None) -> Environment:
    """A new environment with the wheel, and distributions of this one by links.

    Args:
        names: of the distributions; None for everything that this environment has.
    """
    venv.create(root, symlinks=True)
    environment = Environment(root)
    (packages,) = root.glob("lib/python*/site-packages")
    if names is None:
        (packages / "everything.pth").write_text(sysconfig.get_path("platlib") + "\n")
    for name in names or ():
        for place in _top_level(metadata.distribution(name)):
            (packages / place.name).symlink_to(place)
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", environment.python, wheel]
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=WAIT_SECONDS)
    return environment


def _top_level(distribution: metadata.Distribution) -> list[Path]:
    """The folders and files of a distribution that lie directly in site-packages."""
    files = distribution.files
    assert files, distribution.name
    return [Path(str(distribution.locate_file(first))) for first in {file.parts[0] for file in files} - {".."}]
