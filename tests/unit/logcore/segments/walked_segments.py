"""A segment of three batches, a walk over a segment, and what came of it."""

from logcore.errors import CorruptionReason
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from tests import handmade

ROWS = [(b"k1", b"v1"), (None, b""), (b"", None)]

FIRST = handmade.simple_batch(10, ROWS, leader_epoch=3)

SECOND = handmade.simple_batch(13, ROWS, leader_epoch=3)

THIRD = handmade.simple_batch(16, ROWS, leader_epoch=4)

SEGMENT = FIRST + SECOND + THIRD

BASE = 10


def walk(
    data: bytes, *, sealed: bool = True, decode: bool = True, base_offset: int = BASE, **options: int
) -> SegmentScan:
    """A finished scan of which the items are in `.items`, and whose bytes add up."""
    finished = SegmentScan(data, base_offset=base_offset, sealed=sealed, decode=decode, **options)  # type: ignore[arg-type]
    items = list(finished)
    assert_accounted(data, finished, items)
    finished.items = items  # type: ignore[attr-defined]
    return finished


def assert_accounted(data: bytes, finished: SegmentScan, items: list[ScannedBatch | Stretch]) -> None:
    """Items tile the file in order up to the padding, and the sums say the same."""
    position = 0
    sums = {"valid": 0, "quarantined": 0, "tail": 0}
    for item in items:
        assert item.position == position
        assert item.size > 0
        position += item.size
        sums["valid" if isinstance(item, ScannedBatch) else "tail" if item.tail else "quarantined"] += item.size
    accounting = finished.accounting
    assert accounting.file_size == len(data)
    assert (accounting.valid, accounting.quarantined, accounting.tail) == tuple(sums.values())
    assert position + accounting.padding == len(data)
    assert not any(data[position:])


def good(finished: SegmentScan) -> list[int]:
    return [item.header.base_offset for item in finished.items if isinstance(item, ScannedBatch)]  # type: ignore[attr-defined]


def bad(finished: SegmentScan) -> list[tuple[int, int, CorruptionReason]]:
    items = finished.items  # type: ignore[attr-defined]
    return [(item.position, item.size, item.reason) for item in items if isinstance(item, Stretch)]


def repaired(finished: SegmentScan) -> list[int]:
    items = finished.items  # type: ignore[attr-defined]
    return [item.position for item in items if isinstance(item, Stretch) and item.is_repaired]


OLD = [
    handmade.message_v0(10, b"key", b"value"),
    handmade.wrapper_v0([11, 12, 14], codec=handmade.LZ4),
    handmade.message_v1(15, 5, b"k", None),
    handmade.wrapper_v1([16, 17, 19], codec=handmade.SNAPPY),
    handmade.simple_batch(20, ROWS),
    handmade.wrapper_append_time([23, 24], 77),
    handmade.message_v0(25, None, b"v"),
]
