"""Mixed and overlapping files become files of one log each, which reach over none that stays; all rows go along."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np

from spark_jobs.lake.delta.files.file_contents import FileContents, OffsetCounts
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.row_files.file_order import Order, orders_of, to_open

Rows = dict[tuple[str, int], list[int]]
OWN = "topic=t/part-0123456789abcdef0123456789abcd{:02x}.parquet"


def file(path: str, rows: Rows, size: int = 1000) -> tuple[LiveFile, FileContents]:
    offsets = [o for found in rows.values() for o in found]
    least = {"partition": min(p for _, p in rows), "log_id": min(i for i, _ in rows), "offset": min(offsets)}
    greatest = {"partition": max(p for _, p in rows), "log_id": max(i for i, _ in rows), "offset": max(offsets)}
    live = LiveFile(path, size, len(offsets), {"topic": "t"}, least, greatest)
    logs = {key: OffsetCounts.of(np.array(found, dtype=np.int64)) for key, found in rows.items()}
    return live, FileContents(logs, len(rows) == 1 and offsets == sorted(offsets))


def planned(*pairs: tuple[LiveFile, FileContents], target: int = 10**6, ends=None) -> list[Order]:
    files = [live for live, _ in pairs]
    held = {live.path: contents for live, contents in pairs}
    contents: dict[str, FileContents] = {}
    while left := to_open(files, {}, contents):
        contents |= {live.path: held[live.path] for live in left}
    return orders_of("records", "t", files, contents, {}, target, ends)


def spans(order: Order) -> list[tuple[str, int, int, int, int]]:
    return [(o.log_id, o.partition, o.start, o.end, o.rows) for o in order.outputs]


def test_files_of_ours_that_do_not_overlap_are_neither_opened_nor_ordered():
    files = [file(OWN.format(at), {("a", 0): [*range(at * 10, at * 10 + 10)]})[0] for at in range(5)]
    assert to_open(files, {}, {}) == []
    assert orders_of("records", "t", files, {}, {}, 100) == []


def test_a_file_of_several_logs_becomes_one_of_each():
    mixed = file("x.parquet", {("a", 0): [*range(10)], ("a", 1): [*range(5)], ("b", 0): [3, 4]})
    [order] = planned(mixed, file(OWN.format(1), {("a", 0): [*range(10, 20)]}))
    assert [each.path for each in order.files] == ["x.parquet"]
    assert spans(order) == [("a", 0, 0, 10, 10), ("a", 1, 0, 5, 5), ("b", 0, 3, 5, 2)]


def test_a_foreign_file_in_order_stays_and_one_out_of_order_does_not():
    assert planned(file("x.parquet", {("a", 0): [1, 2, 3]})) == []
    [order] = planned(file("x.parquet", {("a", 0): [2, 1, 3]}))
    assert spans(order) == [("a", 0, 1, 4, 3)]


def test_files_that_overlap_are_ordered_together_and_no_output_reaches_over_a_file_that_stays():
    even, odd = ([*range(0, 10, 2)], [*range(1, 10, 2)])
    stays = file(OWN.format(9), {("a", 0): [*range(10, 20)]})
    late = file("late.parquet", {("a", 0): [25, 21]})
    orders = planned(file(OWN.format(0), {("a", 0): even}), file(OWN.format(1), {("a", 0): odd}), stays, late)
    assert [(len(order.files), spans(order)) for order in orders] == [
        (2, [("a", 0, 0, 10, 10)]),
        (1, [("a", 0, 21, 26, 2)]),
    ] or [(len(order.files), spans(order)) for order in orders] == [
        (1, [("a", 0, 21, 26, 2)]),
        (2, [("a", 0, 0, 10, 10)]),
    ]


def test_an_output_ends_where_the_undecided_section_begins():
    [order] = planned(file("x.parquet", {("a", 0): [*range(10)], ("b", 0): [1]}), ends={"a/0": 4, "b/0": None})
    assert spans(order) == [("a", 0, 0, 4, 4), ("a", 0, 4, 10, 6), ("b", 0, 1, 2, 1)]


def test_a_large_log_is_cut_into_files_near_the_target_and_tasks_of_as_much():
    [order] = planned(file("x.parquet", {("a", 0): [*range(1000)], ("b", 0): [0]}, size=1_000_000), target=100_000)
    assert [(o.start, o.end) for o in order.outputs[:-1]] == list(pairwise(range(0, 1001, 100)))
    assert all(sum(o.size for o in task) <= 100_001 for task in order.tasks)


def test_whatever_files_hold_all_their_rows_go_into_outputs_once():
    chance = random.Random(11)
    for _ in range(200):
        pairs = []
        for number in range(chance.randrange(1, 8)):
            keys = chance.sample([("a", 0), ("a", 1), ("b", 0)], chance.randrange(1, 4))
            rows = {key: [chance.randrange(80) for _ in range(chance.randrange(1, 30))] for key in keys}
            if len(keys) == 1 and chance.random() < 0.5:
                start = chance.randrange(80)
                pairs.append(file(OWN.format(number), {keys[0]: [*range(start, start + 9)]}))
            else:
                pairs.append(file(f"{number}.parquet", rows))
        ends = {"a/0": chance.randrange(90)} if chance.random() < 0.5 else None
        orders = planned(*pairs, target=chance.choice([10**6, 700]), ends=ends)
        contents = {live.path: held for live, held in pairs}
        taken = Counter(each.path for order in orders for each in order.files)
        assert not taken or max(taken.values()) == 1
        stays = [held for path, held in contents.items() if path not in taken]
        spans_after: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for held in stays:
            assert held.is_ordered
            for key, offsets in held.logs.items():
                spans_after.setdefault(key, []).append((offsets.start, offsets.end))
        for order in orders:
            for output in order.outputs:
                key = output.log_id, output.partition
                parts = [contents[path].logs[key].clipped(output.start, output.end) for path in output.paths]
                assert OffsetCounts.together(parts).digest() == output.digest
                held = OffsetCounts.together(parts)
                spans_after.setdefault(key, []).append((held.start, held.end))
                assert ends is None or key != ("a", 0) or not held.start < ends["a/0"] < held.end
            assert sum(output.rows for output in order.outputs) == order.rows
            assert order.rows == sum(contents[each.path].rows for each in order.files)
        for found in spans_after.values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(found)))
