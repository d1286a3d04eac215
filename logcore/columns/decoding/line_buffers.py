"""From a kernel's output to lines: the same buffers as for Arrow, written as text, and the tables that it reads.

It does not need pyarrow: importing it takes several times as long as the start of the command that prints lines.
"""

from __future__ import annotations

import base64
from collections import deque
from functools import cache
from itertools import pairwise

import numpy as np

from logcore.columns.decoding.line_forms import FRAGMENT_BYTES, LineForm, LineFormat
from logcore.columns.kernels.call_frames import FOREIGN, SLACK, Address, address_of
from logcore.columns.kernels.decoding.decoding_frames import LinesFrame, RecordsFrame
from logcore.columns.kernels.library import library
from logcore.columns.wanted import Place
from logcore.records.model import Record

_CODE_POINTS = 0x110000
_BLOCK = 256


@cache
def digit_pairs() -> np.ndarray:
    """The decimal digits of 0 to 99, two bytes each."""
    return np.frombuffer(b"".join(b"%02d" % number for number in range(100)), np.uint8)


@cache
def hex_pairs() -> np.ndarray:
    """The hexadecimal digits of 0 to 255, two bytes each."""
    return np.frombuffer(bytes(range(256)).hex().encode(), np.uint8)


@cache
def base64_couples() -> np.ndarray:
    """The two base64 characters of each 12 bits."""
    bits = b"".join((number << 12).to_bytes(3, "big") for number in range(4096))
    return np.frombuffer(base64.b64encode(bits), np.uint8).reshape(4096, 4)[:, :2].copy()


@cache
def printable_bits() -> np.ndarray:
    """A bit for each code point, the lowest of a byte first: whether Python calls it printable."""
    points = np.arange(_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    is_printable = np.zeros(_CODE_POINTS, bool)
    for start, end in pairwise(range(0, _CODE_POINTS + 1, _BLOCK)):
        block = points[start:end]
        is_printable[start:end] = True if block.isprintable() else list(map(str.isprintable, block))
    return np.packbits(is_printable, bitorder="little")


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
        self._held: dict[str, np.ndarray] = {}
        prefix = form.prefix(place).encode("utf-8", "backslashreplace")
        self._frame = LinesFrame()
        self._fixed: list[np.ndarray] = []
        self._frame.prefix = self._keep(np.frombuffer(prefix + bytes(FRAGMENT_BYTES), np.uint8))
        self._frame.prefix_size = len(prefix)
        self._frame.fragments = self._keep(np.frombuffer(form.fragments, np.uint8))
        self._frame.digit_pairs = self._keep(digit_pairs())
        if form.format is LineFormat.TEXT:
            self._frame.hex_pairs = self._keep(hex_pairs())
        else:
            self._frame.couples = self._keep(base64_couples())
        self._frame.as_text = form.as_text

    def _keep(self, table: np.ndarray) -> Address:
        """Keep a table, and return its address: of two threads that make it at once, a cache keeps one's."""
        self._fixed.append(table)
        return address_of(table)

    def prepare(self, frame: RecordsFrame, rows: int, nbytes: int, headers: int) -> None:
        """Set the frame's buffers for `rows` rows with at most `nbytes` bytes and `headers` record headers."""
        frame.row_capacity = rows
        frame.null_epochs = 0
        bits = (rows + 7) // 8 + 8
        frame.to_offsets = self._room("offsets", 8 * rows)
        frame.to_timestamps_ms = self._room("timestamps", 8 * rows)
        frame.to_types = self._room("types", 4 * rows)
        if self._form.with_control:
            frame.to_control = self._room("control", 4 * rows)
        frame.to_epochs = self._room("epochs", 4 * rows)
        frame.to_epoch_validity = self._room("epoch validity", bits)
        frame.to_key_ends = self._room("key ends", 4 * rows + 4)
        frame.to_key_validity = self._room("key validity", bits)
        frame.to_keys = self._room("keys", nbytes)
        frame.to_value_ends = self._room("value ends", 4 * rows + 4)
        frame.to_value_validity = self._room("value validity", bits)
        frame.to_values = self._room("values", nbytes)
        frame.to_header_ends = self._room("header ends", 4 * rows + 4)
        frame.to_header_validity = self._room("header validity", bits)
        frame.to_name_ends = self._room("name ends", 4 * headers + 4)
        frame.to_names = self._room("names", nbytes)
        frame.to_header_value_ends = self._room("header value ends", 4 * headers + 4)
        frame.to_header_values = self._room("header values", nbytes)
        frame.to_header_value_validity = self._room("header value validity", headers // 8 + 8)

    def first(self, records: list[Record]) -> list[Record]:
        """Return the records whose lines are still wanted, and count their lines."""
        if self.left is None:
            return records
        records = records[: self.left]
        self.left -= len(records)
        return records

    def _room(self, name: str, nbytes: int) -> Address:
        nbytes += SLACK
        held = self._held.get(name)
        if held is None or held.size < nbytes:
            held = self._held[name] = np.empty(nbytes + nbytes // 2, np.uint8)
        return address_of(held)

    def finish(self, frame: RecordsFrame) -> list[memoryview]:
        """Return the lines of the rows that a kernel wrote, as UTF-8."""
        line = self._frame
        line.emitted, line.first = frame.address, 0
        rows, given = frame.rows, []
        if self.left is not None:
            rows = min(rows, self.left)
            self.left -= rows
        line.end = rows
        payload = frame.key_bytes + frame.value_bytes + frame.name_bytes + frame.header_value_bytes
        room = max(_LEAST_ROOM, 2 * payload + 256 * rows)
        while line.first < rows:
            before = line.first
            target = self._pool.take(room + SLACK)
            line.target, line.room = address_of(target), room
            self._library.call(self._form.kernel, line)
            given.append(target.data[: line.used])
            if line.status == FOREIGN:
                given += self._foreign(frame)
            elif line.first == before:
                room *= 4  # one line needs more
        return given

    def _foreign(self, frame: RecordsFrame) -> list[memoryview]:
        """Do what the kernel needs to go on from the row `first` of the line frame: give it the table of code points.

        Returns:
            Lines that were written instead of the kernel's.
        """
        self._frame.printable = self._keep(printable_bits())
        return []
