"""The place of Dagster's history, which is never inside a lake."""

from __future__ import annotations

import os
from pathlib import Path

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.registered_lakes import lake_around

_PACKAGE = Path(__file__).resolve().parent.parent
DATABASES = ("schedules", "history")
"""Folders of Dagster's databases, in the order in which they appear."""


def settings_file() -> Path:
    """Path of our ``dagster.yaml``: in the package if it was installed from a wheel, otherwise in ``deploy/``."""
    packaged = _PACKAGE / "dagster.yaml"
    return packaged if packaged.exists() else _PACKAGE.parent / "deploy" / "dagster.yaml"


def prepare_history(default_folder: str, lake: str | None = None) -> Path:
    """Create the folder of the instance with its ``dagster.yaml`` where they do not exist.

    Args:
        default_folder: The folder, unless ``DAGSTER_HOME`` names another.
        lake: A directory that is a lake, or becomes one in this run.

    Raises:
        UsageError: The folder is inside a lake.
        JobError: It cannot be written.
    """
    folder = check_outside_lakes(default_folder, lake)
    target = folder / "dagster.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            temporary = folder / "dagster.yaml.tmp"
            temporary.write_bytes(settings_file().read_bytes())
            os.replace(temporary, target)
    except OSError as error:
        raise history_not_writable(folder, error) from error
    return folder


def lacks_databases(folder: Path) -> bool:
    """Whether this folder has our ``dagster.yaml`` and no databases yet. Other settings are left to Dagster."""
    return (
        not (folder / DATABASES[-1]).exists() and (folder / "dagster.yaml").read_bytes() == settings_file().read_bytes()
    )


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


def history_not_writable(folder: Path, error: OSError) -> JobError:
    """Return the error of a folder that cannot be written."""
    return JobError(
        f"Dagster's home {folder} cannot be written: {error.strerror or error}. Make room or change the permissions "
        "there, or name another folder with DAGSTER_HOME. What was committed to the lake stays."
    )
