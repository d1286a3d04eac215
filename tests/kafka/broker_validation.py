"""What brokers store of the batches that a producer sends: `LogValidator` by version, in a JVM that stays.

    with BrokerValidation("1.0.2") as broker:
        stored = broker.stored([batch, ...], offset=100)     # bytes, or the name of the exception that it threw

A batch goes through the checks of a leader's append: whole, a right checksum, base offset 0 in v2, then `LogValidator`,
which assigns offsets from `offset` on. 1.0 and 3.9 keep the batch's format, 4 writes older formats as v2. All keep the
codec. So the answer is what lies in the segment afterwards.

Protocol, all numbers big-endian. To the JVM: int64 offset, int32 count, then per batch int32 length and the bytes.
Back, per batch: int8 status (0 stored, 1 refused), int32 length, and the bytes or the name of the exception's class.
"""

from __future__ import annotations

import functools
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.kafka import distribution

VERSIONS = ("1.0.2", "3.9.2", "4.4.0")
"""The last of the brokers that checked little, the last that wrote older formats, and the newest."""

_SOURCES = Path(__file__).resolve().parent / "java-validator"
_LINES = {"1": "line-1.0", "3": "line-3.9", "4": "line-4"}
_NEW_PLACES = (
    (
        re.compile(r"^(import org\.apache\.kafka\.common\.record)\.(?!TimestampType)(?=[A-Z])", re.MULTILINE),
        r"\1.internal.",
    ),
    (
        re.compile(
            r"^(import org\.apache\.kafka\.common\.utils)\.(?=BufferSupplier|PrimitiveRef|CloseableIterator)",
            re.MULTILINE,
        ),
        r"\1.internals.",
    ),
)
"""From 4.4 on these classes are in other packages."""
_HEAD = struct.Struct(">bi")


class BrokerValidation:
    """The JVM, started at once; use as a context manager. Not for several threads at a time.

    :raises distribution.Unavailable: that Kafka cannot be run here.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        command = distribution.command("Storing", heap="512m", version=version, classes=_classes(version))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> BrokerValidation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def stored(self, batches: Sequence[bytes], offset: int) -> list[bytes | str]:
        """What is stored of each batch as the next one at that offset; the name of an exception if nothing is."""
        request = struct.pack(">qi", offset, len(batches))
        request += b"".join(struct.pack(">i", len(batch)) + batch for batch in batches)
        self._process.stdin.write(request)  # the JVM takes the whole request before it answers
        self._process.stdin.flush()
        return [self._answer() for _ in batches]

    def _answer(self) -> bytes | str:
        status, size = _HEAD.unpack(self._process.stdout.read(_HEAD.size))
        content = self._process.stdout.read(size)
        return content.decode().rpartition(".")[2] if status else content


def in_new_places(text: str) -> str:
    """Java source with the packages of Kafka 4.4."""
    for old, new in _NEW_PLACES:
        text = old.sub(new, text)
    return text


@functools.cache
def _classes(version: str) -> Path:
    """Folder with the JVM's classes, compiled against that Kafka if they are not there yet."""
    folders = (_SOURCES / "shared", _SOURCES / _LINES[version[0]])
    texts = {path.name: path.read_text() for folder in folders for path in sorted(folder.glob("*.java"))}
    if version.startswith("4."):
        texts = {name: in_new_places(text) for name, text in texts.items()}
    return distribution.compiled(texts, version)
