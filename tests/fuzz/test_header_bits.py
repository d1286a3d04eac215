"""One flipped bit in a batch's header: `verify` says so where a consumer misses a record, `--salvage` keeps the rest.

Most header bits of some batches here; all of 200 in each format with LOGLAKE_TEST_EVERY_BIT=1, for `make test-long`.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import handmade
from tests.fuzz.header_bits import (
    BATCHES,
    EVERY_BIT,
    HEADER_BITS,
    UNCHECKED_BITS,
    Place,
    consumed,
    doubted,
    log,
    missed,
)

LOGS = range(25)
STEPS = {0: 67, 1: 51, 2: 17}
"""Of the batches of a format, every which one is chosen; no multiple of the batches of a log."""
CHOSEN = [
    (magic, seed, number)
    for magic, step in STEPS.items()
    for seed in LOGS
    for number in range(BATCHES)
    if EVERY_BIT or (seed * BATCHES + number) % step == 3
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: what is salvaged is synced to the disk each time."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


def bits_of(magic: int) -> list[int]:
    """All bits that no checksum covers, and some or all of the others."""
    return [bit for bit in range(HEADER_BITS[magic]) if EVERY_BIT or bit < UNCHECKED_BITS[magic] or bit % 23 == 0]


@pytest.mark.parametrize("magic", HEADER_BITS)
def test_a_whole_log_is_clean_and_wholly_consumed_and_salvaged(magic: int, folder: Path) -> None:
    for seed in LOGS:
        whole = log(seed, magic)
        place = Place(whole, folder / str(seed))
        assert missed(whole, whole.files()) == []
        assert consumed(whole, whole.files())
        code, lines = place.verified()
        assert code == 0, lines
        assert place.salvaged() == {batch.data for batch in whole.batches}


@pytest.mark.long
@pytest.mark.parametrize(("magic", "seed", "number"), CHOSEN)
def test_no_flipped_bit_of_a_header_hides_a_record_or_costs_another_batch(
    magic: int, seed: int, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = log(seed, magic)
    others = {batch.data for at, batch in enumerate(whole.batches) if at != number}
    place = Place(whole, folder)
    wrong = []
    for bit in bits_of(magic):
        # Both read alike, as other tests say; the slow way is the faster one on so little.
        monkeypatch.setenv("LOGLAKE_ENGINE", "reference" if bit % 9 else "kernels")
        files = whole.flipped(number, bit)
        place.put(files)
        lost = missed(whole, files)
        if lost and place.verified().code == 0:
            wrong.append(f"bit {bit}: verify is clean, and {len(lost)} records are missed, from {lost[0].offset} on")
        gone = others - place.salvaged()
        doubt = doubted(whole, number, bit)
        if gone - ({doubt.data} if doubt else set()):
            wrong.append(f"bit {bit}: --salvage lost {len(gone)} sound batches")
    assert wrong == []


def test_the_consumer_stops_at_a_wrong_checksum_and_never_sees_what_a_wrong_length_hides() -> None:
    whole = log(0)
    committed = [row for batch in whole.batches for row in batch.rows]
    crc, length, epoch = 17 * 8, 8 * 8 + 8, 12 * 8
    assert consumed(whole, whole.flipped(0, crc)) == []
    behind = [row for batch in whole.batches[3:] for row in batch.rows]
    assert consumed(whole, whole.flipped(0, length)) == behind
    assert consumed(whole, whole.flipped(0, epoch)) == committed
    assert handmade.size_of(whole.batches[0].data) == len(whole.batches[0].data)
