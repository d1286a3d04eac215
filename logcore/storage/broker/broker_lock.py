"""Check whether a broker uses a log directory: a running broker locks the file `.lock`.

A clean stop removes the file, but a killed broker leaves it. So only the lock counts. It is a POSIX record
lock on the whole file, as Java's FileChannel.tryLock takes it. Source: Kafka FileLock.
"""

from __future__ import annotations

import fcntl
import os

from logcore.errors import LogError
from logcore.segments.filenames import LOCK_FILE
from logcore.storage.files import open_readonly
from logcore.storage.source_errors import shown


def refuse_if_in_use(log_directory: str) -> None:
    """Refuse a log directory that a running broker uses.

    Raises:
        LogError: A running broker has locked the log directory.
        SourceUnreadable: The lock file cannot be read.
    """
    path = os.path.join(log_directory, LOCK_FILE)
    if not os.path.lexists(path):
        return
    with open_readonly(path) as stream:
        try:
            fcntl.lockf(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise LogError(
                "a running broker uses this log directory, and changes its files",
                file=shown(path),
                advice="Stop the broker, or take a copy or a snapshot of the directory.",
            ) from error
