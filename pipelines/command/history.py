"""The place of Dagster's history, which is never inside a lake."""

from __future__ import annotations

import os
from pathlib import Path

from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.view.registered_lakes import lake_around


def check_outside_lakes(default_folder: str, lake: str | None = None) -> Path:
    """Return the absolute folder of the instance.

    Raises:
        UsageError: It is inside a lake.
    """
    folder = Path(os.environ.get("DAGSTER_HOME") or default_folder).absolute()
    around = lake_around(str(folder), lake)
    if around is not None:
        raise UsageError(
            f"Dagster's home {folder} is inside the lake {around}. Its dagster.yaml can name code to run, and a lake "
            f"is data that may come from anybody. Keep the history elsewhere: mv {folder} OTHER, then set "
            "DAGSTER_HOME=OTHER; or unset DAGSTER_HOME, and the history is kept in the folder dagster of LOGLAKE_HOME."
        )
    return folder
