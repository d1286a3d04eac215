"""Looks whether the registered sources of a lake are there, without reading a log.

A dead mount may never answer. So each look has a thread of its own, and nobody waits longer than some seconds for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from logcore.errors import LogError
from logcore.segments.filenames import segment_base_offset
from logcore.storage.objects.addresses import directory_of, is_object
from logcore.storage.source_errors import shown
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.silent_paths import awaited

PATIENCE_S = 5.0
"""How long a look may take. Looks that begin together are awaited together."""

_looks: dict[str, _Look] = {}
"""Looks that have not ended, so that a service does not start another one each minute."""


def unread_sources(lake: str) -> dict[str, str]:
    """Return why registered sources cannot be read now, one sentence by path; empty: all are there.

    A store that does not answer says nothing about its sources. Runs find out.

    Raises:
        UsageError: The registration of the lake cannot be used.
    """
    return _unread(path for each in registry.recall(lake).intakes for path in each.sources)


def unread_copies(lake: str) -> dict[str, str]:
    """Return the same of the registered copies to fill from: nothing else says that one is gone.

    Raises:
        UsageError: The registration of the lake cannot be used.
    """
    return _unread(path for each in registry.recall(lake).intakes for path in each.fill_from)


def _unread(paths: Iterable[str]) -> dict[str, str]:
    looks = [_look_at(path) for path in paths]
    return {look.path: why for look in looks if (why := look.answer()) is not None}


def begin_looks(lakes: Iterable[str]) -> None:
    """Begin to look at the sources of several lakes, so that those that do not answer are awaited once for all."""
    for lake in lakes:
        with suppress(UsageError, OSError):
            for each in registry.recall(lake).intakes:
                for path in each.sources:
                    _look_at(path)


class _Look(threading.Thread):
    """One look at one source."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True, name="look at a source")
        self.path, self._why = path, None if is_object(path) else f"{shown(path)} does not answer."
        self._until = awaited[path] = time.monotonic() + PATIENCE_S

    def run(self) -> None:
        """Look."""
        try:
            self._why = _why_unread(self.path)
        finally:
            _looks.pop(self.path, None)
            awaited.pop(self.path, None)

    def answer(self) -> str | None:
        """Why the source cannot be read; None: it can, or nobody knows."""
        self.join(max(self._until - time.monotonic(), 0))
        return self._why


def _look_at(path: str) -> _Look:
    look = _looks.get(path)
    if look is None:
        look = _looks[path] = _Look(path)
        look.start()
    return look


def _why_unread(path: str) -> str | None:
    if is_object(path):
        is_file = segment_base_offset(os.path.basename(path)) is not None
        with suppress(JobError, UsageError, LogError, OSError):
            has_files = storage.has_files(directory_of(path) if is_file else path)
            return None if has_files else f"{shown(path)} has no object."
        return None
    try:
        with os.scandir(path) as entries:
            is_empty = next(entries, None) is None
        return f"{shown(path)} is empty. Is a volume not mounted there?" if is_empty else None
    except (FileNotFoundError, NotADirectoryError):
        return None if os.path.exists(path) else f"{shown(path)} does not exist."
    except OSError as error:
        return f"{shown(path)} cannot be read: {error.strerror}."
