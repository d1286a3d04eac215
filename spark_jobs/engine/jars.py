"""The jars with which Spark reads and writes Delta tables, listed in ``deploy/jars.lock``.

They are searched in this order: the folder ``LOGLAKE_JARS_DIR``; ``<LOGLAKE_HOME>/jars``, where an earlier download put
them; Spark's own resolver, which downloads them once into that folder. A site with a mirror of Maven repositories sets
``LOGLAKE_IVY_SETTINGS`` (an Ivy settings file) or ``LOGLAKE_JARS_REPOSITORIES`` (comma-separated addresses, used after
the resolver's own). A jar with another SHA-256 than the locked one is never given to Spark.

``python -m spark_jobs.engine.jars`` downloads them and prints their paths.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from logcore.exit_codes import ExitCode
from spark_jobs.engine.java import java_home
from spark_jobs.errors import JobError
from spark_jobs.lake.setup.home import local_home, make_folder

# The pyspark wheel already has all other dependencies of these jars, mostly newer. So exclude every group but io.delta,
# and of that group every artifact but delta-s(park|torage). The resolver has no option "without dependencies".
_EXCLUDES = "[^i]*:*,io.[^d]*:*,io.delta:delta-[^s]*"
_FETCH_SECONDS = 300


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One line of the lock."""

    coordinate: str
    """``group:artifact:version``."""
    sha256: str
    """SHA-256 of the jar, lower-case hex."""

    @property
    def file_name(self) -> str:
        """Of the jar, as Maven names it."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def locked_jars() -> tuple[LockedJar, ...]:
    """The entries of ``jars.lock``, which is next to this module in an installed wheel, and in ``deploy/`` in a work
    tree.
    """
    here = Path(__file__).resolve().parent
    lock = next(path for path in (here / "jars.lock", here.parent.parent / "deploy" / "jars.lock") if path.is_file())
    lines = [line.split() for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    return tuple(LockedJar(coordinate, digest.removeprefix("sha256:")) for coordinate, digest in lines)


def delta_jars(*, may_fetch: bool = True) -> tuple[Path, ...]:
    """Return the paths of the locked jars, all of them checked.

    Args:
        may_fetch: Whether missing ones are downloaded.

    Raises:
        JobError: A jar is missing, cannot be downloaded, or is not the locked one; the text names it.
    """
    given = os.environ.get("LOGLAKE_JARS_DIR")
    if given:
        return _checked(Path(given).absolute(), "LOGLAKE_JARS_DIR")
    folder = local_home() / "jars"
    if may_fetch and not all((folder / jar.file_name).is_file() for jar in locked_jars()):
        _fetch(folder)
    return _checked(folder, "the folder of fetched jars")


def _checked(folder: Path, what: str) -> tuple[Path, ...]:
    paths = []
    for jar in locked_jars():
        path = folder / jar.file_name
        if not path.is_file():
            raise JobError(
                f"{path} is missing: {what} must hold the jars of deploy/jars.lock, here {jar.coordinate}. "
                "Put it there, or fetch it: `python -m spark_jobs.engine.jars` without LOGLAKE_JARS_DIR."
            )
        _refuse_other(path, jar)
        paths.append(path)
    return tuple(paths)


def _refuse_other(path: Path, jar: LockedJar) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != jar.sha256:
        raise JobError(
            f"{path} is not the jar that deploy/jars.lock names for {jar.coordinate}: its sha256 is {found}, locked is "
            f"{jar.sha256}. It was not used. Delete the file and run again; if it comes back the same, the repository "
            f"it was fetched from serves something else."
        )


def _fetch(folder: Path) -> None:
    """Download the jars with Spark's resolver into a scratch folder, check them there, then move them into `folder`."""
    jars = locked_jars()
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=make_folder(folder)) as scratch_name:
        scratch = Path(scratch_name)
        nothing = scratch / "nothing.py"
        nothing.write_text("")  # spark-submit resolves jars before it runs this; no session is started
        command = [str(_spark_home() / "bin" / "spark-submit"), "--master", "local[1]"]
        settings = {
            "spark.jars.packages": ",".join(jar.coordinate for jar in jars),
            "spark.jars.excludes": _EXCLUDES,
            "spark.jars.ivy": str(scratch),
            "spark.jars.ivySettings": os.environ.get("LOGLAKE_IVY_SETTINGS"),
            "spark.jars.repositories": os.environ.get("LOGLAKE_JARS_REPOSITORIES"),
        }
        for name, value in settings.items():
            if value:
                command += ["--conf", f"{name}={value}"]
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        try:
            done = subprocess.run(
                [*command, str(nothing)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=_FETCH_SECONDS,
                check=False,
            )
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            said = f"no answer within {_FETCH_SECONDS} s"
        for jar in jars:
            group, _, _ = jar.coordinate.split(":")
            fetched = scratch / "jars" / f"{group}_{jar.file_name}"
            if not fetched.is_file():
                raise JobError(_not_fetched(jar, folder, said))
            _refuse_other(fetched, jar)
        for jar in jars:
            group, _, _ = jar.coordinate.split(":")
            shutil.move(scratch / "jars" / f"{group}_{jar.file_name}", folder / jar.file_name)


def _spark_home() -> Path:
    """``SPARK_HOME``, else the pyspark wheel; without importing it."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    package = importlib.util.find_spec("pyspark")
    if package is None or not package.submodule_search_locations:
        raise JobError("pyspark is not installed in this environment: run `make setup`, or set SPARK_HOME")
    return Path(package.submodule_search_locations[0])


def _not_fetched(jar: LockedJar, folder: Path, said: str) -> str:
    lines = [line.strip() for line in said.splitlines()]
    telling = [
        line for line in lines if "not found" in line or "rror" in line or "xception" in line or "no answer" in line
    ]
    return (
        f"Spark's resolver did not bring {jar.coordinate} ({' | '.join(telling[:3]) or 'it gave no reason'}). "
        f"Without a way to a Maven repository, put the jars of deploy/jars.lock into a folder and name it with "
        f"LOGLAKE_JARS_DIR, or into {folder}; with a mirror, name it with LOGLAKE_IVY_SETTINGS or "
        f"LOGLAKE_JARS_REPOSITORIES."
    )


def main() -> int:
    """Fetch the jars, and print where they are."""
    try:
        paths = delta_jars()
    except JobError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.NOT_CHECKED
    for path in paths:
        sys.stdout.write(f"{path}\n")
    return ExitCode.CLEAN


if __name__ == "__main__":
    sys.exit(main())
