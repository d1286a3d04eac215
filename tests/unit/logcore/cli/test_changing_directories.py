"""A partition directory that changes, fails or is mostly a hole while recover, reindex, retain or compact read it.

Each command runs in a process of its own: a byte of a mapped file that is gone would kill it.
"""

import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.records.batch import read_header
from logcore.storage import partition_directories, source_bytes
from tests import handmade

pytestmark = pytest.mark.slow

BATCHES = 300
BASES = (0, BATCHES, 2 * BATCHES)
TEBIBYTE = 1 << 40
SECTOR = 4096

CHILD = """
import contextlib, os, sys
from logcore.cli import main
from logcore.cli.maintenance import maintenance
from logcore.storage import source_bytes

harm, moment, victim, *arguments = sys.argv[1:]
inode, harmed = os.stat(victim).st_ino, []

def do_harm():
    if harmed:
        return
    harmed.append(victim)
    if harm == "cut":
        os.truncate(victim, 100)
    elif harm == "replace":
        with open(victim + ".new", "wb") as file:
            file.write(open(victim, "rb").read())
        os.rename(victim + ".new", victim)
    elif harm == "remove":
        os.unlink(victim)

def before(name):
    whole = getattr(maintenance, name)
    @contextlib.contextmanager
    def wrapper(*arguments):
        with whole(*arguments) as given:
            do_harm()
            yield given
    setattr(maintenance, name, wrapper)

if moment == "seen":
    before("source")
elif moment == "decided":
    before("PartitionOutput")
elif moment == "half read":
    source_bytes.PIECE = 4096
    read, reads = os.preadv, []
    def preadv(fd, buffers, position):
        if os.fstat(fd).st_ino == inode:
            reads.append(position)
            if len(reads) == 3:
                do_harm()
        return read(fd, buffers, position)
    os.preadv = preadv
sys.exit(main.main(arguments))
"""

Break = Callable[[Path, range], None]
Captured = pytest.CaptureFixture[str]


def segment_of(base_offset: int) -> list[bytes]:
    return [
        handmade.simple_batch(base_offset + at, [(b"k%d" % (at % 7), b"v" * 20)], base_timestamp=1_700_000_000_000)
        for at in range(BATCHES)
    ]


SEGMENTS = {base: segment_of(base) for base in BASES}
CONTENTS = {base: b"".join(batches) for base, batches in SEGMENTS.items()}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition of three segments of some 25 KB, each with its indexes missing."""
    directory = tmp_path / "logs" / "a-0"
    directory.mkdir(parents=True)
    for base, content in CONTENTS.items():
        (directory / f"{base:020d}.log").write_bytes(content)
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA")
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (directory.parent / "replication-offset-checkpoint").write_text(f"0\n1\na 0 {3 * BATCHES}\n")
    return directory


COMMANDS = {
    "recover": ("recover",),
    "salvage": ("recover", "--salvage"),
    "reindex": ("reindex",),
    "retain": ("retain", "--config", "retention.ms=-1", "--config", "retention.bytes=30000"),
    "compact": ("compact", "--config", "cleanup.policy=compact", "--config", "segment.bytes=60000"),
}


def run(
    harm: str, moment: str, victim: Path, command: str, directory: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    arguments = [*COMMANDS[command], str(directory), *more]
    called = [sys.executable, "-c", CHILD, harm, moment, str(victim), *arguments]
    return subprocess.run(called, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("harm", ["cut", "replace", "remove"])
@pytest.mark.parametrize("moment", ["seen", "half read", "decided"])
def test_a_file_that_changes_is_reported_and_nothing_is_written(
    directory: Path, command: str, harm: str, moment: str
) -> None:
    victim = directory / f"{BASES[1]:020d}.log"
    out = directory.parent.parent / "out-0"
    done = run(harm, moment, victim, command, directory, "--out", str(out))
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert str(victim) in done.stderr
    assert "while it was read" in done.stderr or "short" in done.stderr
    assert sorted(path.name for path in out.parent.iterdir()) == ["logs"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_plan_is_printed_of_a_file_that_changes(directory: Path, command: str) -> None:
    victim = directory / f"{BASES[0]:020d}.log"
    done = run("cut", "seen", victim, command, directory, "--plan")
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert str(victim) in done.stderr


def test_a_file_that_grows_between_two_looks_is_reported(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """What was decided on would not be what is written."""
    monkeypatch.setattr(partition_directories, "KEPT_FILES", 1)
    victim = directory / f"{BASES[2]:020d}.log"
    whole, loads = source_bytes.SourceBytes.fetch_all, []

    def fetch_all(source: source_bytes.SourceBytes) -> int:
        loads.append(source)
        if len(loads) == 4:
            with victim.open("ab") as file:
                file.write(handmade.simple_batch(3 * BATCHES, [(b"k", b"v")]))
        return whole(source)

    monkeypatch.setattr(source_bytes.SourceBytes, "fetch_all", fetch_all)
    assert main(["recover", str(directory), "--out", str(directory.parent.parent / "out-0")]) == 3
    assert "written to while it was read" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_written_does_not_depend_on_what_is_kept_in_memory(
    directory: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", "kernels")
    written = []
    for kept in (64, 1):
        monkeypatch.setattr(partition_directories, "KEPT_FILES", kept)
        out = tmp_path / f"out{kept}" / "a-0"
        out.parent.mkdir()
        arguments = [*COMMANDS[command], str(directory), "--as-of", "1700000100000", "--out", str(out)]
        assert main(arguments) in (0, 1)
        written.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert written[0] == written[1]


# -- holes

SPARSE = """
import re, sys, time
from pathlib import Path
from logcore.cli.main import main
begun = time.process_time()
code = main(sys.argv[1:])
seconds = time.process_time() - begun
# of this program: the resource usage also counts what its parent held when it forked
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
print(f"figures: {seconds} {peak}", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.long
@pytest.mark.parametrize("engine", ["kernels", "reference"])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_room_reserved_in_an_active_segment_costs_neither_time_nor_memory(
    directory: Path, command: str, engine: str
) -> None:
    os.truncate(directory / f"{BASES[2]:020d}.log", TEBIBYTE)
    out = directory.parent.parent / "out" / "a-0"
    out.parent.mkdir()
    called = [sys.executable, "-c", SPARSE, *COMMANDS[command], str(directory), "--out", str(out)]
    done = subprocess.run(
        called, capture_output=True, text=True, check=False, env=os.environ | {"LOGLAKE_ENGINE": engine}
    )
    seconds, peak = done.stderr.split("figures: ")[1].split()
    assert done.returncode in (0, 1) if command != "recover" else done.returncode == 3, done.stderr
    assert "no broker opens one above 2 GiB" in done.stderr or command != "recover"
    assert float(seconds) < 5
    assert int(peak) < 400
    allocated = sum(path.stat().st_blocks * 512 for path in out.iterdir()) if out.exists() else 0
    assert allocated < 1 << 20
    if command == "salvage":
        assert (out / f"{BASES[2]:020d}.log").read_bytes() == CONTENTS[BASES[2]]


# -- sectors that cannot be read


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Makes reads of some bytes of a file fail as on a broken disk, for every reader."""
    whole, whole_pread = os.preadv, os.pread

    def break_sectors(path: Path, sectors: range) -> None:
        start, end, inode = sectors.start * SECTOR, sectors.stop * SECTOR, path.stat().st_ino

        def is_hit(fd: int, size: int, position: int) -> bool:
            return os.fstat(fd).st_ino == inode and position < end and position + size > start

        def preadv(fd: int, buffers: list[memoryview], position: int) -> int:
            (target,) = buffers
            if not is_hit(fd, len(target), position):
                return whole(fd, buffers, position)
            if position >= start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return whole(fd, [target[: start - position]], position)

        def pread(fd: int, size: int, position: int) -> bytes:
            if not is_hit(fd, size, position):
                return whole_pread(fd, size, position)
            if position >= start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return whole_pread(fd, start - position, position)

        monkeypatch.setattr(os, "preadv", preadv)
        monkeypatch.setattr(os, "pread", pread)

    return break_sectors


def offsets_in(content: bytes) -> list[int]:
    found, position = [], 0
    while position < len(content):
        header = read_header(content, position)
        found.append(header.base_offset)
        position += header.size
    return found


@pytest.mark.long
@pytest.mark.parametrize("engine", ["kernels", "reference"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("sectors", [range(3, 4), range(1), range(2, 4)], ids=str)
def test_salvage_keeps_the_batches_on_both_sides_of_what_the_disk_fails_to_read(
    directory: Path,
    tmp_path: Path,
    broken: Break,
    sectors: range,
    base: int,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    victim = directory / f"{base:020d}.log"
    broken(victim, sectors)
    out = tmp_path / "out" / "a-0"
    out.parent.mkdir()
    start, end = sectors.start * SECTOR, sectors.stop * SECTOR
    sizes = [len(batch) for batch in SEGMENTS[base]]
    ends = list(itertools.accumulate(sizes))
    around = [base + at for at in range(BATCHES) if ends[at] <= start or ends[at] - sizes[at] >= end]
    assert main(["recover", "--salvage", "--plan", str(directory)]) == 2
    (loss,) = json.loads(capsys.readouterr().out)["losses"]
    assert (loss["kind"], loss["severity"], loss["file"]) == ("unreadable", "error", victim.name)
    assert loss["position"] <= start
    # A batch of which nothing but zeros is missing is the one that was written, as its checksum says.
    assert loss["position"] + loss["nbytes"] > end - 8
    assert "the disk failed to read" in loss["message"]
    assert main(["recover", "--salvage", str(directory), "--out", str(out)]) == 2
    kept = offsets_in((out / victim.name).read_bytes())
    assert set(around) <= set(kept)
    for other in set(BASES) - {base}:
        assert (out / f"{other:020d}.log").read_bytes() == CONTENTS[other]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "salvage"])
def test_the_others_name_what_the_disk_fails_to_read_and_write_nothing(
    directory: Path, tmp_path: Path, broken: Break, command: str, capsys: Captured
) -> None:
    victim = directory / f"{BASES[1]:020d}.log"
    broken(victim, range(3, 4))
    out = tmp_path / "out" / "a-0"
    out.parent.mkdir()
    assert main([*COMMANDS[command], str(directory), "--out", str(out)]) == 3
    said = capsys.readouterr().err
    assert f"{victim}, position {3 * SECTOR}" in said
    assert "failed to read" in said or "Input/output error" in said
    assert not out.exists()
