"""A limit on the sizes of files, which a process meets like a full disk.

Python writes compiled modules without looking at how much was written. So nothing is compiled below a limit: a module
that was cut short there would be an error of every later test.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNCOMPILED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Variables of a program that gets a limit."""


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process, and of those that it starts, may become larger."""
    limits, variables, compiles = resource.getrlimit(resource.RLIMIT_FSIZE), dict(os.environ), sys.dont_write_bytecode
    os.environ |= UNCOMPILED
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = compiles
        for name in UNCOMPILED:
            os.environ.pop(name)
        os.environ |= {name: value for name, value in variables.items() if name in UNCOMPILED}
