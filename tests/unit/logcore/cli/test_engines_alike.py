"""`dump` and `verify` say the same to the letter, whichever engine does the work."""

from __future__ import annotations

import mmap
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from logcore.cli.main import main
from logcore.cli.output import bulk
from logcore.columns.checking import chunks
from logcore.columns.checking.chunks import Chunk
from logcore.columns.decoding import batch_table
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.columns.decoding.turns import Turn
from logcore.columns.engines import Engine
from logcore.storage import source_bytes
from logcore.storage.machine import processors
from tests import handmade
from tests.conftest import REPOSITORY, Sample
from tests.unit.logcore.cli import conftest as made

pytestmark = pytest.mark.slow

Captured = pytest.CaptureFixture[str]
Said = tuple[int, str, str]
SAMPLES = ["codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0", "internal-topics-4.4.0", "damaged"]


@pytest.fixture(params=[8 << 20, 400], ids=["ordinary chunks", "tiny chunks"])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of tests are small: with tiny chunks, threads share them all the same, and fetch them in pieces."""
    plan, nbytes = chunks.plan_chunks, request.param
    monkeypatch.setattr(chunks, "plan_chunks", lambda buf, base_offset, **more: plan(buf, base_offset, nbytes, **more))
    if nbytes < mmap.PAGESIZE:
        monkeypatch.setattr(chunks, "_PART_BYTES", 2 * nbytes)
        monkeypatch.setattr(chunks, "_BEYOND_BYTES", 100)
        monkeypatch.setattr(source_bytes, "PIECE", mmap.PAGESIZE)
    monkeypatch.setattr(processors, "available", lambda: 3)


def said(engine: Engine, arguments: Sequence[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Said:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def alike(capsys: Captured, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Said:
    """What both engines say."""
    by_reference, by_kernels = (said(engine, arguments, capsys, monkeypatch) for engine in Engine)
    assert by_kernels == by_reference
    return by_reference


COMMANDS = [
    ("dump", "--format", "jsonl"),
    ("dump", "--format", "jsonl", "--all"),
    ("dump", "--format", "jsonl", "--isolation.level", "read_committed"),
    ("dump", "--all", "--control"),
    ("dump", "--isolation.level", "read_committed"),
    ("dump", "--format", "csv", "--all"),
    ("dump", "--format", "jsonl", "--text", "--control"),
    ("dump", "--format", "csv", "--text"),
    ("dump", "--tail", "7"),
    ("verify",),
    ("verify", "--format", "jsonl"),
]


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", SAMPLES)
def test_samples(
    sample: Callable[[str], Sample],
    name: str,
    command: tuple[str, ...],
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    chunk_bytes: None,
) -> None:
    _, out, _ = alike(capsys, monkeypatch, *command, str(sample(name).logdir))
    assert out.splitlines()


def test_the_kernels_were_asked(root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests here would compare the slow way with itself."""
    monkeypatch.setenv("LOGLAKE_ENGINE", "kernels")
    assert all(bulk.can_write_lines(LineForm(form)) for form in LineFormat)
    asked = []
    real = chunks.in_order
    monkeypatch.setattr(chunks, "in_order", lambda jobs, threads: asked.append(threads) or real(jobs, threads))
    for command in ("dump --format jsonl", "dump", "verify"):
        main([*command.split(), str(root)])
    assert len(asked) == 3
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    assert not any(bulk.can_write_lines(LineForm(form)) for form in LineFormat)
    capsys.readouterr()


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
@pytest.mark.parametrize(
    "choice",
    [
        ("--offsets", "2..6"),
        ("--offsets", "..1"),
        ("--offsets", "7.."),
        ("--since", "1700000000002", "--until", "1700000000400"),
        ("--key", "k2"),
        ("--key", ""),
        ("--key", "0xff"),
        ("--high-watermark", "4"),
        ("--high-watermark", "log-end", "--isolation.level", "read_committed"),
        ("--limit", "3"),
        ("--control",),
        ("--limit", "4", "--control"),
        ("--limit", "0"),
        ("--limit", "2", "--offsets", "2.."),
        ("--producer-id", "9"),
        ("--producer-id", "9", "--control", "--limit", "3"),
        ("--producer-id", "-1"),
        ("--header", "trace"),
        ("--header", "trace=0x0001"),
        ("--header", "trace=", "--limit", "1"),
        ("--header", "none"),
    ],
    ids=" ".join,
)
def test_what_is_chosen(
    root: Path,
    choice: tuple[str, ...],
    form: str,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    chunk_bytes: None,
) -> None:
    alike(capsys, monkeypatch, "dump", "--format", form, *choice, str(root))


def several(folder: Path, injure: Callable[[bytes], bytes] = bytes) -> Path:
    """Three logs of three segments each, with all formats."""
    for topic in ("orders", "payments", "zebra"):
        directory = folder / f"{topic}-0"
        directory.mkdir(parents=True)
        for base in (0, 100, 200):
            parts = [handmade.simple_batch(base + at, [(b"k%d" % at, b"v" * at)] * 2) for at in range(0, 40, 2)]
            parts += [handmade.message_v1(base + 40, 1000, None, b"old"), handmade.wrapper_v1([base + 50, base + 55])]
            headers = [("ü\n".encode(), b"\x00"), (b'"', None)] + ([(b"\xff", b"")] if base else [])
            parts.append(handmade.batch([handmade.record(0, headers=headers)], base_offset=base + 60))
            (directory / f"{base:020d}.log").write_bytes(injure(b"".join(parts)))
    return folder


def test_several_segments_of_several_logs_in_their_order(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, chunk_bytes: None
) -> None:
    folder = several(tmp_path / "logs")
    _, out, _ = alike(capsys, monkeypatch, "dump", "--format", "jsonl", "--all", str(folder))
    assert len(out.splitlines()) == 9 * 44
    assert '"topic":"zebra"' not in "".join(out.splitlines()[: 6 * 44])
    alike(capsys, monkeypatch, "verify", str(folder))
    paths = [str(path) for path in sorted(folder.glob("*/*.log"))]
    alike(capsys, monkeypatch, "dump", "--format", "jsonl", *paths[::-1])
    alike(capsys, monkeypatch, "verify", *paths)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_several_segments_injured_anywhere(
    tmp_path: Path, seed: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch, chunk_bytes: None
) -> None:
    draw = random.Random(seed)

    def injured(data: bytes) -> bytes:
        for _ in range(draw.choice((0, 1, 3))):
            data = handmade.flip(data, draw.randrange(len(data)), draw.randrange(8))
        match draw.randrange(4):
            case 0:
                return data[: draw.randrange(len(data))]
            case 1:
                return data + bytes(draw.randrange(200))
        return data

    folder = several(tmp_path / "logs", injured)
    for options in (("--format", "jsonl"), (), ("--format", "csv"), ("--limit", "150"), ("--offsets", "30..220")):
        alike(capsys, monkeypatch, "dump", "--all", *options, str(folder))
    alike(capsys, monkeypatch, "verify", str(folder))


def test_segments_that_cannot_be_read_are_reported_in_their_place(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, chunk_bytes: None
) -> None:
    folder = several(tmp_path / "logs")
    (folder / "payments-0" / f"{100:020d}.log").unlink()
    (folder / "payments-0" / f"{100:020d}.log").mkdir()
    (folder / "orders-0" / f"{200:020d}.log").write_bytes(b"")
    (folder / "zebra-0" / f"{0:020d}.log").write_bytes(bytes(300))
    alike(capsys, monkeypatch, "verify", str(folder))
    alike(capsys, monkeypatch, "dump", "--format", "jsonl", "--all", str(folder))


def test_padding_is_reported_once_however_many_chunks_there_are(
    root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, chunk_bytes: None
) -> None:
    active = root / "orders-0" / f"{5:020d}.log"
    active.write_bytes(made.ACTIVE + bytes(5000))
    _, out, _ = alike(capsys, monkeypatch, "verify", str(root))
    assert out.count("zero-padding") == 1
    _, _, err = alike(capsys, monkeypatch, "dump", "--format", "jsonl", str(root))
    assert err.count("zeros") <= 1


def log_of(root: Path, *batches: bytes) -> Path:
    partition = root / "orders-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    (root / "replication-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    return partition


TWENTY = tuple(handmade.simple_batch(offset, [(None, b"x")], leader_epoch=0) for offset in range(20))


def test_an_epoch_that_begins_among_batches_alike_is_compared(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log_of(tmp_path, *TWENTY) / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n5 10\n")
    code, out, _ = alike(capsys, monkeypatch, "verify", str(tmp_path))
    assert code == 1
    assert "leader-epoch-differs" in out


def test_a_snapshot_among_batches_alike_is_compared(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = struct.pack(">iqhiqiqiq", 1, 7, 0, 3, 5, 0, 1000, -1, -1)
    snapshot = struct.pack(">hI", 1, handmade.crc32c(packed)) + packed
    (log_of(tmp_path, *TWENTY) / "00000000000000000010.snapshot").write_bytes(snapshot)
    code, out, _ = alike(capsys, monkeypatch, "verify", str(tmp_path))
    assert code == 1
    assert "snapshot-differs" in out


def test_a_chunk_whose_lines_are_many_gives_them_in_parts(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compressed chunk may hold a thousand times its size in lines."""
    plain = handmade.record(0, None, bytes(40_000))
    stored = zlib.compress(plain, wbits=31)
    batches = [
        handmade.batch(base_offset=offset, attributes=1, count=1, last_offset_delta=0, body=stored)
        for offset in range(60)
    ]
    log_of(tmp_path, *batches)
    monkeypatch.setattr(bulk, "TEXT_BYTES", 100_000)
    monkeypatch.setattr(batch_table, "COMPRESSED_BYTES", 300)
    held: list[int] = []
    work = bulk._LineWork.__call__

    def watched(self: bulk._LineWork, turn: Turn, chunk: Chunk) -> object:
        result = work(self, turn, chunk)
        held.append(sum(len(text) for item in result.items if isinstance(item, list) for text in item))
        return result

    monkeypatch.setattr(bulk._LineWork, "__call__", watched)
    _, out, _ = alike(capsys, monkeypatch, "dump", "--all", "--format", "jsonl", str(tmp_path))
    assert len(out.splitlines()) == 60
    assert len(held) > 10
    assert max(held) < 400_000


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ("dump", "--format", "jsonl"),
        ("dump", "--format", "arrow"),
        ("verify", "--format", "jsonl"),
    ],
    ids=" ".join,
)
def test_a_machine_without_llvm_gives_the_same_output_and_one_line_about_it(
    root: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOGLAKE_ENGINE", raising=False)
    without = "import sys; sys.modules['llvmlite'] = None"
    run = "import sys; from logcore.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = [
        subprocess.run(
            [sys.executable, "-c", code, *command, str(root)], cwd=REPOSITORY, capture_output=True, check=False
        )
        for code in (run, f"{without}; {run}")
    ]
    assert done[1].returncode == done[0].returncode
    if command[-1] == "arrow":
        tables = [pa.ipc.open_stream(each.stdout).read_all() for each in done]
        assert tables[0].num_rows > 0
        assert tables[1].equals(tables[0])
    else:
        assert done[0].stdout
        assert done[1].stdout == done[0].stdout
    more = set(done[1].stderr.decode().splitlines()) - set(done[0].stderr.decode().splitlines())
    assert len(more) == 1
    assert done[1].stderr.decode().count("The compiled engine is not available on this machine (llvmlite cannot") == 1


@pytest.mark.parametrize("name", ["kernel", "numpy"])
def test_an_engine_that_does_not_exist_is_wrong_usage(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", name)
    assert main(["verify", "/nonexistent"]) == 64
    assert f"LOGLAKE_ENGINE is '{name}'; it may be kernels or reference" in capsys.readouterr().err


def test_a_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    log_of(tmp_path, *TWENTY)
    command = [sys.executable, "-m", "logcore.cli.main", "dump", "--all", "--format", "jsonl", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 3
    assert "cannot be written" in done.stderr
    assert "mistake" not in done.stderr
