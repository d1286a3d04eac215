"""The opponent: Kafka's own classes reading a segment file, timed in their own JVM.

    with JavaBench("00000000000000000000.log") as java:     # two warm-up rounds are run here
        ours(), java.round(), ours(), java.round()          # A B A B

A round opens the file, and for every batch checks the CRC (`ensureValid`) and goes through its records with the
streaming iterator and recycled decompression buffers; key, value and header values of every record end as arrays of
their own, header names as strings. The sums in the result show that the same records were seen.

Protocol: the JVM prints "ready"; for every line on stdin it reads the file once and prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
from types import TracebackType
from typing import NamedTuple

from tests.kafka import distribution


class JavaRound(NamedTuple):
    """One reading of the file. Control records are counted with the others."""

    ns: int
    """Nanoseconds, by the JVM's clock."""
    bytes: int
    """Size of the file."""
    batches: int
    records: int
    offset_sum: int
    """Sums wrap as int64."""
    timestamp_sum: int
    key_bytes: int
    value_bytes: int
    headers: int
    header_bytes: int
    """Characters of names plus bytes of values."""


class JavaBench:
    """The JVM, warm when the constructor returns; use as a context manager or call `close`.

    :param heap: ``-Xmx``, also ``-Xms``. :param collector: of garbage; `Serial` keeps to one thread.
    :raises distribution.Unavailable: Kafka cannot be run here.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, warm_up: int = 2, heap: str = "1g", collector: str = "Serial"
    ) -> None:
        command = distribution.command(
            "SegmentBench", os.fspath(path), str(warm_up), heap=heap, collector=collector, options=[f"-Xms{heap}"]
        )
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._line()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> JavaBench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def round(self) -> JavaRound:
        """Read the file once more.

        :raises RuntimeError: the JVM ended; what it said is on stderr.
        """
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return JavaRound(**json.loads(self._line()))

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def _line(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended with exit code {self._process.wait()}")
        return line
