"""The check of ``loglake doctor`` for Dagster: the ``dagster.yaml`` of its home can be used.

Dagster itself checks the file. Its messages may contain values, such as a password of a database. So only the names of
settings are shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from logcore.cli.doctor.checks import CheckedPlaces, CheckState, InstallationCheck, guarded
from logcore.cli.doctor.places import folder_check
from logcore.storage.discovery import shown
from pipelines.command.history import check_outside_lakes, settings_file
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.view.registered_lakes import dagster_home

NAME = "dagster.yaml"


def dagster_checks(places: CheckedPlaces) -> Iterator[InstallationCheck]:
    """Yield the checks of Dagster's home.

    Args:
        places: Not used: there is one home for all lakes.
    """
    try:
        folder = check_outside_lakes(dagster_home())
    except UsageError as error:
        yield InstallationCheck("dagster", CheckState.FAILED, str(error))
        return
    yield from guarded("dagster", lambda: home_checks(str(folder)))
    yield from guarded(NAME, lambda: [settings_check(str(folder))])


def home_checks(folder: str) -> Iterator[InstallationCheck]:
    """Check that Dagster can write: to its home, or to the folders that a ``dagster.yaml`` names instead.

    In a container the home is often read-only: the history is in a database, and files are on a volume.

    Args:
        folder: Dagster's home.
    """
    advice = "Name another folder with DAGSTER_HOME."
    home = folder_check("dagster", folder, advice)
    elsewhere = _folders_elsewhere(folder) if home.state is CheckState.FAILED else None
    if elsewhere is None:
        yield home
        return
    text = f"{shown(folder)} cannot be written, and nothing is kept there"
    yield InstallationCheck("dagster", CheckState.INFO, text)
    for place in elsewhere:
        yield folder_check("dagster", place, f"Name another folder in {NAME}.")


def _folders_elsewhere(folder: str) -> list[str] | None:
    """Return the folders outside of Dagster's home that its settings name; None if anything is kept in the home."""
    try:
        settings = yaml.safe_load(Path(folder, NAME).read_bytes())
        storage = settings["storage"]
        config = [settings[name]["config"]["base_dir"] for name in ("compute_logs", "local_artifact_storage")]
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(storage, dict) or "sqlite" in storage:
        return None
    named = [os.environ.get(str(place["env"]), "") if isinstance(place, dict) else str(place) for place in config]
    if not all(named) or any(Path(place).is_relative_to(folder) for place in named):
        return None
    return list(dict.fromkeys(named))


def settings_check(folder: str) -> InstallationCheck:
    """Check the ``dagster.yaml`` of a folder.

    Args:
        folder: Dagster's home.
    """
    path = f"{shown(folder)}/{NAME}"
    try:
        with open(f"{folder}/{NAME}", "rb") as file:
            settings = yaml.safe_load(file) or {}
    except FileNotFoundError:
        return InstallationCheck(NAME, CheckState.INFO, f"{path} does not exist yet; the first run makes it")
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror or type(error).__name__}."
        return InstallationCheck(NAME, CheckState.FAILED, text, "Make it readable for this user.")
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        return InstallationCheck(NAME, CheckState.FAILED, f"{path} is no YAML{place}.", "Correct it.")
    if not isinstance(settings, dict):
        return InstallationCheck(NAME, CheckState.FAILED, f"{path} is no list of settings.", "Correct it.")
    mistake = _mistake(folder)
    if mistake is not None:
        text = f"Dagster refuses {path}: {mistake}."
        return InstallationCheck(NAME, CheckState.FAILED, text, f"Correct it. Loglake's own is {settings_file()}.")
    ours = yaml.safe_load(settings_file().read_bytes())
    different = sorted(name for name in {*ours, *settings} if ours.get(name) != settings.get(name))
    if different:
        text = f"{path} can be used; other than Loglake's own: {', '.join(different)}"
        return InstallationCheck(NAME, CheckState.OK, text)
    return InstallationCheck(NAME, CheckState.OK, f"{path} can be used; it is Loglake's own")


def _mistake(folder: str) -> str | None:
    """Return which settings Dagster refuses, without their values; None if it accepts the file."""
    from dagster._core.errors import DagsterInvalidConfigError
    from dagster._core.instance.config import dagster_instance_config

    try:
        dagster_instance_config(folder)
    except DagsterInvalidConfigError as error:
        places = [_place(each) for each in error.errors]
        return f"{len(places)} mistakes, the first at {places[0]}" if places else "settings that exclude each other"
    except Exception as error:  # noqa: BLE001 - whatever a class that the file names raises
        return f"it cannot be used ({type(error).__name__})"
    return None


def _place(error: Any) -> str:
    """Return the names of the settings around an error: ``concurrency.runs``."""
    names = [entry.field_name for entry in error.stack.entries if hasattr(entry, "field_name")]
    fields: list[str] = []
    data = error.error_data
    if hasattr(data, "field_name"):
        fields = [data.field_name]
    elif hasattr(data, "field_names"):
        fields = list(data.field_names)
    return ".".join([*names, *([", ".join(fields)] if fields else [])]) or "its top"
