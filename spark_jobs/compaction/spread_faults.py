"""Errors of a step of a spread cleaning become the result of the whole, as for every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from logcore.errors import LogError
from logcore.logs.compaction.cleaning_round import Uncleanable
from spark_jobs.compaction.log_cleaning import CleaningResult, Unproven, failure
from spark_jobs.engine.shuffle import Block, ShuffleEnded

Given = ParamSpec("Given")
Result = TypeVar("Result")


def faults(work: Callable[Given, Result]) -> Callable[Given, Result | CleaningResult]:
    """Wrap a step so that its errors become results, as for every task."""

    @wraps(work)
    def step(*args: Given.args, **kwargs: Given.kwargs) -> Result | CleaningResult:
        try:
            return work(*args, **kwargs)
        except (Uncleanable, Unproven, LogError, OSError) as error:
            return failure(error)

    return step


def stopping(work: Callable[Given, Iterator[Block]]) -> Callable[Given, Iterator[Block]]:
    """Wrap a step of a shuffle so that its errors become the result of the whole."""

    @wraps(work)
    def step(*args: Given.args, **kwargs: Given.kwargs) -> Iterator[Block]:
        try:
            yield from work(*args, **kwargs)
        except (Uncleanable, Unproven, LogError, OSError) as error:
            raise ShuffleEnded(failure(error)) from error

    return step
