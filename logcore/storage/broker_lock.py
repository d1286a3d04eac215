"""Whether a broker is using a log directory: it holds a lock on `.lock` for as long as it does.

A clean stop removes the file, a killed broker leaves it; so its being there alone says nothing. The lock is the one
that Java's FileChannel.tryLock takes, of the whole file: POSIX calls it a record lock. Source: Kafka FileLock.
"""

from __future__ import annotations

import fcntl
import os

from logcore.errors import LogError
from logcore.segments.filenames import LOCK_FILE
from logcore.storage.files import open_readonly, shown


def refuse_if_in_use(log_directory: str) -> None:
    """LogError if a running broker holds the log directory. Raises SourceUnreadable if that cannot be told."""
    path = os.path.join(log_directory, LOCK_FILE)
    if not os.path.lexists(path):
        return
    with open_readonly(path) as stream:
        try:
            fcntl.lockf(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise LogError(
                "a running broker holds this log directory, and its files change while they are used",
                file=shown(path),
                advice="Stop the broker, or take a copy or a snapshot of the directory.",
            ) from error
