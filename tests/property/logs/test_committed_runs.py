"""Transactions settled in arrays: rows, findings and ledger are those of one fact for each row.

Rows are drawn with several producers at once, aborts, transactions that stay open, damage, gaps, batches outside of
transactions, and cuts anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from logcore.columns.checking import committed_runs
from logcore.columns.checking.committed_runs import settled_runs
from logcore.columns.checking.fact_runs import each_fact
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import BatchFact, fold
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.transactions import Ongoing, Transaction, TransactionWalk
from tests.property.logs.test_fact_runs import SCHEMA
from tests.sampling import examples

RARE = ("ABORT", "stretch", "empty", "thinned", "plain", "intruder", "gap")


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, int]:
    """Rows of ``batches`` of a log with many small transactions, and its end."""
    luck = random.Random(draw(st.integers(0, 2**32)))
    producers = draw(st.integers(1, 3))
    rare = draw(st.sampled_from([0.0, 0.03, 0.15]))
    rows: list[tuple] = []
    offset = 0
    for number in range(draw(st.integers(0, 60))):
        kind = luck.choice(RARE) if luck.random() < rare else luck.choice(("data", "COMMIT"))
        producer, epoch = luck.randrange(producers), luck.choice([0] * 9 + [1])
        if kind == "gap":
            offset += luck.randint(1, 3)
            continue
        if kind == "stretch":
            rows.append((offset, None, *[None] * 6, "CRC", "s", number * 70, 70, None))
            offset += luck.choice([0, 0, 2])
            continue
        control = kind in ("COMMIT", "ABORT")
        size = 1 if control else luck.randint(2, 3) if kind == "thinned" else luck.choice([1, 1, 1, 2])
        count = 0 if kind == "empty" else size - (kind == "thinned")
        transactional = kind not in ("plain", "intruder")
        mark = kind if control else None
        of_batch = (offset, offset + size - 1, count, -1 if kind == "plain" else producer, epoch)
        rows.append((*of_batch, transactional, control, mark, "ok", "s", number * 70, 70, luck.randint(0, 1)))
        offset += size
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), offset


@pytest.mark.long
@settings(
    derandomize=True,
    max_examples=examples(1500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tables(), st.data())
def test_settled_transactions_are_those_of_each_batch(
    monkeypatch: pytest.MonkeyPatch, drawn: tuple[pa.RecordBatch, int], data: st.DataObject
) -> None:
    monkeypatch.setattr(committed_runs, "LEAST_ROWS", 2)
    table, end = drawn
    offsets = st.one_of(st.just(end), st.just(0), st.integers(0, end))
    log_start, high_watermark = (
        data.draw(st.one_of(*[st.just(0)] * 3, offsets)),
        data.draw(st.one_of(*[st.just(end)] * 3, offsets)),
    )
    more = sorted(data.draw(st.sets(st.integers(0, end), max_size=2)))
    rules = GapRules(data.draw(st.one_of(st.none(), offsets)), data.draw(st.booleans()))
    ongoing = [Ongoing(0, 0, -5, -2)] if data.draw(st.booleans()) else []
    cuts = sorted({0, log_start, high_watermark, *more})
    chunk_rows = data.draw(st.sampled_from([7, 20, 100]))
    chunks = [table.slice(at, chunk_rows) for at in range(0, table.num_rows, chunk_rows)]
    settled: list[pa.RecordBatch] = []

    def walk() -> TransactionWalk:
        return TransactionWalk(
            high_watermark=high_watermark, log_start_offset=log_start, rules=rules, ongoing=ongoing, start_offset=0
        )

    def meaning(facts: Iterator[BatchFact], walk: TransactionWalk) -> tuple:
        folded = list(fold(walk.over(facts), cuts))
        view = walk.view()
        rest = {"log_start_offset": log_start, "high_watermark": high_watermark, "log_end_offset": end}
        held = lambda fact, cut: max(0, fact.record_count - (cut - fact.base_offset))  # noqa: E731
        ledger = list(ledger_ranges(folded, view, start_offset=0, records_from=held, rules=rules, cuts=more, **rest))
        of_arrays = [Transaction(**row) for part in settled for row in part.to_pylist()]
        rows = sorted([*view.transactions, *of_arrays], key=lambda row: (row.first_offset, row.producer_id))
        return rows, view.last_stable_offset, view.findings, ledger

    slow, fast = walk(), walk()
    expected = meaning((fact for chunk in chunks for fact in each_fact(chunk)), slow)
    facts = (fact for chunk in chunks for fact in settled_runs(chunk, cuts, fast, settled))
    assert meaning(facts, fast) == expected
    event(f"transactions settled in arrays: {bool(settled)}")


def test_a_log_of_small_transactions_is_one_fact_a_chunk() -> None:
    pairs = 10_000
    rows = [
        (2 * n + side, 2 * n + side, 1, n % 8, 0, True, bool(side), "COMMIT" if side else None, "ok", "s", 0, 70, 0)
        for n in range(pairs)
        for side in (0, 1)
    ]
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    chunk = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    walk = TransactionWalk(high_watermark=2 * pairs, rules=GapRules(None, False, ()))
    settled: list[pa.RecordBatch] = []
    (fact,) = settled_runs(chunk, [0, 2 * pairs], walk, settled)
    assert (fact.base_offset, fact.last_offset, fact.record_count, fact.markers) == (0, 2 * pairs - 1, pairs, pairs)
    (part,) = settled
    assert part.column("first_offset").to_pylist() == list(range(0, 2 * pairs, 2))
    assert part.column("marker_offset").to_pylist() == list(range(1, 2 * pairs, 2))
