"""What lies at a path where no log is: files of other programs, by their names and first bytes.

Belongs here: what messages say about them. `logcore.storage.discovery` finds logs, and walks below such a path.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from logcore.logs.rules.advice import export_command
from logcore.records.packed_files import packed_kind

_FOREIGN = re.compile(r"[.~#@$].*|.*~|lost\+found|System Volume Information|Thumbs\.db|desktop\.ini", re.DOTALL)
_OF_NAMES = (
    (
        r"lake\.json",
        "is a lake. `loglake verify LAKE` verifies it, and `loglake query LAKE` reads its tables. `EXPORT` writes its "
        "archive as a log directory",
    ),
    (
        r".*-v[0-9]+\.log|.*\.base_index",
        "has data of Redpanda, whose segments have another format. Read them through its brokers",
    ),
    (
        r"kafka-streams-process-metadata|rocksdb",
        "has the state of a Kafka Streams application. Its records are in changelog topics, in the log directories of "
        "brokers",
    ),
    (
        r"(server|controller|state-change|kafkaServer(-gc)?|log-cleaner|kafka-request)\.(log|out)",
        "has text logs of a broker, not its data. The data is in `log.dirs` of its server.properties",
    ),
    (
        r".*\.(tar|tgz|gz|zst|xz|bz2|lz4|zip)",
        "has packed files. Unpack them, and name the log directory that was inside",
    ),
)


def is_foreign(name: str) -> bool:
    """Whether desktops, editors, file systems, rsync or file servers make such a name for files of their own."""
    return _FOREIGN.fullmatch(name) is not None


def what_directory(names: Collection[str], path: str) -> str | None:
    """What a directory with these names has, as messages show its path; None if that is not known."""
    known = (what for form, what in _OF_NAMES if any(re.fullmatch(form, name) for name in names))
    return next((what.replace("LAKE", path).replace("EXPORT", export_command(path)) for what in known), None)


def what_file(head: bytes) -> str | None:
    """What a file is that begins with these bytes; None if that is not known."""
    packed = packed_kind(head)
    if packed is not None:
        return f"is {packed}. Unpack it, and name the log directory or the segment that was inside"
    if head and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in head):
        return "is a text file, such as the text log of a broker. Its data is in `log.dirs` of its server.properties"
    return None
