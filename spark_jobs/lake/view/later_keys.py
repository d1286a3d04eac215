"""Topic partitions that a run of the command line changed, and that are reported to Dagster later.

``<home>/later_keys/<lake>/<run id>.json`` has them by asset. A later run takes over what still waits, so that there is
one file for each lake. Who reports them removes the file only after the last one: each is reported at least once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spark_jobs.lake.setup import lake_names, registry
from spark_jobs.lake.store import storage

FOLDER = "later_keys"


@dataclass(frozen=True, slots=True)
class LaterKeys:
    """What waits for a lake.

    Attributes:
        path: The file.
        run_id: The run that wrote it.
        keys: Asset and topic partition, in the order in which they are reported.
    """

    path: str
    run_id: str
    keys: tuple[tuple[str, str], ...]

    def forget(self) -> None:
        """Remove the file: all keys are reported."""
        with suppress(FileNotFoundError):
            os.remove(self.path)


def keep_later(lake: str, instance: str, run_id: str, keys: Mapping[str, Sequence[str]]) -> None:
    """Keep which topic partitions are reported later. Runs of a lake call this one after another, under its lease.

    Args:
        lake: The lake.
        instance: The folder of the Dagster instance.
        run_id: The run.
        keys: By asset, the topic partitions; empty: nothing is kept.

    Raises:
        JobError: The home cannot be written.
    """
    if not keys:
        return
    before = waiting_keys(lake, instance)
    new = [(asset, key) for asset, of_asset in keys.items() for key in of_asset]
    still = [each for found in before for each in found.keys]
    content = {"instance": instance, "keys": list(dict.fromkeys([*still, *new]))}
    registry.put_in_home(os.path.join(_folder(lake), f"{run_id}.json"), json.dumps(content).encode())
    for found in before:
        found.forget()


def waiting_keys(lake: str, instance: str) -> list[LaterKeys]:
    """Return what waits for a lake and this instance; nothing of a file that is not what was written."""
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(_folder(lake))):
            path = os.path.join(_folder(lake), name)
            with suppress(OSError, ValueError, KeyError, TypeError):
                content = json.loads(storage.read(path))
                if content["instance"] == instance:
                    keys = tuple((str(asset), str(key)) for asset, key in content["keys"])
                    found.append(LaterKeys(path, name.removesuffix(".json"), keys))
    return found


def _folder(lake: str) -> str:
    return os.path.join(registry.home(), FOLDER, lake_names.key_of(lake))
