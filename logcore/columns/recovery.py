"""`recover_segment` at the speed of the checksums: a kernel for certainly good batches, else the specification.

The kernel stops before any batch that is not certainly good. There the specification handles one batch, and the kernel
continues after it. So both give the same result for any bytes. The specification needs the effects on leader epochs and
producers of the kernel's batches. The kernel returns them as events; there are few if producers write long runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logcore.columns.decoding.arena import crc32_function
from logcore.columns.kernels import slots
from logcore.columns.kernels.library import library
from logcore.columns.kernels.recovering import recovery_slots as at
from logcore.errors import InvalidRecordError
from logcore.logs.model.producers.producer_state import EndMarker, ProducerReplay
from logcore.logs.recovery.segment_recovery import (
    DEFAULT_RULES,
    IndexRules,
    RecoveredSegment,
    SegmentRecovery,
    WouldNotStart,
)
from logcore.records.varint import Buffer
from logcore.segments.side_files import offset_index, time_index
from logcore.segments.side_files.leader_epochs import Epochs

_ENTRIES = 1 << 15
_EVENTS = 1 << 13


def recover_compiled(
    content: Buffer,
    base_offset: int,
    rules: IndexRules = DEFAULT_RULES,
    *,
    epochs: Epochs = (),
    producers: ProducerReplay | None = None,
) -> RecoveredSegment:
    """Recover a segment with the kernel. Arguments and errors as `recover_segment`, and KernelsUnavailable."""
    recovery = _CompiledRecovery(content, base_offset, rules, epochs, producers)
    while recovery.take_plain() and recovery.take_rest(1):
        pass
    return recovery.finish()


@dataclass(frozen=True, slots=True)
class _Run:
    """Data batches of one producer that the replay handles as one."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


class _CompiledRecovery(SegmentRecovery):
    """A recovery that uses the kernel."""

    def __init__(
        self, content: Buffer, base_offset: int, rules: IndexRules, epochs: Epochs, producers: ProducerReplay | None
    ) -> None:
        super().__init__(content, base_offset, rules, epochs, producers)
        self._library = library()
        self._bytes = np.frombuffer(content, np.uint8) if len(content) else np.zeros(1, np.uint8)
        self._offsets = np.empty(_ENTRIES * offset_index.ENTRY_SIZE, np.uint8)
        self._times = np.empty(_ENTRIES * time_index.ENTRY_SIZE, np.uint8)
        self._events = np.zeros((_EVENTS, at.EVENT_WIDTH), np.int64)
        self._runs = np.empty(at.RUN_SLOTS, np.int64)
        self._frame = np.zeros(at.FRAME_SLOTS, np.int64)
        frame = self._frame
        frame[at.SOURCE], frame[at.SIZE] = self._bytes.ctypes.data, len(content)
        frame[at.BASE_OFFSET], frame[at.INTERVAL] = base_offset, rules.interval_bytes
        frame[at.TABLES], frame[at.CRC32] = self._library.tables_address, crc32_function()
        frame[at.OFFSETS], frame[at.TIMES] = self._offsets.ctypes.data, self._times.ctypes.data
        frame[at.EVENTS], frame[at.EVENT_ROOM] = self._events.ctypes.data, _EVENTS
        frame[at.RUNS] = self._runs.ctypes.data

    def take_plain(self) -> bool:
        """Recover batches as long as they are certainly good. Returns whether something else follows.

        Raises:
            WouldNotStart: As the specification does.
        """
        if self.is_odd and self._have_fallen():
            return True
        frame, address = self._frame, int(self._frame.ctypes.data)
        while True:
            offset_room, time_room = self._room()
            self._runs.fill(-1)
            frame[at.POSITION], frame[at.LAST_OFFSET] = self.valid, self.next_offset - 1
            frame[at.LAST_ENTRY_AT] = self.last_entry_at
            frame[at.GREATEST], frame[at.GREATEST_OFFSET] = self.greatest
            frame[at.LAST_TIMED] = self.last_timed[0]
            frame[at.EPOCH] = self.epochs[-1].epoch if self.epochs else -1
            frame[at.REPLAYED_TO] = -1 if self.replayed_to is None else self.replayed_to
            frame[at.OFFSET_ROOM], frame[at.TIME_ROOM] = offset_room, time_room
            self._library.call("recover", address)
            begun = self.valid
            self._take_results(frame.tolist())
            status = int(frame[at.STATUS])
            if status != slots.FULL:
                return status == slots.DOUBT
            if self.valid == begun:  # the index itself is full: the specification decides
                return True

    def _have_fallen(self) -> bool:
        """Whether offsets fell below those in the indexes: then the specification decides about entries."""
        highest = max(self.last_indexed, self.greatest[1], self.last_timed[1] if self.time_entries else -1)
        return self.next_offset <= highest or (bool(self.time_entries) and self.greatest[1] < self.last_timed[1])

    def _room(self) -> tuple[int, int]:
        """Return how many entries of the offset index and the time index fit into buffers and files."""
        size = self._rules.size_bytes
        offsets = size // offset_index.ENTRY_SIZE - len(self.offset_entries) // offset_index.ENTRY_SIZE
        times = size // time_index.ENTRY_SIZE - 1 - len(self.time_entries) // time_index.ENTRY_SIZE
        return max(min(offsets, _ENTRIES), 0), max(min(times, _ENTRIES), 0)

    def _take_results(self, found: list[int]) -> None:
        nbytes = found[at.OFFSET_COUNT] * offset_index.ENTRY_SIZE
        if nbytes:
            self.offset_entries += self._offsets[:nbytes].tobytes()
            relative = int.from_bytes(self.offset_entries[-offset_index.ENTRY_SIZE : -4], "big")
            self.last_indexed = self._base_offset + relative
        nbytes = found[at.TIME_COUNT] * time_index.ENTRY_SIZE
        if nbytes:
            self.time_entries += self._times[:nbytes].tobytes()
            relative = int.from_bytes(self.time_entries[-4:], "big")
            self.last_timed = found[at.LAST_TIMED], self._base_offset + relative
        self.valid, self.next_offset = found[at.POSITION], found[at.LAST_OFFSET] + 1
        self.last_entry_at = found[at.LAST_ENTRY_AT]
        self.greatest = found[at.GREATEST], found[at.GREATEST_OFFSET]
        self.replayed_to = None if found[at.REPLAYED_TO] < 0 else found[at.REPLAYED_TO]
        for event in self._events[: found[at.EVENT_COUNT]].tolist():
            self._take_event(event)

    def _take_event(self, event: list[int]) -> None:
        if event[at.KIND] == at.NEW_EPOCH:
            self.take_epoch(event[at.PRODUCER_EPOCH], event[at.BASE])
            return
        run = _Run(
            event[at.BASE],
            event[at.LAST],
            event[at.TIMESTAMP],
            event[at.PRODUCER_ID],
            event[at.PRODUCER_EPOCH],
            event[at.SEQUENCE],
            event[at.FLAG] != 0,
        )
        if event[at.KIND] == at.MARKER:
            marker = EndMarker(event[at.FLAG] != 0, event[at.COORDINATOR_EPOCH], event[at.TIMESTAMP])
            self.take_marker(run, marker)
            return
        try:
            self.producers.take_data(run, first_offset=event[at.FIRST_BASE])
        except InvalidRecordError as error:
            position, offset = event[at.FIRST_POSITION], event[at.FIRST_BASE]
            raise WouldNotStart(error.message, position=position, offset=offset) from error
