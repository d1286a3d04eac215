"""The newest offset of each key: as a dictionary says, in any order of rows, and with files where memory ends."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available
from spark_jobs.newest.newest_keys import NewestKeys, OffsetSet
from tests.sampling import chance

Rows = list[tuple[int, bytes]]


@pytest.fixture(params=list(Engine))
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param not in available():
        pytest.skip(f"the engine {request.param} does not work on this machine")
    return request.param


def newest_by_dictionary(rows: Rows) -> set[int]:
    last: dict[bytes, int] = {}
    for offset, key in rows:
        last[key] = max(last.get(key, -1), offset)
    return set(last.values())


def chosen(rows: Rows, keys_in_memory: int, engine: Engine, per_batch: int) -> tuple[set[int], bool]:
    with NewestKeys(keys_in_memory, engine=engine) as newest:
        for start in range(0, len(rows), per_batch):
            some = rows[start : start + per_batch]
            keys = pa.array([key for _, key in some], pa.binary())
            newest.add(np.array([offset for offset, _ in some], np.int64), keys)
        found, spilled = newest.newest(), newest.spilled
    offsets = np.array([offset for offset, _ in rows], np.int64)
    assert len(found) == int(found.has(offsets).sum())
    return set(offsets[found.has(offsets)].tolist()), spilled


@pytest.mark.parametrize("keys_in_memory", [1, 7, 100, 100_000])
@pytest.mark.parametrize("order", ["rising", "shuffled", "two files that overlap"])
@pytest.mark.parametrize("step", [1, 3, 10_000], ids=["dense", "with gaps", "far apart"])
def test_it_is_what_a_dictionary_has(engine: Engine, keys_in_memory: int, order: str, step: int) -> None:
    rng = chance("newest keys")
    names = [b"", *(b"key-%d" % n for n in range(300))]
    rows = [(n * step + rng.randrange(step), rng.choice(names)) for n in range(2_000)]
    if order == "shuffled":
        rng.shuffle(rows)
    elif order != "rising":
        rows = [*rows[::2], *rows[1::2]]
    found, spilled = chosen(rows, keys_in_memory, engine, rng.choice([1, 17, 500]))
    assert found == newest_by_dictionary(rows)
    assert spilled is (keys_in_memory < 300)


def test_without_rows_nothing_is_newest(engine: Engine) -> None:
    with NewestKeys(engine=engine) as newest:
        newest.add(np.zeros(0, np.int64), pa.array([], pa.binary()))
        found = newest.newest()
    assert not found.has(np.arange(5)).any()
    assert len(found) == 0


def test_its_files_are_gone_afterwards(engine: Engine, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with NewestKeys(2, engine=engine) as newest:
        newest.add(np.arange(10), pa.array([b"%d" % n for n in range(10)], pa.binary()))
        assert os.listdir(tmp_path)
        newest.newest()
    assert os.listdir(tmp_path) == []


def test_offsets_outside_of_a_set_are_not_in_it() -> None:
    for about in (3, 1):  # bits, and a sorted array
        found = OffsetSet.of([np.array([9, 2]), np.array([66])], 2, 66, about)
        assert found.has(np.array([-1, 0, 2, 3, 9, 65, 66, 67, 2**62])).tolist() == [
            False, False, True, False, True, False, True, False, False,
        ]  # fmt: skip
        assert len(found) == 3
