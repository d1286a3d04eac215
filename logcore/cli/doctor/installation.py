"""Checks of the version, of decoding, of folders that Loglake writes to, and of sources that it reads.

Packages and their versions are `pip check`'s.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from importlib import metadata

from logcore import __version__
from logcore.cli.doctor.checks import CheckState, InstallationCheck
from logcore.cli.output.terminal import size_text
from logcore.columns.decoding import arena
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import (
    ENGINE_VARIABLE,
    TIMES_SLOWER,
    KernelsUnavailable,
    expected_seconds,
    library,
)
from logcore.errors import LogError
from logcore.logs.model.findings import Severity
from logcore.storage.discovery import discover
from logcore.storage.files import open_readonly
from logcore.storage.machine.folder_room import folder_room
from logcore.storage.objects.addresses import absolute, is_object, split, url_of
from logcore.storage.objects.listing import pages
from logcore.storage.objects.object_reads import head
from logcore.storage.source_errors import shown

DISTRIBUTION = "loglake"
LOW_BYTES = 1 << 30
"""Less free space than this is a warning."""
_READABLE = "Make it readable for this user, or mount it."
_LOGS = "Name a log directory, a partition directory such as orders-0, or a .log file, or mount it."


def version_check() -> InstallationCheck:
    """Check that this is the version that was installed."""
    try:
        found = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return InstallationCheck(
            "loglake",
            CheckState.WARNING,
            f"{__version__}, and no metadata of an installation: commands for lakes are not found.",
            "Install the wheel, or run `make setup` in a clone of the repository.",
        )
    if found != __version__:
        text = f"{__version__}, and its metadata is of version {found}."
        return InstallationCheck("loglake", CheckState.WARNING, text, "Install it again.")
    return InstallationCheck("loglake", CheckState.OK, __version__)


def engine_check() -> InstallationCheck:
    """Check which decoding engine is used, and whether its kernels are compiled. Nothing is compiled."""
    if os.environ.get(ENGINE_VARIABLE) == "reference":
        text = f"{ENGINE_VARIABLE}=reference: the reference engine decodes, {TIMES_SLOWER} times slower."
        return InstallationCheck("kernels", CheckState.WARNING, text, f"Unset {ENGINE_VARIABLE}.")
    try:
        kernels = library()
        missing = kernels.missing(FAMILIES)
        kernels.load([family for family in FAMILIES if family not in missing])
    except KernelsUnavailable as error:
        return _fallback(str(error))
    if not missing:
        text = f"{len(FAMILIES)} families are compiled for {kernels.processor.name}"
        return InstallationCheck("kernels", CheckState.OK, text)
    if importlib.util.find_spec("numba") is None:
        return _fallback(f"{len(missing)} of {len(FAMILIES)} families are not compiled, and Numba is not installed")
    text = (
        f"{len(missing)} of {len(FAMILIES)} families are not compiled yet. "
        f"The first command that needs them compiles them, all in about {expected_seconds(missing):.0f} s."
    )
    return InstallationCheck("kernels", CheckState.INFO, text)


def _fallback(reason: str) -> InstallationCheck:
    text = f"{reason.rstrip('.')}. The reference engine decodes, {TIMES_SLOWER} times slower."
    return InstallationCheck("kernels", CheckState.WARNING, text, "Install numba again, with its llvmlite.")


def codec_check() -> InstallationCheck:
    """Check the fast functions of the codec libraries. Without one, only speed shows that a wheel hides it."""
    fast = {
        "isal": bool(arena.crc32_function()) and arena.has_gzip_decoder(),
        "lz4.block": bool(arena.lz4_function() and arena.lz4_encoder()),
        "zstandard": _opens(arena.ZstdState) and _opens(arena.ZstdEncoder),
        "cramjam": arena.has_snappy_decoder(),
    }
    slow = [package for package, is_fast in fast.items() if not is_fast]
    if not slow:
        return InstallationCheck("codecs", CheckState.OK, f"the fast functions of {', '.join(fast)} are found")
    text = f"Fast functions of {', '.join(slow)} are not found; slower ones are called instead."
    return InstallationCheck("codecs", CheckState.WARNING, text, "Install these wheels from PyPI again.")


def _opens(kind: type[arena.ZstdState] | type[arena.ZstdEncoder]) -> bool:
    opened = kind()
    is_open = bool(opened.state)
    opened.close()
    return is_open


def folder_check(name: str, folder: str, advice: str, unwritable: CheckState = CheckState.FAILED) -> InstallationCheck:
    """Check that a folder can be written and has room.

    Args:
        name: Of the check.
        folder: It may not exist yet; then its nearest parent is checked.
        advice: What to do if it cannot be written.
        unwritable: The state if it cannot be written.
    """
    room = folder_room(folder)
    there = shown(folder) if room.folder == os.path.abspath(folder) else f"{shown(folder)} (not created yet)"
    if room.problem is not None:
        text = f"{there} cannot be written: {room.problem} in {shown(room.folder)}."
        return InstallationCheck(name, unwritable, text, advice)
    free = room.free_bytes or 0
    if free < LOW_BYTES:
        text = f"{there} has only {size_text(free)} left."
        return InstallationCheck(name, CheckState.WARNING, text, f"Make room. {advice}")
    return InstallationCheck(name, CheckState.OK, f"{there} can be written, {size_text(free)} free")


def temporary_folder_check() -> InstallationCheck:
    """Check the folder for temporary files."""
    advice = "Let TMPDIR name a folder with room."
    try:
        return folder_check("tmpdir", tempfile.gettempdir(), advice)
    except OSError as error:
        text = f"No folder for temporary files can be written: {error.strerror or error}."
        return InstallationCheck("tmpdir", CheckState.FAILED, text, advice)


def source_check(path: str, name: str = "source") -> InstallationCheck:
    """Check that a source exists, has logs, and can be read: one file of each log is opened, or one object described.

    Args:
        path: A log directory, a partition directory or a segment's file, local or on an object store.
        name: Of the check.
    """
    return _object_source(path, name) if is_object(path) else _local_source(path, name)


def _local_source(path: str, name: str) -> InstallationCheck:
    found = discover([path])
    errors = [finding.message for finding in found.findings if finding.severity is Severity.ERROR]
    unreadable = 0
    for log in found.logs:
        for segment in log.segments[-1:]:
            try:
                open_readonly(segment.path).close()
            except LogError as error:
                unreadable += 1
                errors.append(str(error))
    if not os.path.lexists(path):
        advice = "Name an existing path, or mount it."
        return InstallationCheck(name, CheckState.FAILED, f"{shown(path)} does not exist.", advice)
    if errors:
        more = f" There are {len(errors) - 1} more errors." if len(errors) > 1 else ""
        readable = len(found.logs) - unreadable
        text = f"{shown(path)}: {errors[0]}{more} {readable} logs can be read."
        return InstallationCheck(name, CheckState.FAILED, text, _READABLE if found.logs else _LOGS)
    if not found.logs:
        return InstallationCheck(name, CheckState.WARNING, f"{shown(path)} has no logs.", _LOGS)
    return InstallationCheck(name, CheckState.OK, f"{shown(path)} can be read, {len(found.logs)} logs")


def _object_source(path: str, name: str) -> InstallationCheck:
    url = absolute(path)
    page = next(pages(url), [])
    if not page:
        text = f"{shown(url)}: the store answers and has no objects there."
        return InstallationCheck(name, CheckState.WARNING, text, "Check bucket and prefix.")
    head(url_of(split(url)[0], page[0].key))  # needs the permission to read
    return InstallationCheck(name, CheckState.OK, f"{shown(url)}: the store answers, objects can be listed and read")
