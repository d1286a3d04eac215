"""`loglake doctor`: one line for each thing that an installation needs, and what to do where it lacks something.

Folders are tested with files that have no name; nothing is changed. The checks of this package need no lake. Other
packages add theirs by entry points of the group `loglake.doctor`: functions from `CheckedPlaces` to checks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from logcore.cli.doctor.checks import (
    CheckedPlaces,
    CheckState,
    InstallationCheck,
    exit_code,
    guarded,
    jsonl_line,
    text_line,
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `doctor`."""
    parser.description = (
        "Check this installation: one line for each check. Exit code 0: all fine, 1: warnings, "
        "3: something cannot work."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="sources: log directories, s3://bucket/prefix")
    parser.add_argument("--lake", metavar="LAKE", help="a lake; default: all that are registered in the home")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    line = jsonl_line if arguments.format == "jsonl" else text_line
    done = []
    for check in checks_of(CheckedPlaces(arguments.lake, tuple(arguments.paths), arguments.now_ms)):
        done.append(check)
        sys.stdout.write(line(check))
        sys.stdout.flush()  # a store that does not answer takes a minute
    return exit_code(done)


def checks_of(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    """Yield all checks. One that ends with an error is a failed check, and the others go on."""
    from logcore.cli.doctor import installation

    yield from guarded("loglake", lambda: [installation.version_check()])
    yield from guarded("kernels", lambda: [installation.engine_check()])
    yield from guarded("codecs", lambda: [installation.codec_check()])
    yield from guarded("tmpdir", lambda: [installation.temporary_folder_check()])
    for path in places.sources:
        yield from guarded("source", lambda path=path: [installation.source_check(path)])  # type: ignore[misc]
    yield from guarded("extra lake", lambda: _of_other_packages(places))


def _of_other_packages(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    from logcore.cli import entry_points

    points = entry_points.of_group(entry_points.DOCTOR)
    usable = [point for _, point in sorted(points.items()) if not entry_points.missing_packages(point)]
    if not usable and places.lake is not None:
        text = "Lakes cannot be checked: the packages of the extra `lake` are missing."
        yield InstallationCheck("lake", CheckState.FAILED, text, entry_points.ADVICE)
    for point in usable:
        yield from guarded(point.name, lambda point=point: entry_points.load(point, "A check")(places))  # type: ignore[misc]
