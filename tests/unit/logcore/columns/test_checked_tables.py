"""A table of checked batches says the same as values, as columns, and for indexes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest

from logcore.columns.checking import table_batches
from logcore.columns.checking.batch_columns import batch_columns
from logcore.columns.checking.checked import CheckedSegment
from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.logs.checks.validation import BatchVerdict, SegmentValidation
from tests import handmade
from tests.conftest import Sample
from tests.unit.logcore.columns.checked_segments import good, opened, sample_segments

pytestmark = pytest.mark.slow


def various(sample: Callable[[str], Sample]) -> list[tuple[int, bytes]]:
    kinds = [
        good(0)
        + good(2, attributes=handmade.TRANSACTIONAL, producer_id=5)
        + handmade.marker(4, handmade.ABORT, producer_id=5)
        + handmade.marker(5, handmade.COMMIT, producer_id=5)
        + handmade.empty_batch(6, 3, attributes=handmade.CONTROL)
        + good(10, attributes=handmade.DELETE_HORIZON, base_timestamp=77)
        + good(12, attributes=0x8000 | handmade.LOG_APPEND_TIME)
        + handmade.message(14, attributes=handmade.LOG_APPEND_TIME)
        + handmade.message(15, magic=0)
        + handmade.message(16, attributes=-128)
        + handmade.wrapper_v1([17, 20])
        + handmade.wrapper_v0([21, 22], codec=handmade.LZ4),
        b"".join(good(at) for at in range(0, 40, 2)),
        b"".join(good(at) for at in range(0, 40, 3)),
        b"".join(good(at, leader_epoch=at // 20) for at in range(0, 40, 2)),
    ]
    return [(0, data) for data in kinds] + sample_segments(sample("transactions-4.4.0"), 20_000)


def tables_of(data: bytes, base: int) -> list[tuple[Table, list[BatchVerdict]]]:
    fast = CheckedSegment(data, base_offset=base, sealed=True, file="f")
    _, tables = opened(fast)
    verdicts = list(SegmentValidation(data, base_offset=base, sealed=True, file="f"))
    by_position = {item.position: item for item in verdicts if isinstance(item, BatchVerdict)}
    return [(table, [by_position[at] for at in table[:, batch_row.POSITION].tolist()]) for table in tables]


def test_a_table_as_columns_says_what_the_verdicts_say(sample: Callable[[str], Sample]) -> None:
    seen = 0
    for base, data in various(sample):
        for table, verdicts in tables_of(data, base):
            columns = {name: column.to_pylist() for name, column in batch_columns(table).items()}
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            assert rows == [asdict(verdict) for verdict in verdicts]
            seen += len(rows)
    assert seen > 100


def test_a_table_as_values_says_what_the_verdicts_say(sample: Callable[[str], Sample]) -> None:
    names = list(table_batches.TableBatch.__slots__)
    runs = alone = 0
    for base, data in various(sample):
        for table, verdicts in tables_of(data, base):
            values = list(table_batches.batches_of(table))
            if len(values) == len(table):
                alone += 1
                stated = [{name: getattr(verdict, name) for name in names} for verdict in verdicts]
                assert [asdict(value) for value in values] == stated
            else:
                runs += 1
                (run,) = values
                first, last = verdicts[0], verdicts[-1]
                assert (run.position, run.base_offset, run.last_offset) == (
                    first.position,
                    first.base_offset,
                    last.last_offset,
                )
                assert run.record_count == sum(verdict.record_count for verdict in verdicts)
                assert run.record_count == run.last_offset - run.base_offset + 1
                assert run.max_timestamp == max(verdict.max_timestamp for verdict in verdicts)
                assert {verdict.leader_epoch for verdict in verdicts} == {run.leader_epoch}
                assert not any(
                    verdict.is_control or verdict.is_transactional or verdict.producer_id != -1 for verdict in verdicts
                )
    assert runs > 0
    assert alone > 0


def test_a_table_for_indexes_says_what_the_verdicts_say(sample: Callable[[str], Sample]) -> None:
    for base, data in various(sample):
        for table, verdicts in tables_of(data, base):
            expected = [(each.position, each.base_offset, each.last_offset, each.max_timestamp) for each in verdicts]
            for tables in (
                [table_batches.for_indexes(table)],
                [table_batches.of_verdict(verdict) for verdict in verdicts],
            ):
                found = [
                    (each.position, each.header.base_offset, each.header.last_offset, each.header.max_timestamp)
                    for each in table_batches.indexed(tables)
                ]
                assert found == expected
            assert table_batches.end_of(table) == verdicts[-1].position + verdicts[-1].size
