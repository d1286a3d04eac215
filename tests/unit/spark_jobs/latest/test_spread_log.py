"""A large log of `latest` in parts: each row in one part, and the newest offset of each key in its part."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from logcore.columns.cleaning.offset_map import HashKey
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span
from spark_jobs.latest import latest_task
from spark_jobs.latest.latest_task import LatestTask, SpreadLog, newest_of_run, newest_offsets, parts_of
from spark_jobs.newest.packed_rows import Hashed, offsets_in, packed_rows
from spark_jobs.policies.compression import Compression

SMALL, LARGE = 1_000, 4 << 20
Place = tuple[int | None, int | None, int]


def files(places: Sequence[Place]) -> tuple[LiveFile, ...]:
    """Files with least offset, greatest offset and size."""
    made = []
    for number, (least, greatest, size) in enumerate(places):
        low, high = ({} if at is None else {"offset": at} for at in (least, greatest))
        made.append(LiveFile(f"{number:03d}", size, 10, {"topic": "orders"}, low, high))
    return tuple(sorted(made, key=lambda file: (file.min_offset or 0, file.path)))


def task(held: Sequence[Place], published: Sequence[Place], start: int = 1_000, end: int = 2_000) -> LatestTask:
    span = Span("orders", "id", 0, start, end)
    of_span = tuple(file for file in files(published) if span.may_be_in(file))
    return LatestTask("lake", span, of_span, files(held), False, Compression("none"), 1_000, 0)


@pytest.mark.parametrize("seed", range(40))
def test_each_row_is_in_one_part_between_its_borders(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(latest_task, "PART_BYTES", 5 << 20)
    chance = random.Random(seed)

    def some(first: int, end: int) -> list[Place]:
        """Files one after the other, some of them with offsets between those of another."""
        edges = sorted(chance.sample(range(first, end), 2 * chance.randint(0, 9)))
        pairs = list(zip(edges[::2], edges[1::2], strict=True))
        places: list[Place] = [(a, b, chance.choice((SMALL, LARGE))) for a, b in pairs]
        return places + [(a + 1, b, SMALL) for a, b in pairs if b > a + 1 and chance.random() < 0.2]

    held, published = some(0, 1_000), some(900, 2_100)
    if seed % 5 == 0:
        held.append((None, None, LARGE))
    parts = parts_of(task(held, published))
    assert [file for part in parts for file in part.task.held] == list(files(held))
    assert [part.first for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].first, parts[-1].end) == (0, 2_000)
    ends = [1_000]
    for part in parts:
        span = part.task.span
        assert span.start == ends[-1]
        ends.append(span.end)
        assert span.start == span.end or part.first <= span.start <= span.end == part.end
        for file in part.task.held:
            assert file.min_offset is None or part.first <= file.min_offset <= (file.max_offset or 0) < part.end
        for file in files(published):
            is_here = (file.max_offset or 0) >= span.start and (file.min_offset or 0) < span.end > span.start
            assert (file in part.task.published) == is_here
    assert ends[-1] == 2_000


def test_parts_have_about_equal_bytes_and_small_files_at_the_end_are_with_the_first_new_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latest_task, "PART_BYTES", 8 << 20)
    held = [(at * 10, at * 10 + 9, LARGE if at < 5 else SMALL) for at in range(7)]
    parts = parts_of(task(held, [(1_000, 1_499, 16 << 20), (1_500, 1_999, 8 << 20)]))
    assert [len(part.task.held) for part in parts] == [2, 2, 1, 2, 0, 0]
    assert [(part.task.span.start, part.task.span.end) for part in parts[3:]] == [
        (1000, 1250),
        (1250, 1500),
        (1500, 2000),
    ]
    assert [part.first for part in parts] == [0, 20, 40, 50, 1250, 1500]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("parts", [((0, 100),), ((0, 30), (30, 31), (31, 100)), ((0, 1 << 40),)])
def test_the_greatest_offset_of_a_key_is_the_newest_in_whatever_order_rows_come(
    seed: int, parts: tuple[tuple[int, int], ...]
) -> None:
    chance = random.Random(seed)
    rows = [(chance.randrange(20), offset if len(parts) > 1 else offset * parts[0][1] // 100) for offset in range(100)]
    chance.shuffle(rows)
    newest: dict[int, int] = {}
    for key, offset in rows:
        newest[key] = max(offset, newest.get(key, -1))
    blocks = []
    for at in range(0, 100, 30):
        keys, offsets = zip(*rows[at : at + 30], strict=True)
        run = Hashed(np.array(keys, np.uint64) << np.uint64(40), np.array(keys, np.uint64), np.array(offsets, np.int64))
        kept = run.taken(newest_of_run(run))
        assert len(kept) == len(set(keys))
        blocks += [block.content for block in packed_rows([run], 1, None, at, newest_of_run)]
    log = SpreadLog(HashKey.random(), parts)
    found = list(newest_offsets(log, 0, lambda: iter(blocks)))
    offsets_found = [offset for block in found for offset in offsets_in(block.content, parts[block.part][0]).tolist()]
    assert offsets_found == sorted(newest.values())
    for block in found:
        first, end = parts[block.part]
        assert all(first <= offset < end for offset in offsets_in(block.content, first).tolist())


@pytest.mark.parametrize(("spread_bytes", "keys", "is_large"), [(99, 1000, True), (100, 9, True), (100, 10, False)])
def test_a_log_is_large_by_the_bytes_of_its_new_rows_or_by_their_number(
    spread_bytes: int, keys: int, is_large: bool
) -> None:
    made = task([(0, 9, LARGE)], [(900, 1_099, 200)], 1_000, 1_100)  # half of its bytes, and at most ten rows
    limited = LatestTask(made.lake, made.span, made.published, made.held, False, made.compression, keys, spread_bytes)
    assert limited.is_large is is_large
