"""Kafka's own distribution on this machine: its jars, a JDK, and our Java compiled against them.

`kafka-<version>.lock` names every jar with its sha256: of a whole Kafka for `VERSION`, which runs as a broker, and of
the storage classes alone for the others (`storage_oracle.py`). They are fetched once, into
``$LOGLAKE_HOME/kafka/<version>``, by Maven if `mvn` is on the PATH, else by the Ivy that Spark brings along; both ask
whatever registry this machine is set to ask (Ivy: ``LOGLAKE_IVY_SETTINGS``, ``LOGLAKE_JARS_REPOSITORIES``, as for
Spark's jars). The sources in `java/` are compiled there too, and again after a change. Both steps end in renames,
so processes may race.

Needed beside a registry: a JDK of 17 or later (`JAVA_HOME`, or `java` on the PATH); a runtime without the module
`jdk.compiler` is not enough. `Unavailable` names what is missing.

``python -m tests.kafka.distribution`` prints the class path.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from spark_jobs.engine.java import find_java
from spark_jobs.errors import JobError
from tests.daemons import WAIT_SECONDS

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "java"
VERSION = "4.3.1"
NEWEST_BROKER = "broker-4.4.0"
"""The newest broker of all, for what it says of a cluster; `VERSION` runs for everything else."""
SPARK_SOURCE = "spark-sql-kafka-4.2.0"
SPARK_AVRO = "spark-avro-4.2.0"
MESSAGES = "messages-4.4.0"
TIERED = "tiered-4.3.1"

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_FETCH_SECONDS = 300
_COMPILE_SECONDS = 120


class Unavailable(Exception):
    """Kafka cannot be run here; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One line of a lock."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}{self.classifier and '-' + self.classifier}.jar"


@functools.cache
def class_path(version: str = VERSION) -> str:
    """The jars of that Kafka as a class path, every one checked; fetches them if this machine has none yet.

    :raises Unavailable: no lock for that version, no registry, or a jar is not the locked one.
    """
    return os.pathsep.join(map(str, _checked(locked_jars(version), _folder(version))))


@functools.cache
def spark_source() -> tuple[Path, ...]:
    """The jars of Spark's Kafka source, every one checked; fetches them if this machine has none yet.

    :raises Unavailable: no registry, or a jar is not the locked one.
    """
    return _checked(_locked(SPARK_SOURCE), _folder(SPARK_SOURCE))


@functools.cache
def message_jars() -> dict[LockedJar, Path]:
    """The jars of `MESSAGES`, every one checked; fetches them if this machine has none yet.

    :raises Unavailable: no registry, or a jar is not the locked one.
    """
    jars = locked_jars(MESSAGES)
    return dict(zip(jars, _checked(jars, _folder(MESSAGES)), strict=True))


@functools.cache
def spark_avro() -> tuple[Path, ...]:
    """The jar of Spark's functions for Avro, checked; fetches it if this machine has none yet.

    :raises Unavailable: no registry, or the jar is not the locked one.
    """
    return _checked(_locked(SPARK_AVRO), _folder(SPARK_AVRO))


@functools.cache
def tiered_storage() -> tuple[Path, ...]:
    """The jar of Kafka's own tests that has LocalTieredStorage, checked; fetches it if this machine has none yet.

    :raises Unavailable: no registry, or the jar is not the locked one.
    """
    return _checked(_locked(TIERED), _folder(TIERED))


@functools.cache
def jdk() -> Path:
    """The `java` of a JDK.

    :raises Unavailable: there is no Java of 17 or later, or it cannot compile.
    """
    try:
        java = find_java().executable
    except JobError as error:
        raise Unavailable(f"no JDK: {error}") from error
    listed = subprocess.run(
        [str(java), "--list-modules"], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    if "jdk.compiler@" not in listed.stdout:
        raise Unavailable(f"{java} has no compiler; a JDK of 17 or later is needed (JAVA_HOME, or the PATH)")
    return java


@functools.cache
def own_classes(version: str = VERSION) -> Path:
    """Folder with the classes of `java/`, compiled against that Kafka if they are not there yet.

    :raises Unavailable: as `class_path` and `jdk`.
    """
    return compiled({path.name: path.read_text() for path in sorted(SOURCES.glob("*.java"))}, version)


def compiled(sources: Mapping[str, str], version: str = VERSION) -> Path:
    """Folder with the classes of these source files, compiled against that Kafka if they are not there yet.

    :param sources: text by file name. :raises Unavailable: as `class_path` and `jdk`.
    """
    digest = hashlib.sha256("".join(name + text for name, text in sorted(sources.items())).encode()).hexdigest()
    target = _folder(version) / f"classes-{digest[:16]}"
    if target.is_dir():
        return target
    jars = class_path(version)
    with tempfile.TemporaryDirectory(prefix="compile-", dir=_folder(version)) as scratch_name:
        scratch = Path(scratch_name, "classes")
        files = []
        for name, text in sources.items():
            files.append(Path(scratch_name, name))
            files[-1].write_text(text)
        compiler = [str(jdk()), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17", "-Xlint:-options"]
        command = [*compiler, "-proc:none", "-cp", jars, "-d", str(scratch), *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"our Java does not compile:\n{done.stderr}{done.stdout}")
        try:
            scratch.rename(target)
        except OSError:  # another process was first, with the same classes
            if not target.is_dir():
                raise
    return target


def command(
    main_class: str,
    *arguments: str,
    heap: str = "256m",
    collector: str = "Serial",
    options: Iterable[str] = (),
    log_level: str = "ERROR",
    version: str = VERSION,
    classes: Path | None = None,
    more_jars: Iterable[Path] = (),
) -> list[str]:
    """The command line that runs a class of Kafka's or of ours; log lines from `log_level` up go to stderr.

    :param heap: ``-Xmx``. :param collector: of garbage, as in ``-XX:+UseSerialGC``. :param options: more for the JVM.
    :param classes: ours, those of `own_classes` if no others are named.
    :param more_jars: to load from too.
    :raises Unavailable: as `class_path` and `jdk`.
    """
    return [
        str(jdk()),
        f"-XX:+Use{collector}GC",
        "-Xshare:auto",
        f"-Xmx{heap}",
        f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}",
        f"-Dloglake.level={log_level}",
        *options,
        "-cp",
        os.pathsep.join([str(classes or own_classes(version)), class_path(version), *map(str, more_jars)]),
        main_class,
        *arguments,
    ]


def locked_jars(version: str = VERSION) -> tuple[LockedJar, ...]:
    """What the lock of that version names, in class path order.

    :raises Unavailable: there is no such lock.
    """
    return _locked(f"kafka-{version}")


def _locked(name: str) -> tuple[LockedJar, ...]:
    lock = HERE / f"{name}.lock"
    if not lock.is_file():
        raise Unavailable(f"there is no {lock.name}, so nothing of it is fetched")
    jars = []
    for line in lock.read_text().splitlines():
        if line and not line.startswith("#"):
            coordinate, digest = line.split()
            group, artifact, version, *classifier = coordinate.split(":")
            jars.append(LockedJar(group, artifact, version, digest.removeprefix("sha256:"), *classifier))
    return tuple(jars)


def _checked(jars: tuple[LockedJar, ...], folder: Path) -> tuple[Path, ...]:
    paths = tuple(folder / "jars" / jar.file_name for jar in jars)
    if not all(path.is_file() for path in paths):
        _fetch(jars, folder)
    for path, jar in zip(paths, jars, strict=True):
        _refuse_other(path, jar)
    return paths


def _folder(version: str) -> Path:
    home = os.environ.get("LOGLAKE_HOME") or HERE.parent.parent / ".loglake"
    return Path(home, "kafka", version).absolute()


def _fetch(jars: tuple[LockedJar, ...], folder: Path) -> None:
    """Bring the jars into a scratch folder, check them there, then put them in place."""
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch_name:
        scratch = Path(scratch_name)
        for name, build in (("Maven", _maven), ("Ivy", _ivy)):
            line = build(jars, scratch)
            if line is None:
                said.append(f"{name} is not installed")
                continue
            try:
                done = subprocess.run(
                    line, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                said.append(f"{name} did not answer within {_FETCH_SECONDS} s")
                continue
            missing = [jar for jar in jars if not (scratch / "jars" / jar.file_name).is_file()]
            if not missing:
                for jar in jars:
                    _refuse_other(scratch / "jars" / jar.file_name, jar)
                (folder / "jars").mkdir(exist_ok=True)
                for jar in jars:
                    (scratch / "jars" / jar.file_name).replace(folder / "jars" / jar.file_name)
                return
            said.append(f"{name} did not bring {len(missing)} of {len(jars)} jars ({_telling(done)})")
    raise Unavailable(
        f"Kafka's jars are not in {folder / 'jars'} and could not be fetched: {'; '.join(said)}. "
        "Put the jars of the lock there by hand where there is no registry."
    )


def _maven(jars: tuple[LockedJar, ...], scratch: Path) -> list[str] | None:
    program = shutil.which("mvn")
    if program is None:
        return None
    nothing_else = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    wanted = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>{_maven_classifier(jar)}{nothing_else}</dependency>\n"
        for jar in jars
    )
    (scratch / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>loglake</groupId><artifactId>kafka</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>\n{wanted}</dependencies></project>\n"
    )
    return [program, "-B", "-q", "-f", str(scratch / "pom.xml"), _COPY, f"-DoutputDirectory={scratch / 'jars'}"]


def _ivy(jars: tuple[LockedJar, ...], scratch: Path) -> list[str] | None:
    try:
        import pyspark
    except ImportError:
        return None
    program = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"), None)
    if program is None:
        return None
    wanted = "".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false">'
        f"{_ivy_artifact(jar)}</dependency>\n"
        for jar in jars
    )
    (scratch / "ivy.xml").write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="loglake" module="kafka"/>'
        f"<dependencies>\n{wanted}</dependencies></ivy-module>\n"
    )
    settings = os.environ.get("LOGLAKE_IVY_SETTINGS")
    if not settings:
        mirrors = [address for address in os.environ.get("LOGLAKE_JARS_REPOSITORIES", "").split(",") if address.strip()]
        resolvers = '<ibiblio name="central" m2compatible="true"/>' + "".join(
            f'<ibiblio name="given-{number}" m2compatible="true" root={quoteattr(address.strip())}/>'
            for number, address in enumerate(mirrors)
        )
        settings = str(scratch / "ivysettings.xml")
        Path(settings).write_text(
            "<ivysettings><settings defaultResolver='all'/>"
            f"<caches defaultCacheDir={quoteattr(str(scratch / 'cache'))}/>"
            f"<resolvers><chain name='all' returnFirst='true'>{resolvers}</chain></resolvers></ivysettings>\n"
        )
    pattern = str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    line = [str(jdk()), "-jar", str(program), "-settings", settings, "-ivy", str(scratch / "ivy.xml")]
    return [*line, "-retrieve", pattern, "-types", "jar", "bundle"]


def _maven_classifier(jar: LockedJar) -> str:
    return f"<classifier>{jar.classifier}</classifier>" if jar.classifier else ""


def _ivy_artifact(jar: LockedJar) -> str:
    return f'<artifact name="{jar.artifact}" type="jar" m:classifier="{jar.classifier}"/>' if jar.classifier else ""


def _telling(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    telling = [line for line in lines if "rror" in line or "not found" in line or "xception" in line]
    return telling[0][:300] if telling else f"exit code {done.returncode}"


def _refuse_other(path: Path, jar: LockedJar) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != jar.sha256:
        raise Unavailable(f"{path} is not the jar that the lock names: its sha256 is {found}, locked is {jar.sha256}")


def main() -> int:
    try:
        sys.stdout.write(class_path() + "\n")
    except Unavailable as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
