"""Segments that every engine decodes, for the tests of all engines."""

from __future__ import annotations

from tests import handmade

MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1

HEADERS = [(b"trace", b"\x00\x01"), ("ключ".encode(), None), (b"", b"")]

ONE_OF_EACH = (
    handmade.batch(
        [
            handmade.record(0, b"k", b"v", headers=HEADERS),
            handmade.record(1, None, None, timestamp_delta=5),
            handmade.record(2, b"", b"", timestamp_delta=-1001),
        ],
        leader_epoch=7,
        base_timestamp=1000,
        max_timestamp=1005,
    )
    + handmade.batch(
        [handmade.record(0, headers=[(b"\xff", b"x"), (b"a", None)])],
        base_offset=5,
        leader_epoch=-1,
        base_timestamp=99,
        max_timestamp=253_402_300_800_000,
        attributes=handmade.LOG_APPEND_TIME,
    )
    + handmade.message_v0(6, None, b"old")
)
