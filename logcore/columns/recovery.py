"""`recover_segment` at the speed of the checksums: a kernel for certainly good batches, else the specification.

The kernel stops before any batch that is not certainly good. There the specification handles one batch, and the kernel
continues after it. So both give the same result for any bytes. The specification needs the effects on leader epochs and
producers of the kernel's batches. The kernel returns them as events; there are few if producers write long runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logcore.columns.decoding.arena import crc32_function
from logcore.columns.kernels.call_frames import DOUBT, FULL, address_of
from logcore.columns.kernels.library import library
from logcore.columns.kernels.recovering import event_row
from logcore.columns.kernels.recovering.recovery_frame import RUNS, RecoveryFrame
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
        self._events = np.zeros((_EVENTS, event_row.WIDTH), np.int64)
        self._runs = np.empty(RUNS, np.int64)
        self._frame = RecoveryFrame()
        frame = self._frame
        frame.source, frame.size = address_of(self._bytes), len(content)
        frame.base_offset, frame.interval = base_offset, rules.interval_bytes
        frame.checksum_tables, frame.crc32 = self._library.tables_address, crc32_function()
        frame.offsets, frame.times = address_of(self._offsets), address_of(self._times)
        frame.events, frame.event_room = address_of(self._events), _EVENTS
        frame.runs = address_of(self._runs)

    def take_plain(self) -> bool:
        """Recover batches as long as they are certainly good. Returns whether something else follows.

        Raises:
            WouldNotStart: As the specification does.
        """
        if self.is_odd and self._have_fallen():
            return True
        frame = self._frame
        while True:
            offset_room, time_room = self._room()
            self._runs.fill(-1)
            frame.position, frame.last_offset = self.valid, self.next_offset - 1
            frame.last_entry_at = self.last_entry_at
            frame.greatest, frame.greatest_offset = self.greatest
            frame.last_timed = self.last_timed[0]
            frame.epoch = self.epochs[-1].epoch if self.epochs else -1
            frame.replayed_to = -1 if self.replayed_to is None else self.replayed_to
            frame.offset_room, frame.time_room = offset_room, time_room
            self._library.call("recover", frame)
            begun = self.valid
            self._take_results(frame)
            status = frame.status
            if status != FULL:
                return status == DOUBT
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

    def _take_results(self, found: RecoveryFrame) -> None:
        nbytes = found.offset_count * offset_index.ENTRY_SIZE
        if nbytes:
            self.offset_entries += self._offsets[:nbytes].tobytes()
            relative = int.from_bytes(self.offset_entries[-offset_index.ENTRY_SIZE : -4], "big")
            self.last_indexed = self._base_offset + relative
        nbytes = found.time_count * time_index.ENTRY_SIZE
        if nbytes:
            self.time_entries += self._times[:nbytes].tobytes()
            relative = int.from_bytes(self.time_entries[-4:], "big")
            self.last_timed = found.last_timed, self._base_offset + relative
        self.valid, self.next_offset = found.position, found.last_offset + 1
        self.last_entry_at = found.last_entry_at
        self.greatest = found.greatest, found.greatest_offset
        self.replayed_to = None if found.replayed_to < 0 else found.replayed_to
        for event in self._events[: found.event_count].tolist():
            self._take_event(event)

    def _take_event(self, event: list[int]) -> None:
        if event[event_row.KIND] == event_row.NEW_EPOCH:
            self.take_epoch(event[event_row.PRODUCER_EPOCH], event[event_row.BASE])
            return
        run = _Run(
            event[event_row.BASE],
            event[event_row.LAST],
            event[event_row.TIMESTAMP],
            event[event_row.PRODUCER_ID],
            event[event_row.PRODUCER_EPOCH],
            event[event_row.SEQUENCE],
            event[event_row.FLAG] != 0,
        )
        if event[event_row.KIND] == event_row.MARKER:
            marker = EndMarker(
                event[event_row.FLAG] != 0, event[event_row.COORDINATOR_EPOCH], event[event_row.TIMESTAMP]
            )
            self.take_marker(run, marker)
            return
        try:
            self.producers.take_data(run, first_offset=event[event_row.FIRST_BASE])
        except InvalidRecordError as error:
            position, offset = event[event_row.FIRST_POSITION], event[event_row.FIRST_BASE]
            raise WouldNotStart(error.message, position=position, offset=offset) from error
