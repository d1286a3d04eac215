"""The repair commands that errors and findings name: each does its work when it is pasted into a shell."""

from __future__ import annotations

import shlex


def rebuild_command(lake: str, table: str) -> str:
    """Return the command that rebuilds a table of ``TABLES``; where rows are derived, the next run writes them."""
    return f"loglake repair {shlex.quote(lake)} --rebuild {table} --apply"


def frontiers_command(lake: str) -> str:
    """Return the command that restores frontiers which another engine erased."""
    return f"loglake repair {shlex.quote(lake)} --frontiers --apply"


def replace_command(lake: str, offsets: str = "..") -> str:
    """Return the command that publishes offsets again from the archive; ``SOURCE`` is to be filled in."""
    return f"loglake run SOURCE --lake {shlex.quote(lake)} --replace {offsets}"


def topic_command(lake: str, job: str, topic: str) -> str:
    """Return the command that writes a table of a topic again.

    Args:
        lake: The lake.
        job: ``decode`` or ``latest``.
        topic: The topic.
    """
    return f"loglake {job} {shlex.quote(lake)} --replace {topic}"
