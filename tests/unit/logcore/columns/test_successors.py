"""Of two batches that claim the same offsets, every engine refuses the one that the scan refuses."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available, decode_segment
from logcore.columns.wanted import Place
from tests import handmade

pytestmark = pytest.mark.slow

PLACE = Place("t", 0, "l", "s")


def read(data: bytes, engine: Engine) -> tuple[list[int], list[object]]:
    items = list(decode_segment(data, place=PLACE, base_offset=0, sealed=True, engine=engine))
    rows = [row for item in items if isinstance(item, pa.RecordBatch) for row in item["offset"].to_pylist()]
    return rows, [item for item in items if not isinstance(item, pa.RecordBatch)]


def message(offset: int) -> bytes:
    return handmade.message_v1(offset, 1000, b"k", b"v")


def v2(base: int, count: int) -> bytes:
    return handmade.simple_batch(base, [(b"k", b"v")] * count)


CLAIMS = {
    "a message with a wrapper behind that begins before it": message(2) + message(10) + handmade.wrapper_v1([8, 9, 12]),
    "a wrapper with a wrapper behind that begins before it": handmade.wrapper_v1([2, 3])
    + handmade.wrapper_v1([10, 12])
    + handmade.wrapper_v1([8, 9, 13]),
    "a v2 batch with a wrapper behind that begins before it": v2(0, 2) + v2(10, 2) + handmade.wrapper_v1([7, 8, 20]),
    "a wrapper that begins inside the one before, which follows without a gap": handmade.wrapper_v1([0, 1, 2])
    + handmade.wrapper_v1([3, 4])
    + handmade.wrapper_v1([4, 9]),
    "a wrapper of v0 the same way": handmade.wrapper_v0([2, 3])
    + handmade.wrapper_v0([10, 12])
    + handmade.wrapper_v0([8, 13]),
    "a gap, and nobody claims it": message(2) + message(10) + handmade.wrapper_v1([11, 14]) + v2(20, 3),
}


def test_the_kernels_work_where_their_packages_are() -> None:
    """Without them every test of theirs would pass on another engine."""
    pytest.importorskip("numba", reason="there is no Numba for this machine, so there are no kernels")
    assert Engine.KERNELS in available()


@pytest.mark.parametrize("data", CLAIMS.values(), ids=CLAIMS.keys())
@pytest.mark.parametrize("engine", [each for each in available() if each is not Engine.REFERENCE])
def test_the_same_of_two_is_refused(data: bytes, engine: Engine) -> None:
    assert read(data, engine) == read(data, Engine.REFERENCE)


@pytest.mark.long
@pytest.mark.parametrize("engine", [each for each in available() if each is not Engine.REFERENCE])
def test_all_engines_agree_on_any_three_overlapping_batches(engine: Engine) -> None:
    makers = [
        lambda start: message(start + 2),
        lambda start: handmade.wrapper_v1([start, start + 2]),
        lambda start: handmade.wrapper_v0([start, start + 1]),
        lambda start: v2(start, 3),
    ]
    starts = (0, 1, 4)
    for chosen in itertools.product(makers, repeat=3):
        for offsets in itertools.product(starts, (0, 3, 5), (2, 4, 9)):
            data = b"".join(make(start) for make, start in zip(chosen, offsets, strict=True))
            assert read(data, engine) == read(data, Engine.REFERENCE), offsets
