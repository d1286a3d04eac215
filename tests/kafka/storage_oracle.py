"""Kafka's own log and cleaner over a partition directory, without a broker, in a JVM that stays.

    with StorageOracle("4.4.0") as kafka:
        kafka.ask("clean", directory=copy, now=1_700_000_000_000, config={"cleanup.policy": "compact"})

The directory is changed: give it a copy, on a file system in memory if there is one. One request a line on stdin, one
answer a line on stdout, both JSON; the JVM ends when stdin does. Requests, with what is needed less than always in
parentheses; times in milliseconds, `config` by Kafka's names, each value as text:

    recover    a start after a crash, and a stop. (clean_stop: a start after a clean stop)
    clean      a round of `Cleaner.doClean`. (first_dirty_offset, else the log's start; uncleanable, else the last
               stable offset or the active segment; map_bytes; load_factor; clean_stop=False)
    retain     `deleteOldSegments`. (delete_records_before: the log's start is moved there first)
    write      appends as a follower does. appends: now, batches (base64), (leader_epoch, else any)
    generate   makes a log from `specification`; see tests/differential/specifications.py
    bench      `what`: clean, recover, offset_map; (rounds, map_bytes, load_factor, key_bytes)

All but the last also: directory, now, config, (log_start_offset, recovery_point, high_watermark, else the log's end,
producer_id_expiration_ms, highest_remote_offset: the broker has tiered storage). An answer is the log's state before
it was closed and what the request is about, or `Thrown`.

What had to be found out about these classes: 4.x refuses `segment.bytes` below 1 MiB, and takes it as
`internal.segment.bytes`. From 4.3 on the record classes are in another package, except `TimestampType`. 4.4 cuts the
active indexes to size in a step of its own. The scheduler must hand out futures, which closing cancels, and must run
what removes `.deleted` files. Appending as a follower keeps offsets, epochs and formats in every version.
"""

from __future__ import annotations

import functools
import json
import os
import re
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution

VERSIONS = ("3.9.2", "4.1.2", "4.4.0")
"""The newest of each line of brokers that writes other bytes than the line before it."""

_SOURCES = Path(__file__).resolve().parent / "java-oracle"
_RECORD_CLASS = re.compile(r"^(import org\.apache\.kafka\.common\.record)\.(?!TimestampType)(?=[A-Z])", re.MULTILINE)


class Thrown(Exception):
    """What Kafka threw instead of an answer.

    kind: name of the Java class. at: the innermost places of the stack.
    """

    def __init__(self, kind: str, message: str, cause: str | None, at: str) -> None:
        super().__init__(f"{kind}: {message} ({cause or 'no cause'}) at {at}")
        self.kind, self.message, self.cause, self.at = kind, message, cause, at


class OracleDied(Exception):
    """The JVM ended, or was ended because it gave no answer in time."""


class StorageOracle:
    """The JVM, started at once; use as a context manager or call `close`. Not for several threads at a time.

    :raises distribution.Unavailable: that Kafka cannot be run here.
    """

    def __init__(self, version: str, *, heap: str = "512m", seconds_for_an_answer: float = WAIT_SECONDS) -> None:
        self.version = version
        self._seconds = seconds_for_an_answer
        command = distribution.command("Oracle", heap=heap, version=version, classes=classes(version))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._buffer = bytearray()

    def __enter__(self) -> StorageOracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request.

        :raises Thrown: Kafka threw. :raises OracleDied: the JVM is gone.
        """
        line = json.dumps({"command": command, **fields}, default=os.fspath).encode() + b"\n"
        try:
            view = memoryview(line)
            while view:
                view = view[self._process.stdin.write(view) :]
        except BrokenPipeError as error:
            raise OracleDied(f"the JVM is gone (exit code {self._process.wait()})") from error
        answer = json.loads(self._line())
        if "thrown" in answer:
            raise Thrown(answer["thrown"], answer["message"], answer["cause"], answer["at"])
        return answer

    def close(self) -> None:
        """End the JVM."""
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _line(self) -> bytes:
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + self._seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._process.kill()
                raise OracleDied(f"no answer within {self._seconds} s")
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                raise OracleDied(f"the JVM is gone (exit code {self._process.wait()})")
            self._buffer += piece
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line


@functools.cache
def classes(version: str) -> Path:
    """Folder with the oracle's classes, compiled against that Kafka if they are not there yet.

    :raises distribution.Unavailable: no lock, no jars, no JDK.
    """
    folders = (_SOURCES / "shared", _SOURCES / ("line-3.9" if version.startswith("3.9.") else "line-4"))
    texts = {path.name: path.read_text() for folder in folders for path in sorted(folder.glob("*.java"))}
    if _numbers(version) >= (4, 3):
        texts = {name: _RECORD_CLASS.sub(r"\1.internal.", text) for name, text in texts.items()}
    return distribution.compiled(texts, version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
