"""The frame of the kernel `recover`."""

from logcore.columns.kernels.call_frames import Address, CallFrame, layout

RUNS = 1024


@layout
class RecoveryFrame(CallFrame):
    """The frame of `recover`."""

    __slots__ = ()

    source: Address
    size: int
    position: int
    """Where the next batch begins; updated."""
    base_offset: int
    interval: int
    last_offset: int
    """Last offset of the batch before; updated."""
    last_entry_at: int
    greatest: int
    """The greatest timestamp so far."""
    greatest_offset: int
    """Offset of the greatest timestamp."""
    last_timed: int
    """Timestamp of the time index's last entry."""
    epoch: int
    """The latest leader epoch; -1: none."""
    replayed_to: int
    """Offset after the last v2 batch; -1: none yet."""
    checksum_tables: Address
    crc32: Address
    """A faster CRC-32 for messages, 0 if there is none."""
    status: int
    offsets: Address
    """Target of the offset index's entries."""
    offset_room: int
    """How many of them fit there and in the index."""
    offset_count: int
    times: Address
    time_room: int
    time_count: int
    events: Address
    event_room: int
    event_count: int
    runs: Address
    """RUNS numbers: the last event with data of a producer; -1: none."""
