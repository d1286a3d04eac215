"""A file of a tebibyte that is mostly a hole costs at most five seconds, wherever its bytes and its damage are."""

import json
import os
import time
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade

pytestmark = pytest.mark.slow

TEBIBYTE = 1 << 40
BATCHES = [handmade.simple_batch(offset, [(b"k", b"v" * 20)]) for offset in range(300)]
GOOD = b"".join(BATCHES)
NOISE = bytes(at * 151 % 251 + 1 for at in range(5000))
LONG = b"".join((*BATCHES[:100], BATCHES[100][:8], b"\x7f", BATCHES[100][9:], *BATCHES[101:]))
"""One bit pattern of a length field changed: the batch would be two gibibytes long."""

SHAPES = {
    "a batch that is not whole": (GOOD + BATCHES[0][:40], b""),
    "noise behind the batches": (GOOD + NOISE, b""),
    "a wrong length": (LONG, b""),
    "a wrong length, and noise at the end": (LONG, NOISE),
    "noise at the end": (GOOD, NOISE),
    "a batch at the end": (GOOD, handmade.simple_batch(300, [(b"k", b"v")])),
    "all batches at the end": (b"", GOOD),
    "noise, and all batches at the end": (NOISE, GOOD),
}


def sparse(directory: Path, shape: str, *, sealed: bool) -> Path:
    begins, ends = SHAPES[shape]
    partition = directory / "a-0"
    partition.mkdir()
    path = partition / f"{0:020d}.log"
    with path.open("wb") as file:
        file.write(begins)
        file.seek(TEBIBYTE - len(ends))
        file.write(ends)
    os.truncate(path, TEBIBYTE)
    if sealed:
        (partition / f"{1000:020d}.log").touch()
    (directory / "replication-offset-checkpoint").write_text("0\n1\na 0 300\n")
    return partition


@pytest.mark.parametrize("engine", ["kernels", "reference"])
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "active"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_hole_of_a_tebibyte_costs_a_check_at_most_five_seconds(
    tmp_path: Path,
    shape: str,
    sealed: bool,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    sparse(tmp_path, shape, sealed=sealed)
    begun = time.process_time()
    assert main(["verify", "--format", "jsonl", str(tmp_path)]) == 2
    assert time.process_time() - begun < 5
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]
    parts = ("valid_bytes", "tail_bytes", "padding_bytes", "quarantined_bytes", "unreadable_bytes")
    assert sum(summary[part] for part in parts) == summary["bytes"] == TEBIBYTE


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hole_of_a_tebibyte_costs_a_salvage_at_most_five_seconds(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = sparse(tmp_path, shape, sealed=False)
    out = tmp_path / "out" / "a-0"
    out.parent.mkdir()
    begun = time.process_time()
    assert main(["recover", "--salvage", str(partition), "--out", str(out)]) in (1, 2)
    assert time.process_time() - begun < 5
    assert sum(path.stat().st_blocks * 512 for path in out.iterdir()) < 1 << 20
