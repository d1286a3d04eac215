"""What a lake is: one directory or prefix of a bucket, one cluster, one layout (``lake.json``)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import META_PROPERTIES_FILE
from logcore.storage.objects.addresses import directory_of
from spark_jobs.errors import JobError, LakeRefused, UsageError
from spark_jobs.lake.store import storage

LAYOUT_VERSION = 1
"""The one layout that this version reads and writes; a lake of another is refused."""
LAKE_FILE = "lake.json"


@dataclass(frozen=True, slots=True)
class LakeIdentity:
    """The content of ``lake.json``."""

    layout: int
    cluster: str | None
    """Cluster id; None until a source has one."""


def read_identity(lake: str) -> LakeIdentity | None:
    """Return the identity of the lake in this directory, or None if there is none yet.

    Raises:
        LakeRefused: The layout is not the one of this version, or the file is not a ``lake.json``.
        StorageError: The object store did not answer.
    """
    path = storage.join(lake, LAKE_FILE)
    try:
        written = storage.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        content = json.loads(written)
    except ValueError as error:
        raise _refused(path, f"it is not JSON ({error})") from error
    wrong = _wrong_with(content)
    if wrong is not None:
        raise _refused(path, wrong)
    layout, cluster = content["layout"], content["cluster"]
    if layout != LAYOUT_VERSION:
        raise LakeRefused(
            f"{path}: layout {layout} is not the one that this version of Loglake knows ({LAYOUT_VERSION}). Use the "
            "version that wrote the lake, or make a new lake of its sources; nothing was changed."
        )
    return LakeIdentity(layout, cluster)


def _wrong_with(content: object) -> str | None:
    """Say what a ``lake.json`` lacks; None if it describes a lake."""
    if not isinstance(content, dict):
        return "it is not a JSON object"
    for name in ("layout", "cluster"):
        if name not in content:
            return f"it has no {name}"
    layout, cluster = content["layout"], content["cluster"]
    if not isinstance(layout, int) or isinstance(layout, bool) or layout < 1:
        return f"its layout is {layout!r}, which is no number of a layout"
    if not isinstance(cluster, str | None):
        return f"its cluster is {cluster!r}, which is no text"
    return None


def _refused(path: str, wrong: str) -> LakeRefused:
    way_out = "Restore it from a copy of the lake, or choose another --lake."
    return LakeRefused(f"{path} is not the description of a lake: {wrong}. {way_out}")


def not_there(lake: str, what: str, more: str = "") -> JobError:
    """Return the error for something that a lake does not have, or for a lake that does not exist.

    Args:
        what: The name of what is missing, after its kind: ``topic orders``.
        more: Sentences about what the lake has.
    """
    if read_identity(lake) is None:
        return JobError(f"There is no lake at {lake}: it has no {LAKE_FILE}.")
    return JobError(f"The lake {lake} has no {what}.{more and ' '}{more}")


def cluster_of(lake: str, stated: str | None, files: Sequence[str] = ()) -> str | None:
    """Return the cluster of the lake, or its cluster after ingest from a source of cluster ``stated``.

    Args:
        files: Those that state it.

    Raises:
        LakeRefused: The lake has another cluster.
    """
    identity = read_identity(lake)
    held = None if identity is None else identity.cluster
    if held is not None and stated is not None and held != stated:
        place = f" ({files[0]})" if files else ""
        raise LakeRefused(
            f"The lake {lake} holds cluster {held}, this source is of cluster {stated}{place}. "
            "A lake holds one cluster: give the source a lake of its own."
        )
    return held or stated


def has_cluster(lake: str) -> bool:
    """Return whether the lake is known to be of a cluster.

    Raises:
        LakeRefused: As :func:`read_identity`.
        StorageError: The object store did not answer.
    """
    identity = read_identity(lake)
    return identity is not None and identity.cluster is not None


def cluster_of_logs(lake: str, logs: Iterable[SourceLog], name: str | None) -> str | None:
    """Return the cluster of the lake, or its cluster after ingest of some logs.

    Args:
        logs: Logs at the sources.
        name: What the operator calls the cluster, whatever the sources state; None: what they state.

    Raises:
        LakeRefused: The lake has another cluster.
        UsageError: The logs are of several clusters.
    """
    files: dict[str, str] = {}
    for log in logs:
        if log.cluster_id:
            files.setdefault(log.cluster_id, os.path.join(directory_of(log.directory), META_PROPERTIES_FILE))
    if len(files) > 1:
        stated = ", ".join(f"{cluster} in {file}" for cluster, file in sorted(files.items()))
        raise UsageError(f"The sources are of several clusters ({stated}); a lake holds one. Run once each.")
    return cluster_of(lake, name or next(iter(files), None), () if name else tuple(files.values()))


def claim(lake: str, cluster: str | None) -> None:
    """Make the lake this cluster's, unless it already is.

    Raises:
        LakeRefused: The lake has another cluster.
    """
    wanted = LakeIdentity(LAYOUT_VERSION, cluster_of(lake, cluster))
    held = read_identity(lake)
    if held == wanted:
        return
    path, content = storage.join(lake, LAKE_FILE), json.dumps(asdict(wanted)).encode()
    if held is not None:
        storage.put(path, content)
    elif not storage.create(path, content):
        claim(lake, wanted.cluster)  # another run created the lake meanwhile: check its cluster
