"""A joined log has each offset once, from where its remote segments have all of them, whatever leaders copied."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.sampling import examples
from tests.tiered_log import TieredLog, run


def history(folder: Path, luck: random.Random, with_metadata: bool) -> tuple[TieredLog, int, int]:
    """Leaders that append, copy and are replaced; the log, and where its local part and the whole of it begin."""
    log = TieredLog(folder, with_metadata=with_metadata)
    for _ in range(luck.randint(1, 5)):
        log.append(*(luck.randint(1, 4) for _ in range(luck.randint(1, 6))))
        bases = [0, *(each.after for each in log.batches)]
        for _ in range(luck.randint(0, 5)):
            start, end = sorted(luck.sample(bases, 2))
            log.copy(start, end)
        if luck.random() < 0.5:
            log.elect(at=luck.choice(bases) if luck.random() < 0.5 else None)
    if not log.batches:
        log.append(1)
    local_start = luck.choice(log.batches).base
    log_start = luck.choice([0, luck.randint(0, local_start)])
    return log, local_start, log_start


def first_covered(log: TieredLog, local_start: int, log_start: int) -> int:
    """The lowest offset from which on each one below the local part is in a segment, with the log's own batch."""
    final = set(log.batches)
    covered = {
        offset
        for copied in log.copied
        for batch in copied.batches
        if batch in final
        for offset in range(batch.base, batch.after)
    }
    first = local_start
    while first > log_start and first - 1 in covered:
        first -= 1
    return first


@pytest.mark.long
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32), with_metadata=st.booleans())
def test_each_offset_is_read_once_from_the_lowest_that_remote_segments_have(seed: int, with_metadata: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, local_start, log_start = history(Path(folder), random.Random(seed), with_metadata)
        log.remote.mkdir(exist_ok=True)
        log.write(local_start, log_start=log_start)
        first = first_covered(log, local_start, log_start)
        said = run("dump", log, "--topic", "orders")
        assert said.rows == log.expected(first)
        event(f"{len(said.rows)} records" if first == local_start else "remote records")
        (*below, _) = run("ledger", log, "--topic", "orders").ranges
        expected = [("trimmed", 0, log_start)] if log_start else []
        if log_start < first:
            expected.append(("remote", log_start, first))
        assert below == expected
