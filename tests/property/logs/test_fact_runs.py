"""Neighbours made one fact before anything looks at them: transactions, findings and ledger come out the same.

The plain way, one fact a row, is the specification; rows are drawn with damage, gaps, batches with holes, transactions
of several producers, idempotent producers that are in a transaction elsewhere, and cuts anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from logcore.columns.checking.fact_runs import FACT_COLUMNS, each_fact, fact_runs
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import BatchFact, fold
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.transactions import TransactionWalk
from tests.sampling import examples

SCHEMA = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("record_count", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("is_transactional", pa.bool_()),
        ("is_control", pa.bool_()),
        ("control_type", pa.dictionary(pa.int32(), pa.string())),
        ("verdict", pa.dictionary(pa.int32(), pa.string())),
        ("segment_id", pa.dictionary(pa.int32(), pa.string())),
        ("position", pa.int64()),
        ("size", pa.int64()),
        ("leader_epoch", pa.int32()),
    ]
)
KINDS = ["plain"] * 8 + ["idempotent"] * 6 + ["transactional"] * 6 + ["COMMIT", "ABORT", "stretch", "empty", "thinned"]


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, int]:
    """Rows of ``batches`` of a log and its end."""
    luck = random.Random(draw(st.integers(0, 2**32)))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=40))
    rows: list[tuple] = []
    offset = 0
    for number, kind in enumerate(kinds):
        if luck.random() < 0.08:
            offset += luck.randint(1, 3)
        size = luck.randint(1, 3) if kind == "thinned" or luck.random() < 0.3 else 1
        producer, epoch = luck.choice([1, 1, 1, 2]), luck.choice([0] * 9 + [1])
        if kind == "stretch":
            rows.append((offset, None, *[None] * 6, "CRC", "s", number * 70, 70, None))
            offset += luck.choice([0, 0, 2])
            continue
        control = kind in ("COMMIT", "ABORT")
        size = 1 if control else size
        count = 0 if kind == "empty" else max(1, size - 1) if kind == "thinned" else size
        transactional = control or kind == "transactional"
        producer = producer if transactional or kind == "idempotent" else -1
        mark = kind if control else None
        said = (offset, offset + size - 1, count, producer, epoch, transactional, control, mark, "ok")
        rows.append((*said, "s", number * 70, 70, luck.randint(0, 1)))
        offset += size
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), offset


def view_and_ledger(facts: Iterator[BatchFact], walk: TransactionWalk, given: dict, cuts: list[int]) -> tuple:
    folded = list(fold(walk.over(facts), cuts))
    view = walk.view()
    held = lambda fact, cut: max(0, fact.record_count - (cut - fact.base_offset))  # noqa: E731
    return view, list(ledger_ranges(folded, view, start_offset=0, records_from=held, **given))


@settings(derandomize=True, max_examples=examples(600), deadline=None)
@given(tables(), st.data())
def test_runs_of_batches_mean_what_the_batches_mean(drawn: tuple[pa.RecordBatch, int], data: st.DataObject) -> None:
    table, end = drawn
    offsets = st.one_of(st.just(0), st.just(end), st.integers(0, end))
    log_start, high_watermark = data.draw(offsets), data.draw(offsets)
    more = sorted(data.draw(st.sets(st.integers(0, end), max_size=3)))
    rules = GapRules(data.draw(st.one_of(st.none(), offsets)), data.draw(st.booleans()))
    cuts = sorted({0, log_start, high_watermark, *more})
    given = {"log_start_offset": log_start, "high_watermark": high_watermark, "log_end_offset": end}
    given |= {"rules": rules, "cuts": more}
    chunk_rows = data.draw(st.sampled_from([1, 5, 100]))
    chunks = [table.slice(at, chunk_rows) for at in range(0, table.num_rows, chunk_rows)]

    def walk() -> TransactionWalk:
        return TransactionWalk(high_watermark=high_watermark, log_start_offset=log_start, rules=rules)

    slow, fast = walk(), walk()
    taken = 0

    def runs() -> Iterator[BatchFact]:
        nonlocal taken
        for chunk in chunks:
            for fact in fact_runs(chunk, cuts, lambda: fast.open_producers):
                taken += 1
                yield fact

    expected = view_and_ledger((fact for chunk in chunks for fact in each_fact(chunk)), slow, given, cuts)
    assert view_and_ledger(runs(), fast, given, cuts) == expected
    event("fewer facts than rows" if taken < table.num_rows else "as many facts as rows")
    event(f"findings: {bool(expected[0].findings)}")


def test_a_plain_log_is_one_fact_a_chunk() -> None:
    rows = 50_000
    values = {name: [0] * rows for name in ("producer_epoch", "position", "size", "leader_epoch")}
    values |= {"base_offset": list(range(rows)), "last_offset": list(range(rows)), "record_count": [1] * rows}
    values |= {"producer_id": [n % 7 for n in range(rows)], "segment_id": ["s"] * rows, "verdict": ["ok"] * rows}
    values |= {name: [False] * rows for name in ("is_transactional", "is_control")} | {"control_type": [None] * rows}
    chunk = pa.RecordBatch.from_pydict({name: values[name] for name in FACT_COLUMNS}, schema=SCHEMA)
    facts = list(fact_runs(chunk, [0, 20_000], lambda: {99}))
    assert [(f.base_offset, f.last_offset, f.record_count) for f in facts] == [
        (0, 19_999, 20_000),
        (20_000, 49_999, 30_000),
    ]


@settings(derandomize=True, max_examples=examples(100), deadline=None)
@given(tables())
def test_where_every_offset_is_a_cut_each_batch_has_the_fact_of_its_row(drawn: tuple[pa.RecordBatch, int]) -> None:
    chunk, end = drawn
    assert list(fact_runs(chunk, range(end + 1), lambda: ())) == list(each_fact(chunk))
