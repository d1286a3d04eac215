"""Detect whether a broker moved a log from one of its log directories to another (KIP-113).

The broker copies the log into a `-future` directory, renames this to the log's name, and then queues the old directory
for deletion. So a log was moved if it is gone from one directory and is now in another one of the same broker.
"""

from __future__ import annotations

import os

from logcore.storage.broker.broker_state import StateReader
from logcore.storage.objects.addresses import is_object


def is_moved_by_its_broker(before: str, now: str) -> bool:
    """Whether a log's directory is gone and another one has replaced it.

    A broker moves logs between disks only, so none of them may be on an object store. Both log directories must exist
    and name the same cluster and broker. A copy of a log directory has the same directory id and does not count.

    Args:
        before: Absolute path of the old partition directory.
        now: Absolute path of the new partition directory.
    """
    if is_object(before) or is_object(now) or os.path.lexists(before):
        return False
    reader = StateReader()
    old, new = (reader.root(os.path.dirname(path)) for path in (before, now))
    if None in (old.cluster_id, old.broker_id) or (old.cluster_id, old.broker_id) != (new.cluster_id, new.broker_id):
        return False
    return old.directory_id is None or old.directory_id != new.directory_id
