"""A partition directory is read whole, and a new one takes its name whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import Cut, Keep, RootLines, Write
from logcore.segments.filenames import TopicPartition
from logcore.storage.partition_directories import partition_directory
from logcore.storage.partition_output import PartitionOutput, write_root_files
from logcore.storage.source_errors import SourceChanged, SourceUnreadable

LOG = f"{0:020d}.log"
NANOSECONDS = 1_600_000_000_123_456_789
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """`orders-0` with a segment of 100 bytes, in a log directory."""
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True)
    (path / LOG).write_bytes(bytes(range(100)))
    (path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    for file in path.iterdir():
        os.utime(file, ns=(NANOSECONDS, NANOSECONDS))
    return path


@pytest.fixture
def held(source: Path) -> Iterator[Path]:
    """The source's log directory, while a process holds its `.lock` as a broker does."""
    lock = source.parent / ".lock"
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"held\n"
        yield source.parent
        process.stdin.close()


def entries(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_kept_cut_and_written_files_have_their_bytes_and_times(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "orders-0"
    with PartitionOutput(str(source), str(out)) as output:
        output.put(
            {
                "kept": Keep(LOG),
                "cut": Cut(LOG, 10, 1_700_000_000_001),
                "nothing": Cut(LOG, 0, 5),
                "written": Write(b"new", 1_700_000_000_002),
            }
        )
        with output.stream("streamed", 7) as stream:
            stream.write(b"a")
            stream.write(b"b")
        assert not out.exists()
    found = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()}
    assert found == {
        "kept": (bytes(range(100)), NANOSECONDS),
        "cut": (bytes(range(10)), 1_700_000_000_001_000_000),
        "nothing": (b"", 5_000_000),
        "written": (b"new", 1_700_000_000_002_000_000),
        "streamed": (b"ab", 7_000_000),
    }
    assert entries(out.parent) == ["orders-0"]


def test_where_anything_fails_nothing_is_left(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "orders-0"
    with pytest.raises(SourceUnreadable), PartitionOutput(str(source), str(out)) as output:
        output.put({"a": Keep(LOG), "b": Keep("not there")})
    with pytest.raises(SourceChanged), PartitionOutput(str(source), str(out)) as output:
        output.put({"a": Cut(LOG, 101, 0)})
    with pytest.raises(ZeroDivisionError), PartitionOutput(str(source), str(out)) as output:
        output.put({"a": Keep(LOG)} | {str(1 // 0): Write(b"", 0)})
    assert entries(out.parent) == []


def test_a_name_that_is_taken_is_left_alone_also_if_it_was_taken_meanwhile(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "orders-0"
    out.mkdir()
    with pytest.raises(LogError, match="exists already"), PartitionOutput(str(source), str(out)):
        pass
    out.rmdir()
    with pytest.raises(LogError, match="exists already"), PartitionOutput(str(source), str(out)):
        (out / "mine").mkdir(parents=True)
    assert entries(tmp_path) == ["logs", "orders-0"]
    assert entries(out) == ["mine"]


def test_what_a_killed_run_left_is_not_in_the_new_directory(source: Path, tmp_path: Path) -> None:
    left = tmp_path / "orders-0.unfinished"
    (left / "folder").mkdir(parents=True)
    (left / "folder" / "file").touch()
    (left / LOG).write_bytes(b"half")
    with PartitionOutput(str(source), str(tmp_path / "orders-0")) as output:
        output.put({LOG: Keep(LOG)})
    assert entries(tmp_path) == ["logs", "orders-0"]
    assert entries(tmp_path / "orders-0") == [LOG]


def test_of_two_runs_at_once_the_second_is_refused_and_the_first_goes_on(source: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "orders-0")
    with PartitionOutput(str(source), out) as first:
        first.put({LOG: Keep(LOG)})
        with pytest.raises(LogError, match="another run is writing it"), PartitionOutput(str(source), out):
            pass
    assert entries(tmp_path / "orders-0") == [LOG]


@pytest.mark.parametrize("inside", ["new", ".", "a/b"])
def test_nothing_is_written_below_what_is_read(source: Path, inside: str) -> None:
    before = entries(source)
    link = source.parent.parent / "link"
    link.symlink_to(source)
    for path in (source / inside, link / "new"):
        with pytest.raises(LogError), PartitionOutput(str(source), str(path)):
            pass
    assert entries(source) == before


def test_a_running_brokers_directory_is_neither_read_nor_written_into(source: Path, held: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="a running broker"), partition_directory(str(source)):
        pass
    elsewhere = tmp_path / "copy-0"
    elsewhere.mkdir()
    with pytest.raises(LogError, match="a running broker"), PartitionOutput(str(elsewhere), str(held / "new-0")):
        pass
    with pytest.raises(LogError, match="a running broker"):
        write_root_files(str(tmp_path), str(held), ORDERS, RootLines(recovery_point=1))
    assert entries(held) == [".lock", "orders-0"]


def test_a_lock_file_that_a_killed_broker_left_is_no_broker(source: Path) -> None:
    (source.parent / ".lock").touch()
    with partition_directory(str(source)) as directory:
        assert directory.base_offsets == (0,)


def test_a_directory_is_its_files_and_the_lines_of_the_root_files_about_it(source: Path) -> None:
    root = source.parent
    (root / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 7\nother 0 1\n")
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    (root / "replication-offset-checkpoint").write_text("0\n1\nother 0 5\n")
    (root / ".kafka_cleanshutdown").touch()
    (source / ".hidden").touch()
    (source / "folder").mkdir()
    findings: list[Finding] = []
    with partition_directory(str(source), findings) as directory:
        assert sorted(directory.files) == [LOG, "partition.metadata"]
        assert bytes(directory.files[LOG].content) == bytes(range(100))
        assert directory.files[LOG].modified_ms == NANOSECONDS // 1_000_000
        stated = (directory.recovery_point, directory.log_start_offset, directory.high_watermark)
        assert stated == (7, 3, 0)
        assert (directory.first_dirty_offset, directory.is_clean) == (None, True)
    assert findings == []


def test_without_root_files_nothing_is_stated(source: Path) -> None:
    findings: list[Finding] = []
    with partition_directory(str(source) + "/", findings) as directory:
        assert (directory.high_watermark, directory.recovery_point, directory.is_clean) == (None, None, False)
    assert [finding.rule for finding in findings] == ["no-high-watermark"]


@pytest.mark.parametrize("name", ["orders", "orders-x", "orders-01"])
def test_a_directory_that_is_not_named_as_a_partition_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(LogError, match="not named"), partition_directory(str(tmp_path / name)):
        pass


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="cannot be listed"), partition_directory(str(tmp_path / "orders-0")):
        pass


def test_the_root_files_that_are_read_are_never_written(source: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(source.parent)
    for target in (source.parent, link):
        with pytest.raises(LogError, match="that is read"):
            write_root_files(str(source.parent), str(target), ORDERS, RootLines(recovery_point=1))
    assert entries(source.parent) == ["orders-0"]


def test_a_root_file_that_cannot_be_understood_counts_as_absent_only_where_it_is_read(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "recovery-point-offset-checkpoint").write_text("junk")
    write_root_files(str(source), str(target), ORDERS, RootLines(recovery_point=1))
    assert (target / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    (target / "recovery-point-offset-checkpoint").write_text("junk")
    with pytest.raises(LogError, match="target"):
        write_root_files(str(source), str(target), ORDERS, RootLines(recovery_point=2))
    assert (target / "recovery-point-offset-checkpoint").read_text() == "junk"


def test_what_has_the_name_of_the_unfinished_directory_by_chance_is_let_be(source: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "orders-0.unfinished").symlink_to(precious)
    with (
        pytest.raises(LogError, match="something else uses it"),
        PartitionOutput(str(source), str(tmp_path / "orders-0")),
    ):
        pass
    assert entries(precious) == ["file"]


def test_a_source_in_a_directory_of_that_name_is_let_be(source: Path, tmp_path: Path) -> None:
    source.parent.rename(tmp_path / "logs.unfinished")
    moved = tmp_path / "logs.unfinished" / "orders-0"
    with pytest.raises(LogError, match="something else uses it"), PartitionOutput(str(moved), str(tmp_path / "logs")):
        pass
    assert entries(moved) == [LOG, "partition.metadata"]
