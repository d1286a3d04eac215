"""A file is loaded whole into memory on request, and is released when no caller uses it."""

import errno
import os
import time
import weakref
from pathlib import Path

import pytest

from logcore.storage import partition_directories
from logcore.storage.partition_directories import LoadedFiles, partition_directory, refuse_changes
from logcore.storage.source_errors import SourceChanged, SourceUnreadable

CONTENT = bytes(at * 7 % 251 for at in range(100_000))


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.log" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(CONTENT[number:])
    return paths


def test_a_file_is_read_on_request_and_not_before(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    reads, whole = [], os.preadv
    monkeypatch.setattr(os, "preadv", lambda *given: reads.append(given) or whole(*given))
    files = LoadedFiles()
    file = files.file(str(paths[1]))
    assert file.size == len(CONTENT) - 1
    assert not reads
    assert file.content == CONTENT[1:]
    assert file.fetched.read(5, 10) == CONTENT[6:11]
    assert len(reads) == 1


def test_of_unused_files_no_more_bytes_are_kept_than_the_limit(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_directories, "KEPT_BYTES", 250_000)
    files = LoadedFiles()
    sources = [weakref.ref(files.file(str(path)).fetched) for path in paths]
    assert [source() is not None for source in sources] == [False, False, True, True]


def test_no_more_files_are_kept_than_the_limit(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_directories, "KEPT_FILES", 1)
    files = LoadedFiles()
    sources = [weakref.ref(files.file(str(path)).fetched) for path in paths]
    assert [source() is not None for source in sources] == [False, False, False, True]


def test_the_last_requested_file_is_kept_however_large_it_is(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_directories, "KEPT_BYTES", 1)
    file = LoadedFiles().file(str(paths[0]))
    assert file.fetched is file.fetched


def test_bytes_that_someone_holds_stay_as_they_were_read(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_directories, "KEPT_FILES", 1)
    files = LoadedFiles()
    held = files.file(str(paths[0])).content
    assert files.file(str(paths[1])).content == CONTENT[1:]
    os.truncate(paths[0], 10)
    assert held == CONTENT


@pytest.mark.parametrize("harm", ["cut", "grow", "rewrite", "replace", "remove"])
@pytest.mark.parametrize("was_read", [True, False])
def test_a_file_that_is_not_as_it_was_seen_is_refused(
    paths: list[Path], harm: str, was_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_directories, "KEPT_FILES", 1)
    files, path = LoadedFiles(), paths[0]
    file, other = files.file(str(path)), files.file(str(paths[1]))
    if was_read:
        assert file.content == CONTENT
    assert len(other.content)
    match harm:
        case "cut":
            os.truncate(path, 10)
        case "grow":
            with path.open("ab") as stream:
                stream.write(b"more")
        case "rewrite":
            path.write_bytes(CONTENT[::-1])
            os.utime(path, ns=(0, file.modified_ns + 1))
        case "replace":
            paths[3].write_bytes(CONTENT)
            os.replace(paths[3], path)
        case "remove":
            path.unlink()
    for ask in (lambda: file.content, file.refuse_change):
        with pytest.raises(SourceChanged, match="while it was read") as refused:
            ask()
        assert refused.value.file == str(path)


def test_a_hole_takes_no_memory_and_no_time(paths: list[Path]) -> None:
    os.truncate(paths[0], 1 << 40)
    begun = time.process_time()
    file = LoadedFiles().file(str(paths[0]))
    assert file.allocated < 1 << 20
    assert len(file.content) == 1 << 40
    assert file.fetched.zeros_from() == len(CONTENT.rstrip(b"\0"))
    assert time.process_time() - begun < 1


@pytest.fixture
def broken(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sector of the first file cannot be read."""
    whole, inode = os.preadv, paths[0].stat().st_ino

    def preadv(fd: int, buffers: list[memoryview], position: int) -> int:
        if os.fstat(fd).st_ino == inode and position < 8192 and position + len(buffers[0]) > 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", preadv)


@pytest.mark.usefixtures("broken")
def test_a_sector_that_cannot_be_read_is_an_error_that_names_it(paths: list[Path]) -> None:
    file = LoadedFiles().file(str(paths[0]))
    with pytest.raises(SourceUnreadable, match="failed to read 4096 bytes") as refused:
        assert file.content
    assert (refused.value.file, refused.value.position) == (str(paths[0]), 4096)


@pytest.mark.usefixtures("broken")
def test_reading_around_bad_sectors_gives_zeros_there_and_reports_the_ranges(paths: list[Path]) -> None:
    file = LoadedFiles(reads_around=True).file(str(paths[0]))
    assert file.content == CONTENT[:4096] + bytes(4096) + CONTENT[8192:]
    assert file.fetched.unreadable(0, file.size) == ((4096, 8192),)


def test_of_a_directory_no_file_may_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    path.mkdir()
    for name in ("a", "b"):
        (path / name).write_bytes(CONTENT)
    with partition_directory(str(path)) as directory:
        refuse_changes(directory)
        os.truncate(path / "b", 10)
        with pytest.raises(SourceChanged, match="shrank"):
            refuse_changes(directory)
