"""Files are read as they lie, copied only while they hold still, and never written to."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from logcore.errors import LogError
from logcore.storage import files
from logcore.storage.discovery import (
    SourceChanged,
    SourceUnreadable,
    copy_range,
    file_digest,
    map_file,
    new_text,
    open_readonly,
    read_file,
    read_range,
    shown,
)

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    os.utime(path, ns=(1_700_000_000_123_456_789,) * 2)
    return path


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 10), (5, 300), (0, len(CONTENT)), (len(CONTENT), len(CONTENT))])
def test_a_range_is_read(source: Path, start: int, end: int) -> None:
    assert read_range(str(source), start, end) == CONTENT[start:end]
    assert file_digest(str(source), start, end) == hashlib.sha256(CONTENT[start:end]).hexdigest()


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5), (0, len(CONTENT) + 1)])
def test_a_range_the_file_does_not_have_is_refused(source: Path, start: int, end: int) -> None:
    with pytest.raises(SourceChanged):
        read_range(str(source), start, end)
    with pytest.raises(SourceChanged):
        file_digest(str(source), start, end)


def test_a_file_is_read_in_pieces_and_comes_out_whole(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK", 1000)
    assert read_file(str(source)) == CONTENT


def test_a_file_above_the_limit_is_not_read(source: Path) -> None:
    assert read_file(str(source), len(CONTENT)) == CONTENT
    with pytest.raises(SourceUnreadable, match="at most"):
        read_file(str(source), len(CONTENT) - 1)


def test_a_mapped_file_shows_its_bytes(source: Path, tmp_path: Path) -> None:
    with map_file(str(source)) as mapped:
        assert bytes(mapped[250:260]) == CONTENT[250:260]
        assert len(mapped) == len(CONTENT)
    empty = tmp_path / "empty"
    empty.touch()
    with map_file(str(empty)) as mapped:
        assert len(mapped) == 0


def test_a_mapped_file_may_be_left_while_a_view_of_it_lives(source: Path) -> None:
    with map_file(str(source)) as mapped:
        view = memoryview(mapped)
    assert view[255] == 255
    view.release()


def test_a_mapped_file_cannot_be_written(source: Path) -> None:
    with map_file(str(source)) as mapped, pytest.raises(TypeError):
        mapped[0] = 1  # type: ignore[index]


@pytest.mark.parametrize("kind", ["missing", "directory", "pipe", "link", "dangling link", "nul"])
def test_only_regular_files_are_opened_and_no_link_is_followed(tmp_path: Path, source: Path, kind: str) -> None:
    path = tmp_path / "thing.log"
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(source)
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "nul":
            path = Path(str(path) + "\0x")
    with pytest.raises(SourceUnreadable) as refused:
        open_readonly(str(path))
    assert "thing.log" in str(refused.value)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_refusal_of_the_system_is_reported_with_its_reason(
    source: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    # Permission bits do not stop root, which tests may run as: the refusal itself is injected.
    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code), str(source))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceUnreadable, match=os.strerror(code)):
        read_file(str(source))


def test_a_read_error_in_the_middle_is_reported(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(SourceUnreadable, match=os.strerror(errno.EIO)):
        read_file(str(source))


def test_short_reads_are_carried_on(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: whole(fd, min(size, 7), at))
    assert read_file(str(source)) == CONTENT


@pytest.mark.parametrize(("start", "end"), [(0, None), (100, None), (100, 5000), (0, 0)])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_copy_holds_the_range_and_its_digest(
    source: Path, destination: Path, start: int, end: int | None, sealed: bool
) -> None:
    copied = copy_range(str(source), start, end, str(destination), sealed=sealed)
    assert destination.read_bytes() == CONTENT[start:end]
    assert copied.size == len(CONTENT[start:end])
    assert copied.sha256 == hashlib.sha256(CONTENT[start:end]).hexdigest()


def test_copying_leaves_the_source_as_it_was(source: Path, destination: Path) -> None:
    before = (source.stat(), source.read_bytes())
    copy_range(str(source), 0, None, str(destination))
    after = source.stat()
    assert (after.st_mtime_ns, after.st_size, after.st_ino, source.read_bytes()) == (
        before[0].st_mtime_ns,
        before[0].st_size,
        before[0].st_ino,
        before[1],
    )


def test_a_copy_is_on_disk_before_it_is_reported(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd)))
    copy_range(str(source), 0, None, str(destination))
    assert synced == [len(CONTENT)]


def meanwhile(monkeypatch: pytest.MonkeyPatch, source: Path, action: str, read: int = 2) -> None:
    """Change the source after the second of three reads, or another."""
    monkeypatch.setattr(files, "CHUNK", 4096)
    real, calls = os.pread, []

    def pread(descriptor: int, size: int, position: int) -> bytes:
        data = real(descriptor, size, position)
        calls.append(position)
        if len(calls) == read:
            match action:
                case "grow":
                    with source.open("ab") as file:
                        file.write(b"more")
                case "shrink":
                    os.truncate(source, 5000)
                case "touch":
                    os.utime(source, ns=(1_700_000_001_000_000_000,) * 2)
                case "rewrite":
                    with source.open("r+b") as file:
                        file.write(b"other")
                case "replace":
                    other = source.with_suffix(".swap")
                    other.write_bytes(CONTENT)
                    os.replace(other, source)
                case "delete":
                    source.unlink()
        return data

    monkeypatch.setattr(os, "pread", pread)


@pytest.mark.parametrize("action", ["grow", "shrink", "touch", "rewrite", "replace", "delete"])
def test_a_sealed_segment_that_changes_while_it_is_copied_is_refused(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    meanwhile(monkeypatch, source, action)
    with pytest.raises(SourceChanged):
        copy_range(str(source), 0, None, str(destination), sealed=True)
    assert not destination.exists()


@pytest.mark.parametrize("read", [1, 2, 3])
@pytest.mark.parametrize("action", ["shrink", "replace", "delete"])
def test_an_active_segment_that_loses_what_was_read_is_refused(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch, action: str, read: int
) -> None:
    meanwhile(monkeypatch, source, action, read)
    with pytest.raises(SourceChanged):
        copy_range(str(source), 0, None, str(destination), sealed=False)
    assert not destination.exists()


def test_an_active_segment_may_grow_while_it_is_copied(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, source, "grow")
    assert copy_range(str(source), 0, None, str(destination), sealed=False).size == len(CONTENT)
    assert destination.read_bytes() == CONTENT


def test_a_range_past_the_end_is_a_source_that_changed(source: Path, destination: Path) -> None:
    with pytest.raises(SourceChanged):
        copy_range(str(source), 0, len(CONTENT) + 1, str(destination))
    assert not destination.exists()


def test_an_existing_destination_is_never_overwritten(source: Path, destination: Path) -> None:
    destination.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        copy_range(str(source), 0, None, str(destination))
    assert destination.read_bytes() == b"precious"


def test_a_full_disk_leaves_no_half_copy(source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        copy_range(str(source), 0, None, str(destination))
    assert not destination.exists()


def test_output_files_are_new_and_hold_any_text(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with new_text(str(path)) as stream:
        stream.write("ü \udcff\n")
        assert not path.exists()
    assert path.read_bytes() == "ü \\udcff\n".encode()
    with pytest.raises(LogError, match="cannot be written"), new_text(str(path)):
        pass
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "full"), ValueError()])
def test_where_the_writing_fails_no_output_file_is_left(tmp_path: Path, error: BaseException) -> None:
    def fails() -> None:
        with new_text(str(tmp_path / "out")) as stream:
            stream.write("half a line")
            raise error

    # The error of a full disk names the file that has no room.
    is_full = isinstance(error, OSError)
    with pytest.raises(LogError if is_full else type(error), match=r"out: it cannot be written" if is_full else None):
        fails()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/kafka-logs/orders-0", "/var/kafka-logs/orders-0"),
        ("käse-0", "käse-0"),
        ("a\nb", "a\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        (os.fsdecode(b"a\xffb"), "a\\xffb"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_a_path_is_fit_for_a_message(path: str, expected: str) -> None:
    assert shown(path) == expected
