"""The code location `loglake` of workspace.yaml. Dagster loads this file by its path, and so its import is absolute."""

from loglake.definitions import defs

__all__ = ["defs"]
