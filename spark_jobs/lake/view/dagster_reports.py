"""What the operator's home keeps about reports of a lake's runs to Dagster: those that it recorded, and later ones.

    <home>/answers/<lake>.json              the last answers to checks that Dagster recorded: the name of each
                                            check, whether it passed, where it failed; equal ones need no run
    <home>/later_keys/<lake>/<run id>.json  topic partitions that a run of the command line changed, by asset

The files are in the home, because the content of a lake must not decide what Dagster shows. They count only for the
Dagster instance that they are about. A later run takes over the topic partitions that still wait, so that there is one
file for each lake. Who reports them removes the file only after the last one: each is reported at least once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage

ANSWERS_FOLDER, LATER_FOLDER = "answers", "later_keys"
ANSWERS_VERSION = 1

Answers = Mapping[str, Any]
"""By name of the check: values for JSON that do not depend on the clock."""


def recorded_answers(lake: str, instance: str) -> Answers | None:
    """Return the answers that this instance recorded last; None if there are none.

    Args:
        lake: The lake.
        instance: The folder of the Dagster instance.
    """
    found = _kept_answers(lake)
    return found["answers"] if found is not None and found["instance"] == instance else None


def record_answers(lake: str, instance: str, run_id: str, answers: Answers) -> None:
    """Record what a run has answered now, together with what the same run answered before.

    Raises:
        JobError: The home cannot be written.
    """
    before = _kept_answers(lake)
    mine = before if before is not None and (before["instance"], before["run_id"]) == (instance, run_id) else None
    content = {
        "version": ANSWERS_VERSION,
        "lake": lake,
        "instance": instance,
        "run_id": run_id,
        "answers": {**(mine["answers"] if mine else {}), **answers},
    }
    registry.put_in_home(registry.home_file(ANSWERS_FOLDER, lake), (json.dumps(content, indent=1) + "\n").encode())


def _kept_answers(lake: str) -> dict[str, Any] | None:
    """Return the record on a lake; None if there is none or it is not what was written."""
    try:
        content = json.loads(storage.read(registry.home_file(ANSWERS_FOLDER, lake)))
        if content["version"] != ANSWERS_VERSION or content["lake"] != lake or not isinstance(content["answers"], dict):
            return None
        return {"instance": content["instance"], "run_id": content["run_id"], "answers": content["answers"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


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
    registry.put_in_home(os.path.join(_later_folder(lake), f"{run_id}.json"), json.dumps(content).encode())
    for found in before:
        found.forget()


def waiting_keys(lake: str, instance: str) -> list[LaterKeys]:
    """Return what waits for a lake and this instance; nothing of a file that is not what was written."""
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(_later_folder(lake))):
            path = os.path.join(_later_folder(lake), name)
            with suppress(OSError, ValueError, KeyError, TypeError):
                content = json.loads(storage.read(path))
                if content["instance"] == instance:
                    keys = tuple((str(asset), str(key)) for asset, key in content["keys"])
                    found.append(LaterKeys(path, name.removesuffix(".json"), keys))
    return found


def _later_folder(lake: str) -> str:
    return registry.home_file(LATER_FOLDER, lake, "")
