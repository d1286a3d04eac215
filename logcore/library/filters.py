"""Which records of the visible ones a reader wants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from logcore.columns.wanted import MAX_INT64, Wanted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions that all hold for a wanted record; None: no condition.

    Attributes:
        start_offset: The lowest wanted offset.
        end_offset: The first offset that is not wanted any more.
        since_ms: The earliest wanted timestamp, epoch milliseconds.
        until_ms: The first timestamp that is not wanted any more, epoch milliseconds.
        key: Exactly these bytes.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    key: bytes | None = None

    @classmethod
    def of(
        cls,
        start_offset: int | None,
        end_offset: int | None,
        since: datetime | int | None,
        until: datetime | int | None,
        key: bytes | None,
    ) -> RecordFilter:
        """The filter that a caller states.

        Raises:
            ValueError: An offset or a time does not fit, or a datetime has no time zone.
            TypeError: The key is not bytes.
        """
        for offset in (start_offset, end_offset):
            if offset is not None and not 0 <= offset <= MAX_INT64:
                raise ValueError(f"{offset} is no offset: offsets are not negative and have 64 bits")
        if key is not None and not isinstance(key, bytes):
            raise TypeError(f"a key is bytes, not {type(key).__name__}; encode text first")
        return cls(start_offset, end_offset, epoch_ms(since), epoch_ms(until), key)

    def wanted(self, visible: tuple[tuple[int, int], ...], columns: tuple[str, ...] | None) -> Wanted:
        """The same for the engines. visible: the ranges of offsets that the log shows of the wanted ones."""
        return Wanted(
            columns=columns,
            visible=visible,
            since=self.since_ms,
            until=self.until_ms,
            key=self.key,
            trusts_max_timestamp=True,
        )


def epoch_ms(moment: datetime | int | None) -> int | None:
    """A time in epoch milliseconds; a time between two milliseconds is the later one, so that nothing before it counts.

    Raises ValueError for a datetime without a time zone, and for a number of more than 64 bits.
    """
    if not isinstance(moment, datetime):
        if moment is not None and not -MAX_INT64 <= moment <= MAX_INT64:
            raise ValueError(f"{moment} is no time in milliseconds: it has more than 64 bits")
        return moment
    if moment.tzinfo is None:
        raise ValueError("a datetime needs a time zone; datetime.timezone.utc is usual")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))
