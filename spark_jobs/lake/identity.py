"""What a lake is: one directory, one cluster, one layout (``lake.json``)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass

from spark_jobs.lake.errors import LakeRefused, UsageError

LAYOUT_VERSION = 1
LAKE_FILE = "lake.json"

_CLUSTER = re.compile(r"[A-Za-z0-9._-]{1,249}")  # it becomes part of paths


@dataclass(frozen=True, slots=True)
class LakeIdentity:
    """The facts of ``lake.json``."""

    layout: int
    cluster: str | None
    """Cluster id, None until a source has stated one."""


def read_identity(lake: str) -> LakeIdentity | None:
    """The lake at this directory, or None where there is none yet.

    Raises:
        LakeRefused: a layout newer than this version knows, or a file that is no ``lake.json``.
        UsageError: the directory is on an object store, which is not built yet.
    """
    if "://" in lake:
        raise UsageError(f"{lake}: lakes on object stores are not built yet; give a local directory.")
    path = os.path.join(lake, LAKE_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        layout, cluster = int(content["layout"]), content["cluster"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LakeRefused(f"{path} is not the description of a lake ({error}); choose another --lake.") from error
    if layout > LAYOUT_VERSION:
        raise LakeRefused(f"{path}: layout {layout} is newer than this version of Loglake knows ({LAYOUT_VERSION}).")
    return LakeIdentity(layout, cluster)


def cluster_of(lake: str, stated: str | None) -> str | None:
    """The cluster that the lake holds, or would hold if a source of cluster ``stated`` were taken into it.

    Raises:
        LakeRefused: the lake holds another cluster, or ``stated`` is no name that a broker would have.
    """
    if stated is not None and not _CLUSTER.fullmatch(stated):
        raise LakeRefused("The source's cluster id has other characters than letters, digits, '.', '_' and '-'.")
    identity = read_identity(lake)
    held = None if identity is None else identity.cluster
    if held is not None and stated is not None and held != stated:
        raise LakeRefused(
            f"The lake {lake} holds cluster {held}, this source is of cluster {stated}. "
            "A lake holds one cluster: give the source a lake of its own."
        )
    return held or stated


def claim(lake: str, cluster: str | None) -> None:
    """Make the lake this cluster's, unless it is already.

    Raises:
        LakeRefused: the lake holds another cluster.
    """
    cluster = cluster_of(lake, cluster)
    wanted = LakeIdentity(LAYOUT_VERSION, cluster)
    if read_identity(lake) == wanted:
        return
    os.makedirs(lake, exist_ok=True)
    path = os.path.join(lake, LAKE_FILE)
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(asdict(wanted), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
