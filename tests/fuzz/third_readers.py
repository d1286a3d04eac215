"""Readers of Kafka's formats that others wrote, behind one call: batches in, opinions out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.fuzz.campaign import ThirdReader
from tests.fuzz.opinions import Opinion, PlainRow, javas
from tests.kafka.distribution import VERSION, Unavailable
from tests.kafka.java_reader import JavaReader


@contextmanager
def third_reader() -> Iterator[tuple[str, ThirdReader]]:
    """Kafka's own classes where a JDK and the jars are there, else aiokafka; with what to call it."""
    try:
        reader = JavaReader()
    except Unavailable as reason:
        yield f"aiokafka, because Kafka's classes cannot be run here: {reason}", _aiokafka
        return

    def java(batches: Sequence[bytes]) -> Iterator[Opinion]:
        for data, reading in zip(batches, reader.read_all(batches), strict=True):
            yield javas(reading, len(data))

    with reader:
        yield f"Kafka {VERSION} (Java)", java


def _aiokafka(batches: Sequence[bytes]) -> Iterator[Opinion]:
    """aiokafka's reader, whose refusals are many kinds of exception. It knows no span of offsets and no control batch
    of v1, so an opinion of it is complete only in its rows."""
    from aiokafka.record import MemoryRecords

    for data in batches:
        try:
            records = MemoryRecords(data)
            batch = records.next_batch()
            if batch is None:
                yield Opinion("ends without a word")
                continue
            if not batch.validate_crc():
                yield Opinion("CRC")
                continue
            rows = tuple(
                PlainRow(row.offset, -1 if row.timestamp is None else row.timestamp, row.key, row.value, row.headers)
                for row in batch
            )
        except Exception as error:  # noqa: BLE001 - whatever it raises is its refusal
            yield Opinion(type(error).__name__)
            continue
        yield Opinion(None, rows=tuple(row._replace(headers=tuple(row.headers)) for row in rows))
