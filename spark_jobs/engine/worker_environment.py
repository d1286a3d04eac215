"""An archive with everything that a Spark worker runs: a Python, its packages, ours and the compiled kernels.

    python -m spark_jobs.engine.worker_environment loglake.tar.gz
    LOGLAKE_SPARK_CONF='{"spark.archives": "loglake.tar.gz#loglake"}' loglake run …

Spark sends and unpacks it once for each executor, under the name after the ``#``, by which the session finds the Python
in it. A worker then needs the Spark of the cluster, its Java, and the C library of this machine or a newer one.

Nothing in it is compressed, because a first task waits for the unpacking. Its name has to end with ``.tar.gz`` all the
same: Spark drops the permissions of a ``.tar``.

The Python is the one that runs this module. It finds its library beside itself, so it may lie anywhere. ``bin/python``
is a script: it names the folders of the packages, the kernels and the shared library.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import io
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from logcore.columns.kernels.compiling import compile_at_once
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import KernelsUnavailable, library
from logcore.storage.machine.object_code import find_object_file
from spark_jobs.engine.session import ARCHIVE_NAME
from spark_jobs.errors import JobError, UsageError

OUR_PACKAGES = ("logcore", "spark_jobs")

DRIVER_ONLY = re.compile(r"dagster(-.*)?|duckdb|great-expectations|pandas|grpcio-tools|pyspark|delta-spark")
"""Packages that no task imports; PySpark is a part of the cluster's Spark."""

_NOT_OF_THE_LIBRARY = frozenset(
    ("site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo", "pydoc_data")
)
_NOT_OF_A_PACKAGE = frozenset(("tests", "include"))

_START = """#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
export LD_LIBRARY_PATH="$root/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PYTHONPATH="$root/packages${{PYTHONPATH:+:$PYTHONPATH}}"
export LOGLAKE_HOME="$root/home"
unset PYTHONHOME
exec "$root/bin/{python}" "$@"
"""


def write_environment(path: Path) -> None:
    """Write the archive; the file appears whole or not at all.

    Raises:
        JobError: It cannot be written, or the kernels cannot be compiled here.
    """
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with gzip.open(unfinished, "wb", compresslevel=0) as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
            for name, file in _files():
                archive.add(file, name, recursive=False)
            python = f"python{sys.version_info.major}.{sys.version_info.minor}"
            _add_script(archive, "bin/python", _START.format(python=python))
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise JobError(f"The archive {path} cannot be written: {error.strerror or error}.") from error


def _add_script(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))


def _files() -> Iterator[tuple[str, Path]]:
    """Names in the archive and the files, in the order in which they are written."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix)
    yield f"bin/{python}", (base / "bin" / python).resolve()
    for file in sorted(base.glob(f"lib/lib{python}*.so.*")):
        yield f"lib/{file.name}", file.resolve()
    for name, file in _below(Path(sysconfig.get_path("stdlib")), _NOT_OF_THE_LIBRARY):
        yield f"lib/{python}/{name}", file
    yield from _package_files()
    for kernel in _kernel_files():
        yield f"home/kernels/{kernel.name}", kernel


def _package_files() -> Iterator[tuple[str, Path]]:
    for package in OUR_PACKAGES:
        folder = Path(importlib.import_module(package).__path__[0])
        for name, file in _below(folder, _NOT_OF_A_PACKAGE):
            yield f"packages/{package}/{name}", file
    for distribution in sorted(_needed("loglake")):
        for entry in metadata.files(distribution) or ():
            file = Path(str(entry.locate()))
            if (
                entry.parts[0] == ".."
                or entry.suffix == ".pyc"
                or _NOT_OF_A_PACKAGE & set(entry.parts)
                or not file.is_file()
            ):
                continue
            yield f"packages/{entry.as_posix()}", file
            compiled = Path(cache_from_source(str(file)))
            if entry.suffix == ".py" and compiled.is_file():  # not every installer lists it
                yield f"packages/{entry.parent.as_posix()}/__pycache__/{compiled.name}", compiled


def _needed(name: str) -> set[str]:
    """The distributions that a task needs, with those that they need in turn."""
    found: set[str] = set()
    left = [Requirement(line) for line in metadata.requires(name) or ()]
    while left:
        requirement = left.pop()
        wanted = canonicalize_name(requirement.name)
        applies = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", "lake", *requirement.extras)
        )
        if not applies or wanted in found or DRIVER_ONLY.fullmatch(wanted):
            continue
        try:
            needs = metadata.requires(wanted) or ()
        except metadata.PackageNotFoundError:
            continue  # optional, and not installed here either
        found.add(wanted)
        left += [each for each in map(Requirement, needs) if "extra" not in str(each.marker or "")]
    return found


def _kernel_files() -> list[Path]:
    try:
        kernels = library()
        if missing := kernels.missing(FAMILIES):
            compile_at_once(missing)
    except KernelsUnavailable as error:
        raise JobError(f"There are no kernels for the archive: {error}. Workers would run the slow engine.") from error
    files = {family.name: find_object_file(kernels.cache_name(family)) for family in FAMILIES}
    lost = [name for name, file in files.items() if file is None]
    if lost:
        raise JobError(f"The kernels {', '.join(lost)} are not kept here: no folder for them can be written.")
    return sorted(file for file in files.values() if file is not None)


def _below(folder: Path, left_out: frozenset[str]) -> Iterator[tuple[str, Path]]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in left_out and not name.startswith("config-"))
        for name in sorted(files):
            file = Path(where, name)
            yield file.relative_to(folder).as_posix(), file.resolve()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the archive that the command line names.

    Raises:
        UsageError: The name is not one that Spark unpacks.
    """
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.engine.worker_environment", description=__doc__)
    parser.add_argument("path", type=Path, help="the archive to write: NAME.tar.gz")
    path: Path = parser.parse_args(arguments).path
    if not path.name.endswith(".tar.gz"):
        raise UsageError(f"{path}: name the archive NAME.tar.gz. Of other kinds Spark drops permissions.")
    write_environment(path.absolute())
    print(f"{path}: {path.stat().st_size / 2**20:,.0f} MiB. Give it to Spark as spark.archives: {path}#{ARCHIVE_NAME}")


if __name__ == "__main__":
    main()
