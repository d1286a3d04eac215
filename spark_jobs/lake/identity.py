"""What a lake is: one directory, one cluster, one layout (``lake.json``)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from spark_jobs.lake.errors import LakeRefused, UsageError

LAYOUT_VERSION = 1
LAKE_FILE = "lake.json"


@dataclass(frozen=True, slots=True)
class LakeHome:
    """The facts of ``lake.json``."""

    layout: int
    cluster: str | None
    """Cluster id, None until a source has stated one."""


def read_home(lake: str) -> LakeHome | None:
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
    return LakeHome(layout, cluster)


def claim_home(lake: str, cluster: str | None) -> LakeHome:
    """Make the lake this cluster's, or check that it already is.

    Raises:
        LakeRefused: the lake holds another cluster.
    """
    home = read_home(lake)
    if home is not None and (cluster is None or home.cluster == cluster):
        return home
    if home is not None and home.cluster is not None:
        raise LakeRefused(
            f"The lake {lake} holds cluster {home.cluster}, this source is of cluster {cluster}. "
            "A lake holds one cluster: give the source a lake of its own."
        )
    os.makedirs(lake, exist_ok=True)
    path = os.path.join(lake, LAKE_FILE)
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump({"layout": LAYOUT_VERSION, "cluster": cluster}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    return LakeHome(LAYOUT_VERSION, cluster)
