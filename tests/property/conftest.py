"""Examples have no deadline: on a machine that is busy with other work, any of them can take long."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
