"""How much Python some work executes: a measure of work that no other process disturbs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal


def executed(work: Callable[[], object], unit: Literal["line", "opcode"]) -> int:
    """Lines, or instructions, that some work takes. Instructions count loops inside comprehensions too."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = unit == "line", unit == "opcode"
        count += event == unit
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
