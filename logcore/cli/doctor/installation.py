"""Checks of versions: Loglake, Python, and the packages that Loglake's own metadata requires."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

from packaging.requirements import Requirement

from logcore import __version__
from logcore.cli.doctor.checks import CheckState, InstallationCheck

DISTRIBUTION = "loglake"
LEAST_PYTHON = (3, 11)
_SHOWN = 5


def version_checks() -> Iterator[InstallationCheck]:
    """Check the versions of Loglake and of Python."""
    try:
        found = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        yield InstallationCheck(
            "loglake",
            CheckState.WARNING,
            f"{__version__}, and no metadata of an installation: commands for lakes are not found.",
            "Install the wheel, or run `make setup` in a clone of the repository.",
        )
    else:
        state, advice = CheckState.OK, None
        if found != __version__:
            state, advice = CheckState.WARNING, "Install it again."
        text = __version__ if found == __version__ else f"{__version__}, and its metadata is of version {found}."
        yield InstallationCheck("loglake", state, text, advice)
    yield python_check(sys.version_info[:3])


def python_check(version: Sequence[int]) -> InstallationCheck:
    """Check a version of Python.

    Args:
        version: Its numbers, the most significant first.
    """
    shown = f"{platform.python_implementation()} {'.'.join(map(str, version))} on {platform.machine()}"
    if tuple(version[:2]) < LEAST_PYTHON:
        advice = f"Install Python {'.'.join(map(str, LEAST_PYTHON))} or later."
        return InstallationCheck("python", CheckState.FAILED, shown, advice)
    return InstallationCheck("python", CheckState.OK, shown)


def package_checks(requirements: Sequence[str] | None = None) -> Iterator[InstallationCheck]:
    """Compare installed packages with requirements: one check for the library, and one for each extra.

    Args:
        requirements: As in the metadata of a wheel; None for those of the installed Loglake.
    """
    if requirements is None:
        try:
            requirements = metadata.requires(DISTRIBUTION) or []
        except metadata.PackageNotFoundError:
            requirements = []
    parsed = [Requirement(each) for each in requirements]
    if not parsed:
        text = "No requirements are known, so no version was compared."
        yield InstallationCheck("packages", CheckState.WARNING, text, "Install the wheel.")
        return
    plain = [each for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]
    yield _compared("packages", plain)
    # The extra `lake` has all that `s3` has, and `jvm` has only a Java, which has a check of its own.
    extra = [each for each in parsed if each not in plain and each.marker and each.marker.evaluate({"extra": "lake"})]
    if extra:
        yield _extra(extra)


def _extra(requirements: Sequence[Requirement]) -> InstallationCheck:
    if not any(_installed(each.name) for each in requirements if each.name.startswith(("dagster", "deltalake"))):
        return InstallationCheck(
            "extra lake",
            CheckState.INFO,
            "It is not installed: there are only the commands for logs.",
            "For lakes, install the wheel with its extra `lake`.",
        )
    return _compared("extra lake", requirements)


def _compared(name: str, requirements: Sequence[Requirement]) -> InstallationCheck:
    missing = [each.name for each in requirements if _installed(each.name) is None]
    different = [
        f"{each.name} {found}, required {each.specifier}"
        for each in requirements
        if (found := _installed(each.name)) is not None and not each.specifier.contains(found, prereleases=True)
    ]
    if missing:
        text = f"{len(missing)} of {len(requirements)} are not installed: {_few(missing)}."
        return InstallationCheck(name, CheckState.FAILED, text, "Install Loglake's wheel again, with its packages.")
    if different:
        text = f"{len(different)} of {len(requirements)} have another version than required: {_few(different)}."
        return InstallationCheck(name, CheckState.WARNING, text, "Install the required versions.")
    return InstallationCheck(name, CheckState.OK, f"{len(requirements)} are installed, in the required versions")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _few(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return "; ".join(names[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
