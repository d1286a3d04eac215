"""Segments of brokers for the fast check."""

from __future__ import annotations

from logcore.columns.checking import bulk_rules
from logcore.columns.checking.checked import CheckedSegment
from logcore.columns.decoding.batch_table import Table
from logcore.logs.checks.validation import BatchVerdict
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.conftest import Sample

Items = list[BatchVerdict | Stretch]


def opened(fast: CheckedSegment) -> tuple[Items, list[Table]]:
    """The items of a bulk judgement, tables taken apart; and the tables."""
    items: Items = []
    tables: list[Table] = []
    for item in fast:
        if isinstance(item, BatchVerdict | Stretch):
            items.append(item)
        else:
            items += [bulk_rules.verdict_of(row) for row in item.tolist()]
            tables.append(item)
    return items, tables


def good(offset: int, **fields: int) -> bytes:
    return handmade.simple_batch(offset, [(b"k", b"v")] * 2, **fields)


def sample_segments(case: Sample, most: int) -> list[tuple[int, bytes]]:
    paths = sorted(case.logdir.glob("*/*.log"))
    return [(int(path.stem), path.read_bytes()) for path in paths if 0 < path.stat().st_size <= most]
