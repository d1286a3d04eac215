"""The same bytes through every engine: rows and stretches must be equal to the reference's."""

import importlib.util
from functools import cache

import pyarrow as pa

from logcore.columns.engines import Engine, available, decode_segment
from logcore.columns.kernels.families import FAMILIES
from logcore.columns.kernels.library import library
from logcore.columns.wanted import Place, Wanted
from logcore.records.record import Limits
from logcore.segments.scanning.scan import Stretch
from tests.fuzz.injuries import SMALL

PLACE = Place("t", 0, "log", "segment")
ALL = Wanted(control=True)
"""Control records too, so that no batch is passed over unread."""

Outcome = list[pa.Table | Stretch]


@cache
def fast_engines() -> tuple[Engine, ...]:
    """Those of this machine that are not the reference. Kernels that are broken are no machine without kernels."""
    if importlib.util.find_spec("numba") is not None:
        library().load(FAMILIES)  # raises, and says why
    return tuple(engine for engine in available() if engine is not Engine.REFERENCE)


def outcome(
    data: bytes | bytearray | memoryview,
    base_offset: int,
    engine: Engine,
    *,
    sealed: bool = True,
    wanted: Wanted = ALL,
    limits: Limits = SMALL,
) -> Outcome:
    """Rows and stretches in order; rows with nothing between them are one table, however the engine cut them."""
    found: Outcome = []
    run: list[pa.RecordBatch] = []
    for item in decode_segment(
        data, place=PLACE, base_offset=base_offset, sealed=sealed, wanted=wanted, limits=limits, engine=engine
    ):
        if isinstance(item, Stretch):
            if run:
                found.append(pa.Table.from_batches(run, wanted.schema))
                run = []
            found.append(item)
        else:
            assert item.num_rows, "an empty piece"
            run.append(item)
    if run:
        found.append(pa.Table.from_batches(run, wanted.schema))
    return found


def equal(one: Outcome, other: Outcome) -> bool:
    """The same rows, nulls and stretches; Arrow's own comparison, so a difference in null and empty counts."""
    return len(one) == len(other) and all(
        type(left) is type(right) and (left.equals(right) if isinstance(left, pa.Table) else left == right)
        for left, right in zip(one, other, strict=True)
    )


def disagreeing(data: bytes, base_offset: int, *, sealed: bool = True, wanted: Wanted = ALL) -> list[Engine]:
    """The fast engines that do not give what the reference gives."""
    right = outcome(data, base_offset, Engine.REFERENCE, sealed=sealed, wanted=wanted)
    return [
        engine
        for engine in fast_engines()
        if not equal(outcome(data, base_offset, engine, sealed=sealed, wanted=wanted), right)
    ]
