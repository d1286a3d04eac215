"""Every engine gives the records that Kafka's own classes give, on bytes that Kafka's own classes wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available, decode_segment
from logcore.columns.wanted import Place, Wanted
from tests.daemons import WAIT_SECONDS
from tests.kafka import distribution
from tests.kafka.conftest import SEEDS, Produced
from tests.kafka.java_reader import JavaBatch, JavaReader, Reading

pytestmark = pytest.mark.kafka

BATCHES = 400
"""In every segment that Kafka's builder writes for us."""

Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None, int | None, int]
"""Offset, timestamp, timestamp type, key, value, headers, leader epoch, position of the batch."""


@pytest.fixture(scope="module")
def reader(kafka: None) -> Iterator[JavaReader]:
    with JavaReader(answer_bytes=1 << 28, heap="1g") as running:
        yield running


@pytest.fixture(scope="module")
def written(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Segments of all three formats, mixed, by Kafka's own builder."""
    folder = tmp_path_factory.mktemp("written")
    paths = [folder / f"{seed}.log" for seed in SEEDS]
    for seed, path in zip(SEEDS, paths, strict=True):
        command = distribution.command("WriteSegment", seed, str(BATCHES), str(path))
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
    return paths


def batches(reader: JavaReader, path: Path) -> tuple[JavaBatch, ...]:
    content = path.read_bytes()
    reading = reader.read(content)
    assert type(reading) is Reading
    assert reading.size_read == len(content)
    return reading.batches


def theirs(read: tuple[JavaBatch, ...], control: bool) -> list[Row]:
    return [
        (
            record.offset,
            record.timestamp,
            batch.timestamp_type,
            record.key,
            record.value,
            record.headers or None,
            None if batch.leader_epoch < 0 else batch.leader_epoch,
            batch.position,
        )
        for batch in read
        if control or not batch.is_control
        for record in batch.records
    ]


def ours(path: Path, engine: Engine, base_offset: int, control: bool) -> list[Row]:
    rows: list[Row] = []
    for item in decode_segment(
        path.read_bytes(),
        place=Place("topic", 0, "log", "segment"),
        base_offset=base_offset,
        sealed=True,
        wanted=Wanted(control=control),
        engine=engine,
    ):
        assert isinstance(item, pa.RecordBatch), item
        columns = item.to_pydict()
        headers = [
            None if pairs is None else tuple((pair["key"], pair["value"]) for pair in pairs)
            for pairs in columns["headers"]
        ]
        names = ("offset", "timestamp_ms", "timestampType", "key", "value")
        rows += zip(
            *(columns[name] for name in names), headers, columns["leader_epoch"], columns["position"], strict=True
        )
    return rows


@pytest.fixture(params=list(Engine))
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param not in available():
        pytest.skip(f"the engine {request.param} does not work on this machine")
    return request.param


@pytest.mark.long
@pytest.mark.parametrize("control", [False, True], ids=["data", "data-and-control"])
def test_all_segments_of_a_broker(produced: Produced, reader: JavaReader, engine: Engine, control: bool) -> None:
    compared = 0
    for path in produced.segments():
        expected = theirs(batches(reader, path), control)
        # by parts, for the difference of two lists of megabytes is of no use to anyone
        found = ours(path, engine, int(path.stem), control)
        assert [row[0] for row in found] == [row[0] for row in expected], path
        for mine, other in zip(found, expected, strict=True):
            assert mine == other, (path, mine[0])
        compared += len(found)
    assert compared > 2000 * len(SEEDS)


@pytest.mark.long
@pytest.mark.parametrize("control", [False, True], ids=["data", "data-and-control"])
def test_formats_v0_v1_and_v2_in_one_segment(
    written: list[Path], reader: JavaReader, engine: Engine, control: bool
) -> None:
    for path in written:
        read = batches(reader, path)
        assert {batch.magic for batch in read} == {0, 1, 2}
        expected = theirs(read, control)
        assert ours(path, engine, 0, control) == expected, path
