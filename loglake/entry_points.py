"""The commands and the check of ``loglake doctor`` that pyproject.toml names as entry points.

They are those of ``loglake`` where it is installed. In a clone they are those of ``pipelines``, as the tests import it:
so a process has one copy of each module.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from loglake import IS_INSTALLED

_MODULES = {
    "run_command": "cli",
    "watch_command": "cli",
    "status_command": "cli",
    "demo_command": "cli",
    "ui_command": "ui.ui_command",
    "dagster_checks": "ui.doctor",
    "explained_names": "run.check_definitions",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{'loglake' if IS_INSTALLED else 'pipelines'}.{_MODULES[name]}"), name)
