"""The code location `loglake` of workspace.yaml. Dagster loads this file by its path, and so its imports are absolute.

A clone without lakes shows those of the demo, and the job that makes them.
"""

import dagster as dg

from loglake.definitions import build_definitions, lakes_of_home
from loglake.demo_lakes import demo, demo_lakes


@dg.definitions
def defs() -> dg.Definitions:
    """The lakes of the operator's home, or those of the demo; and the job `demo`."""
    return dg.Definitions.merge(build_definitions(lakes_of_home() or demo_lakes()), dg.Definitions(jobs=[demo]))
