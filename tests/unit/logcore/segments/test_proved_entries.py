"""Where reading begins for an offset: at an entry of the index only if the segment proves it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from logcore.segments.side_files.proved_entries import ProvedEntries, ReadingStart
from logcore.storage.source_bytes import SourceBytes
from tests import handmade

BASE = 100
BATCHES = [handmade.simple_batch(BASE + 10 * at, [(b"k", b"v" * at)] * 10) for at in range(20)]
POSITIONS = [sum(map(len, BATCHES[:at])) for at in range(20)]
BEGINNING = ReadingStart(0, BASE)


def index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)


EVERY_FOURTH = index(*((BASE + 10 * at + 9, POSITIONS[at]) for at in range(4, 20, 4)))


def start(folder: Path, offset: int, *, entries: bytes = EVERY_FOURTH, data: bytes = b"".join(BATCHES)) -> ReadingStart:
    path = folder / "00000000000000000100.log"
    path.write_bytes(data)
    return ProvedEntries(entries, BASE, SourceBytes(str(path), sealed=True)).start_for(offset)


@pytest.mark.parametrize(
    ("offset", "batch", "lowest"),
    [(149, 4, 100), (150, 4, 100), (188, 4, 100), (189, 8, 150), (230, 12, 190), (299, 16, 230), (5000, 16, 230)],
)
def test_the_last_entry_at_or_below_the_offset(tmp_path: Path, offset: int, batch: int, lowest: int) -> None:
    assert start(tmp_path, offset) == ReadingStart(POSITIONS[batch], lowest)


def test_entries_of_the_first_offset_of_an_append_are_used_too(tmp_path: Path) -> None:
    entries = index((BASE + 40, POSITIONS[4]), (BASE + 80, POSITIONS[8]))
    assert start(tmp_path, 185, entries=entries) == ReadingStart(POSITIONS[8], BASE + 41)


@pytest.mark.parametrize("offset", [0, 99, 100, 148])
def test_below_the_first_entry_reading_begins_at_the_beginning(tmp_path: Path, offset: int) -> None:
    assert start(tmp_path, offset) == BEGINNING


@pytest.mark.parametrize("entries", [b"", bytes(800), b"\0", b"\xff" * 80, index((199, -5)), EVERY_FOURTH[:7]])
def test_without_an_entry_reading_begins_at_the_beginning(tmp_path: Path, entries: bytes) -> None:
    assert start(tmp_path, 250, entries=entries) == BEGINNING


def test_zeros_of_preallocation_and_part_of_an_entry_are_no_entries(tmp_path: Path) -> None:
    assert start(tmp_path, 5000, entries=EVERY_FOURTH + bytes(8000)) == ReadingStart(POSITIONS[16], 230)
    assert start(tmp_path, 5000, entries=EVERY_FOURTH + b"\0\0\1") == ReadingStart(POSITIONS[16], 230)


@pytest.mark.parametrize("move", [-1, 1, 12, 61])
def test_a_position_that_is_no_batch_is_not_used(tmp_path: Path, move: int) -> None:
    entries = EVERY_FOURTH[:8] + index((189, POSITIONS[8] + move))
    assert start(tmp_path, 250, entries=entries) == ReadingStart(POSITIONS[4], 100)


@pytest.mark.parametrize("batch", [7, 9, 12])
def test_the_position_of_another_batch_is_not_used(tmp_path: Path, batch: int) -> None:
    """A batch after the offset would hide records. One before it is used only if the entry before agrees."""
    entries = index((179, POSITIONS[7]), (189, POSITIONS[batch]))
    expected = ReadingStart(POSITIONS[7], 100)
    assert start(tmp_path, 250, entries=entries) == expected


def test_a_batch_with_a_wrong_checksum_is_not_used(tmp_path: Path) -> None:
    data = handmade.flip(b"".join(BATCHES), POSITIONS[8] + 70)
    assert start(tmp_path, 200, data=data) == ReadingStart(POSITIONS[4], 100)


def test_a_batch_whose_base_offset_is_wrong_is_not_used(tmp_path: Path) -> None:
    """The checksum does not cover it."""
    for base in (BASE, 149, 190):
        data = handmade.patch(b"".join(BATCHES), POSITIONS[8], struct.pack(">q", base))
        assert start(tmp_path, 200, data=data) == ReadingStart(POSITIONS[4], 100)


def test_entries_beyond_the_end_of_the_file_are_not_used(tmp_path: Path) -> None:
    data = b"".join(BATCHES)[: POSITIONS[8] + 30]
    assert start(tmp_path, 5000, data=data) == ReadingStart(POSITIONS[4], 100)
    assert start(tmp_path, 230, data=data) == ReadingStart(POSITIONS[4], 100)


def test_a_compressed_message_is_proved_by_its_first_offset(tmp_path: Path) -> None:
    wrappers = [handmade.wrapper_v1([BASE + 2 * at, BASE + 2 * at + 1]) for at in range(3)]
    position = len(wrappers[0])
    data = b"".join(wrappers)
    for entry in (BASE + 2, BASE + 3):
        assert start(tmp_path, 103, entries=index((entry, position)), data=data) == ReadingStart(position, BASE)
    assert start(tmp_path, 101, entries=index((BASE + 1, position)), data=data) == BEGINNING


def test_the_beginning_of_the_last_bytes(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.log"
    path.write_bytes(b"".join(BATCHES))
    entries = ProvedEntries(EVERY_FOURTH, BASE, SourceBytes(str(path), sealed=True))
    size = path.stat().st_size
    assert entries.start_of_end(1) == ReadingStart(POSITIONS[16], 230)
    assert entries.start_of_end(size - POSITIONS[16]) == ReadingStart(POSITIONS[16], 230)
    assert entries.start_of_end(size - POSITIONS[16] + 1) == ReadingStart(POSITIONS[12], 190)
    assert entries.start_of_end(size - 1) == BEGINNING
    assert entries.start_of_end(2 * size) == BEGINNING
