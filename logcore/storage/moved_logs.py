"""Whether a broker moved a log from one of its own log directories to another (KIP-113).

It copies the log into a `-future` directory, renames that to the log's name, and only then queues the old one for
deletion. So a log that is gone from the first directory, and lies in a second one of the same broker, was moved.
"""

from __future__ import annotations

import os

from logcore.storage.broker_state import StateReader


def is_moved_by_its_broker(before: str, now: str) -> bool:
    """Whether a log's directory is gone and another one is its place now.

    before, now: absolute paths of partition directories. Both log directories have to be there and to state one
    cluster and one broker; a copy of a log directory states the same directory id, and is no place of its own.
    """
    if os.path.lexists(before):
        return False
    reader = StateReader()
    old, new = (reader.root(os.path.dirname(path)) for path in (before, now))
    if None in (old.cluster_id, old.broker_id) or (old.cluster_id, old.broker_id) != (new.cluster_id, new.broker_id):
        return False
    return old.directory_id is None or old.directory_id != new.directory_id
