"""Stdout whose reader has closed the pipe, as `| head` does."""

from __future__ import annotations

import os
import sys


def abandon_output() -> None:
    """Send everything else that goes to stdout to /dev/null. Python itself flushes stdout once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
