"""A log directory at a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceDirectory:
    """A log directory at a source.

    Attributes:
        path: Where it is.
        broker: Id of its broker; None if meta.properties does not state it.
        directory_id: Id of the directory; None before Kafka 3.7.
        replicas: Topic partitions in it.
        bytes: Of their segments.
    """

    path: str
    broker: int | None
    directory_id: str | None
    replicas: int
    bytes: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> SourceDirectory:
        """The directory from the plain values of a plan."""
        return cls(**value)

    def as_dict(self) -> dict[str, object]:
        """The directory as values for JSON."""
        return asdict(self)
