"""Checks of places: folders that Loglake writes to, and sources that it reads."""

from __future__ import annotations

import os
import tempfile

from logcore.cli.doctor.checks import CheckState, InstallationCheck
from logcore.cli.output.terminal import size_text
from logcore.errors import LogError
from logcore.logs.model.findings import Severity
from logcore.storage.discovery import discover
from logcore.storage.files import open_readonly
from logcore.storage.machine.folder_room import folder_room
from logcore.storage.objects.addresses import absolute, is_object, split, url_of
from logcore.storage.objects.listing import pages
from logcore.storage.objects.object_reads import head
from logcore.storage.source_errors import shown

LOW_BYTES = 1 << 30
"""Less free space than this is a warning."""
_READABLE = "Make it readable for this user, or mount it."
_LOGS = "Name a log directory, a partition directory such as orders-0, or a .log file, or mount it."


def folder_check(name: str, folder: str, advice: str) -> InstallationCheck:
    """Check that a folder can be written and has room.

    Args:
        name: Of the check.
        folder: It may not exist yet; then its nearest parent is checked.
        advice: What to do if it cannot be written.
    """
    room = folder_room(folder)
    there = shown(folder) if room.folder == os.path.abspath(folder) else f"{shown(folder)} (not created yet)"
    if room.problem is not None:
        text = f"{there} cannot be written: {room.problem} in {shown(room.folder)}."
        return InstallationCheck(name, CheckState.FAILED, text, advice)
    free = room.free_bytes or 0
    if free < LOW_BYTES:
        text = f"{there} has only {size_text(free)} left."
        return InstallationCheck(name, CheckState.WARNING, text, f"Make room. {advice}")
    return InstallationCheck(name, CheckState.OK, f"{there} can be written, {size_text(free)} free")


def temporary_folder_check() -> InstallationCheck:
    """Check the folder for temporary files. Python silently takes another one if TMPDIR names none that works."""
    named = os.environ.get("TMPDIR")
    if named and (problem := folder_room(named).problem if os.path.isdir(named) else "it is no folder") is not None:
        try:
            instead = f"{shown(tempfile.gettempdir())} is used"
        except OSError:
            instead = "no other folder can be used"
        text = f"TMPDIR={shown(named)} cannot be written: {problem}; {instead}."
        return InstallationCheck("tmpdir", CheckState.WARNING, text, "Let TMPDIR name a folder with room.")
    try:
        folder = tempfile.gettempdir()
    except OSError as error:
        text = f"No folder for temporary files can be written: {error.strerror or error}."
        return InstallationCheck("tmpdir", CheckState.FAILED, text, "Let TMPDIR name a folder with room.")
    return folder_check("tmpdir", folder, "Let TMPDIR name a folder with room.")


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
