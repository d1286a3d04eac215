"""The last answers to the checks of a lake that Dagster recorded, so that equal ones need no new run.

``<home>/answers/<lake>.json`` holds the name of each check, whether it passed, and where it failed. The file is in the
operator's home, because the content of a lake must not decide what Dagster shows. It counts only for the Dagster
instance that recorded the answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from spark_jobs.lake.setup import lake_names, registry
from spark_jobs.lake.store import storage

FOLDER = "answers"
VERSION = 1

Answers = Mapping[str, Any]
"""By name of the check: values for JSON that do not depend on the clock."""


def recorded_answers(lake: str, instance: str) -> Answers | None:
    """Return the answers that this instance recorded last; None if there are none.

    Args:
        lake: The lake.
        instance: The folder of the Dagster instance.
    """
    found = _read(lake)
    return found["answers"] if found is not None and found["instance"] == instance else None


def record_answers(lake: str, instance: str, run_id: str, answers: Answers) -> None:
    """Record what a run has answered now, together with what the same run answered before.

    Raises:
        JobError: The home cannot be written.
    """
    before = _read(lake)
    mine = before if before is not None and (before["instance"], before["run_id"]) == (instance, run_id) else None
    content = {
        "version": VERSION,
        "lake": lake,
        "instance": instance,
        "run_id": run_id,
        "answers": {**(mine["answers"] if mine else {}), **answers},
    }
    registry.put_in_home(_file(lake), (json.dumps(content, indent=1) + "\n").encode())


def _read(lake: str) -> dict[str, Any] | None:
    """Return the record on a lake; None if there is none or it is not what was written."""
    try:
        content = json.loads(storage.read(_file(lake)))
        if content["version"] != VERSION or content["lake"] != lake or not isinstance(content["answers"], dict):
            return None
        return {"instance": content["instance"], "run_id": content["run_id"], "answers": content["answers"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _file(lake: str) -> str:
    return os.path.join(registry.home(), FOLDER, f"{lake_names.key_of(lake)}.json")
