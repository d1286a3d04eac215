"""Other processes that tests wait for: how long, and what is known of one that did not start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

WAIT_SECONDS = 600
"""For a start, an answer, an end. A machine that stalls is slow, not broken. A process that ended is seen at once."""


def state_of(process: subprocess.Popen[Any]) -> str:
    """Exit code of a process that ended, else its state; and the load of the machine."""
    load = "load " + " ".join(f"{each:.1f}" for each in os.getloadavg())
    if process.poll() is not None:
        return f"process {process.pid} ended with {process.returncode}, {load}"
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return f"process {process.pid} runs, state {stat[0]}, processor ticks {stat[11]} + {stat[12]}, {load}"
