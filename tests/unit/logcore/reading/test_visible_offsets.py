"""Which offsets of a log are visible, for each choice of the rules."""

import pytest

from logcore.logs.model.sources import SourceLog
from logcore.reading.read_options import HighWatermark, OffsetRange, ReadRules
from logcore.reading.visible_offsets import (
    Window,
    committed_end,
    requested_high_watermark,
    visible_high_watermark,
    visible_window,
)
from logcore.segments.filenames import MAX_OFFSET
from logcore.storage.discovery import discover
from tests.broker_directory import LogDirectory


@pytest.fixture
def orders(logs: LogDirectory) -> SourceLog:
    """`orders-0` with the log start 1."""
    logs.checkpoint("log-start", orders_0=1)
    (log,) = discover([str(logs.path / "orders-0")]).logs
    return log


@pytest.mark.parametrize(
    ("chosen", "ranges"),
    [
        (OffsetRange(), ((2, 4), (6, 8), (9, 20))),
        (OffsetRange(5, 7), ((6, 7),)),
        (OffsetRange(4, 6), ()),
        (OffsetRange(0, 3), ((2, 3),)),
        (OffsetRange(3, 10), ((3, 4), (6, 8), (9, 10))),
        (OffsetRange(20), ()),
        (OffsetRange(None, 2), ()),
    ],
)
def test_ranges_leave_hidden_batches_out(chosen: OffsetRange, ranges: tuple[tuple[int, int], ...]) -> None:
    assert Window(2, 20, ((4, 6), (8, 9))).ranges(chosen) == ranges


@pytest.mark.parametrize(
    ("rules", "window"),
    [
        (ReadRules(), Window(1, 8)),
        (ReadRules(high_watermark=6), Window(1, 6)),
        (ReadRules(high_watermark="log-end"), Window(1, MAX_OFFSET)),
        (ReadRules(show_all=True), Window(0, MAX_OFFSET)),
        (ReadRules(high_watermark=6, show_all=True), Window(0, 6)),
        (ReadRules("read_committed"), Window(1, 8, ((2, 3),))),
        (ReadRules("read_committed", 3), Window(1, 2)),
    ],
)
def test_the_rules_decide_about_start_end_and_hidden_batches(
    orders: SourceLog, rules: ReadRules, window: Window
) -> None:
    assert visible_window(orders, rules) == window


def test_a_named_file_shows_everything(logs: LogDirectory) -> None:
    logs.checkpoint("log-start", orders_0=1)
    (log,) = discover([str(logs.path / "orders-0" / f"{0:020d}.log")]).logs
    assert visible_window(log, ReadRules()) == Window(0, MAX_OFFSET)
    assert requested_high_watermark(log, "checkpoint") is None


@pytest.mark.parametrize(("choice", "requested"), [("checkpoint", 8), ("log-end", None), (3, 3), (99, 99)])
def test_a_stated_offset_replaces_the_checkpoint(
    orders: SourceLog, choice: HighWatermark, requested: int | None
) -> None:
    assert requested_high_watermark(orders, choice) == requested
    assert visible_high_watermark(orders, choice, log_end_offset=10) == min(10 if requested is None else requested, 10)


@pytest.mark.parametrize(("choice", "end"), [("checkpoint", 8), ("log-end", MAX_OFFSET), (3, 3)])
def test_offsets_are_committed_up_to_the_high_watermark(orders: SourceLog, choice: HighWatermark, end: int) -> None:
    assert committed_end(orders, choice) == end
