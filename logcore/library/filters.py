"""Which of the visible records a reader wants."""

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
        end_offset: The offset after the last wanted one.
        since_ms: The earliest wanted timestamp, epoch milliseconds.
        until_ms: Wanted timestamps are before this one, epoch milliseconds.
        key: The key of a wanted record, exactly.
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
        """Return the filter by the parameters of a caller.

        Args:
            start_offset: As the attribute.
            end_offset: As the attribute.
            since: The earliest wanted timestamp: a datetime with a time zone, or epoch milliseconds.
            until: Wanted timestamps are before this one.
            key: As the attribute.

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

    def wanted(self, columns: tuple[str, ...] | None) -> Wanted:
        """Return the filter for the decoding engines, without the offsets.

        Args:
            columns: The columns to decode; None: all.
        """
        return Wanted(
            columns=columns,
            since=self.since_ms,
            until=self.until_ms,
            key=self.key,
            trusts_max_timestamp=True,
        )


def epoch_ms(moment: datetime | int | None) -> int | None:
    """Return a time in epoch milliseconds.

    Args:
        moment: A datetime, epoch milliseconds, or None. A datetime between two milliseconds is rounded up, so that the
            result is never before it.

    Raises:
        ValueError: A datetime has no time zone, or a number has more than 64 bits.
    """
    if not isinstance(moment, datetime):
        if moment is not None and not -MAX_INT64 <= moment <= MAX_INT64:
            raise ValueError(f"{moment} is no time in milliseconds: it has more than 64 bits")
        return moment
    if moment.tzinfo is None:
        raise ValueError("a datetime needs a time zone; datetime.timezone.utc is usual")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))
