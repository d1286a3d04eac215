"""The kernels and the scan report the same end of a segment, on any bytes."""

from __future__ import annotations

import random

import pytest

from logcore.columns.engines import ENGINE_VARIABLE, segment_reading
from logcore.segments.scanning.scan import ScannedBatch
from tests import handmade

WHOLE = (
    handmade.simple_batch(0, [(b"k", b"v")] * 3, max_timestamp=70)
    + handmade.message_v1(5, 90, b"k", b"v")
    + handmade.wrapper_v1([7, 8])
    + handmade.wrapper_v0([10, 12])
    + handmade.simple_batch(20, [(b"k", None)] * 2, max_timestamp=80)
)


def extent(data: bytes, engine: str, patch: pytest.MonkeyPatch, *, sealed: bool) -> tuple[object, ...]:
    patch.setenv(ENGINE_VARIABLE, engine)
    reading = segment_reading()(data, 0, sealed, None, None)
    return reading.next_offset, reading.max_timestamp, _place(reading.last_batch)


def _place(batch: ScannedBatch | None) -> tuple[object, ...] | None:
    return None if batch is None else (batch.position, batch.header)


def test_all_formats_are_gone_over(monkeypatch: pytest.MonkeyPatch) -> None:
    next_offset, greatest, last = extent(WHOLE, "kernels", monkeypatch, sealed=True)
    assert (next_offset, greatest) == (22, 1008)  # of the first wrapper: 1000 and its offset
    assert last is not None
    assert last[0] == len(WHOLE) - len(handmade.simple_batch(20, [(b"k", None)] * 2))


@pytest.mark.parametrize("sealed", [True, False])
def test_cut_anywhere_both_stop_at_the_same_batch(sealed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(len(WHOLE)):
        data = handmade.cut(WHOLE, length)
        ours = extent(data, "kernels", monkeypatch, sealed=sealed)
        assert ours == extent(data, "reference", monkeypatch, sealed=sealed), length


def test_both_report_the_same_end_of_a_segment_damaged_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(4)
    for _ in range(300):
        data = handmade.flip(WHOLE, chosen.randrange(len(WHOLE)), chosen.randrange(8))
        ours = extent(data, "kernels", monkeypatch, sealed=True)
        assert ours == extent(data, "reference", monkeypatch, sealed=True)
