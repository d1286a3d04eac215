"""The rows are written down by hand from UnifiedLog.updateHighWatermark and maybeIncrementFirstUnstableOffset."""

import pytest

from logcore.logs.model import readable_end
from logcore.segments.filenames import MAX_OFFSET


@pytest.mark.parametrize(
    ("stated", "log_start", "log_end", "expected"),
    [
        (7, 5, 9, 7),
        (5, 5, 9, 5),
        (9, 5, 9, 9),
        (3, 5, 9, 5),
        (12, 5, 9, 9),
        (None, 5, 9, 9),
        (None, 5, 5, 5),
        (3, 8, 6, 6),
        (12, 8, 6, 6),
    ],
)
def test_the_high_watermark_lies_in_the_log(stated: int | None, log_start: int, log_end: int, expected: int) -> None:
    assert readable_end.high_watermark(stated, log_start_offset=log_start, log_end_offset=log_end) == expected


def test_a_bound_that_is_left_out_moves_nothing() -> None:
    assert readable_end.high_watermark(12) == 12
    assert readable_end.high_watermark(0, log_end_offset=9) == 0
    assert readable_end.high_watermark(None) == MAX_OFFSET


@pytest.mark.parametrize(
    ("first_unstable", "high_watermark", "log_start", "expected"),
    [
        (None, 9, 5, 9),
        (7, 9, 5, 7),
        (9, 9, 5, 9),
        (12, 9, 5, 9),
        (3, 9, 5, 5),
        (3, 4, 5, 4),
        (None, 4, 5, 4),
    ],
)
def test_the_last_stable_offset_lies_between_log_start_and_high_watermark(
    first_unstable: int | None, high_watermark: int, log_start: int, expected: int
) -> None:
    found = readable_end.last_stable_offset(first_unstable, high_watermark=high_watermark, log_start_offset=log_start)
    assert found == expected
