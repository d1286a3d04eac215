"""Damaged files that a verification of a lake found, kept in the home as long as they are the files of a lake.

Runs look at the sizes and times of files. So nothing else knows a byte that has changed in a file of a lake.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import exit_code
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY, delta_uri
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage
from spark_jobs.placed_finding import PlacedFinding

FOLDER = "verified_damage"


def keep_verified_damage(lake: str, findings: Iterable[PlacedFinding], *, is_whole: bool) -> None:
    """Record which files a verification found damaged. If that is impossible, the verification itself still counts.

    Args:
        lake: The lake.
        findings: Of the verification.
        is_whole: Whether it verified the whole lake; else what others found stays.
    """
    with suppress(JobError, UsageError, OSError):
        before = _kept(lake)
        kept = {} if is_whole else dict(before)
        for each in (placed.finding for placed in findings):
            if each.file is not None and each.file.startswith(f"{lake}/") and exit_code([each]) is ExitCode.DAMAGE:
                with suppress(FileNotFoundError):
                    kept[each.file] = [each.rule, *_identity(each.file)]
        if kept != before:
            registry.put_in_home(registry.home_file(FOLDER, lake), json.dumps(kept).encode())


def verified_damage(lake: str) -> dict[str, str]:
    """Return the rule of each damaged file, by path; without those that were replaced or left their table meanwhile."""
    damage = {}
    for path, (rule, *identity) in _kept(lake).items():
        with suppress(OSError):
            if identity == _identity(path) and _is_of_a_table(path):
                damage[path] = str(rule)
    return damage


def _identity(path: str) -> list[int]:
    stored = storage.stat(path)
    return [stored.size, stored.placed_ms]


def _is_of_a_table(path: str) -> bool:
    """Whether a file is no data file, or is in the newest version of its table."""
    if not path.endswith(".parquet") or f"/{LOG_DIRECTORY}/" in path:
        return True
    table = storage.directory_of(path)
    while not storage.has_files(storage.join(table, LOG_DIRECTORY)):
        if table == storage.directory_of(table):
            return False
        table = storage.directory_of(table)
    try:
        files = DeltaTable(delta_uri(table), storage_options=storage.delta_options(table)).file_uris()
    except DeltaError:
        return True
    return os.path.basename(path) in map(os.path.basename, files)


def _kept(lake: str) -> dict[str, list[str | int]]:
    """Return what this home has of a lake; nothing if it is not what was written."""
    try:
        kept = json.loads(storage.read(registry.home_file(FOLDER, lake)))
        return {path: [str(rule), int(size), int(placed_ms)] for path, (rule, size, placed_ms) in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
