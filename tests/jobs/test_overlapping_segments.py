"""Segments that overlap: a cleaner's copy, files of two replicas in one directory, a batch twice."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("again", ["the last batch", "the next segment"])
def test_offsets_that_two_segments_have_are_published_once(source, lake, again: str) -> None:
    log = source.partition("a-0")
    log.append(4)
    last = log.append(3)
    log.roll()
    log.append(5)
    first, second = log.segments()
    if again == "the last batch":
        first.with_name(f"{4:020d}.log").write_bytes(last)
    else:
        first.write_bytes(first.read_bytes() + second.read_bytes())
    source.high_watermarks(a_0=12)
    lake.turn(source.path)
    assert sorted(lake.published("a")) == list(range(12))
    assert lake.ledger("a") == [(0, 12, "present")]
