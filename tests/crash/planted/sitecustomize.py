"""Python runs this at its start where this folder is on the path: side effects of Spark's Python workers are watched.

The order is in the file that ``LOGLAKE_TEST_CONTROL`` names. Only the daemon that Spark forks its workers from is
planted with it; whatever else inherits the environment is left alone.
"""

import os
import sys

_DAEMON = {"pyspark.daemon", "pyspark.worker"}

if "LOGLAKE_TEST_CONTROL" in os.environ and _DAEMON & set(sys.orig_argv):
    from tests.crash.side_effects import SideEffects

    SideEffects(control=os.environ["LOGLAKE_TEST_CONTROL"]).install()
