"""A fault, and how it is planted: into a copy of the work tree, on which the tests that guard the promise run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
COPIED = (
    "logcore",
    "spark_jobs",
    "pipelines",
    "tests",
    "samples",
    "deploy",
    "pyproject.toml",
    "README.md",
    "workspace.yaml",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One edit: in `file`, `old` (which occurs there once) becomes `new`; `tests` is what must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def copy_work_tree(tree: Path) -> None:
    """Make `tree`: what the tests need of the work tree."""
    tree.mkdir()
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)


def turns_red(fault: Fault) -> tuple[bool, str]:
    """Plant the fault in a copy and run its tests: whether one failed, and pytest's last line."""
    with tempfile.TemporaryDirectory(prefix="fault-") as scratch:
        tree = Path(scratch, "tree")
        copy_work_tree(tree)
        edited = tree / fault.file
        text = edited.read_text()
        if text.count(fault.old) != 1:
            raise ValueError(f"{fault.name}: its text occurs {text.count(fault.old)} times in {fault.file}")
        edited.write_text(text.replace(fault.old, fault.new))
        home = str(_home(Path(scratch, "home")))
        environment = os.environ | {"PYTHONPATH": str(tree), "LOGLAKE_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        environment["LOGLAKE_TEST_EVERY_KILL"] = "1"  # a sample of the kills may miss the one that notices
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *fault.tests]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 1, (failed or lines)[-1]


def _home(home: Path) -> Path:
    """A home with what is in the ordinary one, but kernels of its own: what planted code compiles to goes with it."""
    ordinary = Path(os.environ.get("LOGLAKE_HOME", REPOSITORY / ".loglake")).absolute()
    home.mkdir()
    for each in ordinary.iterdir() if ordinary.is_dir() else ():
        if each.name == "kernels":
            shutil.copytree(each, home / each.name)
        else:
            (home / each.name).symlink_to(each)
    return home
