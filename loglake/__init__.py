"""Loglake in a code location of Dagster: the assets of a lake, its component, and the sensors of all lakes.

The code is in the folder ``pipelines``. A project of somebody else may have a package of that name. So an installation
has the folder as ``loglake``, and its modules import each other relative to where they are. In a clone of the
repository the folder lies beside this one.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["LakeComponent", "loglake_assets", "loglake_sensors"]

_PUBLIC = {
    "LakeComponent": "lake_component",
    "loglake_assets": "lake_definitions",
    "loglake_sensors": "lake_definitions",
}
IS_INSTALLED = Path(__file__).with_name("cli.py").exists()
"""Whether the modules lie in this folder. Otherwise this is a clone."""

if not IS_INSTALLED:
    __path__.append(str(Path(__file__).resolve().parents[1] / "pipelines"))


def __getattr__(name: str) -> Any:
    # Dagster is loaded by the first use: the command line imports this package too.
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
