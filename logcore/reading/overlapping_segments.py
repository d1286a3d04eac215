"""Whether two segments of a source that had different batches of the same offsets still have them."""

from __future__ import annotations

import os
from itertools import pairwise

from logcore.errors import LogError
from logcore.logs.growth.overlaps import contradiction
from logcore.logs.model.findings import Finding
from logcore.storage.discovery import HeaderReader, discover
from logcore.storage.objects.addresses import is_object


def still_differ(finding: Finding) -> bool:
    """Whether the batches of two segments are still of two histories, or cannot be read.

    Args:
        finding: What `logcore.logs.growth.overlaps.contradiction` found.
    """
    path, position = finding.file or "", finding.position or 0
    directory = path.rpartition("/")[0] if is_object(path) else os.path.dirname(path)
    try:
        for log in discover((directory,)).logs:
            for segment, following in pairwise(log.segments):
                if segment.path == path:
                    return contradiction(HeaderReader(), segment, position, following) is not None
    except LogError:
        pass
    return True
