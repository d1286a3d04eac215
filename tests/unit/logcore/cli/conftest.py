"""A small log directory, packed by hand, that the command line looks at."""

import struct
from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import topic_id_of

TOPIC_ID = "qesnf9AHR5-Xtl7tnUTbTA"


def record(delta: int, key: bytes | None, value: bytes | None, headers: handmade.Headers = ()) -> bytes:
    return handmade.record(delta, key, value, timestamp_delta=delta, headers=headers)


FIRST = handmade.batch(
    [
        record(0, b"k1", None, [(b"trace", b"\x00\x01"), (b"trace", None)]),
        record(1, None, b""),
        record(2, b"\xff", b"v3"),
    ],
    base_offset=0,
    base_timestamp=1_700_000_000_000,
    max_timestamp=1_700_000_000_002,
    leader_epoch=3,
)
ABORTED = handmade.batch(
    [record(0, b"a", b"lost")],
    base_offset=3,
    base_timestamp=1_700_000_000_100,
    attributes=handmade.TRANSACTIONAL,
    producer_id=9,
    producer_epoch=0,
    base_sequence=0,
    leader_epoch=3,
)
ABORT = handmade.marker(4, handmade.ABORT, producer_id=9, base_timestamp=1_700_000_000_200, leader_epoch=3)
COMMITTED = handmade.batch(
    [record(0, b"c", b"kept")],
    base_offset=5,
    base_timestamp=1_700_000_000_300,
    attributes=handmade.TRANSACTIONAL,
    producer_id=9,
    producer_epoch=0,
    base_sequence=1,
    leader_epoch=3,
)
COMMIT = handmade.marker(6, handmade.COMMIT, producer_id=9, base_timestamp=1_700_000_000_400, leader_epoch=3)
LAST = handmade.batch([record(0, b"k2", b"end")], base_offset=7, base_timestamp=1_700_000_000_500, leader_epoch=-1)

SEALED = FIRST + ABORTED + ABORT
ACTIVE = COMMITTED + COMMIT + LAST
LOG_END = 8
UNDER_WAY = handmade.simple_batch(LOG_END, [(b"k", b"v")])[:-1]


def identify(directory: Path) -> None:
    """Write the `partition.metadata` of a log of one more topic."""
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_of(directory.name)}")


def write_checkpoint(root: Path, name: str, **offsets: int) -> None:
    lines = ["0", str(len(offsets)), *(f"{topic} 0 {offset}" for topic, offset in offsets.items())]
    (root / name).write_text("\n".join(lines) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`orders-0`: offsets 0 to 8 in two segments, high watermark at the end; one aborted and one committed record."""
    path = tmp_path / "logs"
    orders = path / "orders-0"
    orders.mkdir(parents=True)
    (orders / "00000000000000000000.log").write_bytes(SEALED)
    (orders / "00000000000000000005.log").write_bytes(ACTIVE)
    (orders / "00000000000000000000.index").write_bytes(struct.pack(">ii", 3, len(FIRST)) + bytes(16))
    (orders / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", 1_700_000_000_200, 4))
    (orders / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (orders / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    (path / "meta.properties").write_text("version=1\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nnode.id=1\n")
    write_checkpoint(path, "replication-offset-checkpoint", orders=LOG_END)
    return path
