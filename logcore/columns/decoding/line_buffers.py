"""From a kernel's output to lines: the same buffers as for Arrow, written as text.

It does not need pyarrow: importing it takes several times as long as the start of the command that prints lines.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from logcore.columns.decoding.line_forms import FRAGMENT_BYTES, LineForm, LineFormat
from logcore.columns.decoding.line_tables import base64_couples, digit_pairs, hex_pairs, printable_bits
from logcore.columns.kernels import slots
from logcore.columns.kernels.library import library
from logcore.columns.wanted import Place
from logcore.records.model import Record

JSON_LINES = LineForm(LineFormat.JSONL)

_LEAST_ROOM = 1 << 20
_KEPT = 32
_LARGEST_KEPT = 8 << 20
"""Size in bytes of the largest text that is kept."""


class TextPool:
    """Buffers for text that can be used again: new memory costs more than filling it."""

    def __init__(self) -> None:
        self._free: deque[np.ndarray] = deque(maxlen=_KEPT)

    def take(self, nbytes: int) -> np.ndarray:
        """Return a buffer of at least `nbytes` bytes."""
        try:
            held = self._free.pop()
        except IndexError:
            held = np.empty(0, np.uint8)
        return held if held.size >= nbytes else np.empty(nbytes + nbytes // 4, np.uint8)

    def give(self, text: memoryview) -> None:
        """Return a text of `LineBuffers` to the pool. It must not be used any more."""
        if isinstance(text.obj, np.ndarray) and text.obj.size <= _LARGEST_KEPT:
            self._free.append(text.obj)


class LineBuffers:
    """Buffers for the rows of successive kernel calls, and the lines made of them.

    `left` is how many more lines are wanted; None for any number.
    """

    def __init__(self, place: Place, pool: TextPool, form: LineForm = JSON_LINES, left: int | None = None) -> None:
        self.left = left
        # Text has the bytes of such a name. JSON has them in a field of its own, which the kernels do not write.
        self.takes_any_name = form.format is LineFormat.TEXT
        self._library, self._pool, self._form = library(), pool, form
        self._held: dict[int, np.ndarray] = {}
        prefix = form.prefix(place).encode("utf-8", "backslashreplace")
        self._frame = np.zeros(slots.LINE_SLOTS, np.int64)
        self._fixed: list[np.ndarray] = []
        self._set(slots.LINE_PREFIX, np.frombuffer(prefix + bytes(FRAGMENT_BYTES), np.uint8))
        self._frame[slots.LINE_PREFIX_SIZE] = len(prefix)
        self._set(slots.LINE_FRAGMENTS, np.frombuffer(form.fragments, np.uint8))
        self._set(slots.LINE_DIGIT_PAIRS, digit_pairs())
        if form.format is LineFormat.TEXT:
            self._set(slots.LINE_HEX_PAIRS, hex_pairs())
        else:
            self._set(slots.LINE_COUPLES, base64_couples())
        self._frame[slots.LINE_AS_TEXT] = form.as_text

    def _set(self, slot: int, table: np.ndarray) -> None:
        """Set a table's address, and keep the table: of two threads that make it at once, a cache keeps one's."""
        self._fixed.append(table)
        self._frame[slot] = table.ctypes.data

    def prepare(self, frame: np.ndarray, rows: int, nbytes: int, headers: int) -> None:
        """Set the frame's buffers for `rows` rows with at most `nbytes` bytes and `headers` record headers."""
        frame[slots.ROW_CAPACITY] = rows
        frame[slots.NULL_EPOCHS] = 0
        bits = (rows + 7) // 8 + 8
        for slot, size in (
            (slots.TO_OFFSETS, 8 * rows),
            (slots.TO_TIMESTAMPS_MS, 8 * rows),
            (slots.TO_TYPES, 4 * rows),
            *(((slots.TO_CONTROL, 4 * rows),) if self._form.with_control else ()),
            (slots.TO_EPOCHS, 4 * rows),
            (slots.TO_EPOCH_VALIDITY, bits),
            (slots.TO_KEY_ENDS, 4 * rows + 4),
            (slots.TO_KEY_VALIDITY, bits),
            (slots.TO_KEYS, nbytes),
            (slots.TO_VALUE_ENDS, 4 * rows + 4),
            (slots.TO_VALUE_VALIDITY, bits),
            (slots.TO_VALUES, nbytes),
            (slots.TO_HEADER_ENDS, 4 * rows + 4),
            (slots.TO_HEADER_VALIDITY, bits),
            (slots.TO_NAME_ENDS, 4 * headers + 4),
            (slots.TO_NAMES, nbytes),
            (slots.TO_HEADER_VALUE_ENDS, 4 * headers + 4),
            (slots.TO_HEADER_VALUES, nbytes),
            (slots.TO_HEADER_VALUE_VALIDITY, headers // 8 + 8),
        ):
            frame[slot] = self._room(slot, size + slots.SLACK).ctypes.data

    def first(self, records: list[Record]) -> list[Record]:
        """Return the records whose lines are still wanted, and count their lines."""
        if self.left is None:
            return records
        records = records[: self.left]
        self.left -= len(records)
        return records

    def _room(self, slot: int, nbytes: int) -> np.ndarray:
        held = self._held.get(slot)
        if held is None or held.size < nbytes:
            held = self._held[slot] = np.empty(nbytes + nbytes // 2, np.uint8)
        return held

    def finish(self, frame: np.ndarray) -> list[memoryview]:
        """Return the lines of the rows that a kernel wrote, as UTF-8."""
        line = self._frame
        line[slots.LINE_EMITTED], line[slots.LINE_FIRST] = frame.ctypes.data, 0
        rows, given = int(frame[slots.ROWS]), []
        if self.left is not None:
            rows = min(rows, self.left)
            self.left -= rows
        line[slots.LINE_END] = rows
        payload = sum(
            int(frame[slot])
            for slot in (slots.KEY_BYTES, slots.VALUE_BYTES, slots.NAME_BYTES, slots.HEADER_VALUE_BYTES)
        )
        room = max(_LEAST_ROOM, 2 * payload + 256 * rows)
        while int(line[slots.LINE_FIRST]) < rows:
            before = int(line[slots.LINE_FIRST])
            target = self._pool.take(room + slots.SLACK)
            line[slots.LINE_TARGET], line[slots.LINE_ROOM] = target.ctypes.data, room
            self._library.call(self._form.kernel, line.ctypes.data)
            given.append(target.data[: int(line[slots.LINE_USED])])
            if line[slots.LINE_STATUS] == slots.FOREIGN:
                self._set(slots.LINE_PRINTABLE, printable_bits())
            elif int(line[slots.LINE_FIRST]) == before:
                room *= 4  # one line needs more
        return given
