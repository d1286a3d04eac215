"""Commands and functions that other packages add by entry points, and a check that their packages are installed.

    group                  an entry point is
    loglake.commands       a command: a function that declares its options to a parser
    loglake.lake_verify    `verify LAKE`: a function from the parsed arguments to the exit code
    loglake.doctor         `doctor`: a function from `CheckedPlaces` to its checks
    loglake.help           `help NAME`: a function to (name, text) of things that have a name
    loglake.snappy_java    a function that loads snappy-java's native library (`logcore.records.snappy_encoder`)

One wheel contains all our packages, and the dependencies of these entry points are its extra `lake`. A plain
installation has the entry points without these dependencies. So the module compares them with the wheel's own metadata.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata  # takes longer than most commands' own start: import this module where it is needed
from typing import TYPE_CHECKING, Any

from logcore import __version__
from logcore.errors import LogError

if TYPE_CHECKING:
    import ctypes

COMMANDS = "loglake.commands"
LAKE_VERIFY = "loglake.lake_verify"
DOCTOR = "loglake.doctor"
HELP = "loglake.help"
SNAPPY_JAVA = "loglake.snappy_java"
EXTRA = "lake"
ADVICE = (
    f"Install the wheel with its extra, for instance: pip install './loglake-{__version__}-py3-none-any.whl[{EXTRA}]'. "
    "In a clone of the repository, run `make setup`."
)
"""Advice for a command that lacks packages. The wheel is in no registry, so its file is named."""

_OF_EXTRA = re.compile(rf"""\bextra\s*==\s*['"]{EXTRA}['"]""")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def of_group(group: str) -> dict[str, metadata.EntryPoint]:
    """The entry points of a group, by name."""
    return {point.name: point for point in metadata.entry_points(group=group)}


def missing_packages(point: metadata.EntryPoint) -> list[str]:
    """Return the distributions that the extra of an entry point's distribution requires and that are not installed.

    Versions are not compared. Empty if the distribution has no such extra.
    """
    requirements = [] if point.dist is None else point.dist.requires or []
    wanted = [match[0] for each in requirements if _OF_EXTRA.search(each) and (match := _NAME.match(each))]
    return [name for name in wanted if not _is_installed(name)]


def load(point: metadata.EntryPoint, purpose: str) -> Any:
    """Import the object of an entry point.

    Args:
        purpose: What needs it, as the subject of a sentence.

    Raises:
        LogError: Packages that it needs are not installed, or cannot be imported.
    """
    missing = missing_packages(point)
    if missing:
        raise LogError(f"{purpose} needs packages that are not installed: {', '.join(missing)}.", advice=ADVICE)
    try:
        return point.load()
    except ImportError as error:
        message = f"{purpose} needs {error.name or 'a package'}, which cannot be imported here."
        raise LogError(message, advice=ADVICE) from error


def load_snappy_java() -> ctypes.CDLL | None:
    """Load snappy-java's native library with the first entry point that has one; None without one."""
    for point in of_group(SNAPPY_JAVA).values():
        try:
            library: ctypes.CDLL | None = point.load()()
        except ImportError:
            continue
        if library is not None:
            return library
    return None


@cache
def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
