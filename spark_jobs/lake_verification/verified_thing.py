"""A thing of a lake that can be verified, and the result of its verification.

Each thing is a value that is verified by itself, in any order and in any process: it has all that its bytes are
compared with. Its name is stable, so that a sample can choose it. Its identity changes with its content, so that an
interrupted verification knows which things are already verified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from logcore.errors import LogError
from logcore.logs.model.findings import found
from spark_jobs.errors import JobError, LakeRefused, StorageError, TableRefused
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.published.held_offsets import LogRuns
from spark_jobs.lake.store import storage
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.reads import Reads

LISTED = 20
"""At most this many places of one kind are named; further ones are only counted."""


class DataUnreadable(Exception):
    """Bytes of a lake that the library for their format cannot read; the text is the library's error."""


def finding(
    rule: str,
    message: str,
    *,
    table: str | None = None,
    log: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    **place: Any,
) -> PlacedFinding:
    """A finding about a lake; ``place`` as :func:`logcore.logs.model.findings.found` takes it."""
    return PlacedFinding(found(rule, message, **place), log, topic, partition, table=table)


def stored_as(path: str) -> list[int]:
    """Return size and time of a file, for the identity of a thing; nothing if it is gone."""
    try:
        stored = storage.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [stored.size, stored.modified_ms]


def identity_of(*parts: object) -> str:
    """Return the identity of a thing: the digest of what is known of it, and of all that it is compared with."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(slots=True)
class ThingCounts:
    """Numbers of things that were checked."""

    archive_files: int = 0
    archive_bytes: int = 0
    table_files: int = 0
    table_bytes: int = 0
    rows: int = 0
    """Of ``records`` and ``records_uncommitted``."""
    rows_by_digest: int = 0
    rows_by_archive: int = 0
    rows_not_provable: int = 0
    logs: int = 0
    ledger_ranges: int = 0

    def add(self, other: ThingCounts) -> None:
        """Add other counts."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class ThingResult:
    """The result of verifying one thing."""

    findings: list[PlacedFinding] = field(default_factory=list)
    counts: ThingCounts = field(default_factory=ThingCounts)
    undigested: list[str] = field(default_factory=list)
    """Names of state tables: one entry for each file whose rows no digest verifies."""
    offsets: LogRuns = field(default_factory=dict)
    """The offsets of a file of records, for the verification of its logs. They are not added and not stored."""
    is_final: bool = True
    """Whether another verification of the same bytes has the same result."""
    error: JobError | None = None
    """What ends the whole verification."""

    def add(self, other: ThingResult) -> None:
        """Add another result."""
        self.findings += other.findings
        self.counts.add(other.counts)
        self.undigested += other.undigested

    def as_dict(self) -> dict[str, object]:
        """As plain values."""
        return {
            "findings": [asdict(each) for each in self.findings],
            "counts": asdict(self.counts),
            "undigested": self.undigested,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The reverse of :meth:`as_dict`."""
        findings = [
            PlacedFinding(**each | {"finding": finding_rows.from_plain(each["finding"])}) for each in value["findings"]
        ]
        return cls(findings, ThingCounts(**value["counts"]), list(value["undigested"]))


@dataclass(frozen=True, slots=True)
class Thing:
    """Something to verify."""

    name: str
    identity: str
    """Digest of its bytes and of all that it is compared with, as far as these are known without reading the bytes."""
    size: int
    """Approximate number of bytes to read; only for the progress."""
    verify: Callable[..., ThingResult]

    @property
    def reads(self) -> Reads:
        """What a task with it reads."""
        return Reads(self.name)


def verify_thing(thing: Thing) -> ThingResult:
    """Verify a thing as a task: an error of the lake is in the result."""
    try:
        return thing.verify()
    except PermissionError as error:
        unread = finding("unreadable", f"{thing.name}: {error}.", file=error.filename)
        return ThingResult([unread], is_final=False)
    except JobError as error:
        return ThingResult(error=error)
    except LogError as error:
        return ThingResult(error=LakeRefused(str(error)))


def verify_without_offsets(thing: Thing) -> ThingResult:
    """As :func:`verify_thing`, where other tasks read the offsets: the driver has no room for those of all files."""
    result = verify_thing(thing)
    result.offsets = {}
    return result


@contextmanager
def readable() -> Iterator[None]:
    """Turn errors of a library that cannot read some bytes into :class:`DataUnreadable`.

    Errors of the store, refused tables, and missing files are raised unchanged.
    """
    try:
        yield
    except (StorageError, TableRefused, FileNotFoundError, PermissionError, DataUnreadable, MemoryError):
        raise
    except Exception as error:
        raise DataUnreadable(_said(error)) from error
    except BaseException as error:
        # Damaged bytes can make a Rust library panic, which is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise DataUnreadable(_said(error)) from error


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text[:300] or type(error).__name__).rstrip(".")
