"""Kafka's own classes in one call: batches in, opinions out.

No other reader would do. aiokafka's compiled one does not survive mutants (it ends the process); kafka-python's takes a
record's attributes for a varint, does not wrap timestamps, and reads messages that are not whole.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.fuzz.campaign import ThirdReader
from tests.fuzz.opinions import Opinion, javas
from tests.kafka.distribution import VERSION, Unavailable
from tests.kafka.java_reader import JavaReader


@contextmanager
def third_reader() -> Iterator[tuple[str, ThirdReader | None]]:
    """What to call it, and how to ask it; None, and the reason for a name, where Kafka's classes cannot be run."""
    try:
        reader = JavaReader()
    except Unavailable as reason:
        yield f"none: {reason}", None
        return

    def java(batches: Sequence[bytes]) -> Iterator[Opinion]:
        for data, reading in zip(batches, reader.read_all(batches), strict=True):
            yield javas(reading, len(data))

    with reader:
        yield f"Kafka {VERSION} (Java)", java
