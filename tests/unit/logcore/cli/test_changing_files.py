"""Files that are cut, replaced or removed while a command reads them: it says so, and everything else goes on.

Each command runs in a process of its own: a byte of a mapped file that is gone would kill it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import handmade

pytestmark = pytest.mark.slow

BATCHES = 300
HOLE = 1 << 40

CHILD = """
import os, sys
from logcore.cli import main
from logcore.reading import segment_reading
harm, victim, *arguments = sys.argv[1:]
harmed_already = []

def harmed(opened):
    def wrapper(log, segment, *more):
        given = opened(log, segment, *more)
        if segment.path == victim and not harmed_already:
            harmed_already.append(victim)
            if harm == "cut":
                os.truncate(victim, 100)
            elif harm == "replace":
                with open(victim + ".new", "wb") as file:
                    file.write(open(victim, "rb").read())
                os.rename(victim + ".new", victim)
            elif harm == "remove":
                os.unlink(victim)
        return given
    return wrapper

for name in ("segment_bytes", "open_segment"):
    whole = harmed(getattr(segment_reading, name))
    for module in (
        "reading.segment_reading", "reading.visible_offsets", "reading.log_reading", "cli.commands.dump",
        "reading.consumer_log", "library.validation",
    ):
        __import__("logcore." + module)
        if hasattr(sys.modules["logcore." + module], name):
            setattr(sys.modules["logcore." + module], name, whole)
sys.exit(main.main(arguments))
"""


def segment_of(base_offset: int) -> bytes:
    """Some 20 KB: more than a page, so that a cut takes pages away."""
    batches = (handmade.simple_batch(base_offset + at, [(b"k", b"v")]) for at in range(BATCHES))
    return b"".join(batches)


@pytest.fixture(scope="module")
def content() -> tuple[bytes, bytes]:
    return segment_of(0), segment_of(BATCHES)


@pytest.fixture
def logs(tmp_path: Path, content: tuple[bytes, bytes]) -> Path:
    """Two logs of two segments: `a-0`, one of whose files comes to harm, and `b-0`."""
    for name in ("a-0", "b-0"):
        folder = tmp_path / "logs" / name
        folder.mkdir(parents=True)
        for base, data in zip((0, BATCHES), content, strict=True):
            (folder / f"{base:020d}.log").write_bytes(data)
    lines = ["0", "2", f"a 0 {2 * BATCHES}", f"b 0 {2 * BATCHES}"]
    (tmp_path / "logs" / "replication-offset-checkpoint").write_text("\n".join(lines) + "\n")
    return tmp_path / "logs"


def run(harm: str, victim: Path, *arguments: str, engine: str | None = None) -> subprocess.CompletedProcess[str]:
    given = os.environ | ({} if engine is None else {"LOGLAKE_ENGINE": engine})
    command = [sys.executable, "-c", CHILD, harm, str(victim), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False)


HARMS = ("cut", "replace", "remove")


@pytest.mark.long
@pytest.mark.parametrize("engine", [None, "reference"])
@pytest.mark.parametrize("base", [0, BATCHES])
@pytest.mark.parametrize("harm", HARMS)
def test_verify_reports_the_file_as_changed_and_goes_on(logs: Path, harm: str, base: int, engine: str | None) -> None:
    victim = logs / "a-0" / f"{base:020d}.log"
    done = run(harm, victim, "verify", "--format", "jsonl", str(logs), engine=engine)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    changed = [line for line in lines if line.get("rule") == "source-changed"]
    assert done.returncode == 3, done.stderr
    assert [line["file"] for line in changed] == [str(victim)]
    assert not [line for line in lines if line.get("rule") in ("missing-offsets", "corrupt-bytes")]
    assert lines[-1]["summary"]["records"] >= 3 * BATCHES


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("dump", "--format", "jsonl"),
        ("dump", "--format", "csv"),
        ("dump", "--format", "arrow"),
        ("ledger",),
        ("transactions",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("harm", HARMS)
def test_what_reads_records_reports_the_file_as_changed(logs: Path, harm: str, arguments: tuple[str, ...]) -> None:
    victim = logs / "a-0" / f"{0:020d}.log"
    output = ("-o", str(logs.parent / "out")) if "arrow" in arguments else ()
    done = run(harm, victim, *arguments, *output, str(logs))
    assert done.returncode == 3, done.stderr
    assert str(victim) in done.stderr
    assert "while it was read" in done.stderr
    if arguments[0] == "dump" and not output:
        of_b = [line for line in done.stdout.splitlines() if '"b"' in line or line.startswith("b,")]
        assert len(of_b) == 2 * BATCHES


@pytest.mark.parametrize("harm", HARMS)
def test_offsets_of_a_file_that_changed_while_it_was_read_are_not_reported_as_missing(logs: Path, harm: str) -> None:
    victim = logs / "a-0" / f"{BATCHES:020d}.log"
    done = run(harm, victim, "ledger", str(logs))
    assert done.returncode == 3, done.stderr
    assert "missing" not in done.stdout
    assert "committed offsets" not in done.stderr


def test_a_sparse_active_file_of_a_tebibyte_does_not_end_the_check_of_other_logs(logs: Path) -> None:
    os.truncate(logs / "a-0" / f"{BATCHES:020d}.log", HOLE)
    done = run("none", logs, "verify", "--format", "jsonl", str(logs))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    summary = lines[-1]["summary"]
    assert summary["records"] == 4 * BATCHES
    assert summary["padding_bytes"] > HOLE - (1 << 20)
    parts = ("valid_bytes", "tail_bytes", "padding_bytes", "quarantined_bytes")
    assert sum(summary[part] for part in parts) == summary["bytes"]


@pytest.mark.parametrize("command", ["dump", "ledger", "transactions"])
def test_the_commands_that_show_a_log_skip_its_hole(logs: Path, command: str) -> None:
    os.truncate(logs / "a-0" / f"{BATCHES:020d}.log", HOLE)
    done = run("none", logs, command, *(("--format", "jsonl") if command == "dump" else ()), str(logs))
    assert "cannot" not in done.stderr
    assert done.returncode in (0, 1)
    assert '"b"' in done.stdout or "b-0" in done.stdout or command == "transactions"
