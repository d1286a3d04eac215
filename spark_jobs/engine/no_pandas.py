"""Keeps Arrow from importing pandas, which it does only to know pandas' types: 0.25 s of each command and worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class NoPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Refuse pandas; others may find all else.

        Raises:
            ModuleNotFoundError: It is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("Arrow is loaded without pandas", name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Let Arrow load without pandas inside the block. A data frame can be made later: Arrow tries again."""
    sys.meta_path.insert(0, NoPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(NoPandas)
