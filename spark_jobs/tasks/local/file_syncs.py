"""Syncs files that workers wrote, in threads of the driver, while the workers go on with other tasks."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from spark_jobs.lake.store.disk_sync import Unsynced, sync, sync_all

LARGE_BYTES = 4 << 20
_THREADS = 2
"""A disk writes one file after another, but a second thread hides the pauses between two."""


@dataclass(slots=True)
class FileSyncs:
    """A context: at its end everything that was added is on disk.

    Large files are synced at once, because the disk needs time for them. Small ones wait for the end, where many are
    synced together.

    Raises:
        OSError: At its end: the disk failed to write a file.
    """

    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))
    _begun: list[Future[None]] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)
    _directories: set[str] = field(default_factory=set)

    def add(self, unsynced: Unsynced) -> None:
        """Sync these files, and their directories at the end."""
        self._directories |= unsynced.directories
        for file in unsynced.files:
            if os.path.getsize(file) >= LARGE_BYTES:
                self._begun.append(self._threads.submit(sync, file))
            else:
                self._waiting.append(file)

    def __enter__(self) -> FileSyncs:
        """Return it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until everything is on disk; after an error nothing refers to the files, and nothing waits."""
        if kind is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            return
        try:
            for each in self._begun:
                each.result()
            sync_all([*self._waiting, *sorted(self._directories)])
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)
