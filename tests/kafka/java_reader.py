"""A third reader for any bytes: Kafka's own `MemoryRecords`, in a JVM that stays.

    with JavaReader() as reader:
        reading = reader.read(blob)              # or, much faster: reader.read_all(blobs)
        if isinstance(reading, Refused): ...     # reading.exception, the batches before it in reading.batches
        else: reading.records                    # parsed on first use

What a consumer does with fetched bytes is done to each blob: batch after batch, `ensureValid` (the CRC), every record
through the streaming iterator. It ends where the bytes left over are too few for a batch, without a word, as in Kafka;
`size_read` says where. A blob whose answer would be larger than `answer_bytes` comes back as `TooLarge`.

Protocol, all numbers big-endian. To the JVM: int32 flags (1 check batch CRCs, 2 check CRCs of inner messages of formats
v0 and v1), int32 count, then per blob int32 length and the bytes. Back, per blob: int32 length of what follows, int8
status (0 read, 1 refused, 2 too large), int32 bytes read in whole batches, bytes of the exception's class name, then
whole batches: the `_BATCH` fields, then for every record int8 1, int64 offset, int64 timestamp, int32 sequence, key,
value, int32 number of headers, name and value of each; then int8 0. Bytes are int32 length, -1 for null, and content.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import NamedTuple

from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution
from tests.kafka.broker_validation import in_new_places

_BATCH = struct.Struct(">iiqqbbb??iqhiq?q")
_RECORD = struct.Struct(">qqi")
_INT = struct.Struct(">i")
_HEAD = struct.Struct(">bi")

_BLOBS_AT_ONCE = 512
_BYTES_AT_ONCE = 4 << 20


class JavaRecord(NamedTuple):
    """A record as `org.apache.kafka.common.record.internal.Record` gives it."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """Names as Java decodes them: what is no UTF-8 is replaced."""


class JavaBatch(NamedTuple):
    """A batch as `RecordBatch` gives it, with all its records. `position` and `size` are bytes in the blob."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    codec: int
    timestamp_type: int
    is_transactional: bool
    is_control: bool
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    delete_horizon_ms: int | None
    records: tuple[JavaRecord, ...]


@dataclass(frozen=True)
class Reading:
    """What Kafka read from a blob."""

    size_read: int
    """Bytes of the whole batches that were read."""
    encoded: bytes
    """The batches as the protocol writes them: equal bytes, equal batches."""

    @cached_property
    def batches(self) -> tuple[JavaBatch, ...]:
        """The whole batches, in order."""
        return tuple(_batches(self.encoded))

    @property
    def records(self) -> list[JavaRecord]:
        """Records of all batches, control records too, in order."""
        return [record for batch in self.batches for record in batch.records]


@dataclass(frozen=True)
class Refused(Reading):
    """Kafka threw; `batches` are those before the one it threw at, which begins at `size_read`."""

    exception: str
    """Name of the Java class."""


@dataclass(frozen=True)
class TooLarge(Reading):
    """Not read to its end, because the answer would be larger than was allowed. No verdict."""


class JavaReader:
    """The JVM, started at once; use as a context manager or call `close`. Not for several threads at a time.

    :raises distribution.Unavailable: Kafka cannot be run here.
    """

    def __init__(
        self,
        *,
        check_crc: bool = True,
        check_inner_crc: bool = False,
        answer_bytes: int = 16 << 20,
        heap: str = "512m",
        seconds_for_an_answer: float = WAIT_SECONDS,
        version: str = distribution.VERSION,
    ) -> None:
        self._flags = (1 if check_crc else 0) | (2 if check_inner_crc else 0)
        self._seconds = seconds_for_an_answer
        classes = None
        if version != distribution.VERSION:
            text = (distribution.SOURCES / "BlobReader.java").read_text()
            classes = distribution.compiled({"BlobReader.java": in_new_places(text)}, version)
        command = distribution.command("BlobReader", str(answer_bytes), heap=heap, version=version, classes=classes)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._buffer = bytearray()

    def __enter__(self) -> JavaReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM."""
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def read(self, blob: bytes) -> Reading | Refused | TooLarge:
        """What Kafka makes of the blob. A round trip takes about 0.1 ms: prefer `read_all`."""
        return next(self.read_all([blob]))

    def read_all(self, blobs: Iterable[bytes]) -> Iterator[Reading | Refused | TooLarge]:
        """What Kafka makes of each blob, in order; reads ahead by a few hundred blobs or 4 MiB.

        :raises JavaDied: the JVM ended or gave no answer in time; it is gone then.
        """
        waiting: list[bytes] = []
        size = 0
        for blob in blobs:
            waiting.append(blob)
            size += len(blob)
            if len(waiting) == _BLOBS_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield from self._ask(waiting)
                waiting, size = [], 0
        if waiting:
            yield from self._ask(waiting)

    def _ask(self, blobs: list[bytes]) -> list[Reading | Refused | TooLarge]:
        request = bytearray(struct.pack(">ii", self._flags, len(blobs)))
        for blob in blobs:
            request += _INT.pack(len(blob))
            request += blob
        view = memoryview(request)
        try:
            while view:  # the JVM takes the whole request before it answers, so this cannot block for long
                view = view[self._process.stdin.write(view) :]
        except BrokenPipeError as error:
            raise JavaDied(f"the JVM is gone (exit code {self._process.wait()})") from error
        deadline = time.monotonic() + self._seconds
        return [_reading(self._take(_INT.unpack(self._take(4, deadline))[0], deadline)) for _ in blobs]

    def _take(self, size: int, deadline: float) -> bytes:
        descriptor = self._process.stdout.fileno()
        while len(self._buffer) < size:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._process.kill()
                raise JavaDied(f"no answer within {self._seconds} s")
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                raise JavaDied(f"the JVM is gone (exit code {self._process.wait()})")
            self._buffer += piece
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


class JavaDied(Exception):
    """The JVM ended, or was ended because it gave no answer in time."""


def _reading(answer: bytes) -> Reading | Refused | TooLarge:
    status, size_read = _HEAD.unpack_from(answer)
    name, position = _bytes(answer, _HEAD.size)
    if status == 0:
        return Reading(size_read, answer[position:])
    if status == 1:
        return Refused(size_read, answer[position:], (name or b"").decode())
    return TooLarge(size_read, answer[position:])


def _batches(encoded: bytes) -> Iterator[JavaBatch]:
    position = 0
    while position < len(encoded):
        *fields, has_horizon, horizon = _BATCH.unpack_from(encoded, position)
        position += _BATCH.size
        records = []
        while encoded[position]:
            offset, timestamp, sequence = _RECORD.unpack_from(encoded, position + 1)
            key, position = _bytes(encoded, position + 1 + _RECORD.size)
            value, position = _bytes(encoded, position)
            (count,) = _INT.unpack_from(encoded, position)
            position += 4
            headers = []
            for _ in range(count):
                name, position = _bytes(encoded, position)
                content, position = _bytes(encoded, position)
                headers.append(((name or b"").decode("utf-8", "surrogatepass"), content))
            records.append(JavaRecord(offset, timestamp, sequence, key, value, tuple(headers)))
        position += 1
        yield JavaBatch(*fields, horizon if has_horizon else None, tuple(records))


def _bytes(encoded: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = _INT.unpack_from(encoded, position)
    position += 4
    return (None, position) if size < 0 else (encoded[position : position + size], position + size)
