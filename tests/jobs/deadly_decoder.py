"""A decoder whose process dies: of every task that is not plain, or of every task with a certain key."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from spark_jobs.decode.decode_task import DecodeResult, DecodeTask, decode_rows


def dies_unless_plain(task: DecodeTask) -> DecodeResult:
    """Die of partition 1 as native code does, unless rows are decoded the plain way."""
    if task.partition == 1 and not task.is_plain:
        _died(task)
    return decode_rows(task)


def always_dies(task: DecodeTask) -> DecodeResult:
    """Die of partition 1 in both ways."""
    if task.partition == 1:
        _died(task)
    return decode_rows(task)


def _died(task: DecodeTask) -> None:
    with Path(task.lake).with_name("deaths").open("a") as deaths:
        deaths.write("plain\n" if task.is_plain else "fast\n")
    os.kill(os.getpid(), signal.SIGSEGV)
