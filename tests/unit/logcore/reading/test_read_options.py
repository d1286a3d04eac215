"""The values that say what a read covers."""

import pytest

from logcore.reading.read_options import OffsetRange, ReadOptions, ReadRules


@pytest.mark.parametrize(
    ("offsets", "contained", "outside"),
    [
        (OffsetRange(), [0, 1 << 62], []),
        (OffsetRange(3), [3, 4, 1 << 62], [0, 2]),
        (OffsetRange(None, 5), [0, 4], [5, 6]),
        (OffsetRange(3, 5), [3, 4], [2, 5]),
        (OffsetRange(3, 3), [], [2, 3, 4]),
    ],
)
def test_a_range_contains_its_start_but_not_its_end(
    offsets: OffsetRange, contained: list[int], outside: list[int]
) -> None:
    assert [offset for offset in contained if offset not in offsets] == []
    assert [offset for offset in outside if offset in offsets] == []


@pytest.mark.parametrize(
    ("first", "last", "overlaps"), [(0, 2, False), (0, 3, True), (4, 4, True), (4, 9, True), (5, 9, False)]
)
def test_a_batch_overlaps_a_range_if_any_of_its_offsets_is_in_it(first: int, last: int, overlaps: bool) -> None:
    assert OffsetRange(3, 5).overlaps(first, last) is overlaps


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"isolation_level": "committed"}, "read_uncommitted or read_committed, not 'committed'"),
        ({"high_watermark": -1}, "-1 is negative"),
        ({"high_watermark": "latest"}, "checkpoint, log-end or an offset, not 'latest'"),
    ],
)
def test_rules_that_do_not_exist_are_refused(rules: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadRules(**rules)


def test_options_without_values_choose_everything_that_a_consumer_sees() -> None:
    options = ReadOptions()
    assert options.selection.is_everything
    assert options.offsets == OffsetRange(None, None)
    assert options.rules == ReadRules("read_uncommitted", "checkpoint", show_all=False)
    assert options.is_compacted is None
