"""A source's file in memory, piece by piece."""

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logcore.storage import source_bytes
from logcore.storage.discovery import SourceChanged, SourceUnreadable
from logcore.storage.source_bytes import SourceBytes

PIECE = 4096
CONTENT = bytes(at * 7 % 251 for at in range(10 * PIECE + 100))
HOLE = 1 << 42


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_bytes, "PIECE", PIECE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Positions of all reads."""
    positions: list[int] = []
    for name in ("preadv", "pread"):
        whole = getattr(os, name)

        def counted(descriptor: int, what: object, at: int, whole: object = whole) -> object:
            positions.append(at)
            return whole(descriptor, what, at)  # type: ignore[operator]

        monkeypatch.setattr(os, name, counted)
    return positions


def test_only_requested_bytes_are_read(path: Path, reads: list[int]) -> None:
    source = SourceBytes(str(path), sealed=True)
    source.fetch(PIECE + 5, 2 * PIECE + 5)
    assert reads == [PIECE, 2 * PIECE]
    assert source.content[PIECE : 3 * PIECE] == CONTENT[PIECE : 3 * PIECE]
    assert not any(source.content[3 * PIECE :])


def test_what_was_fetched_stays_as_it_was_read(path: Path, reads: list[int]) -> None:
    source = SourceBytes(str(path), sealed=True)
    source.fetch(0, len(CONTENT))
    path.write_bytes(b"x")
    source.fetch(0, len(CONTENT))
    assert source.content == CONTENT
    assert len(reads) == 11


def test_what_was_released_is_read_again(path: Path, reads: list[int]) -> None:
    source = SourceBytes(str(path), sealed=True)
    source.fetch(0, len(CONTENT))
    source.release(2 * PIECE + 1)
    assert not any(source.content[: 2 * PIECE])
    del reads[:]
    source.fetch(0, 3 * PIECE)
    assert reads == [0, PIECE]
    assert source.content == CONTENT
    source.release(PIECE)
    assert not any(source.content[:PIECE])


def test_threads_that_ask_for_the_same_bytes_read_them_once(path: Path, reads: list[int]) -> None:
    source = SourceBytes(str(path), sealed=True)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: source.fetch(0, len(CONTENT)), range(64)))
    assert len(reads) == 11
    assert source.content == CONTENT


def test_a_file_that_was_cut_is_reported_as_changed(path: Path) -> None:
    source = SourceBytes(str(path), sealed=False)
    os.truncate(path, PIECE)
    source.fetch(0, PIECE)
    for ask in (lambda: source.fetch(0, 2 * PIECE), source.zeros_from, source.refuse_change):
        with pytest.raises(SourceChanged):
            ask()


def test_only_a_file_that_is_still_written_to_may_grow(path: Path) -> None:
    sources = [SourceBytes(str(path), sealed=sealed) for sealed in (False, True)]
    with path.open("ab") as file:
        file.write(b"more")
    sources[0].refuse_change()
    with pytest.raises(SourceChanged, match="written to"):
        sources[1].refuse_change()


def test_a_read_that_fails_is_reported_and_may_be_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))

    source = SourceBytes(str(path), sealed=True)
    with monkeypatch.context() as broken:
        broken.setattr(os, "preadv", refuse)
        with pytest.raises(SourceUnreadable):
            source.fetch(0, 10)
    source.fetch(0, 10)
    assert source.content[:10] == CONTENT[:10]


def test_a_hole_costs_no_reads(path: Path, reads: list[int]) -> None:
    os.truncate(path, HOLE)
    source = SourceBytes(str(path), sealed=False)
    assert source.zeros_from() > 10 * PIECE
    assert source.zeros_from() <= 11 * PIECE
    source.fetch(HOLE // 2, HOLE // 2 + 50 * PIECE)
    assert len(reads) <= 2


def test_data_after_a_hole_is_found(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(HOLE)
        file.write(b"end")
    source = SourceBytes(str(path), sealed=False)
    assert source.zeros_from() > 11 * PIECE
    source.fetch(HOLE - 10, HOLE + 3)
    assert source.content[HOLE - 10 :] == bytes(10) + b"end"


@pytest.mark.parametrize("length", [-1, 0, 20 * PIECE, 2**31 - 1])
def test_a_size_field_that_cannot_be_right_fetches_nothing_more(path: Path, reads: list[int], length: int) -> None:
    path.write_bytes(bytes(8) + length.to_bytes(4, "big", signed=True) + CONTENT)
    assert SourceBytes(str(path), sealed=True).fetch_batch(0) == 0
    assert reads == [0]


def test_a_batch_is_fetched_to_its_end(path: Path, reads: list[int]) -> None:
    path.write_bytes(bytes(8) + (3 * PIECE).to_bytes(4, "big") + CONTENT)
    assert SourceBytes(str(path), sealed=True).fetch_batch(0) == 3 * PIECE + 12
    assert reads == [0, PIECE, 2 * PIECE, 3 * PIECE]


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    source = SourceBytes(str(tmp_path / "empty"), sealed=False)
    source.fetch(0, 10)
    assert source.content == b""
    assert source.zeros_from() <= 0


def test_a_thread_that_waits_for_a_failing_read_gets_the_error_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SourceBytes(str(path), sealed=True)
    begun, waits = threading.Event(), threading.Event()

    def fails(*_: object) -> int:
        begun.set()
        waits.wait(10)
        return 0  # as at the end of a file that was cut

    monkeypatch.setattr(os, "preadv", fails)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(source.fetch, 0, PIECE)
        begun.wait(10)
        second = pool.submit(source.fetch, 0, PIECE)
        time.sleep(0.1)
        waits.set()
        for each in (first, second):
            with pytest.raises(SourceChanged):
                each.result()
