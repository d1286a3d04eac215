"""Python's cyclic garbage collector, paused while many objects without cycles are made.

The collector looks at all live objects again and again. Where none of them is in a cycle, that is time for nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector; afterwards it is as it was, also after an error."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
