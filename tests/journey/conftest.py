"""The way of a stranger: a checkout, `make demo`, and what README and docs/ say to type next."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


@dataclass
class Checkout:
    """A work tree without files of earlier runs, in which the commands of the pages run."""

    path: Path
    outputs: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    def type(self, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a person would, in the checkout's top folder."""
        clean = {
            k: v for k, v in os.environ.items() if k not in ("LOGLAKE_HOME", "DAGSTER_HOME", "MAKEFLAGS", "MAKELEVEL")
        }
        # the environment is another clone's, and would name that one's home
        home = {"LOGLAKE_HOME": str(self.path / ".loglake")}
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env=clean | home | environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    @property
    def events(self) -> Path:
        return self.path / "events"

    def lake(self, sample: str) -> Path:
        return self.path / ".loglake" / "lakes" / sample


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The work tree by links, with a `.loglake` of its own in which the Delta jars are already."""
    installed, wanted = (REPOSITORY / name for name in (".venv/installed", "pyproject.toml"))
    # `make` in the checkout would install the environment again, for a folder that is soon removed
    assert installed.stat().st_mtime >= wanted.stat().st_mtime, "the environment is old: run `make setup` first"
    path = tmp_path_factory.mktemp("checkout")
    for entry in REPOSITORY.iterdir():
        if entry.name not in (".loglake", ".git"):
            (path / entry.name).symlink_to(entry)
    jars = Path(os.environ["LOGLAKE_HOME"], "jars")
    if jars.is_dir():
        (path / ".loglake").mkdir()
        (path / ".loglake" / "jars").symlink_to(jars)
    return Checkout(path)


@pytest.fixture(scope="session")
def demo(checkout: Checkout) -> Checkout:
    """The checkout after its first `make demo`; Spark's event log of it is in `events`."""
    checkout.events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": checkout.events.as_uri()}
    conf |= {"spark.eventLog.compress": "false"}
    done = checkout.type("make demo", LOGLAKE_SPARK_CONF=json.dumps(conf))
    assert done.returncode == 0, done.stdout + done.stderr
    checkout.outputs["make demo"] = done
    return checkout
