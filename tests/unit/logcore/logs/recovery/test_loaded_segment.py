"""Where a start begins to read in a segment: where offsets rise all lines agree, where they do not they part."""

import pytest

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.recovery.loaded_segment import LoadedSegment
from tests.handmade import simple_batch


def rows(count: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"k", b"v")] * count


def found(content: bytes, offset: int, line: BrokerLine) -> list[int]:
    """Base offsets from where the offset is on."""
    return [header.base_offset for _, header in LoadedSegment(0, content, b"", line).batches(offset)]


@pytest.mark.parametrize("line", BrokerLine)
def test_an_offset_is_found_in_the_batch_that_reaches_it(line: BrokerLine) -> None:
    content = simple_batch(0, rows(3)) + simple_batch(5, rows(3)) + simple_batch(8, rows(2))
    assert found(content, 2, line) == [0, 5, 8]
    assert found(content, 3, line) == [5, 8]
    assert found(content, 7, line) == [5, 8]
    assert found(content, 9, line) == [8]
    assert found(content, 10, line) == []


def test_after_an_old_batch_at_the_end_lines_from_4_0_on_find_nothing() -> None:
    content = simple_batch(0, rows(3)) + simple_batch(5, rows(3)) + simple_batch(0, rows(3))
    assert found(content, 7, BrokerLine.V3_9) == [5, 0]
    assert found(content, 7, BrokerLine.V4_0) == []
    assert found(content, 7, BrokerLine.V4_4) == []


def test_an_end_that_cannot_be_found_is_the_segment_s_base() -> None:
    content = simple_batch(4, rows(1)) + simple_batch(5, rows(3)) + simple_batch(0, rows(3))
    index = bytes.fromhex("00000003") + len(simple_batch(4, rows(1))).to_bytes(4, "big")
    ends = {line: LoadedSegment(4, content, index, line).read_next_offset() for line in BrokerLine}
    assert ends == {BrokerLine.V3_9: 3, BrokerLine.V4_0: 4, BrokerLine.V4_4: 4}
