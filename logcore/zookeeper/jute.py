"""Jute, in which ZooKeeper writes its records: big-endian numbers, and byte strings with their length before them.

No declared length or count is trusted: what reaches beyond the bytes is not read.

Source: org.apache.jute BinaryInputArchive.
"""

from __future__ import annotations

import struct

from logcore.errors import CorruptNodeError
from logcore.texts import java_text

INT32 = struct.Struct(">i")
_HEADER = struct.Struct(">4siq")
_VERSION = 2
HEADER_SIZE = _HEADER.size
_NULL = -1


def read_header(data: bytes | bytearray | memoryview, magic: bytes) -> None:
    """Check the header of a file: its magic bytes, its version, and the id of a database, which says nothing.

    Raises:
        CorruptNodeError: It is another file, or too short.
    """
    if len(data) < HEADER_SIZE:
        raise CorruptNodeError("the file ends inside its header", position=len(data))
    found, version, _ = _HEADER.unpack_from(data)
    if found != magic or version != _VERSION:
        raise CorruptNodeError(f"the file does not begin with {magic.decode()} and version {_VERSION}", position=0)


class JuteReader:
    """Reads a record from its bytes. All methods raise CorruptNodeError at the end of the bytes.

    Attributes:
        position: Of the next byte.
    """

    def __init__(self, data: bytes | bytearray | memoryview, position: int = 0) -> None:
        self._data = data
        self.position = position

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        """Read numbers of fixed width."""
        start = self.position
        self.position += form.size
        if self.position > len(self._data):
            raise CorruptNodeError("a number lies beyond the end", position=start)
        return form.unpack_from(self._data, start)

    def int32(self) -> int:
        """Read a number of four bytes: also the length of a list, which may be anything."""
        return self.numbers(INT32)[0]

    def buffer(self) -> bytes | None:
        """Read a byte string; None: it is null."""
        size, start = self.int32(), self.position
        if size == _NULL:
            return None
        if not 0 <= size <= len(self._data) - start:
            raise CorruptNodeError(f"a string of {size} bytes reaches beyond the end", position=start)
        self.position += size
        return bytes(self._data[start : self.position])

    def text(self) -> str:
        """Read a text; null becomes empty."""
        return java_text(self.buffer() or b"")

    def skip_access_rules(self) -> None:
        """Read a list of access rules: permissions, scheme and id of each. They are not kept."""
        for _ in range(self.int32()):
            self.int32()
            self.buffer()
            self.buffer()
