"""Which small files become one: never across logs or what lies between, and a second look finds nothing."""

from __future__ import annotations

import random
from itertools import pairwise

from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.optimize.file_runs import FILE_OVERHEAD, FULL_ROWS, SEPARATED_FILES, Sizes, log_merges, state_merges

MB = 1 << 20
SIZES = Sizes(small=32 * MB, target=128 * MB)
ONE_LOG = {("orders", 0): ["a"], ("orders", 1): ["b"]}


def _file(start: int, end: int, size: int = MB, partition: int = 0, log_id: str | None = "a", topic="orders"):
    told = {"partition": partition, "offset": start} | ({"log_id": log_id} if log_id else {})
    path = f"{topic}-{partition}-{log_id}-{start}-{size}"
    return LiveFile(path, size, end - start, {"topic": topic}, told, told | {"offset": end - 1})


def _starts(files, ends=None, log_ids=ONE_LOG):
    merges, unplaced = log_merges("records", files, SIZES, log_ids, ends)
    return [[file.least["offset"] for file in merge.files] for merge in merges], unplaced


def test_small_neighbours_are_merged_in_offset_order_whatever_order_the_log_names_them_in():
    files = [_file(start, start + 10) for start in range(0, 50, 10)]
    random.Random(1).shuffle(files)
    assert _starts(files) == ([[0, 10, 20, 30, 40]], [])


def test_a_file_that_is_not_small_is_never_jumped_over():
    files = [_file(0, 10), _file(10, 20), _file(20, 30, 64 * MB), _file(30, 40), _file(40, 50)]
    assert _starts(files)[0] == [[0, 10], [30, 40]]


def test_one_small_file_among_large_ones_stays():
    files = [_file(0, 10, 64 * MB), _file(10, 20), _file(20, 30, 64 * MB), _file(30, 40)]
    assert _starts(files)[0] == []


def test_logs_and_partitions_are_never_joined():
    of_earlier = [_file(0, 10, log_id="a.0"), _file(10, 20, log_id="a.0")]
    of_later = [_file(5, 8, log_id="a.1"), _file(8, 12, log_id="a.1")]
    of_another = [_file(0, 10, partition=1), _file(10, 20, partition=1)]
    merges, _ = log_merges("records", [*of_earlier, *of_later, *of_another], SIZES, {})
    assert [(m.log_id, m.partition, len(m.files)) for m in merges] == [("a", 1, 2), ("a.0", 0, 2), ("a.1", 0, 2)]


def test_a_file_without_its_log_is_of_the_only_one_or_its_topic_is_left_alone():
    files = [_file(0, 10, log_id=None), _file(10, 20, log_id=None), _file(0, 5, topic="x"), _file(5, 9, topic="x")]
    assert _starts(files) == ([[0, 10], [0, 5]], [])
    two = {("orders", 0): ["a", "a.1"]}
    assert _starts(files, log_ids=two) == ([[0, 5]], ["orders"])


def test_a_file_that_overlaps_an_earlier_one_is_not_joined_to_any():
    files = [_file(0, 100), _file(10, 20), _file(20, 30), _file(200, 210), _file(210, 220)]
    assert _starts(files)[0] == [[200, 210]]


def test_what_reaches_into_the_undecided_section_stays():
    files = [_file(start, start + 10) for start in range(0, 60, 10)]
    assert _starts(files, {"a/0": 30})[0] == [[0, 10, 20]]
    assert _starts(files, {"a/0": 35})[0] == [[0, 10, 20]]
    assert _starts(files, {"a/0": None})[0] == []
    assert _starts(files, {})[0] == []


def test_a_second_look_at_what_was_merged_finds_nothing():
    chance = random.Random(7)
    for _ in range(300):
        files, at = [], 0
        for _ in range(chance.randrange(2, 200)):
            files.append(_file(at, at + 10, int(MB * 2 ** chance.uniform(-10, 7))))
            at += 10
        merges, _ = log_merges("records", files, SIZES, ONE_LOG)
        merged = {file.path for merge in merges for file in merge.files}
        after = [file for file in files if file.path not in merged]
        for merge in merges:
            start, end = merge.files[0].least["offset"], merge.files[-1].greatest["offset"] + 1
            size = sum(file.size - FILE_OVERHEAD for file in merge.files) // merge.outputs
            assert size <= 1.6 * SIZES.target
            step = (end - start) / merge.outputs
            bounds = [start + round(i * step) for i in range(merge.outputs)] + [end]
            after += [_file(s, e, size + FILE_OVERHEAD) for s, e in pairwise(bounds)]
        assert _starts(after)[0] == []


def _rows(log: str, first: int, rows: int, size: int = 9000) -> LiveFile:
    told = {"log": log, "base_offset": first}
    return LiveFile(f"{log}-{first}", size, rows, {}, told, told)


def test_small_files_of_other_tables_are_merged_across_logs_in_their_order():
    files = [_rows("b/0", 0, 10), _rows("a/0", 50, 10), _rows("a/0", 0, 10), _rows("c/0", 0, FULL_ROWS)]
    [merge] = state_merges("batches", files, SIZES)
    assert [file.path for file in merge.files] == ["a/0-0", "a/0-50", "b/0-0"]


def test_other_tables_are_cut_into_files_that_are_not_small():
    files = [_rows("a/0", first, 200_000) for first in range(12)]
    merges = state_merges("batches", files, SIZES)
    assert [merge.rows for merge in merges] == [600_000] * 4
    after = [_rows("a/0", i, merge.rows) for i, merge in enumerate(merges)]
    assert state_merges("batches", after, SIZES) == []


def _of_value(name: str, value: str | None, rows: int = 10, size: int = 9000) -> LiveFile:
    """A file whose rows all have this value."""
    bounds = {} if value is None else {"because": value}
    return LiveFile(name, size, rows, {}, bounds, bounds, {"because": rows if value is None else 0})


def _separated(files):
    return [[file.path for file in merge.files] for merge in state_merges("segments", files, SIZES, "because")]


def test_files_are_merged_with_those_of_the_same_value_only():
    files = [_of_value(f"{value}-{number}", value) for value in (None, "merged") for number in range(SEPARATED_FILES)]
    assert _separated(files) == [[f"{value}-{number}" for number in range(10)] for value in (None, "merged")]


def test_live_rows_are_merged_from_two_files_on_and_history_from_ten():
    files = [_of_value(f"{value}-{number}", value) for value in (None, "merged", "retention") for number in range(2)]
    assert _separated(files) == [["None-0", "None-1"]]


def test_files_that_mix_values_or_do_not_say_are_separated_one_by_one_whatever_their_size():
    told = {"because": "compaction"}
    mixed = LiveFile("mixed", 64 * MB, 10, {}, told, {"because": "merged"}, {"because": 0})
    with_nulls = LiveFile("with nulls", MB, 10, {}, told, told, {"because": 3})
    silent = LiveFile("silent", MB, 10, {}, {}, {})
    too_many = LiveFile("too many", MB, FULL_ROWS, {}, {}, {})
    files = [mixed, with_nulls, silent, too_many, _of_value("live", None)]
    assert _separated(files) == [["mixed"], ["with nulls"], ["silent"]]
