"""A command in processes of its own, and how much memory each kind of them took at its peak.

What counts is RssAnon: what a process holds that is no file. A mapped segment does not count, since the system takes
its pages back whenever it needs them.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.totals import Differ

_EVERY_SECONDS = 0.02
_MOST_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Watched:
    """Seconds, and peaks in bytes; 0 where there was no such process."""

    seconds: float
    driver: int
    """Of the command's own process."""
    jvm: int
    worker: int
    """Of the largest process of another kind: a Python worker."""
    together: int
    """Of all processes at one time."""
    stdout: str
    processor: float
    """Seconds of all processes together, in user and system mode, as last seen of each."""


def watched(command: Sequence[str], cwd: Path, variables: Mapping[str, str], codes: Sequence[int] = (0,)) -> Watched:
    """Run it to its end.

    :raises Differ: it ended otherwise than in one of `codes`.
    """
    used: dict[tuple[int, str], float] = {}
    peaks = {"driver": 0, "jvm": 0, "worker": 0, "together": 0}
    done = threading.Event()
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=dict(variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def watch() -> None:
        while not done.wait(_EVERY_SECONDS):
            sizes = _sizes(process.pid, used)
            for kind, size in (*sizes, ("together", sum(size for _, size in sizes))):
                peaks[kind] = max(peaks[kind], size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        stdout, stderr = process.communicate(timeout=_MOST_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
        seconds = time.perf_counter() - begun
        done.set()
        watcher.join()
    if process.returncode not in codes:
        raise Differ(f"{Path(command[0]).name} ended with exit code {process.returncode}: {stderr.strip()[-300:]}")
    return Watched(seconds, **peaks, stdout=stdout, processor=sum(used.values()))


def processor_seconds(pid: int) -> float:
    """Of one process so far, in user and system mode. Source: proc(5), `/proc/PID/stat`."""
    return _times(Path("/proc", str(pid), "stat").read_bytes())


def _times(stat: bytes) -> float:
    user, system = stat.rpartition(b")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _sizes(root: int, used: dict[tuple[int, str], float]) -> list[tuple[str, int]]:
    """Kind and RssAnon of every process of the tree; `used` gets the processor seconds of each."""
    parents: dict[int, int] = {}
    stats: dict[int, bytes] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path("/proc", name, "stat").read_bytes()
            except OSError:
                continue
            stats[int(name)] = stat
            parents[int(name)] = int(stat.rpartition(b")")[2].split()[1])
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = []
    waiting = [(root, "driver")]
    while waiting:
        pid, above = waiting.pop()
        kind = above
        if pid != root:
            kind = "jvm" if _is_java(pid) else "worker"
        found.append((kind, _anonymous_bytes(pid)))
        if pid in stats:  # numbers are given again; starts differ
            started = stats[pid].rpartition(b")")[2].split()[19].decode()
            used[pid, started] = _times(stats[pid])
        waiting += [(child, kind) for child in children.get(pid, ())]
    return found


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().strip() == b"java"
    except OSError:
        return False


def _anonymous_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
