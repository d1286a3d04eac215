"""Lines that wait to be written are counted in bytes: those of all threads together, and those of one batch too."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.columns.checking import chunks
from logcore.columns.decoding import compiled, turns
from logcore.records.compression import compress
from logcore.storage.machine import processors
from tests import handmade
from tests.daemons import WAIT_SECONDS

pytestmark = pytest.mark.slow

ZSTD = 4
VALUE = 200_000_000

CHILD = """
import re, sys
from pathlib import Path
from logcore.cli.main import main
code = main(sys.argv[1:])
# of this program: the resource usage also counts what its parent held when it forked
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, file=sys.stderr)
sys.exit(code)
"""

Captured = pytest.CaptureFixture[str]


def segment(directory: Path, content: bytes) -> Path:
    path = directory / "a-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def compressed(base_offset: int, records: list[bytes]) -> bytes:
    body = compress(ZSTD, b"".join(records))
    count = len(records)
    fields = {"attributes": ZSTD, "count": count, "last_offset_delta": count - 1}
    return handmade.batch(base_offset=base_offset, body=body, **fields)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_few_kilobytes_that_hold_large_values_are_shown_one_after_the_other(tmp_path: Path) -> None:
    one = compressed(0, [handmade.record(0, b"k", bytes(VALUE))])
    path = segment(tmp_path, b"".join(at.to_bytes(8, "big") + one[8:] for at in range(6)))
    assert path.stat().st_size < 50_000
    called = [sys.executable, "-c", CHILD, "dump", "--format", "jsonl", str(path)]
    with subprocess.Popen(called, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        sizes, heads, size, head = [], [], 0, b""
        while part := child.stdout.read(1 << 20):
            for piece in part.splitlines(keepends=True):
                size, head = size + len(piece), head or piece[:80]
                if piece.endswith(b"\n"):
                    sizes.append(size)
                    heads.append(head)
                    size, head = 0, b""
        peak = int(child.stderr.read().split()[-1])  # after the lines of a progress, if the machine is slow
        assert child.wait() == 0
    assert [f'"offset":{at},'.encode() in head for at, head in enumerate(heads)] == 6 * [True]
    assert min(sizes) > VALUE * 4 // 3
    assert peak < 1024, f"{peak} MiB"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file of many small chunks: batches of one record, of very many, and a damaged one."""
    batches, offset = [], 0
    for number in range(60):
        count = 3000 if number % 7 == 0 else 3
        records = [handmade.record(delta, b"k%d" % delta, os.urandom(4).hex().encode()) for delta in range(count)]
        data = compressed(offset, records)
        batches.append(handmade.flip(data, len(data) - 3) if number % 11 == 5 else data)
        offset += count
    return segment(tmp_path, b"".join(batches))


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("limit", [0, 5_000, 1 << 20])
def test_lines_come_in_order_however_few_bytes_may_wait(
    log: Path, threads: int, limit: int, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    assert main(["dump", "--format", "jsonl", str(log)]) == 2
    expected = capsys.readouterr()
    monkeypatch.setenv("LOGLAKE_ENGINE", "kernels")
    monkeypatch.setattr(turns, "WAITING_BYTES", limit)
    monkeypatch.setattr(chunks, "plan_chunks", partial(chunks.plan_chunks, nbytes=10_000))
    monkeypatch.setattr(processors, "available", lambda: threads)
    monkeypatch.setattr(compiled, "ROW_LIMIT", 500)
    assert main(["dump", "--format", "jsonl", str(log)]) == 2
    given = capsys.readouterr()
    assert [json.loads(line) for line in given.out.splitlines()] == [
        json.loads(line) for line in expected.out.splitlines()
    ]
    assert given.err == expected.err


FULL = """
import functools, sys
from logcore.cli.main import main
from logcore.columns.checking import chunks
from logcore.columns.decoding import turns
from logcore.storage.machine import processors
turns.WAITING_BYTES = 1000
chunks.plan_chunks = functools.partial(chunks.plan_chunks, nbytes=10_000)
processors.available = lambda: 4
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_output_that_takes_nothing_ends_the_threads_that_wait_for_their_turn(log: Path) -> None:
    called = [sys.executable, "-c", FULL, "dump", "--format", "jsonl", str(log)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(called, stdout=full, stderr=subprocess.PIPE, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 3
    assert b"cannot be written: No space left" in done.stderr


# -- turns


def in_thread(work: Callable[[], bool]) -> tuple[threading.Thread, list[bool]]:
    given: list[bool] = []
    thread = threading.Thread(target=lambda: given.append(work()), daemon=True)
    thread.start()
    return thread, given


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> turns.Waiting:
    monkeypatch.setattr(turns, "WAITING_BYTES", 100)
    return turns.Waiting()


def test_below_the_limit_no_thread_waits(waiting: turns.Waiting) -> None:
    for turn in (waiting.turn(), waiting.turn()):
        thread, given = in_thread(partial(turn.hold, 50))
        thread.join(5)
        assert given == [False]


@pytest.mark.parametrize("ends", ["taken", "given", "dropped"])
def test_above_the_limit_a_thread_waits_for_room_or_its_turn(waiting: turns.Waiting, ends: str) -> None:
    first, second = waiting.turn(), waiting.turn()
    in_thread(partial(first.hold, 90))[0].join(5)
    thread, given = in_thread(partial(second.hold, 50))
    thread.join(0.2)
    assert thread.is_alive()
    if ends == "taken":
        first.taken()
    elif ends == "given":
        second.give()
    else:
        second.drop()
    thread.join(5)
    assert given == [ends == "given"]
    assert waiting.nbytes == {"taken": 50, "given": 140, "dropped": 90}[ends]


def test_who_takes_never_waits_and_writes_what_is_too_much(waiting: turns.Waiting) -> None:
    turn = waiting.turn()
    turn.drop()
    assert turn.hold(500)
    turn.taken()
    assert waiting.nbytes == 0
    assert not turn.is_dropped
