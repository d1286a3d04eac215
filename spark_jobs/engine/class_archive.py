"""An archive of Spark's classes, from which a local JVM starts in two thirds of the time (JEP 350).

It is next to the jars as ``classes-<bytes>.jsa``, about 150 MB. ``python -m spark_jobs.engine.class_archive`` creates
it once. It may be deleted at any time: without it a JVM starts from the jars alone. The JVM rejects an archive of
another Java, of other jars, or with wrong checksums, and starts without it. It would crash on a truncated archive, so
the name contains the size.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from logcore.exit_codes import ExitCode
from spark_jobs.engine.jars import delta_jars
from spark_jobs.errors import JobError

_NAME = re.compile(r"classes-(\d+)\.jsa")
_SECONDS = 300
# What a run of Loglake does with Spark: a session, tasks in Python workers, SQL.
_TYPICAL = """
from pyspark import SparkContext
from spark_jobs.engine.session import LOCAL_JVM_OPTIONS, get_session, stop_session
import sys
session = get_session(conf={"spark.driver.extraJavaOptions": f"{LOCAL_JVM_OPTIONS} {sys.argv[1]}"})
session.sparkContext.parallelize(range(4), 2).map(str).collect()
session.sql("SELECT count(*) FROM range(10)").collect()
jvm = SparkContext._gateway.proc
stop_session()
jvm.stdin.close()  # it ends, and writes the archive before that
sys.exit(jvm.wait())
"""


def options(jars: Path) -> str:
    """Arguments with which a JVM starts from the archive in the folder of the jars; empty if there is none."""
    archive = find(jars)
    if archive is None:
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -XX:+VerifySharedSpaces -Xlog:cds*=off"


def find(jars: Path) -> Path | None:
    """The archive in the folder of the jars, if it is complete."""
    for path in sorted(jars.glob("classes-*.jsa")):
        stated = _NAME.fullmatch(path.name)
        if stated is not None and path.stat().st_size == int(stated[1]):
            return path
    return None


def make() -> Path | None:
    """Create the archive if it does not exist, which takes about 20 s.

    Returns:
        Its path; None if this Java cannot create one.

    Raises:
        JobError: There are no jars, as in :func:`spark_jobs.engine.jars.delta_jars`.
    """
    jars = delta_jars()[0].parent
    archive = find(jars)
    if archive is not None:
        return archive
    unfinished = jars / f"unfinished-{os.getpid()}.jsa"
    recorded = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds*=off"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TYPICAL, recorded],
            env={**os.environ, "LOGLAKE_SPARK_MASTER": "", "LOGLAKE_SPARK_CONF": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode or not unfinished.is_file():
            return None
        archive = jars / f"classes-{unfinished.stat().st_size}.jsa"
        unfinished.replace(archive)  # in one step: another process may be starting
    except (OSError, subprocess.TimeoutExpired):
        return None
    finally:
        unfinished.unlink(missing_ok=True)
    return archive


def main() -> int:
    """Make the archive, or say why there is none."""
    try:
        archive = make()
    except JobError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.NOT_CHECKED
    if archive is None:
        sys.stderr.write("Spark's classes could not be archived: its JVM starts from the jars alone, 3 s slower.\n")
    return ExitCode.CLEAN


if __name__ == "__main__":
    sys.exit(main())
