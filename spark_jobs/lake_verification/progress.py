"""The results of an interrupted verification: a file of lines, outside of the lake, from which it continues.

A line is one thing: its name, its identity, and the result. A thing whose identity has changed is verified again. A
last line that a kill cut short is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from spark_jobs.errors import UsageError
from spark_jobs.lake.store import storage
from spark_jobs.lake_verification.verified_thing import Thing, ThingResult

FORMAT = 1


class VerificationProgress:
    """Results by thing, read at the start and added to as things are verified."""

    def __init__(self, known: dict[str, tuple[str, ThingResult]], file: TextIO | None) -> None:
        self._known, self._file = known, file

    def known(self, thing: Thing) -> ThingResult | None:
        """Return the result for an unchanged thing; None: it must be verified."""
        identity, result = self._known.get(thing.name, (None, None))
        return result if identity == thing.identity else None

    def add(self, thing: Thing, result: ThingResult) -> None:
        """Store a result; it is in the file when this returns."""
        if self._file is None:
            return
        line = json.dumps({"thing": thing.name, "identity": thing.identity} | result.as_dict())
        self._file.write(f"{line}\n")
        self._file.flush()


@contextmanager
def resumed(path: str | None, lake: str) -> Iterator[VerificationProgress]:
    """Yield the progress in a file, which is created if it does not exist; no path: nothing is stored.

    Raises:
        UsageError: The file is of another lake, is no such file, or lies in the lake.
        OSError: The file can't be read or written.
    """
    if path is None:
        yield VerificationProgress({}, None)
        return
    head = {"loglake_proof": FORMAT, "lake": lake}
    if not storage.is_remote(lake) and os.path.realpath(path).startswith(os.path.realpath(lake) + os.sep):
        raise UsageError(f"{path} lies in the lake; nothing is written there. Name a file outside of it.")
    known: dict[str, tuple[str, ThingResult]] = {}
    is_new = True
    if os.path.exists(path) and os.path.getsize(path):
        is_new = False
        with open(path, encoding="utf-8") as file:
            _read(path, file, head, known)
    with open(path, "a", encoding="utf-8") as file:
        # A line that was cut short must not become part of the next one.
        file.write(f"{json.dumps(head)}\n" if is_new else "\n")
        yield VerificationProgress(known, file)


def _read(path: str, file: TextIO, head: dict[str, object], known: dict[str, tuple[str, ThingResult]]) -> None:
    try:
        first = json.loads(file.readline())
    except ValueError:
        first = None
    if not isinstance(first, dict) or "loglake_proof" not in first:
        raise UsageError(f"{path} is not the progress of a `loglake verify`; name another file for --resume.")
    if first != head:
        raise UsageError(f"{path} is the progress of the lake {first.get('lake')}; name another file for --resume.")
    for line in file:
        try:
            said = json.loads(line)
            known[said["thing"]] = said["identity"], ThingResult.from_dict(said)
        except (ValueError, KeyError, TypeError):
            continue
